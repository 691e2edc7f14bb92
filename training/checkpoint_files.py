"""The files of checkpoints: their names, and how one is written whole or not at all; their bytes are in `snapshots`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from pathlib import Path

from shoal.errors import DiskFull, ResourceError
from shoal.files.locks import alone_with
from shoal.training.snapshots import START, Damaged, OtherFormat, check_start, fits_otherwise
from shoal.utils import is_full, put_in_place, sync_folder, write_at

FILE = re.compile(r"step-(\d{12,})\.ckpt")
PART = re.compile(r"step-(\d{12,})\.ckpt-shard\d+-[0-9a-f]{8}\.part")  # what one parameter shard had
TEMPORARY = re.compile(r"\.step-\d{12,}\.ckpt-.+\.tmp")


def file_name(step: int) -> str:
    return f"step-{step:012d}.ckpt"


def part_name(step: int, shard: int, token: str) -> str:
    """`token` is that of one save: a step that is saved again leaves the parts of the one before as they are."""
    return f"{file_name(step)}-shard{shard}-{token}.part"


def parts_in(folder: Path) -> list[tuple[int, Path]]:
    """The parts of checkpoints in a folder, each with its step."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return [(int(match[1]), folder / name) for name in os.listdir(folder) if (match := PART.fullmatch(name))]
    return []


def steps_in(folder: Path) -> list[int]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return [int(match[1]) for name in os.listdir(folder) if (match := FILE.fullmatch(name))]
    return []


def is_of_other_format(path: Path) -> bool:
    try:
        content(path)
    except OtherFormat:
        return True
    except (Damaged, OSError):
        return False
    return False


def signature(path: Path) -> tuple[int, ...]:
    """What changes when a checkpoint does; its parts included."""
    found: list[int] = []
    for file in (path, *sorted(path.parent.glob(f"{path.name}-shard*.part"))):
        status = file.stat()
        found += status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
    return tuple(found)


def content(path: Path) -> bytes:
    """The bytes of a file that begins as a checkpoint does; Damaged or OtherFormat if it does not."""
    try:
        with path.open("rb") as file:
            start = file.read(START)
            try:
                check_start(memoryview(start))  # before the rest: a foreign file may be of any size
            except OtherFormat:
                if fits_otherwise(start + file.read()):
                    raise Damaged(
                        "is damaged: its checksum fits the format of this Shoal, not the one it names"
                    ) from None
                raise
            return start + file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(f"could not be read: {error.strerror}") from error


def write_whole(path: Path, data: bytearray) -> None:
    """The whole file or nothing, safe from a loss of power: content first, then the name, then the folder."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        sync_folder(path.parent.parent)
    descriptor, temporary = _temporary(path)
    try:
        try:
            write_at(descriptor, memoryview(data), 0)
            os.fsync(descriptor)
            put_in_place(temporary, path)
        finally:
            os.close(descriptor)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _temporary(path: Path) -> tuple[int, Path]:
    """A new file beside `path`, locked for as long as it is open, so that others see that it is in use."""
    while True:
        temporary = path.with_name(f".{path.name}-{os.urandom(4).hex()}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, temporary
        os.close(descriptor)  # taken for a leftover between its making and its lock


def remove_leftovers(folder: Path) -> None:
    """Remove the unfinished files of processes that are gone: the kernel has let go of their locks."""
    with contextlib.suppress(OSError):
        for name in [name for name in os.listdir(folder) if TEMPORARY.fullmatch(name)]:
            with contextlib.suppress(OSError), alone_with(folder / name) as alone:
                if alone:
                    os.unlink(folder / name)


def no_room(path: Path, error: OSError) -> ResourceError:
    if is_full(error):
        return DiskFull(
            f"The disk is full: there is no room for the checkpoint '{path}'. The one before is untouched. "
            "Free some space, or set SHOAL_HOME to a folder on a larger disk."
        )
    return ResourceError(
        f"The checkpoint '{path}' could not be written: {error.strerror}. The one before is untouched. "
        "Check the folder and its permissions."
    )
