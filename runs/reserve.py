"""Room for the last word of a run: a file that is there from the start, and becomes that word on a full disk.

What is said, and when, is known to the run process.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from shoal.utils import is_full, put_in_place, write_atomically

NAME = "reserve"  # in the folder of a run, while its process lives
SIZE = 16 * 1024  # bytes: a cause with its remedies has some hundred


def keep(directory: Path) -> None:
    """Have room in that folder; where there is none to begin with, there is none to keep."""
    with contextlib.suppress(OSError):
        write_atomically(directory / NAME, b" " * SIZE)


def is_out_of_reach(directory: Path) -> bool:
    """Whether its disk has no room for that now, so that a process cannot even say why it does not begin."""
    with contextlib.suppress(OSError):
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize < SIZE
    return False


def give_back(directory: Path) -> None:
    with contextlib.suppress(OSError):
        (directory / NAME).unlink(missing_ok=True)


def write(path: Path, data: bytes) -> None:
    """As `write_atomically`; without room on the disk, into the bytes that were kept in its folder, once."""
    try:
        write_atomically(path, data)
    except OSError as error:
        if not is_full(error) or len(data) > SIZE:
            raise
        try:
            _write_into(path.parent / NAME, data)
            put_in_place(path.parent / NAME, path)
        except OSError:
            raise error from None


def _write_into(kept: Path, data: bytes) -> None:
    """Over bytes that the file has already: a disk needs no room for that."""
    with kept.open("r+b") as file:
        file.write(data)
        file.truncate()
