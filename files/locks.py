"""Locks on files, which go with the process that has them, however it ends; what they are for is known to others."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO


def is_held(path: Path) -> bool:
    """Whether some process holds the lock on this file."""
    try:
        with path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def hold(path: Path, owner: object) -> bool:
    """Have a share of the lock on a file for as long as `owner` lives, so that clean-up leaves its folder alone.

    False if the file is gone, perhaps a moment ago. The kernel ends the share with the process, however that ends.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    weakref.finalize(owner, os.close, descriptor)
    with contextlib.suppress(OSError):  # a disk without locks
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def lock_file(path: Path, wait: float = 0.0) -> IO[str] | None:
    """The file with its lock, which goes with the process at the latest; None if another one has it.

    Waits for a moment: whoever looks whether the lock is held has a share of it for some microseconds.
    """
    lock = path.open("a+")
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.01)
                continue
            lock.close()
            return None
        except BaseException:
            lock.close()
            raise
        return lock


def sign(lock: IO[str]) -> None:
    """Write the number of this process into a file whose lock it has."""
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


@contextlib.contextmanager
def own_lock(directory: Path, wait: float = 1.0, given: int | None = None) -> Iterator[bool]:
    """The lock of a run, with the number of this process in it; False if another process has it.

    Whoever started this process may have `given` it the file with its lock.
    """
    lock = lock_file(directory / "lock", wait) if given is None else os.fdopen(given, "a+")
    if lock is None:
        yield False
        return
    with lock:
        sign(lock)
        yield True


@contextlib.contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Wait for the lock on a file, which is made if need be, for as long as it takes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def alone_with(path: Path) -> Iterator[bool]:
    """Whether nobody has a share of the lock on a file, nor can get one while the context lasts; no if it is gone."""
    try:
        file = path.open("rb")
    except OSError:
        yield False
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
