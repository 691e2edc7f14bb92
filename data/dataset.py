"""Data sets on disk, immutable blocks with a manifest; how they are kept and found again is in `cache`."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from shoal.data.texts.levels import LevelTable
from shoal.data.texts.many import ManyTexts, Packed, packed
from shoal.errors import DamagedFile, StateError
from shoal.files import sealed
from shoal.files.checksums import FileBytes, RunningProof, Seal, contents, damaged, mapped, mapped_to_prove, written
from shoal.files.locks import hold
from shoal.home import DATA_FORMAT, MANIFEST
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.settings.limits import MOST_LEVELS
from shoal.solve.moments import Moments
from shoal.utils import identity_of

LEVELS, MOMENTS, TEXTS = "levels.npz", "moments.npz", "texts.npz"
WITHOUT_NA = "without_na"  # the flag of codes of which NA, read as no value, may be one


@dataclass(frozen=True)
class Column:
    """What all rows say about one column. `slot` is its place among the number or the level columns of a block."""

    name: str
    type: str  # numeric, datetime, categorical or text
    slot: int
    missing: int
    minimum: float | None = None
    maximum: float | None = None
    levels: Sequence[str] = ()
    distinct: int | None = None
    more_levels: bool = False  # there are more levels than are remembered
    apart: int = 0  # levels that are in a file of their own, since the manifest would be long by them
    flags: tuple[str, ...] = ()
    written: str = ""  # how numbers with marks and dates are written, by an example: € 1.234,56, 31/12/2021
    orders: tuple[str, ...] = ()  # in which its dates could be read as well
    middle: float | None = None  # the median of some rows from all over the file
    words: tuple[tuple[str, int], ...] = ()  # texts among the numbers, and in how many rows, which could not be read

    @property
    def is_date(self) -> bool:
        """Its values are days since 1970."""
        return self.type == "datetime"

    @property
    def is_number(self) -> bool:
        return self.type in ("numeric", "datetime")


class Stretch(NamedTuple):
    """What rows of a block are made of: those that start in [begin, end) of a source, of a Parquet file the row group
    `begin`; `first` is where the first one starts. `source` is a name that `data.recipes` knows."""

    source: str
    begin: int
    end: int
    first: int

    @property
    def name(self) -> str:
        """The same for all who make this block."""
        return f"{self.source}-{self.begin}"


@dataclass(frozen=True)
class Block:
    """A run of rows: `first` is the file's row index of the first one, `bad` are local indices of unread rows."""

    index: int
    first: int
    rows: int
    bad: tuple[int, ...] = ()
    checksum: int = 0  # of its file
    origins: tuple[Stretch, ...] = ()  # several where it was put together; none where it cannot be made again

    @property
    def place(self) -> str:
        """By what those who have it at hand are remembered."""
        return self.origins[0].name if self.origins else ""


class BadLine(NamedTuple):
    """A row that could not be read: its line in the file, of the part of that name where a table has several."""

    line: int
    problem: str
    part: str = ""

    @property
    def told(self) -> str:
        return f"{f'{self.part}, ' if self.part else ''}line {self.line}: {self.problem}"

    def as_dict(self) -> dict[str, Any]:
        return {"line": self.line, "problem": self.problem, **({"file": self.part} if self.part else {})}


class TablePart(NamedTuple):
    """One of several files that a data set was made of, in their order."""

    file: str
    size: int
    rows: int
    content: str


