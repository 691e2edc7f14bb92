"""Large files of ours, proven by CRC-32C: as they are written from memory, and when a process first maps them.

Small documents are in `sealed`; which files there are, and how a damaged one is made again, is known to their owners.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.errors import DamagedFile
from shoal.kernels.checksum_kernel import library

FileBytes = npt.NDArray[np.uint8]

REMEMBERED = 1 << 17  # files that a process knows to be whole: 20 MB at most

_whole: dict[str, tuple[int, ...]] = {}


def checksum(data: bytes | npt.NDArray[Any], before: int = 0) -> int:
    """CRC-32C of bytes or of a contiguous array; `before` is that of what comes before them in the file."""
    if isinstance(data, bytes):
        return int(library().crc32c(before, data, len(data)))
    if not (data.flags.c_contiguous or data.flags.f_contiguous):
        raise ValueError("expected a contiguous array")
    return int(library().crc32c(before, data.ctypes.data, data.nbytes))


def mapped(path: str, size: int, expected: int) -> FileBytes:
    """A file's bytes, read-only and mapped; they are proven unless this process has done so since the file was made."""
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size != size:
                raise damaged(path, f"{size} bytes", str(found.st_size))
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as error:
        raise damaged(path, "a file", str(error.strerror)) from None
    data = np.frombuffer(memory, np.uint8)
    identity = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, expected)
    if _whole.get(path) != identity:
        prove(path, data, expected)
        if len(_whole) >= REMEMBERED:
            _whole.clear()
        _whole[path] = identity
    return data


def prove(path: str, data: bytes | FileBytes, expected: int) -> None:
    """Refuse what was read from a file if it is not what was written to it."""
    got = checksum(data)
    if got != expected:
        raise damaged(path, f"checksum {expected:08x}", f"{got:08x}")


def damaged(path: str, expected: str, got: str) -> DamagedFile:
    return DamagedFile(f"'{path}' is damaged: expected {expected}, got {got}.", path=path)
