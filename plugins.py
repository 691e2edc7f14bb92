"""Plug-ins that other distributions bring along as entry points: how they are found, and kept from doing harm.

What does not belong here: anything built in, and what is done with what a plug-in says.

A distribution names its plug-ins in its pyproject.toml, and installing it is all that a person has to do:

    [project.entry-points."shoal.penalties"]
    nonnegative_lasso = "my_module:NonNegativeLasso"

What a plug-in must be, by group:

    shoal.penalties    a factory (alpha: float, l1_ratio: float, n: float) -> Penalty: a class or a function; n is the
                       number of training rows, and what comes back meets the protocol `models.Penalty`
    shoal.step_rules   a subclass of optimizers.StepRule whose constructor takes (width: int, momentum: float)
    shoal.callbacks    a subclass of callbacks.Callback whose constructor takes nothing
    shoal.readers      an object (no class) that meets the protocol `Reader` below
    shoal.checkpoint_strategies   a subclass of steps.checkpointing.CheckpointStrategy; its constructor takes nothing
    shoal.recovery_handlers       a subclass of steps.failure.RecoveryHandler; its constructor takes nothing
    shoal.validation_rules        a subclass of fitting.rules.ValidationRule; its constructor takes nothing
    shoal.metrics                 a subclass of fitting.own_metrics.Metric; its constructor takes nothing
    shoal.column_steps            a subclass of data.shapes.plugin_steps.ColumnStep; its constructor takes nothing
    shoal.cache_policies          a subclass of library.cache_policies.CachePolicy; its constructor takes nothing

A built-in name always means what is built in. Callers look there first, so that a run without plug-ins never pays for
the search through what is installed.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from shoal.errors import ConfigError, TrainingError
from shoal.lazy.classes import dataclass

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint
    from pathlib import Path

    from shoal.models import Penalty

PENALTIES, STEP_RULES, CALLBACKS, READERS = "shoal.penalties", "shoal.step_rules", "shoal.callbacks", "shoal.readers"
CHECKPOINT_STRATEGIES, RECOVERY_HANDLERS = "shoal.checkpoint_strategies", "shoal.recovery_handlers"
VALIDATION_RULES, METRICS, CACHE_POLICIES = "shoal.validation_rules", "shoal.metrics", "shoal.cache_policies"
COLUMN_STEPS = "shoal.column_steps"
WORDS = {
    PENALTIES: "penalty", STEP_RULES: "step rule", CALLBACKS: "callback", READERS: "reader",
    CHECKPOINT_STRATEGIES: "checkpoint strategy", RECOVERY_HANDLERS: "recovery handler",
    VALIDATION_RULES: "validation rule", METRICS: "metric", CACHE_POLICIES: "cache policy",
    COLUMN_STEPS: "column step",
}  # fmt: skip


class Reader(Protocol):
    """A reader of files whose name ends in one of `suffixes`, such as ".jsonl" (lower case, with the dot)."""

    suffixes: tuple[str, ...]

    def text(self, path: Path, /) -> Iterator[bytes]:
        """The table as CSV text in UTF-8, in pieces of any size: header row first, commas, quotes (") where needed.

        It is called more than once: for the first rows and for all of them, and must give the same text each time.
        """
        ...


@dataclass(frozen=True)
class Plugin:
    """What an entry point led to, its name, and the distribution it came with ("name version")."""

    name: str
    origin: str
    value: Any


class Guarded:
    """A plug-in that gives advice: where it fails, that is told once with its name, and it is asked no more."""

    def __init__(self, word: str, name: str, value: Any, warn: Callable[[str], None]) -> None:
        self.name, self._word, self._value, self._warn = name, word, value, warn

    def ask(self, what: str, *arguments: object) -> Any:
        """What its method of that name says; None where it has failed, now or before."""
        if self._value is None:
            return None
        try:
            return getattr(self._value, what)(*arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - Ctrl-C is a person's and passes; this is a plug-in's
            self.leave_out(f"failed in {what}{_place(error)} ({_said(error)})")
            return None

    def leave_out(self, why: str) -> None:
        """Ask it no more, and tell why."""
        self._value = None
        self._warn(
            f"The {self._word} '{self.name}' {why}. It is left out from now on, and what is usual is done; "
            "correct it before the next time."
        )


def guarded(group: str, name: str, base: type[Any], warn: Callable[[str], None]) -> Guarded:
    """The plug-in of that name, a subclass of `base` that is made without arguments."""
    return Guarded(WORDS[group], name, make(group, name, base), warn)


def make(group: str, name: str, base: type[Any], built_in: Collection[str] = ()) -> Any:
    """The plug-in of that name, which has to be a subclass of `base`, made without arguments."""
    kind = find_class(group, name, base, built_in)
    try:
        return kind()
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"The {WORDS[group]} '{name}' ({kind.__module__}.{kind.__qualname__}) could not be made: {_said(error)}. "
            "Leave it out, or correct it."
        ) from error


def names(group: str, built_in: Collection[str] = ()) -> list[str]:
    """The names of the installed plug-ins of a group; none of them is loaded."""
    return sorted({entry.name for _, entry in _entries(group, built_in)})


def find(group: str, name: str, built_in: Collection[str] = ()) -> Any:
    """The plug-in of that name. `built_in` are the names that no plug-in may have and that a message offers as well."""
    return _found(group, name, built_in).value


def find_class(group: str, name: str, base: type[Any], built_in: Collection[str] = ()) -> type[Any]:
    """The plug-in of that name, which has to be a subclass of `base` (`Any`, because a base may be abstract)."""
    plugin = _found(group, name, built_in)
    if not (isinstance(plugin.value, type) and issubclass(plugin.value, base)):
        raise ConfigError(_wrong(group, plugin, f"a subclass of {base.__module__}.{base.__qualname__}"))
    return plugin.value


def load_all(group: str) -> list[Plugin]:
    """All plug-ins of a group, loaded; for those that are not chosen by name."""
    return [_loaded(group, origin, entry) for origin, entry in _entries(group)]


def make_penalty(name: str, alpha: float, l1_ratio: float, n: float, built_in: Collection[str] = ()) -> Penalty:
    """The penalty that a plug-in makes of these knobs, checked to have what a penalty must have."""
    plugin = _found(PENALTIES, name, built_in)
    try:
        made: Penalty = plugin.value(alpha, l1_ratio, n)
    except TrainingError:
        raise
    except Exception as error:
        raise ConfigError(
            f"The penalty '{name}' of the plug-in {plugin.origin} could not be made with alpha={alpha:g} and "
            f"l1_ratio={l1_ratio:g} ({_said(error)}). Change these values, or tell the authors of the plug-in."
        ) from error
    absent = [method for method in ("value", "prox", "optimality_gap") if not callable(getattr(made, method, None))]
    if absent:
        raise ConfigError(_wrong(PENALTIES, plugin, f"an object with {', '.join(absent)}"))
    return made


def reader_for(path: Path) -> Plugin | None:
    """The reader whose suffix a file's name ends in, the longest one first; None if there is none."""
    best: list[Plugin] = []
    length = 0
    for plugin in load_all(READERS):
        for suffix in _suffixes(plugin):
            if not path.name.lower().endswith(suffix) or len(suffix) < length:
                continue
            best = [*best, plugin] if len(suffix) == length else [plugin]
            length = len(suffix)
    if len(best) > 1:
        raise ConfigError(
            f"Two plug-ins read files such as '{path.name}': {best[0].origin} and {best[1].origin}. "
            "Uninstall one of them."
        )
    return best[0] if best else None


def _suffixes(plugin: Plugin) -> tuple[str, ...]:
    reader, suffixes = plugin.value, getattr(plugin.value, "suffixes", ())
    is_reader = not isinstance(reader, type) and callable(getattr(reader, "text", None))
    if not (is_reader and isinstance(suffixes, tuple) and suffixes):
        raise ConfigError(_wrong(READERS, plugin, "an object with suffixes, a tuple of texts, and text(path)"))
    for suffix in suffixes:
        if not re.fullmatch(r"\.[^/A-Z]+", str(suffix)):
            raise ConfigError(_wrong(READERS, plugin, f"suffixes such as '.jsonl', not {suffix!r}"))
    return suffixes


# ------------------------------------------------------------------ entry points


def _found(group: str, name: str, built_in: Collection[str]) -> Plugin:
    entries = list(_entries(group, built_in))
    chosen = [(origin, entry) for origin, entry in entries if entry.name == name]
    if not chosen:
        raise ConfigError(_unknown(group, name, built_in, sorted({entry.name for _, entry in entries})))
    if len(chosen) > 1:
        raise ConfigError(
            f"Two plug-ins have a {WORDS[group]} '{name}': {chosen[0][0]} and {chosen[1][0]}. Uninstall one of them."
        )
    return _loaded(group, *chosen[0])


def _entries(group: str, built_in: Collection[str] = ()) -> Iterator[tuple[str, EntryPoint]]:
    """The entry points of a group, each with its distribution; one that takes a built-in's name is refused."""
    for distribution in _distributions(group):
        origin = f"{distribution.name} {distribution.version}"
        try:
            entries = distribution.entry_points.select(group=group)
        except Exception as error:
            raise ConfigError(
                f"The list of plug-ins that {origin} brings could not be read ({_said(error)}). "
                "Install the plug-in again or uninstall it."
            ) from error
        for entry in entries:
            if entry.name in built_in:
                raise ConfigError(
                    f"The plug-in {origin} has a {WORDS[group]} '{entry.name}', which is the name of a built-in one. "
                    "Uninstall the plug-in, or ask its authors for another name."
                )
            yield origin, entry


def _distributions(group: str) -> Iterator[Distribution]:
    """Installed distributions that mention the group; of two copies of one, that which Python would import."""
    from importlib.metadata import distributions  # here, because only a search needs it

    seen = set()
    for distribution in distributions():
        # The text is looked at first: reading the names of all that is installed takes ten times as long.
        if f"[{group}]" not in (distribution.read_text("entry_points.txt") or ""):
            continue
        name = re.sub(r"[-_.]+", "-", distribution.name).lower()
        if name not in seen:
            seen.add(name)
            yield distribution


def _loaded(group: str, origin: str, entry: EntryPoint) -> Plugin:
    try:
        return Plugin(entry.name, origin, entry.load())
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"The {WORDS[group]} '{entry.name}' of the plug-in {origin} could not be loaded ({_said(error)}). "
            "Install a version that fits, or uninstall it."
        ) from error


def _unknown(group: str, name: str, built_in: Collection[str], installed: list[str]) -> str:
    known = ", ".join([*built_in, *installed])
    expected = f"one of {known}" if known else "the name of an installed plug-in, of which there is none"
    return f"Expected as {WORDS[group]} {expected}, got '{name}'. Correct the name, or install the plug-in that has it."


def _wrong(group: str, plugin: Plugin, expected: str) -> str:
    return (
        f"The {WORDS[group]} '{plugin.name}' of the plug-in {plugin.origin} is not what it has to be: "
        f"expected {expected}. Install a version that fits, or uninstall it."
    )


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
