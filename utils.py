"""Small tools of the operating system for several layers; nothing about data, models or runs."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from shoal.errors import ConfigError, DiskFull, Remedy, ResourceError

# One BLAS thread a worker: two threads each made a Gram matrix 4 to 9 times slower on shared cores.
# They must be in the environment before NumPy is imported; afterwards nobody reads them.
THREAD_LIMITS = dict.fromkeys(
    (
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "BLIS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    ),
    "1",
)


Progress = Callable[[str, float], None]  # (stage, share of it that is done)


def silent(stage: str, fraction: float) -> None:
    """No progress display."""


@contextlib.contextmanager
def timed() -> Iterator[Callable[[], float]]:
    """The time of a block: what comes back tells the seconds since it began, and after its end those that it took."""
    began, ended = time.perf_counter(), 0.0
    try:
        yield lambda: (ended or time.perf_counter()) - began
    finally:
        ended = time.perf_counter()


def anonymous_file(size: int = 0) -> int:
    """A descriptor of `size` zero bytes that no name leads to, so that it is gone with its last holder."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("shoal")
    else:
        descriptor, path = tempfile.mkstemp(prefix="shoal-")
        os.unlink(path)
    try:
        os.ftruncate(descriptor, size)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_at(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    """All of `data` at `offset`; the file grows as needed (one call writes at most 2 GB on Linux)."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


def read_at(descriptor: int, target: memoryview, offset: int) -> None:
    """Fill `target` from `offset`, or raise EOFError where the file is shorter."""
    rest = target
    while rest:
        count = os.preadv(descriptor, [rest], offset)
        if not count:
            raise EOFError(f"expected {len(rest)} more bytes at {offset}, came to the end of the file")
        rest, offset = rest[count:], offset + count


def keep_apart(out: Path, data: Path, what: str) -> None:
    """Refuse to write over the data that something is made from."""
    if data.exists() and out.exists() and out.samefile(data):
        raise ConfigError(
            f"'{out}' is {what}; writing there would destroy it.", Remedy.choose("Give another name", "out")
        )


def write_atomically(path: Path, data: bytes) -> None:
    """The whole file or none of it: readers see the old content or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def sync_folder(folder: Path) -> None:
    """The names in a folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def die_with_parent() -> None:
    """Let the system kill this process when the thread that started it ends: even a stopped process cannot miss that.

    Linux only; elsewhere a process that is stopped when its parent dies stays until it is woken.
    """
    if sys.platform != "linux":
        return
    import ctypes

    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it died a moment ago
        os._exit(0)


def is_full(error: OSError) -> bool:
    """Whether there was no room on the disk."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def disk_errors(what: str = "the data set's blocks (about as large as the file)") -> Iterator[None]:
    """A full disk in plain words; `what` is that which did not fit."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise DiskFull(
                f"The disk is full: there is no room for {what}. "
                "Free some space, or set SHOAL_HOME to a folder on a larger disk, and try again."
            ) from error
        raise


@contextlib.contextmanager
def write_stream(path: Path) -> Iterator[IO[str]]:
    """A text file that appears under its name only when it is complete."""
    unfinished = path.with_name(f".{path.name}-{os.getpid()}.tmp")
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            yield file
        unfinished.replace(path)
    except FileNotFoundError as error:
        raise ResourceError(
            f"Expected a folder to write '{path}' to, found none. Make it or choose another."
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def available_memory() -> int:
    """Bytes that can be used without swapping."""
    import psutil  # where it is needed: its import takes as long as a small fit

    return int(psutil.virtual_memory().available)
