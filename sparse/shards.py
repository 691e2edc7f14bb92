"""The training rows of a sparse table as a gradient run takes them: scaled, dealt out to shards, shuffled; made once by
all workers and found again. Zeros stay zeros: the centre of the columns is kept beside the rows.

Which rows there are is in `table`; what is computed of them in `steps`.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.cache import Cache, digest
from shoal.data.splits import Split, shard_of
from shoal.data_pipeline import Shards, held_path, shard_path
from shoal.errors import DamagedFile, DataError, StateError
from shoal.files import sealed
from shoal.files.checksums import Seal, file_of_size, mapped, write_whole
from shoal.files.locks import hold
from shoal.home import MANIFEST, SHARDS
from shoal.kernels.rows_kernel import CentredRows
from shoal.lazy.classes import dataclass
from shoal.models import Array, Bools, Integers, StoredPlaces
from shoal.settings.limits import HELD_BYTES
from shoal.sparse.columns import SparseColumns
from shoal.sparse.table import CompressedRows, SparseTable
from shoal.utils import disk_errors
from shoal.worker import Worker

FORMAT = 1  # of these files; another number means another cache key
STORED = 12  # bytes of a value and its place
CENTRE = "centre.bin"


@dataclass(frozen=True)
class SparseShards(Shards):
    """As `Shards`; a file has y and how many values are before each row, then the values and their places."""

    values: tuple[int, ...] = ()  # of each shard
    held_values: int = 0
    centre_checksum: int = 0

    def open(self, shard: int) -> tuple[Any, Any]:
        return self._rows(self.path(shard), self.rows[shard], self.values[shard], self.checksums[shard])

    def held(self) -> tuple[Any, Any] | None:
        if not self.held_rows:
            return None
        return self._rows(held_path(self.directory), self.held_rows, self.held_values, self.held_checksum)

    def centre(self) -> Array:
        path = os.path.join(self.directory, CENTRE)
        return _centre(path, self.width, self.centre_checksum, file_of_size(path, 8 * self.width))

    def _rows(self, path: str, rows: int, values: int, checksum: int) -> tuple[Any, Any]:
        """A look at the file each time, as dense rows have it."""
        size = _size(rows, values)
        y, starts, stored, places = _map(path, rows, values, size, checksum, file_of_size(path, size))
        return CentredRows(starts, places, stored, self.centre()), y

    def check_sizes(self) -> None:
        of_shards = zip(range(len(self.rows)), self.rows, self.values, strict=True)
        sizes = {shard_path(self.directory, shard): _size(rows, values) for shard, rows, values in of_shards}
        sizes[held_path(self.directory)] = _size(self.held_rows, self.held_values)
        sizes[os.path.join(self.directory, CENTRE)] = 8 * self.width
        for path, size in sizes.items():
            file_of_size(path, size)


def _size(rows: int, values: int) -> int:
    return 16 * rows + 8 + STORED * values


@functools.lru_cache(256)
def _map(
    path: str, rows: int, values: int, size: int, checksum: int, identity: tuple[int, int]
) -> tuple[Array, Integers, Array, StoredPlaces]:
    data = mapped(path, size, checksum)
    first, second = 16 * rows + 8, 16 * rows + 8 + 8 * values
    return (
        data[: 8 * rows].view(np.float64), data[8 * rows : first].view(np.int64),
        data[first:second].view(np.float64), data[second:].view(np.int32),
    )  # fmt: skip


@functools.lru_cache(8)
def _centre(path: str, width: int, checksum: int, identity: tuple[int, int]) -> Array:
    return mapped(path, 8 * width, checksum).view(np.float64)


# ------------------------------------------------------------------ making them


def derive_sparse(
    coordinator: Coordinator, table: SparseTable, columns: SparseColumns, split: Split, *,
    shards: int, seed: int, partition: str,
) -> SparseShards:  # fmt: skip
    """The cached shards of these rows if they are whole, else made: each by one worker, from its rows of all blocks."""
    key = _key(table, columns, split, [shards, seed, partition, FORMAT])
    cache = coordinator.cache
    if (found := _found(cache, cache.directory / key)) is not None:
        return found
    with cache.workshop() as workshop, disk_errors():
        folder = workshop / "shards"
        folder.mkdir()
        made = _made(coordinator, folder, table, columns, split, shards, seed, partition)
        sealed.write(folder / MANIFEST, {**asdict(made), "directory": ""}, of=key)
        placed = _found(cache, cache.place(folder, key))
    if placed is None:
        raise StateError("The shards of the training rows were removed while they were made. Try again.")
    return placed


def _key(table: SparseTable, columns: SparseColumns, split: Split, rest: list[Any]) -> str:
    arrays = hashlib.blake2b(digest_size=12)
    for array in (columns.there, columns.shift, columns.inverse, columns.centre):
        arrays.update(np.ascontiguousarray(array).tobytes())
    units = [arrays.hexdigest(), float(columns.units.y_mean).hex()]
    return f"{SHARDS}{digest(['sparse', table.content, asdict(split), *units, *rest])}"


def _found(cache: Cache, directory: Path) -> SparseShards | None:
    """The shards in a folder, in use while the answer lives; damaged ones are removed, to be made anew."""
    try:
        raw = sealed.read(directory / MANIFEST, of=directory.name)
        several = {name: tuple(raw[name]) for name in ("rows", "checksums", "beside", "values")}
        shards = SparseShards(**{**raw, **several, "directory": str(directory)})
        shards.check_sizes()
    except OSError:
        return None
    except DamagedFile as error:
        cache.discard(error)
        return None
    return shards if hold(directory / MANIFEST, shards) else None


def _made(
    coordinator: Coordinator, folder: Path, table: SparseTable, columns: SparseColumns, split: Split, count: int,
    seed: int, partition: str,
) -> SparseShards:  # fmt: skip
    place = str(folder)
    centre = write_whole(os.path.join(place, CENTRE), [columns.centre])
    seal = write_whole(os.path.join(place, "columns.tmp"), _as_arrays(columns))
    known = (table, os.path.join(place, "columns.tmp"), seal, len(columns.there), columns.units.y_mean, split)
    edges = _edges(table, split, count) if partition == "contiguous" else ()
    held = max(1, int(split.share * STORED * table.values) // HELD_BYTES)
    requests = [MakeShard(*known, shard, count, seed, edges, held, _target(place, shard)) for shard in range(-1, count)]
    test, *made = coordinator.swept("shuffling", requests)
    os.unlink(os.path.join(place, "columns.tmp"))
    if not any(part.rows for part in made):
        raise DataError("Expected training rows, got none. Choose another file, or keep fewer rows for testing.")
    return SparseShards(
        place, tuple(part.rows for part in made), len(columns.there), "float64", test.rows,
        max(part.largest_row for part in made), tuple(part.checksum for part in made), test.checksum,
        values=tuple(part.values for part in made), held_values=test.values, centre_checksum=centre.checksum,
    )  # fmt: skip


def _target(folder: str, shard: int) -> str:
    return held_path(folder) if shard < 0 else shard_path(folder, shard)


def _as_arrays(columns: SparseColumns) -> list[Array]:
    """What is known of every column, as workers need it: its place, what is taken off its values and what they are
    multiplied with, the centre."""
    return [columns.places.astype(np.float64), columns.shift, columns.inverse, columns.centre]


def _edges(table: SparseTable, split: Split, count: int) -> tuple[int, ...]:
    """The first training row of each shard in file order, by how many training rows are before it."""
    total = sum(int((~split.is_test(np.arange(first, first + block.rows))).sum()) for first, block in table.firsts())
    return tuple(edge * total // count for edge in range(count + 1))


@dataclass(frozen=True)
class MadeShard:
    """What one has come to."""

    rows: int
    values: int
    checksum: int
    largest_row: float


@dataclass(frozen=True)
class MakeShard:
    """Write the rows of one shard, shuffled; of shard -1 the rows kept for testing, every `held`-th of them."""

    table: SparseTable
    columns: str  # the file that has what is known of them
    seal: Seal
    width: int
    y_mean: float
    split: Split
    shard: int
    count: int
    seed: int
    edges: tuple[int, ...]
    held: int
    target: str

    def answer(self, worker: Worker) -> MadeShard:
        places, shift, inverse, centre = self._known()
        y: list[Array] = [np.zeros(0)]
        stored: list[Array] = [np.zeros(0)]
        counts, indices = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        for part, mine in self._parts():
            own, values = _of_rows(part, mine)
            at = places[own]
            known = at >= 0  # a test row may have columns that no training row has
            scaled = np.where(known, (values - shift[at]) * inverse[at], 0.0)
            kept = scaled != 0
            y.append(part.labels[mine] - self.y_mean)
            counts.append(_counted(part.counts[mine], kept))
            stored.append(scaled[kept])
            indices.append(at[kept])
        rows = CentredRows(_starts(np.concatenate(counts)), np.concatenate(indices), np.concatenate(stored), centre)
        order = self._order(len(rows))
        shuffled = taken(rows, order)
        arrays = (np.concatenate(y)[order], shuffled.starts, shuffled.values, shuffled.indices)
        with disk_errors():
            seal = write_whole(self.target, arrays)
        return MadeShard(len(rows), len(shuffled.values), seal.checksum, _largest(rows) if self.shard >= 0 else 0.0)

    def _known(self) -> tuple[StoredPlaces, Array, Array, Array]:
        values = mapped(self.columns, *self.seal).view(np.float64)
        all_columns = self.table.columns
        places, rest = values[:all_columns].astype(np.int32), values[all_columns:].reshape(3, self.width)
        return places, *rest

    def _parts(self) -> Iterator[tuple[CompressedRows, Bools]]:
        """Blocks, and which of their rows belong here."""
        before = tested = 0
        for (first, block), part in zip(self.table.firsts(), self.table.parts(), strict=True):
            index = np.arange(first, first + block.rows)
            test = self.split.is_test(index)
            train = ~test
            if self.shard < 0:
                mine = test & ((np.cumsum(test) - 1 + tested) % self.held == 0)
            elif self.edges:
                number = np.cumsum(train) - 1 + before
                mine = train & (number >= self.edges[self.shard]) & (number < self.edges[self.shard + 1])
            else:
                mine = train & (shard_of(index, self.seed, self.count) == self.shard)
            before, tested = before + int(train.sum()), tested + int(test.sum())
            if mine.any():
                yield part, mine

    def _order(self, rows: int) -> Integers:
        if self.shard < 0:
            return np.arange(rows)
        return np.random.default_rng((self.seed, self.shard)).permutation(rows)


def _of_rows(part: CompressedRows, mine: Bools) -> tuple[StoredPlaces, Array]:
    """The indices and values of some rows of a block; what it takes follows from those, not from the block."""
    at = spans_of(part.ends[mine] - part.counts[mine], part.counts[mine])
    return part.indices[at], part.values[at]


def spans_of(first: Integers, counts: Integers) -> Integers:
    """first, first + 1, ... of each span in turn, as many as it counts."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(first - (ends - counts), counts))


def _counted(counts: Integers, kept: Bools) -> Integers:
    """How many of each row's values are kept."""
    ends = np.concatenate(([0], np.cumsum(kept)))[np.cumsum(counts)]
    return np.diff(ends, prepend=0)


def _starts(counts: Integers) -> Integers:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def taken(rows: CentredRows, order: Integers) -> CentredRows:
    """Rows in another order."""
    counts = np.diff(rows.starts)[order]
    at = spans_of(rows.starts[:-1][order], counts)
    return CentredRows(_starts(counts), rows.indices[at], rows.values[at], rows.centre)


def _largest(rows: CentredRows) -> float:
    """max ||x_i||^2 of X = A - 1 centre'."""
    if not len(rows):
        return 0.0
    squared = CentredRows(rows.starts, rows.indices, rows.values**2, rows.centre)
    crossed = rows.stored_times(rows.centre)
    norms = squared.stored_times(np.ones(len(rows.centre))) - 2 * crossed + float(rows.centre @ rows.centre)
    return max(float(norms.max()), 0.0)