@dataclass(frozen=True)
class Manifest:
    """All that is known of a data set but its rows."""

    source: str
    size: int
    dialect: dict[str, Any]
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    bad_rows: tuple[BadLine, ...]  # the first ones
    bad_count: int
    largest_norm: float
    content: str
    levels: Seal  # of the file of level maps
    moments: Seal | None  # of the file of sums, if there are some
    notes: tuple[str, ...] = ()
    repeated: int = 0  # of the bad rows: the names of the columns once more
    parts: tuple[TablePart, ...] = ()  # of a table of several files
    left_out: dict[str, str] = field(default_factory=dict)  # columns that not all of these have, and which do not
    texts: Seal | None = None  # of the file of levels that are apart
    scattered: bool = False  # not all blocks are here: machines that have no disk in common keep those that they made
    format: int = DATA_FORMAT

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    def write(self, directory: Path, key: str) -> None:
        """Sealed with the key of the data set: the manifest of another one is damage."""
        columns = [vars(c) | {"levels": ()} if c.apart else vars(c) for c in self.columns]
        plain = {**vars(self), "columns": columns, "blocks": [vars(b) for b in self.blocks]}
        sealed.write(directory / MANIFEST, plain, of=key)  # `asdict` copies every value: long, for very many columns

    @classmethod
    def of(cls, directory: Path) -> Manifest:
        """That of the folder: the same object for all in this process who have it open, which of very many columns
        takes long to read."""
        key = str(directory), identity_of(directory / MANIFEST)
        if (known := _known.get(key)) is None:
            known = cls.read(directory)
            if identity_of(directory / MANIFEST) == key[1]:
                _known[key] = known
        return known

    @classmethod
    def read(cls, directory: Path) -> Manifest:
        raw = sealed.read(directory / MANIFEST, of=directory.name)
        raw["texts"] = Seal(*raw["texts"]) if raw.get("texts") else None
        raw["columns"] = tuple(Column(**_tuples(c, directory, raw["texts"])) for c in raw["columns"])
        raw["blocks"] = tuple(Block(**{**b, **_block_tuples(b)}) for b in raw["blocks"])
        raw["bad_rows"] = tuple(BadLine(*bad) for bad in raw["bad_rows"])
        raw["parts"] = tuple(TablePart(*part) for part in raw.get("parts", ()))
        raw["levels"], raw["moments"] = Seal(*raw["levels"]), Seal(*raw["moments"]) if raw["moments"] else None
        raw["notes"] = tuple(raw["notes"])
        return cls(**raw)


_known: WeakValueDictionary[tuple[str, tuple[int, ...]], Manifest] = WeakValueDictionary()


def _tuples(column: dict[str, Any], directory: Path, texts: Seal | None) -> dict[str, Any]:
    """The same with tuples where documents have lists; there may be very many columns, so it is not copied."""
    column["words"] = tuple((word, count) for word, count in column["words"])
    for name in ("levels", "flags", "orders"):
        column[name] = tuple(column[name])
    if texts and column.get("apart"):
        load = functools.partial(_packed, str(directory / TEXTS), texts, column["slot"])
        column["levels"] = ManyTexts(column["apart"], load)
    return column


def _packed(path: str, proof: Seal, slot: int) -> Packed:
    with np.load(io.BytesIO(contents(path, *proof))) as kept:
        return kept[f"{slot}.bytes"], kept[f"{slot}.ends"]


def _block_tuples(block: Mapping[str, Any]) -> dict[str, Any]:
    return {"bad": tuple(block["bad"]), "origins": tuple(Stretch(*origin) for origin in block.get("origins", ()))}


class Dataset:
    """A whole data set, opened for reading; blocks are mapped when they are asked for. While it lives, it is in use."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.repairs: tuple[str, ...] = ()  # what was damaged of it and is made again
        self.make: Callable[[Block], None] | None = None  # puts the file of a block that is not here into the folder
        try:
            self.manifest = Manifest.of(directory)
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
    def rows_of_table(self) -> int:
        """Without headers that come again, which have a place in the blocks but are nothing that was measured."""
        return self.manifest.rows - self.manifest.repeated

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
                if self.manifest.scattered and isinstance(error, FileNotFoundError):
                    continue  # it is on another machine, and made again where it is asked for
                raise damaged(str(path), "a file", str(error.strerror)) from None
            if found != size:
                raise damaged(str(path), f"{size} bytes", str(found))

    def _sizes(self) -> Iterator[tuple[Path, int]]:
        yield from ((block_path(self.directory, block.index), self.size_of(block)) for block in self.blocks)
        yield self.directory / LEVELS, self.manifest.levels.size
        if self.manifest.moments:
            yield self.directory / MOMENTS, self.manifest.moments.size
        if self.manifest.texts:
            yield self.directory / TEXTS, self.manifest.texts.size

    def size_of(self, block: Block) -> int:
        return block.rows * (8 * len(self.number_columns) + 4 * len(self.level_columns))

    def _mapped(self, block: Block) -> FileBytes:
        path = block_path(self.directory, block.index)
        if self.make is None:
            return mapped(str(path), self.size_of(block), block.checksum)
        if path.exists():
            try:
                return mapped(str(path), self.size_of(block), block.checksum)
            except DamagedFile:
                path.unlink(missing_ok=True)
        self.make(block)
        return mapped(str(path), self.size_of(block), block.checksum)

    def numbers(self, block: Block) -> Array:
        """(rows, number columns), mapped from the file, NaN where missing."""
        shape = (block.rows, len(self.number_columns))
        if not shape[0] * shape[1]:
            return np.zeros(shape)
        return self._mapped(block)[: 8 * shape[0] * shape[1]].view(np.float64).reshape(shape)

    def numbers_to_prove(self, block: Block) -> tuple[Array, RunningProof | None]:
        """The same before the file is proven, and the proof that is still to be made, row by row."""
        shape = (block.rows, len(self.number_columns))
        if self.make is not None or not shape[0] * shape[1]:
            return self.numbers(block), None  # one that is damaged is made again before it is used
        data, proof = mapped_to_prove(str(block_path(self.directory, block.index)), self.size_of(block), block.checksum)
        return data[: 8 * shape[0] * shape[1]].view(np.float64).reshape(shape), proof

    def codes(self, block: Block, slot: int) -> npt.NDArray[np.int32]:
        """(rows,): the index of each row's level in the column's sorted levels, -1 where missing or not remembered."""
        return np.asarray(self.level_map(block, slot)[self.own_codes(block, slot)])

    def own_codes(self, block: Block, slot: int) -> npt.NDArray[np.int32]:
        """(rows,): the same by the order in which levels came in the block, -2 where not remembered."""
        if not block.rows:
            return np.zeros(0, np.int32)
        offset = 8 * block.rows * len(self.number_columns) + 4 * slot * block.rows
        return self._mapped(block)[offset : offset + 4 * block.rows].view(np.int32)

    def level_map(self, block: Block, slot: int) -> npt.NDArray[np.int32]:
        """From the codes in a block's file to those of the data set; the last entries serve -2, -1."""
        return self._level_maps[f"{block.index}.{slot}"]

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


