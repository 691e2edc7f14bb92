"""Where the state of runs is: how much of their batches, checkpoints and records the system holds in memory, what is on
disk, and what was packed away. What moves, and when, is decided by runs (`Conductor`, `Checkpoints`) and by people."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shoal.home import SHARDS, archive_directory, cache_directory, runs_directory

READABLE, SHARED = 1, 1  # PROT_READ and MAP_SHARED of mman.h
FAILED = ctypes.c_void_p(-1).value
RECORDS = ("metrics.sqlite", "metrics.sqlite-wal", "unsent.jsonl", "log.jsonl", "log.txt")
PRESENT = bytes(range(1, 256, 2))  # of a page in memory the lowest bit is set
MOST = 5_000  # files that are asked about memory: more say nothing to a person and take their time


class StatePlace(NamedTuple):
    """One kind of state, in bytes; `memory` is how much of that on disk needs no disk to be read, None where nobody
    can tell. `archive`: packed, beside the runs or in their place."""

    name: str
    memory: int | None
    disk: int
    archive: int


def places() -> list[StatePlace]:
    """Batches, checkpoints and records of all runs of this home; runs that were packed away as a whole come last."""
    runs = [entry for entry in _inside(runs_directory()) if entry.is_dir()]
    shards = [entry for entry in _inside(cache_directory()) if entry.name.startswith(SHARDS)]
    plain = [file for run in runs for file in _inside(run / "checkpoints") if file.suffix in (".ckpt", ".part")]
    packed = [file for run in runs for file in _inside(run / "checkpoints" / "archive")]
    records = [run / name for run in runs for name in RECORDS]
    return [
        _place("Batches", [file for folder in shards for file in _inside(folder)]),
        _place("Checkpoints", plain, packed),
        _place("Records", records),
        _place("Whole runs", [], [file for file in _inside(archive_directory()) if file.suffix == ".xz"]),
    ]


def _place(name: str, files: list[Path], packed: list[Path] | None = None) -> StatePlace:
    held = [resident(file) for file in [*files, *(packed or [])][:MOST]]
    known = [size for size in held if size is not None]
    memory = sum(known) if known or not held else None
    return StatePlace(name, memory, sum(map(_size, files)), sum(map(_size, packed or [])))


def resident(path: Path) -> int | None:
    """Bytes of a file whose pages are in memory (0 of one that is not there); None where the system does not say."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        mapping, look = library.mmap, library.mincore
    except (OSError, AttributeError, TypeError):
        return None
    mapping.restype = ctypes.c_void_p
    mapping.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    for size, file in _opened(path):
        place = mapping(None, size, READABLE, SHARED, file, 0)
        if place in (None, FAILED):
            return None
        try:
            pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
            if look(ctypes.c_void_p(place), ctypes.c_size_t(size), pages):
                return None
            told = bytes(pages)
            return min(size, (len(told) - len(told.translate(None, PRESENT))) * mmap.PAGESIZE)
        finally:
            library.munmap(ctypes.c_void_p(place), ctypes.c_size_t(size))
    return 0


def _opened(path: Path) -> Iterator[tuple[int, int]]:
    """Size and descriptor of a file with something in it; it is looked at, not read."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NOATIME", 0))
        try:
            if size := os.fstat(file).st_size:
                yield size, file
        finally:
            os.close(file)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _inside(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [entry for entry in folder.iterdir() if not entry.is_symlink()]
    return []
