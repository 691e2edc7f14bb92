"""Data sets on disk, immutable blocks with a manifest; how they are kept and found again is in `cache`."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.errors import DamagedFile, StateError
from shoal.files import sealed
from shoal.files.checksums import FileBytes, Seal, contents, damaged, mapped
from shoal.home import DATA_FORMAT, MANIFEST, hold
from shoal.models import Array
from shoal.solve.moments import Moments

LEVELS, MOMENTS = "levels.npz", "moments.npz"


@dataclass(frozen=True)
class Column:
    """What all rows say about one column. `slot` is its place among the number or the level columns of a block."""

    name: str
    type: str  # numeric, datetime, categorical or text
    slot: int
    missing: int
    minimum: float | None = None
    maximum: float | None = None
    levels: tuple[str, ...] = ()
    distinct: int | None = None
    more_levels: bool = False  # there are more levels than are remembered
    flags: tuple[str, ...] = ()
    written: str = ""  # how numbers with marks are written, by an example: € 1.234,56
    words: tuple[tuple[str, int], ...] = ()  # texts among the numbers, and in how many rows, which could not be read

    @property
    def is_number(self) -> bool:
        return self.type in ("numeric", "datetime")


@dataclass(frozen=True)
class Block:
    """A run of rows: `first` is the file's row index of the first one, `bad` are local indices of unread rows."""

    index: int
    first: int
    rows: int
    bad: tuple[int, ...] = ()
    checksum: int = 0  # of its file


@dataclass(frozen=True)
class Manifest:
    """All that is known of a data set but its rows."""

    source: str
    size: int
    dialect: dict[str, Any]
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    bad_rows: tuple[tuple[int, str], ...]  # the first ones: line in the file, what is wrong
    bad_count: int
    largest_norm: float
    content: str
    levels: Seal  # of the file of level maps
    moments: Seal | None  # of the file of sums, if there are some
    notes: tuple[str, ...] = ()
    repeated: int = 0  # of the bad rows: the names of the columns once more
    format: int = DATA_FORMAT

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    def write(self, directory: Path, key: str) -> None:
        """Sealed with the key of the data set: the manifest of another one is damage."""
        sealed.write(directory / MANIFEST, asdict(self), of=key)

    @classmethod
    def read(cls, directory: Path) -> Manifest:
        raw = sealed.read(directory / MANIFEST, of=directory.name)
        raw["columns"] = tuple(Column(**{**c, **_tuples(c)}) for c in raw["columns"])
        raw["blocks"] = tuple(Block(**{**b, "bad": tuple(b["bad"])}) for b in raw["blocks"])
        raw["bad_rows"] = tuple((line, what) for line, what in raw["bad_rows"])
        raw["levels"], raw["moments"] = Seal(*raw["levels"]), Seal(*raw["moments"]) if raw["moments"] else None
        raw["notes"] = tuple(raw["notes"])
        return cls(**raw)


def _tuples(column: Mapping[str, Any]) -> dict[str, Any]:
    words = tuple((word, count) for word, count in column["words"])
    return {"levels": tuple(column["levels"]), "flags": tuple(column["flags"]), "words": words}