# ------------------------------------------------------------------ what completes one


def archived(path: Path, **arrays: npt.NDArray[Any]) -> Seal:
    """An archive of arrays, put together in memory."""
    made = io.BytesIO()
    np.savez(made, **arrays)  # type: ignore[arg-type]
    with path.open("wb", buffering=0) as file:
        return written(file, [np.frombuffer(made.getbuffer(), np.uint8)])


def archived_texts(directory: Path, columns: Iterable[Column]) -> Seal | None:
    """The levels that are apart."""
    found: dict[str, npt.NDArray[Any]] = {}
    for column in columns:
        if column.apart:
            found[f"{column.slot}.bytes"], found[f"{column.slot}.ends"] = packed(column.levels)
    return archived(directory / TEXTS, **found) if found else None


def archived_moments(directory: Path, cells: Sequence[Moments]) -> Seal | None:
    if not cells:
        return None
    mean, scatter = np.stack([c.mean for c in cells]), np.stack([c.scatter for c in cells])
    return archived(directory / MOMENTS, n=np.array([c.n for c in cells]), mean=mean, scatter=scatter)


def medians(samples: Sequence[Array], columns: int) -> list[float | None]:
    """Of the sampled rows of all blocks (rows x columns each), the median of each column's values; None without any."""
    rows = np.sort(np.concatenate([np.zeros((0, columns)), *samples]), axis=0)  # missing values come last
    counts = (~np.isnan(rows)).sum(axis=0)
    some = np.flatnonzero(counts)
    lower, upper = rows[(counts[some] - 1) // 2, some], rows[counts[some] // 2, some]
    middles = dict(zip(some.tolist(), (lower / 2 + upper / 2).tolist(), strict=True))  # a sum might overflow
    return [middles.get(column) for column in range(columns)]


def shared_flags(missing: int, rows: int, constant: bool) -> list[str]:
    flags = ["constant"] if constant and rows else []
    if rows and missing > rows / 2:
        flags.append("mostly_missing")
    return flags


def text_column(name: str, slot: int, table: LevelTable, rows: int, without_na: bool = False) -> Column:
    """A column of texts; `rows` are those that could be read, as are the missing values that `table` counts."""
    levels, missing = table.sorted(), table.missing
    many = table.refused or len(levels) > 100
    flags = shared_flags(missing, rows, len(levels) == 1 and not missing)
    if many:
        flags.append("high_cardinality")
    if rows - missing > 20 and (table.refused or len(levels) > 0.95 * (rows - missing)):
        flags.append("id_like")
    if without_na and missing:
        flags.append(WITHOUT_NA)
    return Column(
        name, "text" if many else "categorical", slot, missing,
        levels=levels, distinct=len(levels), more_levels=table.refused, flags=tuple(flags),
        apart=len(levels) if len(levels) > MOST_LEVELS else 0,
    )  # fmt: skip
