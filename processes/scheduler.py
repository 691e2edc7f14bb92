"""The process that waits for others, `python -m shoal.processes.scheduler FOLDER LOCK`: it starts queued runs when
there is room for them, and ends when nobody waits. One at a time, by the lock that it was given; how a run is started
is in `runs.scheduling`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

from shoal.errors import StateError
from shoal.files.locks import sign
from shoal.home import keep_private
from shoal.runs import scheduling
from shoal.runs.tickets import tickets

LOOK = 0.2  # seconds between two looks for free slots


def main(descriptor: int) -> None:
    """Also waits for runs that it has started to say so: one that dies before that is started again."""
    os.set_inheritable(descriptor, False)
    with os.fdopen(descriptor, "a") as lock, contextlib.suppress(StateError):  # a queue that nobody can read
        sign(lock)
        while scheduling.owns(lock) and tickets():
            with contextlib.suppress(OSError):  # a disk that is full or away for a moment
                scheduling.dispatch()
            time.sleep(LOOK)
    scheduling.keep_going()  # tickets that came as the lock was given back


if __name__ == "__main__":
    keep_private()
    main(int(sys.argv[2]))
