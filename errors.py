"""What a person may be told: exceptions with a remedy, and how a run ended; nothing else raises text meant for people.

    TrainingError             everything below: one plain sentence or two, never a traceback
    ├── ConfigError           a knob has a value it cannot have
    ├── DataError             a file or table cannot be used as it is
    │   ├── BadRowsError      rows or values could not be read, and the limit for skipping is passed
    │   └── SourceChanged     the file changed while it was read
    ├── NotAllowed            whoever asks may not do this
    ├── StateError            a model file or cache is damaged or of another version
    │   └── DamagedFile       a file of ours is not what was written: its path
    ├── ResourceError         a file, folder or tool is not there or cannot be used
    │   ├── DiskFull          no room on the disk
    │   └── OutOfMemory       not enough memory
    └── EngineError           workers could not do the work
        └── WorkerFailed      one worker is gone: rank, cause, signal

A message says what was expected and what came; what to do next is the rest of the message where it reads the same
everywhere, and a `Remedy` where the command line has a flag or a command for it and the pages have a field or a button.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Self

from shoal.lazy.classes import dataclass


class Reason(StrEnum):
    """Why a run ended, for programs; people are told the cause."""

    COMPLETE = "complete"  # all that was asked for is done
    CONVERGED = "converged"
    NOT_CONVERGED = "not_converged"  # all passes that were allowed are done
    TIME_LIMIT = "time_limit"
    NO_BETTER_SCORE = "no_better_score"
    DIVERGED = "diverged"
    STOPPED = "stopped"  # by a person
    STOPPED_BY_CALLBACK = "stopped_by_callback"
    UNAWAITED = "unawaited"  # a job of a page that was closed or left
    KILLED = "killed"  # its process was gone before it could say anything
    OUT_OF_MEMORY = "out_of_memory"
    OUT_OF_DISK = "out_of_disk"
    RESOURCES = "resources"  # a file, folder or tool
    WORKER_FAILED = "worker_failed"
    BAD_DATA = "bad_data"
    BAD_SETTINGS = "bad_settings"
    NOT_ALLOWED = "not_allowed"
    BAD_STATE = "bad_state"  # a damaged file of our own
    UNFORESEEN = "unforeseen"
    UNKNOWN = "unknown"  # it has not ended, or its folder does not say

    @classmethod
    def _missing_(cls, value: object) -> Reason:
        return cls.UNKNOWN  # of another version of the program


# ------------------------------------------------------------------ what to do about it


class RemedyKind(StrEnum):
    SAY = "say"  # advice that reads the same everywhere
    SET = "set"  # a knob to a value
    CHOOSE = "choose"  # a value for a knob
    RUN = "run"  # a command


def _quoted(argument: str) -> str:
    """For a shell; also where the end of a sentence would be taken for a part of it."""
    plain = shlex.quote(argument)
    return f"'{plain}'" if plain == argument and not argument[-1:].isalnum() else plain


@dataclass(frozen=True)
class Remedy:
    """What a person can do: advice for everybody, and a knob or command, for which command line and pages have words.

    As text it is for the command line; the words of the pages are in `dashboard.parts.wording`.
    """

    kind: RemedyKind
    advice: str  # without a full stop
    name: str = ""  # of the knob or command
    arguments: tuple[str, ...] = ()  # the value of the knob, or what the command is given

    @classmethod
    def say(cls, advice: str) -> Remedy:
        return cls(RemedyKind.SAY, advice)

    @classmethod
    def set(cls, advice: str, knob: str, value: Any) -> Remedy:
        return cls(RemedyKind.SET, advice, knob, (str(value),))

    @classmethod
    def switch_on(cls, advice: str, knob: str) -> Remedy:
        return cls(RemedyKind.SET, advice, knob)

    @classmethod
    def choose(cls, advice: str, knob: str) -> Remedy:
        return cls(RemedyKind.CHOOSE, advice, knob)

    @classmethod
    def run(cls, advice: str, command: str, *arguments: Any) -> Remedy:
        return cls(RemedyKind.RUN, advice, command, tuple(map(str, arguments)))

    def __str__(self) -> str:
        if self.kind == RemedyKind.SAY:
            return f"{self.advice}."
        if self.kind == RemedyKind.RUN:
            return f"{self.advice}: {' '.join(['shoal', self.name, *self.arguments])}."
        flag = f"--{self.name.replace('_', '-')}"
        return f"{self.advice} with {' '.join([flag, *map(_quoted, self.arguments)])}."

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "advice": self.advice, "name": self.name, "arguments": list(self.arguments)}


def remedies_from(values: Any) -> tuple[Remedy, ...]:
    """What `as_dict` made, as a file has it; nothing where that is something else."""
    try:
        return tuple(
            Remedy(RemedyKind(v["kind"]), str(v["advice"]), str(v["name"]), tuple(v["arguments"])) for v in values
        )
    except (KeyError, TypeError, ValueError):
        return ()


def _joined(message: str, remedies: Iterable[Remedy]) -> str:
    return " ".join([message, *map(str, remedies)])


# ------------------------------------------------------------------ how a run stands


@dataclass(frozen=True)
class Standing:
    """The state of a run or search and why it is in it; as text the cause, with what to do on the command line."""

    state: str
    cause: str = ""
    reason: Reason = Reason.UNKNOWN
    remedies: tuple[Remedy, ...] = ()

    def __str__(self) -> str:
        return _joined(self.cause, self.remedies)

    @classmethod
    def after(cls, error: TrainingError, state: str = "failed") -> Self:
        """How a run stands that an error has brought into this state."""
        return cls(state, error.message, error.reason, error.remedies)

    def as_dict(self) -> dict[str, Any]:
        remedies = {"remedies": [remedy.as_dict() for remedy in self.remedies]} if self.remedies else {}
        return {"state": self.state, "cause": self.cause, "reason": self.reason, **remedies}

    @classmethod
    def read(cls, values: Mapping[str, Any], state: str, cause: str = "") -> Self:
        """What `as_dict` made, with this state and cause where a file has none."""
        return cls(
            str(values.get("state", state)), str(values.get("cause", cause)), Reason(values.get("reason", "unknown")),
            remedies_from(values.get("remedies", ())),
        )  # fmt: skip


# ------------------------------------------------------------------ exceptions


class TrainingError(Exception):
    """The base of everything a person may be shown; its arguments, and so its copies, have all that it says."""

    reason: ClassVar[Reason] = Reason.UNFORESEEN

    def __init__(self, message: str = "", *remedies: Remedy) -> None:
        super().__init__(message, *remedies)

    @property
    def message(self) -> str:
        """Without what to do on the command line."""
        return str(self.args[0]) if self.args else ""

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        return tuple(found for found in self.args[1:] if isinstance(found, Remedy))

    def __str__(self) -> str:
        return _joined(self.message, self.remedies)


class ConfigError(TrainingError):
    """A knob has a value it cannot have; `knobs` names those that it is about, the likeliest first."""

    reason = Reason.BAD_SETTINGS

    def __init__(self, message: str = "", *remedies: Remedy, knobs: Sequence[str] = ()) -> None:
        super().__init__(message, *remedies)
        self.knobs = tuple(knobs)


class DataError(TrainingError):
    """A file or table cannot be used as it is."""

    reason = Reason.BAD_DATA


class BadRowsError(DataError):
    """More rows or values could not be read than the limit for skipping allows."""


class SourceChanged(DataError):
    """The file changed while it was read."""


class NotAllowed(TrainingError):
    """Whoever asks may not do this; somebody else may."""

    reason = Reason.NOT_ALLOWED


class StateError(TrainingError):
    """A model file or cache is damaged or was written by another version."""

    reason = Reason.BAD_STATE


class DamagedFile(StateError):
    """A file of ours is not what was written; `path` is that file, for whoever can make it again.

    `identity` is which file of that name was seen: one that came in its place since then may be whole.
    """

    def __init__(
        self, message: str = "", *remedies: Remedy, path: str = "", identity: Sequence[int] | None = None
    ) -> None:
        super().__init__(message, *remedies)
        self.path = path
        self.identity = tuple(identity or ())


class ResourceError(TrainingError):
    """A file, a folder or a tool is not there or cannot be used."""

    reason = Reason.RESOURCES


class DiskFull(ResourceError):
    """There is no room on the disk."""

    reason = Reason.OUT_OF_DISK


class OutOfMemory(ResourceError):
    """There is not enough memory for what was asked."""

    reason = Reason.OUT_OF_MEMORY


class EngineError(TrainingError):
    """Workers could not do the work they were given."""

    reason = Reason.WORKER_FAILED


class WorkerFailed(EngineError):
    """One worker process is gone, and what is known about why."""

    def __init__(self, rank: int, cause: str, signal: int | None = None) -> None:
        super().__init__(f"Worker {rank} is gone: {cause}.")
        self.rank = rank
        self.cause = cause
        self.signal = signal

    def __reduce__(self) -> tuple[type, tuple[int, str, int | None]]:
        return type(self), (self.rank, self.cause, self.signal)
