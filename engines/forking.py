"""A worker process as a fork of this one, which has imported all that it needs: imports are a third of a small fit.

Only where nothing of this process can be in a worker's way: a process of ours (who says so is `tasks.workers`) that has
one thread, as the system counts them, so that no lock is held by a thread that the fork lacks. The fork closes all
files and sockets but its own, before it does anything else, and never returns to the code that made it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Collection, Sequence
from typing import NoReturn

from shoal.utils import THREAD_LIMITS
from shoal.worker import serve

THREADS, OPEN = "/proc/self/task", "/proc/self/fd"
LONGEST = 0.05  # seconds between two looks whether a fork has ended


def can_fork() -> bool:
    """Whether this process has one thread, which only Linux tells, and its linear algebra will have one as well."""
    try:
        threads = len(os.listdir(THREADS))
    except OSError:
        return False
    return threads == 1 and all(os.environ.get(name) == limit for name, limit in THREAD_LIMITS.items())


class ForkedProcess:
    """What `subprocess.Popen` is to a process that it has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def kill(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, or less than 0 for the signal that ended it."""
        deadline, pause = time.monotonic() + (timeout or 0.0), 0.0005
        while self._code is None:
            self._look(0 if timeout is None else os.WNOHANG)
            if self._code is None:
                if timeout is not None and time.monotonic() >= deadline:
                    raise subprocess.TimeoutExpired("a worker", timeout)
                time.sleep(pause)
                pause = min(2 * pause, LONGEST)
        return self._code

    def _look(self, how: int) -> None:
        try:
            pid, status = os.waitpid(self.pid, how)
        except ChildProcessError:  # somebody else has waited for it
            self._code = 0
        else:
            self._code = os.waitstatus_to_exitcode(status) if pid else None


def forked(arguments: Sequence[str], kept: Collection[int], log: int) -> ForkedProcess:
    """A fork that is a worker with these arguments of `serve`, the descriptors `kept`, and a log for what it says."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _become_worker(arguments, kept, log)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return ForkedProcess(pid)


def _become_worker(arguments: Sequence[str], kept: Collection[int], log: int) -> NoReturn:
    code = 1
    try:
        gc.freeze()  # what is this process's by inheritance is never collected: it would close what is not its own
        os.setsid()  # signals of the terminal are for the coordinator alone
        _keep_only(kept, log)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        serve(arguments)
        code = 0
    except SystemExit as end:
        print(end, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - nothing may come back from here into the code of the parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _keep_only(kept: Collection[int], log: int) -> None:
    """Of all that was open, these; what the terminal was is nothing and the log."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for standard in (1, 2):
        os.dup2(log, standard)
    for descriptor in {*map(int, os.listdir(OPEN))} - {0, 1, 2, *kept}:
        with contextlib.suppress(OSError):  # the one of that list
            os.close(descriptor)
