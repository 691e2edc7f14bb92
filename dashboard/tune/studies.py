"""Studies that the server has open, and the answers it has given about them; the route that asks is `tune_route`."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from dataclasses import field
from pathlib import Path

from shoal.errors import StateError
from shoal.home import jobs_directory
from shoal.lazy.classes import dataclass
from shoal.runs.launch import Run, sees_job
from shoal.settings.limits import STUDIES_BYTES
from shoal.whatif.answers import WhatIf
from shoal.whatif.study import Study, open_study

MOST = 4  # studies at a time
IDLE = 300.0  # seconds without a question after which a study is closed; the next one opens it again
JOB = re.compile(r"[0-9a-f]{24}")

_open: OrderedDict[Path, OpenStudy] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
class OpenStudy:
    run: Run
    study: Study
    whatif: WhatIf
    asked: list[float] = field(default_factory=lambda: [time.monotonic()])  # when it was last

    @property
    def size(self) -> int:
        return self.study.size + self.whatif.size


def opened(job: str) -> OpenStudy:
    """The study that a finished job left. Names come from addresses, so nothing but a fingerprint gets through."""
    directory = jobs_directory() / "study" / job
    here = JOB.fullmatch(job) and (directory / "result.json").is_file()
    if not here or not sees_job(Run(directory)):
        raise StateError("This study is gone; it may have been cleaned up. Reload the page to make it again.")
    with _lock:
        found = _open.get(directory)
        if found is None:
            study = open_study(directory)
            found = _open[directory] = OpenStudy(Run(directory), study, WhatIf(study.cells))
        _open.move_to_end(directory)
        found.asked[0] = time.monotonic()
        _keep_within_bounds()
    return found


def held() -> int:
    """Bytes of all that is open, nearly."""
    return sum(found.size for found in list(_open.values()))


def _keep_within_bounds() -> None:
    """Close those that were asked longest ago; the last one stays, and has bounds of its own. The lock is ours."""
    while len(_open) > MOST or (len(_open) > 1 and held() > STUDIES_BYTES):
        _close(next(iter(_open)))


def _close(directory: Path) -> None:
    if (found := _open.pop(directory, None)) is not None:
        found.whatif.close()  # its own thread may be at work, and would hold on to it


def forget(job: str) -> None:
    """Open it anew when it is next asked for: it was damaged."""
    with _lock:
        _close(jobs_directory() / "study" / job)


def close_idle(now: float | None = None) -> int:
    """Give up the studies that nobody has asked for a while, with all answers about them; how many that were.

    And those that take too much together: answers are made ahead of time, when nobody asks.
    """
    now = time.monotonic() if now is None else now
    with _lock:
        idle = [directory for directory, found in _open.items() if now - found.asked[0] >= IDLE]
        for directory in idle:
            _close(directory)
        _keep_within_bounds()
    return len(idle)
