"""The process that looks after runs at work, `python -m shoal.processes.watcher FOLDER LOCK`: one that is killed goes
on by itself. One at a time, by the lock that it was given; it ends when no run is at work. What is done is in `runs`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

from shoal.errors import StateError
from shoal.home import keep_private
from shoal.runs import scheduling
from shoal.runs.tickets import tickets, tickets_at_work

LOOK = 1.0  # seconds between two looks


def main(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)
    with os.fdopen(descriptor, "a") as lock, contextlib.suppress(StateError):  # a queue that nobody can read
        while scheduling.owns(lock, scheduling.WATCH) and (tickets_at_work() or tickets()):
            scheduling.keep_going()
            time.sleep(LOOK)


if __name__ == "__main__":
    keep_private()
    main(int(sys.argv[2]))
