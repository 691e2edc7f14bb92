"""Which knobs of a gradient run a search tries, and which values of each; how it tries them is in `processes.search`.

A knob has choices or a range. It is asked for only where the config says that it means anything beside the values
chosen before it (`when` of the knob: staleness in mode ssp, top_k with compression topk, ...), so a trial never carries
a knob that it would not look at. What is not searched stays as the person's own config has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shoal import plugins
from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass
from shoal.settings.checks import RANGES
from shoal.settings.config import AUTO, RunConfig
from shoal.settings.meaning import has_effect
from shoal.settings.values import config_from
from shoal.words import listed

MOST_CHOICES = 50
MOST_COMBINATIONS = 10_000  # counted; a space with more is as good as endless


@dataclass(frozen=True)
class Choices:
    """Some values, each of which may be tried."""

    values: tuple[Any, ...]

    def __contains__(self, value: Any) -> bool:
        return value in self.values


@dataclass(frozen=True)
class Range:
    """All numbers from low to high; by their logarithm where sizes matter more than differences."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def __contains__(self, value: Any) -> bool:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and self.low <= value <= self.high


Domain = Choices | Range
Space = dict[str, Domain]  # in the order of KNOBS: those that others depend on come first
Ask = Callable[[str, Domain], Any]

# The knobs that can be searched, in the order in which they are chosen. 0 is `auto` where a knob has that.
KNOBS: dict[str, Domain] = {
    "mode": Choices(("sync", "ssp", "async", "local")),
    "step_rule": Choices(("sgd", "momentum", "adagrad", "adam")),
    "schedule": Choices(("constant", "step", "exponential", "cosine", "inverse")),
    "compression": Choices(("none", "topk", "half")),
    "batch_size": Choices((0, 16, 64, 256, 1024, 4096)),
    "learning_rate": Range(1e-4, 1.0, log=True),
    "local_steps": Choices((0, 4, 16, 64)),
    "staleness": Range(1, 16, log=True, whole=True),
    "momentum": Range(0.5, 0.99),
    "decay": Range(0.2, 0.9),
    "decay_every": Range(1.0, 10.0, log=True),
    "top_k": Range(0.05, 0.5, log=True),
}
BY_HAND = {"learning_rate"}  # searched only on request: `auto` knows the curvature, a range has to be guessed


def usual_space() -> Space:
    """What is searched if nobody says otherwise."""
    return {knob: domain for knob, domain in KNOBS.items() if knob not in BY_HAND}


# ------------------------------------------------------------------ from a person


def chosen_space(wanted: Mapping[str, Any]) -> tuple[Space, dict[str, Any]]:
    """The space, and the knobs that are fixed to one value.

    A value is a text (`sync,ssp`, `16..512`, `auto`), a list of values, or {"low": ..., "high": ...}; knobs without one
    are searched as usual.
    """
    space, fixed = usual_space(), {}
    for knob, value in wanted.items():
        domain = domain_of(knob, value)
        if isinstance(domain, Choices) and len(domain.values) == 1:
            fixed[knob] = domain.values[0]
            space.pop(knob, None)
        else:
            space[knob] = domain
    return {knob: space[knob] for knob in KNOBS if knob in space}, fixed


def domain_of(knob: str, value: Any) -> Domain:
    if knob not in KNOBS:
        raise ConfigError(f"Expected one of the knobs {', '.join(KNOBS)} to search, got '{knob}'. Choose one of them.")
    if isinstance(value, Mapping):
        return _range(knob, value.get("low"), value.get("high"))
    if isinstance(value, str) and ".." in value:
        low, _, high = value.partition("..")
        return _range(knob, low.strip(), high.strip())
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else [value]
    values = tuple(dict.fromkeys(_value(knob, part) for part in parts if str(part).strip()))
    if not 1 <= len(values) <= MOST_CHOICES:
        raise ConfigError(
            f"Expected from 1 to {MOST_CHOICES} values of {knob} to try, got {len(values)}. "
            f"For example: {example(knob)}."
        )
    return Choices(values)


def _value(knob: str, part: Any) -> Any:
    """One value with its right type; RunConfig knows what it may be."""
    value = getattr(config_from({knob: part.strip() if isinstance(part, str) else part}), knob)
    if knob == "step_rule":
        group = RunConfig.knobs()[knob].metadata["plugins"]
        known = [*RunConfig.knobs()[knob].metadata["known"], *plugins.names(group)]
        if value not in known:
            raise ConfigError(f"Expected step_rule to be one of {listed(known)}, got '{value}'. Choose one of them.")
    return value


