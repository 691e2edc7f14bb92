"""Whether somebody waits for a job: the mark that waiting renews and the job watches; how a job ends is not here."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.settings import limits

NAME = "awaited"  # in the folder of a job: touched whenever somebody who waits for it looks
LASTING = frozenset({"generate", "archive", "restore"})  # what a person asked for by a click and may walk away from


def begin(directory: Path, task: str) -> dict[str, Any]:
    """Leave the mark for a new job; what its job.json says of its patience, which lasting ones have without end."""
    if task in LASTING:
        return {}
    (directory / NAME).touch()
    return {"patience": limits.JOB_PATIENCE}


def renew(directory: Path) -> None:
    """Somebody waits for this job. Makes nothing: runs have no such mark, and a folder may be gone by now."""
    with contextlib.suppress(OSError):
        os.utime(directory / NAME)


class WaitWatch:
    """Looks at the mark of a job, and says once that it has not been renewed for so many seconds.

    They are counted by the clock of this process: what the time of day does, or a machine that slept, ends nothing.
    """

    def __init__(
        self, directory: Path, patience: float, end: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:  # fmt: skip
        self._mark, self._patience, self._end, self._clock = directory / NAME, patience, end, clock
        self._seen, self._since = self._look(), clock()
        self._said = False

    def __call__(self) -> None:
        seen, now = self._look(), self._clock()
        if seen != self._seen:
            self._seen, self._since = seen, now
        elif now - self._since >= self._patience and not self._said:
            self._said = True
            self._end()

    def _look(self) -> int:
        try:
            return self._mark.stat().st_mtime_ns
        except OSError:
            return 0
