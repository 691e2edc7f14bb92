"""Lines of a log that come again and again are written a few times a minute, with how many were left out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

FEW = 5  # of the same kind, in so many seconds
SECONDS = 60.0
KINDS = 500  # that are told apart; beyond, all are forgotten


class FewOfAKind(logging.Filter):
    """The same place and text, whatever is filled in, is one kind."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.clock = clock
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = (record.name, str(record.msg)[:200]), self.clock()
        since, count = self._seen.get(kind, (now, 0))
        if now - since >= SECONDS:
            if count > FEW:
                record.msg, record.args = (
                    f"{record.getMessage()} ({count - FEW:,} more such lines were left out.)",
                    None,
                )
            since, count = now, 0
        if len(self._seen) >= KINDS:
            self._seen.clear()
        self._seen[kind] = since, count + 1
        return count < FEW
