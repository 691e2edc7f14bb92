"""The shards of a run: where their rows lie, and the requests that workers answer to make and to multiply them.

Which shards there are, and where they are kept, is decided in `shards`; steps of training do not belong here.
"""

from __future__ import annotations

import functools
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.encoding import Chunk
from shoal.data.splits import GOLDEN, mixed
from shoal.errors import StateError
from shoal.models import Array, LinearModel, Values, chunk_rows
from shoal.passes.blocks import BlockRequest
from shoal.solve.least_squares import Standardisation
from shoal.utils import disk_errors, read_at, write_at
from shoal.worker import Worker

Rows = slice  # a method of that name hides the type
PIECE_BYTES = 1 << 20  # rows that are gathered and written at a time
MAPPED = 256  # shards that a process keeps mapped: each holds a descriptor
ORDERS = 2048  # permutations of slices that a process remembers


# ------------------------------------------------------------------ the shards


@dataclass(frozen=True)
class Shards:
    """The standardised training rows in shard files: X (rows[s], width), then y (rows[s],), shuffled within each.

    largest_row = max ||x_i||^2 over the training rows. `held` has rows kept for testing, in the same units.
    """

    directory: str
    rows: tuple[int, ...]
    width: int
    dtype: str
    held_rows: int
    largest_row: float

    @property
    def total(self) -> int:
        return sum(self.rows)

    def open(self, shard: int) -> tuple[Values, Values]:
        """X (n, p) and y (n,), read-only and mapped; cheap to ask for again."""
        return _mapped(shard_path(self.directory, shard), self.rows[shard], self.width, self.dtype)

    def held(self) -> tuple[Values, Values] | None:
        if not self.held_rows:
            return None
        return _mapped(held_path(self.directory), self.held_rows, self.width, self.dtype)

    def steps(self, batch_size: int) -> int:
        """Steps of an epoch: those of the longest shard."""
        return -(-max(self.rows) // batch_size)

    def slice(self, seed: int, epoch: int, shard: int, step: int, batch_size: int) -> Rows | None:
        """The rows of that batch, or None where this shard has no such step; every epoch has each row once."""
        rows = self.rows[shard]
        count = -(-rows // batch_size)
        if step >= count:
            return None
        first = int(_order(seed, epoch, shard, count)[step]) * batch_size
        return Rows(first, min(first + batch_size, rows))

    def is_whole(self) -> bool:
        """Whether every file has the size that its rows need."""
        paths = [shard_path(self.directory, shard) for shard in range(len(self.rows))]
        sizes = dict(zip(paths, self.rows, strict=True)) | {held_path(self.directory): self.held_rows}
        row = (self.width + 1) * np.dtype(self.dtype).itemsize
        try:
            return all(os.stat(path).st_size == rows * row for path, rows in sizes.items())
        except OSError:
            return False


def shard_path(directory: str, shard: int) -> str:
    return os.path.join(directory, f"shard-{shard:06d}.bin")


def held_path(directory: str) -> str:
    return os.path.join(directory, "held.bin")


def _mapped(path: str, rows: int, width: int, dtype: str) -> tuple[Values, Values]:
    """A look at the file each time: one that was made anew is mapped anew, one cut short is no SIGBUS later."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise StateError(_damaged(path, str(error.strerror))) from None
    expected = rows * (width + 1) * np.dtype(dtype).itemsize
    if found.st_size != expected:
        raise StateError(_damaged(path, f"expected {expected} bytes, found {found.st_size}"))
    return _map(path, rows, width, dtype, (found.st_ino, found.st_mtime_ns))


def _damaged(path: str, why: str) -> str:
    return f"The cached training rows in '{path}' cannot be used: {why}. Resume the run; they are made anew."


@functools.lru_cache(MAPPED)
def _map(path: str, rows: int, width: int, dtype: str, identity: tuple[int, int]) -> tuple[Values, Values]:
    if not rows:
        return np.empty((0, width), dtype), np.empty(0, dtype)
    with open(path, "rb") as file:
        values = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype)
    return values[: rows * width].reshape(rows, width), values[rows * width :]


@functools.lru_cache(ORDERS)
def _order(seed: int, epoch: int, shard: int, count: int) -> npt.NDArray[np.uint32]:
    return np.random.default_rng((seed, epoch, shard)).permutation(count).astype(np.uint32)


# ------------------------------------------------------------------ the kernels of training


def product_of(X: Values, V: Array) -> Array:
    """X'XV (p, k) for a few vectors V (p, k); rounded as `LinearModel.gradient` is."""
    V = np.ascontiguousarray(V, X.dtype)
    step = chunk_rows(X)
    product = np.zeros(V.shape)
    for start in range(0, len(X), step):
        chunk = X[start : start + step]
        product += chunk.T @ (chunk @ V)
    return product


@dataclass(frozen=True)
class ShardProduct:
    """X'XV over the rows of one shard."""

    shards: Shards
    shard: int
    V: Array

    def answer(self, worker: Worker) -> Array:
        return product_of(self.shards.open(self.shard)[0], self.V)


@dataclass(frozen=True)
class ShardGradient:
    """The gradient of one shard's squared residuals at w, summed over its rows."""

    shards: Shards
    shard: int
    w: Array

    def answer(self, worker: Worker) -> Array:
        return LinearModel.gradient(*self.shards.open(self.shard), self.w)[0]


# ------------------------------------------------------------------ making shards


@dataclass(frozen=True)
class Dealt:
    """How many rows of a block went to each shard and, last, to the held rows; the largest of training rows."""

    counts: npt.NDArray[np.int64]
    largest_row: float
    largest_target: float


@dataclass(frozen=True)
class Deal(BlockRequest):
    """Write the standardised rows of a block, grouped by shard, the rows kept for testing last (every `thin`-th)."""

    units: Standardisation
    dtype: str
    shards: int
    seed: int
    thin: int
    target: str

    def answer(self, worker: Worker) -> Dealt:
        X, y = self._room(worker)
        piles = np.zeros(self.block.rows, np.uint16 if self.shards < 1 << 16 else np.uint32)
        filled, largest_row, largest_target = 0, 0.0, 0.0
        for chunk in self.encoding.chunks(self.dataset, self.block):
            place = Rows(filled, filled + len(chunk.y))
            test = self.split.is_test(chunk.row)
            norms = self._standardise(worker, chunk, X[place], y[place])
            piles[place] = np.where(test, self.shards, shard_of(chunk.row, self.seed, self.shards))
            train = ~test
            largest_row = max(largest_row, float(norms[train].max(initial=0.0)))
            largest_target = max(largest_target, float(np.abs(y[place][train]).max(initial=0.0)))
            filled = place.stop
        order, counts = self._grouped(piles[:filled])
        write_rows(self.target, X, y, order)
        return Dealt(counts, largest_row, largest_target)

    def _room(self, worker: Worker) -> tuple[Values, Values]:
        rows, width, itemsize = self.block.rows, len(self.encoding.terms), np.dtype(self.dtype).itemsize
        values = worker.scratch("dealt rows", rows * (width + 1) * itemsize).view(self.dtype)
        return values[: rows * width].reshape(rows, width), values[rows * width :]

    def _standardise(self, worker: Worker, chunk: Chunk, X: Values, y: Values) -> Array:
        """Fill X and y from a chunk; returns the squared norms of its rows."""
        units, (rows, width) = self.units, chunk.X.shape
        constant = units.constant if units.intercept else np.zeros(width, bool)
        Z = worker.scratch("standardised rows", 8 * rows * width).view(np.float64).reshape(rows, width)
        np.subtract(chunk.X, units.centre, out=Z)
        Z /= units.scale
        if constant.any():
            Z[:, constant] = 0.0  # rounding noise is no signal
        with np.errstate(over="ignore"):  # it is seen in the largest values
            X[...] = Z
            y[...] = chunk.y - units.y_mean
        norms: Array = np.einsum("ij,ij->i", Z, Z)
        return norms

    def _grouped(self, piles: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
        order = np.argsort(piles, kind="stable")
        counts = np.bincount(piles, minlength=self.shards + 1).astype(np.int64)
        train = len(piles) - int(counts[-1])
        held = order[train:][:: self.thin]
        counts[-1] = len(held)
        return np.concatenate((order[:train], held)), counts


def shard_of(index: npt.NDArray[np.int64], seed: int, shards: int) -> npt.NDArray[np.uint64]:
    """The shard of each row index, by another stream of random bits than the one that chooses rows for testing."""
    with np.errstate(over="ignore"):
        stream = np.uint64(seed % 2**32 + 1) * np.uint64(0xD1B54A32D192ED03)
        bits = mixed(index.astype(np.uint64) * GOLDEN + stream)
    return (bits >> np.uint64(32)) * np.uint64(shards) >> np.uint64(32)


@dataclass(frozen=True)
class Gather:
    """Write one shard from its parts of the dealt blocks, shuffled by `seed`; or `most` rows of them, evenly spaced.

    A part is (block, rows of the block's file, first row, number of rows); parts (k, 4) are in block order.
    """

    parts: npt.NDArray[np.int64]
    folder: str
    width: int
    dtype: str
    target: str
    seed: tuple[int, int] | None
    most: int = 0

    def answer(self, worker: Worker) -> int:
        rows = int(self.parts[:, 3].sum())
        X, y = np.empty((rows, self.width), self.dtype), np.empty(rows, self.dtype)
        filled = 0
        for block, total, first, count in self.parts.tolist():
            place = Rows(filled, filled + count)
            self._read(dealt_path(self.folder, block), total, first, X[place], y[place])
            filled = place.stop
        order = self._order(rows)
        write_rows(self.target, X, y, order)
        return len(order)

    def _read(self, path: str, total: int, first: int, X: Values, y: Values) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            read_at(descriptor, _bytes(X), X.itemsize * first * self.width)
            read_at(descriptor, _bytes(y), y.itemsize * (total * self.width + first))
        finally:
            os.close(descriptor)

    def _order(self, rows: int) -> npt.NDArray[np.int64]:
        if self.seed is not None:
            return np.random.default_rng(self.seed).permutation(rows)
        kept = min(rows, self.most)
        return np.arange(kept) * rows // max(kept, 1)


def dealt_path(folder: str, block: int) -> str:
    return os.path.join(folder, f"dealt-{block:06d}.bin")


def write_rows(target: str, X: Values, y: Values, order: npt.NDArray[Any]) -> None:
    """X[order], then y[order], into a file that gets its name when it is whole: a request may be cut off anywhere."""
    unfinished = f"{target}.part"  # always the same: whoever redoes the request writes over it
    with disk_errors():
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            offset = 0
            for piece in _pieces(X, y, order):
                write_at(descriptor, _bytes(piece), offset)
                offset += piece.nbytes
        finally:
            os.close(descriptor)
        os.replace(unfinished, target)


def _pieces(X: Values, y: Values, order: npt.NDArray[Any]) -> Iterator[Values]:
    step = max(1, PIECE_BYTES // (X.itemsize * X.shape[1]))
    piece = np.empty((min(step, len(order)), X.shape[1]), X.dtype)
    for start in range(0, len(order), step):
        rows = order[start : start + step]
        # With "raise", take would gather into a buffer of its own first.
        yield np.take(X, rows, axis=0, out=piece[: len(rows)], mode="clip")
    yield y[order]


def _bytes(array: Values) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


# ------------------------------------------------------------------ units of wide tables


@dataclass(frozen=True, eq=False)
class Spreads:
    """n rows in p + 1 columns (terms..., target): mean (p + 1,), and scatter = sum (x - mean)^2 of each column."""

    n: float
    mean: Array
    scatter: Array

    def units(self, intercept: bool, standardize: bool) -> Standardisation:
        """As from moments, which wide tables have no room for."""
        return Standardisation.of_spread(self.n, self.mean, self.scatter, intercept, standardize)


class SpreadPool:
    """Spreads of many parts, one at a time (Chan et al.); their order fixes every bit."""

    def __init__(self, width: int) -> None:
        self._n = 0.0
        # Means are kept relative to the first one: columns far from zero lose no digits as parts come in.
        self._origin: Array = np.zeros(width)
        self._shift: Array = np.zeros(width)
        self._scatter: Array = np.zeros(width)

    def add(self, part: Spreads) -> None:
        if not part.n:
            return
        if not self._n:
            self._origin = part.mean
        n = self._n + part.n
        away = (part.mean - self._origin) - self._shift
        self._shift = self._shift + away * (part.n / n)
        self._scatter = self._scatter + part.scatter + away**2 * (self._n * part.n / n)
        self._n = n

    def total(self) -> Spreads:
        return Spreads(self._n, self._origin + self._shift, self._scatter)


@dataclass(frozen=True)
class SumSpreads(BlockRequest):
    """Spreads of (terms..., target) over the training rows of a block."""

    def answer(self, worker: Worker) -> Spreads:
        pool = SpreadPool(len(self.encoding.terms) + 1)
        for chunk in self.encoding.chunks(self.dataset, self.block):
            train = ~self.split.is_test(chunk.row)
            if train.any():
                X = chunk.X if train.all() else chunk.X[train]
                parts = [_spread(X), _spread(chunk.y[train][:, None])]
                mean, scatter = (np.concatenate(values) for values in zip(*parts, strict=True))
                pool.add(Spreads(float(len(X)), mean, scatter))
        return pool.total()


def _spread(X: Array) -> tuple[Array, Array]:
    """Mean and scatter of the columns of X, which has rows."""
    centre = X.mean(axis=0)
    Z = X - centre
    shift = Z.mean(axis=0)  # what rounding left in the centre
    scatter = np.einsum("ij,ij->j", Z, Z) - len(X) * shift**2
    return centre + shift, np.maximum(scatter, 0.0)