def _range(knob: str, low: Any, high: Any) -> Range:
    usual = KNOBS[knob]
    kind = str(RunConfig.knobs()[knob].type)
    if kind not in ("int", "float"):
        raise ConfigError(
            f"Expected names of {knob} to try, got the range {low}..{high}. For example: {example(knob)}."
        )
    ends = [float(_value(knob, end)) for end in (low, high)]
    least, most = RANGES[knob]
    if not least <= ends[0] < ends[1] <= most:
        raise ConfigError(
            f"Expected a range LOW..HIGH of {knob} with LOW less than HIGH, got {low}..{high}. "
            f"For example: {example(knob)}."
        )
    log = usual.log if isinstance(usual, Range) else True
    if "auto" in RunConfig.knobs()[knob].metadata and ends[0] <= 0:
        raise ConfigError(
            f"Expected a range of {knob} above 0 (which means auto), got {low}..{high}. Raise its low end."
        )
    return Range(ends[0], ends[1], log and ends[0] > 0, kind == "int")


def example(knob: str) -> str:
    """The usual domain of a knob as a person would write it."""
    return as_text(knob, KNOBS[knob])


def as_text(knob: str, domain: Domain) -> str:
    if isinstance(domain, Range):
        return f"{domain.low:g}..{domain.high:g}"
    return ",".join(value_text(knob, value) for value in domain.values)


def value_text(knob: str, value: Any) -> str:
    metadata = RunConfig.knobs()[knob].metadata
    if "auto" in metadata and value == metadata["auto"]:
        return AUTO
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ------------------------------------------------------------------ to and from files


def as_dict(space: Space) -> dict[str, Any]:
    return {knob: dataclasses.asdict(domain) for knob, domain in space.items()}


def from_dict(values: Mapping[str, Any]) -> Space:
    return {knob: Choices(tuple(v["values"])) if "values" in v else Range(**v) for knob, v in values.items()}


# ------------------------------------------------------------------ one trial


def choose(space: Space, base: RunConfig, ask: Ask) -> dict[str, Any]:
    """The knobs of one trial: each is asked for where it means anything beside those before it."""
    values = {**base.as_dict(), "solver": "gradient"}
    found = {}
    for knob, domain in space.items():
        if has_effect(knob, values):
            values[knob] = found[knob] = ask(knob, domain)
    return found


def own_choice(space: Space, base: RunConfig) -> dict[str, Any]:
    """The person's own settings as a trial, as far as the space has them: what a search has to beat."""
    found: dict[str, Any] = {}

    def ask(knob: str, domain: Domain) -> Any:
        value = getattr(base, knob)
        if value in domain:
            found[knob] = value
            return value
        return domain.values[0] if isinstance(domain, Choices) else domain.low

    choose(space, base, ask)
    return found


def combinations(space: Space, base: RunConfig) -> list[dict[str, Any]] | None:
    """All trials of a space in which nothing has more than some values; None where they are too many."""
    found: list[dict[str, Any]] = []
    for trial in _walk(list(space.items()), {**base.as_dict(), "solver": "gradient"}, {}):
        if trial is None or len(found) >= MOST_COMBINATIONS:
            return None
        found.append(trial)
    return found


def _walk(
    rest: list[tuple[str, Domain]], values: dict[str, Any], made: dict[str, Any]
) -> Iterator[dict[str, Any] | None]:
    """None stands for as many trials as there are numbers between two others."""
    if not rest:
        yield made
        return
    (knob, domain), later = rest[0], rest[1:]
    if not has_effect(knob, values):
        yield from _walk(later, values, made)
    elif isinstance(domain, Range) and not domain.whole:
        yield None
    else:
        whole = range(int(domain.low), int(domain.high) + 1) if isinstance(domain, Range) else domain.values
        for value in whole:
            yield from _walk(later, {**values, knob: value}, {**made, knob: value})


def in_words(knobs: Mapping[str, Any]) -> str:
    """mode ssp, batch_size auto, ..."""
    return ", ".join(f"{knob} {value_text(knob, value)}" for knob, value in knobs.items())
