"""Folders of whoever asks, on the machines that are asked: seen there too, or stood in for by a folder of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shoal.home import UNFINISHED, cache_directory

OWN_BLOCKS = "SHOAL_OWN_BLOCKS"  # set on machines of a cluster that are to keep blocks on their own disk


def sees(folder: str | Path) -> bool:
    """Whether a folder of whoever asks is one of this machine too, which does not keep to its own disk."""
    return not os.environ.get(OWN_BLOCKS) and os.path.isdir(folder)


def seen_folder(folder: str) -> str:
    """A folder of the cache of whoever asks or, where that is not seen, the one of the same name here."""
    return folder if sees(folder) else str(cache_directory() / os.path.basename(folder))


def staged_blocks() -> Path:
    """Blocks that this machine made for a data set that has no name yet, on a cluster without a shared disk."""
    return cache_directory() / f"{UNFINISHED}blocks"


def staged_pieces(folder: str, pieces: Sequence[tuple[str, int, int]]) -> npt.NDArray[np.uint8]:
    """Bytes of files that this machine made (name, offset, length), one piece after the other: for another machine."""
    found = np.empty(sum(length for _, _, length in pieces), np.uint8)
    filled = 0
    for name, offset, length in pieces:
        with (staged_blocks() / os.path.basename(folder) / os.path.basename(name)).open("rb") as file:
            file.seek(offset)
            if file.readinto(found[filled : filled + length].data) != length:
                raise EOFError(f"'{name}' is shorter than expected.")
        filled += length
    return found


def piece_of(path: str, offset: int, length: int) -> npt.NDArray[np.uint8]:
    """Bytes of a file of this machine: for another one."""
    found = np.empty(length, np.uint8)
    with open(path, "rb") as file:
        file.seek(offset)
        if file.readinto(found.data) != length:
            raise EOFError(f"'{path}' is shorter than expected.")
    return found
