"""Small tools for several layers: logs, the timing of code blocks, errors in plain words, files and processes.

Nothing about data or models.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import re
import signal
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from shoal.errors import DiskFull, EngineError, TrainingError
from shoal.tracing import spans

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
EXITING = 4  # among the flags of a process in /proc: it ends, and nothing of its program runs any more


# ------------------------------------------------------------------ progress and timing

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


# ------------------------------------------------------------------ logs


class RunLog:
    """The log of a run: log.jsonl for programs, log.txt for people; one that cannot be written harms nobody.

    log.txt is also where the run process's own output goes: stray prints and the last words of a crash are in it.
    """

    def __init__(self, directory: Path) -> None:
        self._files: list[IO[str]] = []
        with contextlib.suppress(OSError):
            for name in ("log.jsonl", "log.txt"):
                path = directory / name
                torn = not _ends_with_newline(path)  # by a process that was killed as it wrote
                self._files.append(path.open("a", buffering=1, encoding="utf-8", errors="backslashreplace"))
                self._files[-1].write("\n" if torn else "")

    def write(self, level: str, text: str) -> None:
        """One line in each log; a text of several lines is indented in log.txt, so that lines begin with a time."""
        if len(self._files) != 2:
            return
        now = time.time()
        entry = json.dumps({"at": now, "level": level, "text": text, **spans.ids()})
        mark = "" if level == "info" else f"{level}: "
        plain = text.strip().replace("\n", "\n    ")
        with contextlib.suppress(OSError, ValueError):  # a full disk; closed
            self._files[0].write(entry + "\n")
            self._files[1].write(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))} {mark}{plain}\n")

    __call__ = write

    def info(self, text: str) -> None:
        self.write("info", text)

    def warning(self, text: str) -> None:
        self.write("warning", text)

    def error(self, text: str, cause: BaseException | None = None) -> None:
        """The plain message first, then the trace of what caused it."""
        trace = "".join(traceback.format_exception(cause)) if cause else ""
        self.write("error", f"{text}\n{trace}" if trace else text)

    def close(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ends_with_newline(path: Path) -> bool:
    with path.open("ab+") as file:
        if not file.tell():
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


# ------------------------------------------------------------------ errors


def plain_error(request: object, error: Exception) -> TrainingError:
    """What a person is shown for `error`: itself if it was meant for people, else one sentence and a note."""
    if isinstance(error, TrainingError):
        return error
    plain = EngineError(
        f"A worker could not answer {type(request).__name__}: {type(error).__name__}: {error}. "
        "This is a fault of the program or its environment; the log holds the details."
    )
    plain.add_note("".join(traceback.format_exception(error)))
    return plain


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


# ------------------------------------------------------------------ files and processes


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


_before_naming: list[Callable[[], None]] = []  # what this process does before a file of its gets its name


def check_before_naming(check: Callable[[], None]) -> None:
    """From now on: in a process that may lose its right to write without being told."""
    _before_naming.append(check)


def put_in_place(temporary: str | Path, path: Path) -> None:
    """Give a file that is complete the name under which others read it."""
    for check in _before_naming:
        check()
    os.replace(temporary, path)


def write_atomically(path: Path, data: bytes) -> None:
    """The whole file or none of it: readers see the old content or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        put_in_place(name, path)
    except BaseException:
        os.unlink(name)
        raise


def identity_of(path: str | Path) -> tuple[int, ...]:
    """Which file has this name, and which of its contents; empty if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def sync_folder(folder: Path) -> None:
    """The names in a folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def close_to_others(folder: Path) -> None:
    """Files and folders below one are for their owner only from now on, not what links lead to, nor what cannot be."""
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            with contextlib.suppress(OSError):
                mode = path.lstat().st_mode
                if mode & 0o077 and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    path.chmod(stat.S_IMODE(mode) & 0o700)


Alone = Callable[[], contextlib.AbstractContextManager[None]]
_alone: Alone | None = None


@contextlib.contextmanager
def may_fork(alone: Alone = contextlib.nullcontext) -> Iterator[None]:
    """This process is ours from its first line to its last, as a command and a run are and a person's script is not:
    workers may be forks of it, made within `alone`, in which threads of its own are away."""
    global _alone
    _alone = alone
    try:
        yield
    finally:
        _alone = None


def forks_within() -> Alone | None:
    """None where this process is not ours alone."""
    return _alone


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


def is_ours(number: int) -> bool:
    """Whether a process of this machine is one of Shoal's: a number in a folder that several share may be another's."""
    with contextlib.suppress(OSError):
        return b"shoal.processes" in Path(f"/proc/{number}/cmdline").read_bytes()
    return False


def is_ending(number: int) -> bool:
    """Whether a process was killed and still lets go of what it holds, which takes a busy machine a while (Linux)."""
    fields = _read(Path(f"/proc/{number}/stat")).rpartition(")")[2].split()
    waiting = re.findall(r"^(?:SigPnd|ShdPnd):\s*(\w+)", _read(Path(f"/proc/{number}/status")), re.MULTILINE)
    killed = any(int(signals, 16) & 1 << signal.SIGKILL - 1 for signals in waiting)
    return killed or (len(fields) > 6 and (fields[0] in "ZX" or bool(int(fields[6]) & EXITING)))


def is_full(error: OSError) -> bool:
    """Whether there was no room on the disk."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def available_memory(root: Path = Path("/")) -> int:
    """Bytes that can be used without swapping, and without passing the limit of the container that this runs in."""
    return min([_free(root), *_left_in_groups(root)])


def _free(root: Path) -> int:
    """By the kernel's own list on Linux: the import of psutil takes as long as a small fit."""
    if found := re.search(r"^MemAvailable: +(\d+) kB$", _read(root / "proc/meminfo"), re.MULTILINE):
        return int(found[1]) * 1024
    import psutil

    return int(psutil.virtual_memory().available)


def _left_in_groups(root: Path) -> Iterator[int]:
    """What the control groups of this process, and those around them, have left below their limits (Linux).

    A container often sees its own group as the topmost one, though it is told another name: names that do not exist
    are left out. Pages of files count as used, but are given up before anything else fails.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, kinds, name = line.split(":", 2) if line.count(":") >= 2 else ("", "none", "")
        if kinds == "":  # version 2: one tree for everything
            top, limits, used = root / "sys/fs/cgroup", ["memory.max", "memory.high"], "memory.current"
        elif "memory" in kinds.split(","):
            top, limits, used = root / "sys/fs/cgroup/memory", ["memory.limit_in_bytes"], "memory.usage_in_bytes"
        else:
            continue
        inner = Path(name.lstrip("/"))
        for group in (top / part for part in (inner, *inner.parents)):
            most = [int(text) for text in (_read(group / limit).strip() for limit in limits) if text.isdecimal()]
            taken = _read(group / used).strip()
            if most and taken.isdecimal():
                yield max(min(most) - int(taken) + _pages_of_files(group), 0)


def _pages_of_files(group: Path) -> int:
    counts = dict(line.split(maxsplit=1) for line in _read(group / "memory.stat").splitlines() if " " in line)
    name = "total_{}" if "total_inactive_file" in counts else "{}"  # version 1: with those of the groups inside
    found = [counts.get(name.format(kind), "0") for kind in ("inactive_file", "active_file")]
    return sum(int(text) for text in found if text.isdecimal())


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def trim_memory() -> bool:
    """Give freed memory back to the system, which the C library keeps for later; False where it cannot be asked to."""
    import ctypes  # where it is needed: commands start without it

    gc.collect()
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (OSError, AttributeError, TypeError):
        return False  # not glibc
