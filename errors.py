"""The exceptions a person may be shown; nothing else raises text meant for people.

    TrainingError             everything below: one plain sentence or two, never a traceback
    ├── ConfigError           a knob has a value it cannot have
    ├── DataError             a file or table cannot be used as it is
    │   ├── BadRowsError      rows or values could not be read, and the limit for skipping is passed
    │   └── SourceChanged     the file changed while it was read
    ├── StateError            a model file or cache is damaged or of another version
    ├── ResourceError         memory, disk or a tool is not enough
    └── EngineError           workers could not do the work
        └── WorkerFailed      one worker is gone: rank, cause, signal

A message says what was expected, what came, and what to do next.
"""

from __future__ import annotations


class TrainingError(Exception):
    """The base of everything a person may be shown."""


class ConfigError(TrainingError):
    """A knob has a value it cannot have."""


class DataError(TrainingError):
    """A file or table cannot be used as it is."""


class BadRowsError(DataError):
    """More rows or values could not be read than the limit for skipping allows."""


class SourceChanged(DataError):
    """The file changed while it was read."""


class StateError(TrainingError):
    """A model file or cache is damaged or was written by another version."""


class ResourceError(TrainingError):
    """Memory, disk or a tool is not enough for what was asked."""


class EngineError(TrainingError):
    """Workers could not do the work they were given."""


class WorkerFailed(EngineError):
    """One worker process is gone, and what is known about why."""

    def __init__(self, rank: int, cause: str, signal: int | None = None) -> None:
        super().__init__(f"Worker {rank} is gone: {cause}.")
        self.rank = rank
        self.cause = cause
        self.signal = signal

    def __reduce__(self) -> tuple[type, tuple[int, str, int | None]]:
        return type(self), (self.rank, self.cause, self.signal)
