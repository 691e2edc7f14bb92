"""The requests by which workers make the shards of a run and multiply their rows.

What shards are is in `data_pipeline`, which there are in `training.shards`; steps of training do not belong here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.splits import GOLDEN, mixed
from shoal.data_pipeline import Chunk, Shards, design_rows
from shoal.files.checksums import checksum, damaged, prove
from shoal.models import Array, LinearModel, Values, chunk_rows
from shoal.passes.blocks import BlockRequest
from shoal.solve.least_squares import Standardisation
from shoal.utils import disk_errors, read_at, write_at
from shoal.worker import Worker

PIECE_BYTES = 1 << 20  # rows that are gathered and written at a time


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
    checksums: npt.NDArray[np.int64]  # (piles, 2): of the X and of the y of each


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
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            place = slice(filled, filled + len(chunk.y))
            test = self.split.is_test(chunk.row)
            norms = self._standardise(worker, chunk, X[place], y[place])
            piles[place] = np.where(test, self.shards, shard_of(chunk.row, self.seed, self.shards))
            train = ~test
            largest_row = max(largest_row, float(norms[train].max(initial=0.0)))
            largest_target = max(largest_target, float(np.abs(y[place][train]).max(initial=0.0)))
            filled = place.stop
        order, counts = self._grouped(piles[:filled])
        checksums = write_rows(self.target, X, y, order, counts)
        return Dealt(counts, largest_row, largest_target, checksums)

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


class Gathered(NamedTuple):
    """What one shard has come to."""

    rows: int
    checksum: int


@dataclass(frozen=True)
class Gather:
    """Write one shard from its parts of the dealt blocks, shuffled by `seed`; or `most` rows of them, evenly spaced.

    A part is of one pile of a block: (block, rows of the block's file, first row and rows of the pile, how many of them
    are before the part, rows of the part, checksums of the pile's X and y); parts (k, 8) are in block order.
    """

    parts: npt.NDArray[np.int64]
    folder: str
    width: int
    dtype: str
    target: str
    seed: tuple[int, int] | None
    most: int = 0

    def answer(self, worker: Worker) -> Gathered:
        rows = int(self.parts[:, 5].sum())
        X, y = np.empty((rows, self.width), self.dtype), np.empty(rows, self.dtype)
        filled = 0
        for block, total, first, pile, before, count, *checksums in self.parts.tolist():
            place = slice(filled, filled + count)
            path = dealt_path(self.folder, block)
            if count == pile:
                self._read(path, total, first, X[place], y[place], checksums)
            else:
                wide, long = np.empty((pile, self.width), self.dtype), np.empty(pile, self.dtype)
                self._read(path, total, first, wide, long, checksums)
                X[place], y[place] = wide[before : before + count], long[before : before + count]
            filled = place.stop
        order = self._order(rows)
        return Gathered(len(order), int(write_rows(self.target, X, y, order)[0, 1]))

    def _read(self, path: str, total: int, first: int, X: Values, y: Values, checksums: list[int]) -> None:
        """A pile, proven: nothing else tells that it is what was dealt."""
        try:
            with open(path, "rb", buffering=0) as file:
                read_at(file.fileno(), _bytes(X), X.itemsize * first * self.width)
                read_at(file.fileno(), _bytes(y), y.itemsize * (total * self.width + first))
        except (OSError, EOFError) as error:
            raise damaged(path, f"{total} rows", str(error)) from None
        for values, expected in zip((X, y), checksums, strict=True):
            prove(path, values.reshape(-1).view(np.uint8), expected)

    def _order(self, rows: int) -> npt.NDArray[np.int64]:
        if self.seed is not None:
            return np.random.default_rng(self.seed).permutation(rows)
        kept = min(rows, self.most)
        return np.arange(kept) * rows // max(kept, 1)


def dealt_path(folder: str, block: int) -> str:
    return os.path.join(folder, f"dealt-{block:06d}.bin")


def write_rows(
    target: str, X: Values, y: Values, order: npt.NDArray[Any], counts: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """X[order], then y[order], into a file that gets its name when it is whole: a request may be cut off anywhere.

    The rows are piles of so many; what comes back are the checksums of X and y of each (piles, 2). Without piles it is
    that of X, and that of the whole file.
    """
    unfinished = f"{target}.part"  # always the same: whoever redoes the request writes over it
    ends = np.cumsum([len(order)] if counts is None else counts)
    found = np.zeros((len(ends), 2), np.int64)
    with disk_errors():
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            offset = first = 0
            for piece in _pieces(X, order):
                _add(found[:, 0], ends, first, piece)
                write_at(descriptor, _bytes(piece), offset)
                offset, first = offset + piece.nbytes, first + len(piece)
            last = y[order]
            if counts is None:
                found[:, 1] = found[:, 0]
            _add(found[:, 1], ends, 0, last)
            write_at(descriptor, _bytes(last), offset)
        finally:
            os.close(descriptor)
        os.replace(unfinished, target)
    return found


def _add(checksums: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], first: int, rows: Values) -> None:
    """Go on with the checksums of piles, whose rows end there, by rows from `first` on."""
    place = 0
    for pile in range(int(np.searchsorted(ends, first, side="right")), len(ends)):
        stop = min(int(ends[pile]) - first, len(rows))
        checksums[pile] = checksum(rows[place:stop], int(checksums[pile]))
        place = stop
        if place == len(rows):
            return


def _pieces(X: Values, order: npt.NDArray[Any]) -> Iterator[Values]:
    step = max(1, PIECE_BYTES // (X.itemsize * X.shape[1]))
    piece = np.empty((min(step, len(order)), X.shape[1]), X.dtype)
    for start in range(0, len(order), step):
        rows = order[start : start + step]
        # With "raise", take would gather into a buffer of its own first.
        yield np.take(X, rows, axis=0, out=piece[: len(rows)], mode="clip")


def _bytes(array: Values) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
