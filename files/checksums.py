"""Large files of ours, proven by CRC-32C: as they are written from memory, and when a process first maps them.

Small documents are in `sealed`; which files there are, and how a damaged one is made again, is known to their owners.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.errors import DamagedFile
from shoal.kernels.checksum_kernel import library
from shoal.utils import identity_of

FileBytes = npt.NDArray[np.uint8]

REMEMBERED = 1 << 17  # files that a process knows to be whole: 20 MB at most
PIECE = 256 << 10  # bytes that are summed and written at a time: what one brings into the cache serves the other


class Seal(NamedTuple):
    """What a file that was written has to be when it is read."""

    size: int
    checksum: int


Proven = tuple[int, ...]  # which file, which of its contents, and the checksum that it has
_whole: set[Proven] = set()  # by file, not by name: a data set gets its name when its blocks are there


def checksum(data: bytes | npt.NDArray[Any], before: int = 0) -> int:
    """CRC-32C of bytes or of a contiguous array; `before` is that of what comes before them in the file."""
    if isinstance(data, bytes):
        return int(library().crc32c(before, data, len(data)))
    if not (data.flags.c_contiguous or data.flags.f_contiguous):
        raise ValueError("expected a contiguous array")
    return int(library().crc32c(before, data.ctypes.data, data.nbytes))


def write_whole(target: str, parts: Iterable[npt.NDArray[Any]]) -> Seal:
    """A file of contiguous arrays that gets its name when it is whole. This process need not prove it: what it would
    read is what it has just written and summed, in the system's own memory."""
    with made_aside(target) as file:
        seal = written(file, parts)
    _remember(_identity(os.stat(target), seal.checksum))
    return seal


@contextlib.contextmanager
def made_aside(target: str) -> Iterator[io.FileIO]:
    """A file to write that gets its name when it is whole: whoever counts as gone and wakes spoils no other's."""
    own = f"{target}.{os.urandom(6).hex()}"
    try:
        with open(own, "wb", buffering=0) as file:
            yield file
        os.replace(own, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(own)
        raise


def written(file: io.RawIOBase, parts: Iterable[npt.NDArray[Any]]) -> Seal:
    """Write contiguous arrays one after another to a file that is not buffered; they are summed on their way."""
    size = total = 0
    for part in parts:
        for start in range(0, part.nbytes, PIECE):
            piece = part.reshape(-1, order="A").view(np.uint8)[start : start + PIECE]
            total = checksum(piece, total)
            rest = piece.data
            while rest:
                rest = rest[file.write(rest) or 0 :]
        size += part.nbytes
    return Seal(size, total)


class RunningProof:
    """A file that is proven while it is used, so that its bytes come into the cache once for both.

    Until `finish` returns, nothing of it is proven: whoever uses it answers after that.
    """

    def __init__(self, path: str, data: FileBytes, expected: int, identity: Proven) -> None:
        self.path, self.data, self.expected, self.identity = path, data, expected, identity
        self.at = self.total = 0

    def upto(self, end: int) -> None:
        """Count the bytes in that are used next."""
        self.total, self.at = checksum(self.data[self.at : end], self.total), max(self.at, end)

    def finish(self) -> None:
        """Refuse the file if it is not what was written."""
        self.upto(len(self.data))
        if self.total != self.expected:
            raise damaged(self.path, f"checksum {self.expected:08x}", f"{self.total:08x}")
        _remember(self.identity)


def _remember(identity: Proven) -> None:
    if len(_whole) >= REMEMBERED:
        _whole.clear()
    _whole.add(identity)


def _identity(found: os.stat_result, expected: int) -> Proven:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, expected


def file_of_size(path: str, size: int) -> tuple[int, int]:
    """Which file this is and of when; refused if it has another size, before a look beyond its end is a SIGBUS."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise damaged(path, "a file", str(error.strerror)) from None
    if found.st_size != size:
        raise damaged(path, f"{size} bytes", str(found.st_size))
    return found.st_ino, found.st_mtime_ns


def mapped(path: str, size: int, expected: int) -> FileBytes:
    """A file's bytes, read-only and mapped; they are proven unless this process has done so since the file was made."""
    data, proof = mapped_to_prove(path, size, expected)
    if proof:
        proof.finish()
    return data


def mapped_to_prove(path: str, size: int, expected: int) -> tuple[FileBytes, RunningProof | None]:
    """The same with the proof still to be made; None if this process has made it since the file was."""
    try:
        with open(path, "rb", buffering=0) as file:
            found = os.fstat(file.fileno())
            if found.st_size != size:
                raise damaged(path, f"{size} bytes", str(found.st_size))
            identity = _identity(found, expected)
            memory = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
    except OSError as error:
        raise damaged(path, "a file", str(error.strerror)) from None
    data = np.frombuffer(memory, np.uint8)
    return data, None if identity in _whole else RunningProof(path, data, expected, identity)


def contents(path: str, size: int, expected: int) -> bytes:
    """The bytes of a file that is read as a whole; they are proven each time."""
    try:
        with open(path, "rb") as file:
            data = file.read(size + 1)
    except OSError as error:
        raise damaged(path, "a file", str(error.strerror)) from None
    if len(data) != size:
        raise damaged(path, f"{size} bytes", f"{len(data)}" if len(data) < size else "more")
    prove(path, data, expected)
    return data


def prove(path: str, data: bytes | FileBytes, expected: int) -> None:
    """Refuse what was read from a file if it is not what was written to it."""
    got = checksum(data)
    if got != expected:
        raise damaged(path, f"checksum {expected:08x}", f"{got:08x}")


def damaged(path: str, expected: str, got: str) -> DamagedFile:
    return DamagedFile(f"'{path}' is damaged: expected {expected}, got {got}.", path=path, identity=identity_of(path))
