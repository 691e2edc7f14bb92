"""How long a search goes on and for what, and the account of its trials; plain values, no folder, no process."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass
from shoal.search import space as search_space
from shoal.search.space import Space

MOST_TRIALS, MOST_AT_ONCE = 10_000, 64
LONGEST_NAME = 80
PASSES = 30  # over the rows by a trial's steps, unless a person says otherwise: schedules need to know their end
ENOUGH = 10  # trials from which on one can say which knobs matter
TRIES = 3  # that may fail before anything has come of a search


@dataclass(frozen=True)
class SearchPlan:
    """How long a search goes on, and for what."""

    space: Space
    trials: int = 30
    seconds: float = 20.0  # of training, that a trial may take
    reach: float = 1e-6  # the distance to the optimum that a trial is to reach
    at_once: int = 0  # trials side by side; 0: as many as the cores allow
    within: float = 0.0  # seconds of the whole search; 0 for no limit
    seed: int = 0
    name: str = ""
    prune: bool = True

    def __post_init__(self) -> None:
        _check("trials", self.trials, 1, MOST_TRIALS)
        _check("seconds", self.seconds, 0.1, 1e6)
        _check("within", self.within, 0, math.inf)
        _check("at_once", self.at_once, 0, MOST_AT_ONCE)
        _check("seed", self.seed, 0, 2**31)
        if not 1e-14 <= self.reach <= 0.5:
            raise ConfigError(
                f"Expected reach, the distance to the optimum, to be from 1e-14 to 0.5, got {self.reach:g}. "
                "It is relative to the distance at the start; 1e-6 is usual."
            )
        if len(self.name) > LONGEST_NAME:
            raise ConfigError(
                f"Expected a name of at most {LONGEST_NAME} characters, got {len(self.name)}. Shorten it."
            )

    def as_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "space": search_space.as_dict(self.space)}


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high or math.isnan(value):
        ends = f"from {low:g} to {high:g}" if math.isfinite(high) else f"of at least {low:g}"
        raise ConfigError(f"Expected {name} to be a number {ends}, got {value:g}. Correct it and try again.")


def plan_from(values: Mapping[str, Any]) -> SearchPlan:
    known = {f.name for f in dataclasses.fields(SearchPlan)}
    return SearchPlan(
        **{**{k: v for k, v in values.items() if k in known}, "space": search_space.from_dict(values["space"])}
    )


# ------------------------------------------------------------------ what is known of trials


@dataclass(frozen=True)
class Trial:
    """One trial as an account tells it.

    state: running, reached, short (of the goal), pruned, diverged, failed, stopped (with the search)
    """

    number: int
    state: str
    knobs: dict[str, Any]
    run: str = ""
    score: float | None = None
    distance: float | None = None
    seconds: float = 0.0
    passes: float = 0.0
    cause: str = ""
    own: bool = False  # the person's own settings
    points: list[tuple[float, float]] = field(default_factory=list)  # seconds of training, distance

    @property
    def is_done(self) -> bool:
        return self.state in ("reached", "short", "pruned", "diverged", "failed")


@dataclass(frozen=True)
class Account:
    """All trials, and which knobs matter: the share of each (0 to 1), once there are enough trials to tell."""

    trials: list[Trial] = field(default_factory=list)
    importance: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0  # that the search has been at work, all its lives together
    seals: dict[str, str] = field(default_factory=dict)  # of ended trials as the study keeps them, by its numbers

    @property
    def best(self) -> Trial | None:
        ended = [t for t in self.trials if t.state in ("reached", "short") and t.score is not None]
        return min(ended, key=lambda t: (t.score, t.number), default=None)

    @property
    def own(self) -> Trial | None:
        return next((t for t in self.trials if t.own and t.is_done), None)

    def count(self, *states: str) -> int:
        return sum(trial.state in states for trial in self.trials)

    @property
    def done(self) -> int:
        return sum(trial.is_done for trial in self.trials)

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def account_from(values: Mapping[str, Any]) -> Account:
    names = {f.name for f in dataclasses.fields(Trial)}
    trials = [Trial(**{k: v for k, v in found.items() if k in names}) for found in values.get("trials", [])]
    importance, seals = (dict(values.get(name, {})) for name in ("importance", "seals"))
    return Account(trials, importance, float(values.get("seconds", 0.0)), seals)
