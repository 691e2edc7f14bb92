"""Damage to files, as disks, cables and careless hands do it: the same for tests and for `make fuzz`."""

from __future__ import annotations

import os
import random
from pathlib import Path

PAGE = 4096


def flip(path: Path, chance: random.Random) -> None:
    """One bit."""
    with path.open("r+b") as file:
        place = chance.randrange(path.stat().st_size)
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << chance.randrange(8)]))


def zero_page(path: Path, chance: random.Random) -> None:
    """A page of zeros where there was something else."""
    data = bytearray(path.read_bytes())
    pages = [start for start in range(0, len(data), PAGE) if any(data[start : start + PAGE])]
    start = chance.choice(pages)
    end = min(start + PAGE, len(data))
    data[start:end] = bytes(end - start)
    path.write_bytes(data)


def cut(path: Path, chance: random.Random) -> None:
    """Some of the end is missing."""
    os.truncate(path, chance.randrange(path.stat().st_size))


def noise(path: Path, chance: random.Random) -> None:
    """Some bytes of something else."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        start = chance.randrange(size)
        file.seek(start)
        file.write(chance.randbytes(chance.randint(1, min(200, size - start))))


def swap(path: Path, other: Path) -> None:
    """Two files in each other's place."""
    aside = path.with_name(f"{path.name}.aside")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)
