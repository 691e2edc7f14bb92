"""What a program is told when something cannot be done: RFC 9457 problems with the sentences of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.database.plain_errors import DatabaseAway
from shoal.errors import (
    ConfigError,
    DamagedFile,
    DataError,
    DiskFull,
    EngineError,
    NotAllowed,
    OutOfMemory,
    ResourceError,
    StateError,
    TrainingError,
)

_STATUS: tuple[tuple[type[TrainingError], int], ...] = (  # the first that fits
    (NotAllowed, 403),
    (ConfigError, 422), (DataError, 422), (DamagedFile, 409), (StateError, 409), (DiskFull, 507), (OutOfMemory, 507),
    (DatabaseAway, 503), (ResourceError, 409), (EngineError, 409),
)  # fmt: skip


class Refusal(Exception):
    """An answer that is no good one: a status, a sentence, and what else belongs to it."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.more = status, detail, dict(headers or {}), more


def refusal_of(error: TrainingError) -> Refusal:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 409)
    refusal = Refusal(status, error.message, reason=str(error.reason))
    if error.remedies:
        refusal.more["remedies"] = [str(remedy) for remedy in error.remedies]
    return refusal


def missing(what: str) -> Refusal:
    return Refusal(404, f"There is no such {what} here. Look at the list of them.")