class Dataset:
    """A whole data set, opened for reading; blocks are mapped when they are asked for. While it lives, it is in use."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.repairs: tuple[str, ...] = ()  # what was damaged of it and is made again
        try:
            self.manifest = Manifest.read(directory)
        except DamagedFile:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise damaged(str(directory / MANIFEST), "a manifest of this version", str(error)) from None
        if not hold(directory / MANIFEST, self):
            raise StateError(
                f"The cached data set in '{directory}' was removed a moment ago. Try again; it is made anew."
            )
        self.columns = {column.name: column for column in self.manifest.columns}

    @cached_property
    def number_columns(self) -> list[Column]:
        return sorted((c for c in self.manifest.columns if c.is_number), key=lambda c: c.slot)

    @cached_property
    def level_columns(self) -> list[Column]:
        return sorted((c for c in self.manifest.columns if not c.is_number), key=lambda c: c.slot)

    @property
    def rows(self) -> int:
        return self.manifest.rows

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.manifest.blocks

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of the reading, and of what had to be made again."""
        return (*self.manifest.notes, *self.repairs)

    def is_whole(self) -> bool:
        """Whether every file is there and as large as it was written; what is in it is proven when it is read."""
        try:
            self.check_sizes()
        except DamagedFile:
            return False
        return True

    def check_sizes(self) -> None:
        for path, size in self._sizes():
            try:
                found = os.stat(path).st_size
            except OSError as error:
                raise damaged(str(path), "a file", str(error.strerror)) from None
            if found != size:
                raise damaged(str(path), f"{size} bytes", str(found))

    def _sizes(self) -> Iterator[tuple[Path, int]]:
        yield from ((block_path(self.directory, block.index), self._size(block)) for block in self.blocks)
        yield self.directory / LEVELS, self.manifest.levels.size
        if self.manifest.moments:
            yield self.directory / MOMENTS, self.manifest.moments.size

    def _size(self, block: Block) -> int:
        return block.rows * (8 * len(self.number_columns) + 4 * len(self.level_columns))

    def _mapped(self, block: Block) -> FileBytes:
        return mapped(str(block_path(self.directory, block.index)), self._size(block), block.checksum)

    def numbers(self, block: Block) -> Array:
        """(rows, number columns), mapped from the file, NaN where missing."""
        shape = (block.rows, len(self.number_columns))
        if not shape[0] * shape[1]:
            return np.zeros(shape)
        return self._mapped(block)[: 8 * shape[0] * shape[1]].view(np.float64).reshape(shape)

    def codes(self, block: Block, slot: int) -> npt.NDArray[np.int32]:
        """(rows,): the index of each row's level in the column's sorted levels, -1 where missing or not remembered."""
        if not block.rows:
            return np.zeros(0, np.int32)
        offset = 8 * block.rows * len(self.number_columns) + 4 * slot * block.rows
        local = self._mapped(block)[offset : offset + 4 * block.rows].view(np.int32)
        table = self._level_maps[f"{block.index}.{slot}"]
        return np.asarray(table[local])

    @cached_property
    def _level_maps(self) -> Mapping[str, npt.NDArray[np.int32]]:
        """For each block and column: from the block's own codes to the data set's; the last entries serve -2, -1."""
        with np.load(self._contents(LEVELS, self.manifest.levels)) as maps:
            return dict(maps)

    @cached_property
    def cells(self) -> list[Moments]:
        """Moments of the number columns by row index modulo their count, summed while the file was read."""
        if self.manifest.moments is None:
            return []
        with np.load(self._contents(MOMENTS, self.manifest.moments)) as saved:
            parts = zip(saved["n"], saved["mean"], saved["scatter"], strict=True)
            return [Moments(float(n), mean, scatter) for n, mean, scatter in parts]

    def _contents(self, name: str, proof: Seal) -> io.BytesIO:
        return io.BytesIO(contents(str(self.directory / name), *proof))


def block_path(directory: Path, index: int) -> Path:
    return directory / f"block-{index:06d}.bin"


@dataclass
class LevelTable:
    """The levels of one text column over all blocks, up to a limit."""

    limit: int = 20_000
    seen: dict[str, None] = field(default_factory=dict)
    missing: int = 0
    refused: bool = False

    def add(self, levels: Sequence[str], missing: int, refused: int) -> None:
        levels = [level for level in levels if level]  # "" is missing, so it marks a text of unread rows only
        self.missing += missing
        self.refused = self.refused or refused > 0
        if (
            len(self.seen) + len(levels) <= self.limit
            or len(set(levels) - self.seen.keys()) + len(self.seen) <= self.limit
        ):
            self.seen.update(dict.fromkeys(levels))
        else:
            self.refused = True

    def sorted(self) -> tuple[str, ...]:
        return tuple(sorted(self.seen))

    @staticmethod
    def codes_of(levels: Sequence[str], places: Mapping[str, int]) -> npt.NDArray[np.int32]:
        """The map from a block's codes to the data set's; indices -2 and -1 lead to -1, missing."""
        return np.array([*(places.get(level, -1) for level in levels), -1, -1], np.int32)
