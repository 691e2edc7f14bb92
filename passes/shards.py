"""The requests by which workers make the shards of a run and multiply their rows.

What shards are is in `data_pipeline`, which there are in `training.objectives.shards`; steps of training do not belong
here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.splits import shard_of
from shoal.data_pipeline import Chunk, Shards, design_rows
from shoal.errors import EngineError
from shoal.files.checksums import checksum, damaged, prove
from shoal.files.elsewhere import sees, staged_blocks, staged_pieces
from shoal.home import cache_directory, make_folder
from shoal.lazy.classes import dataclass
from shoal.losses.steps import RowsSeen, SeeingModel
from shoal.models import Array, LinearModel, StepModel, Values, chunk_rows
from shoal.passes.blocks import BlockRequest
from shoal.solve.least_squares import Standardisation
from shoal.utils import disk_errors, read_at, write_at
from shoal.worker import Request, Worker

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
        return product_of(opened_shard(worker, self.shards, self.shard)[0], self.V)


@dataclass(frozen=True)
class ShardGradient:
    """The gradient of one shard's squared residuals at w, summed over its rows."""

    shards: Shards
    shard: int
    w: Array

    def answer(self, worker: Worker) -> Array:
        return LinearModel.gradient(*opened_shard(worker, self.shards, self.shard), self.w)[0]


@dataclass(frozen=True)
class TimeRows:
    """Seconds that the gradient of one row takes, the best of three tries on some rows of a shard."""

    shards: Shards
    shard: int
    model: StepModel
    size: int  # parameters

    def answer(self, worker: Worker) -> float:
        X, y = opened_shard(worker, self.shards, self.shard)
        X, y = X[: 1 << 16], y[: 1 << 16]
        w, best = np.zeros(self.size), 1.0
        for _ in range(3):
            started = time.perf_counter()
            self.model.gradient(X, y, w)
            best = min(best, (time.perf_counter() - started) / max(1, len(y)))
        return best


@dataclass(frozen=True)
class ShardSeen:
    """What the rows of one shard say of another loss at w, before steps begin."""

    shards: Shards
    shard: int
    model: SeeingModel
    w: Array

    def answer(self, worker: Worker) -> RowsSeen:
        return self.model.seen(*opened_shard(worker, self.shards, self.shard), self.w)


# ------------------------------------------------------------------ making shards


@dataclass(frozen=True)
class Dealt:
    """How many rows of a block went to each shard and, last, to the held rows; the largest of training rows."""

    counts: npt.NDArray[np.int64]
    largest_row: float
    largest_target: float
    checksums: npt.NDArray[np.int64]  # (piles, 2): of the X and of the y of each
    node: str = ""  # where they lie, if machines have no disk in common


@dataclass(frozen=True)
class Deal(BlockRequest):
    """Write the standardised rows of a block, grouped by shard, the rows kept for testing last (every `thin`-th)."""

    units: Standardisation
    dtype: str
    shards: int
    seed: int
    thin: int
    target: str
    beside: tuple[str, ...] = ("target",)
    class_weight: tuple[float, ...] | None = None  # what rows of each value count for, beside their weights

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
        checksums = write_rows(own_path(self.target) if worker.apart else self.target, X, y, order, counts)
        return Dealt(counts, largest_row, largest_target, checksums, worker.node)

    def _room(self, worker: Worker) -> tuple[Values, Values]:
        rows, width, itemsize = self.block.rows, len(self.encoding.terms), np.dtype(self.dtype).itemsize
        values = worker.scratch("dealt rows", rows * (width + len(self.beside)) * itemsize).view(self.dtype)
        y = values[rows * width :]
        return values[: rows * width].reshape(rows, width), y.reshape(rows, -1) if len(self.beside) > 1 else y

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
            if y.ndim == 1:
                y[...] = chunk.y - units.y_mean
            else:
                y[...] = np.column_stack(self._known(chunk))
        norms: Array = np.einsum("ij,ij->i", Z, Z)
        return norms * y[:, 1] if "weight" in self.beside else norms

    def _known(self, chunk: Chunk) -> list[Array]:
        """The columns that `beside` names."""
        found = [chunk.y - self.units.y_mean]
        if "weight" in self.beside:
            weight = np.ones(len(chunk.y)) if chunk.weight is None else chunk.weight
            if self.class_weight is not None:
                weight = weight * np.array(self.class_weight)[chunk.y.astype(np.intp)]
            found.append(weight)
        if chunk.offset is not None and "offset" in self.beside:
            found.append(chunk.offset)
        return found

    def _grouped(self, piles: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
        order = np.argsort(piles, kind="stable")
        counts = np.bincount(piles, minlength=self.shards + 1).astype(np.int64)
        train = len(piles) - int(counts[-1])
        held = order[train:][:: self.thin]
        counts[-1] = len(held)
        return np.concatenate((order[:train], held)), counts


class Gathered(NamedTuple):
    """What one shard has come to; with its bytes where these were asked for."""

    rows: int
    checksum: int
    content: npt.NDArray[np.uint8] | None = None


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
    deal: Deal | None = None  # by which a machine without a disk in common deals blocks that it did not deal yet
    key: str = ""  # of the shards, where such a machine keeps them
    brought: bool = False  # whether such a machine sends what it made
    beside: int = 1  # columns of y
    nodes: tuple[str, ...] = ()  # of each block: where it was dealt
    owner: int = -1  # the rank of the worker that is to train on it, which had better make it; -1: anybody

    def answer(self, worker: Worker) -> Gathered:
        if not worker.apart or self.deal is None or sees(os.path.dirname(self.target)):
            return self._made(worker, self.folder, self.target, dealing=False)
        make_folder(cache_directory() / self.key)
        target = str(cache_directory() / self.key / os.path.basename(self.target))
        made = self._made(worker, os.path.dirname(own_path(dealt_path(self.folder, 0))), target, dealing=True)
        return made._replace(content=np.fromfile(target, np.uint8)) if self.brought else made

    def _made(self, worker: Worker, folder: str, target: str, *, dealing: bool) -> Gathered:
        rows = int(self.parts[:, 5].sum())
        X, y = self._room(rows)
        filled = 0
        brought = self._brought(worker, folder) if dealing else {}
        for block, total, first, pile, before, count, *checksums in self.parts.tolist():
            place = slice(filled, filled + count)
            path = dealt_path(folder, block)
            wide, long = (X[place], y[place]) if count == pile else self._room(pile)
            if not _taken(brought.get(block), wide, long, checksums):
                if dealing and not os.path.exists(path):
                    self._deal_again(worker, block, path)
                self._read(path, total, first, wide, long, checksums)
            if count < pile:
                X[place], y[place] = wide[before : before + count], long[before : before + count]
            filled = place.stop
        order = self._order(rows)
        return Gathered(len(order), int(write_rows(target, X, y, order)[0, 1]))

    def _brought(self, worker: Worker, folder: str) -> dict[int, npt.NDArray[np.uint8]]:
        """The piles that lie on other machines, X and then y; those of one that does not answer are dealt again."""
        item, found = np.dtype(self.dtype).itemsize, {}
        wanted: dict[str, list[tuple[int, int, int, int]]] = {}
        for block, total, first, pile, *_ in self.parts.tolist():
            if self.nodes[block] not in ("", worker.node) and not os.path.exists(dealt_path(folder, block)):
                wanted.setdefault(self.nodes[block], []).append((block, total, first, pile))
        for node, piles in wanted.items():
            assert worker.ask_node is not None  # where there are several machines
            pieces = []
            for block, total, first, pile in piles:
                x, y = item * self.width, item * self.beside
                name = os.path.basename(dealt_path(folder, block))
                pieces += [(name, x * first, x * pile), (name, x * total + y * first, y * pile)]
            content = worker.ask_node(node, staged_pieces, os.path.basename(folder), pieces)
            if content is not None:
                ends = np.cumsum([x[2] + y[2] for x, y in zip(pieces[::2], pieces[1::2], strict=True)])
                parts = np.split(content, ends[:-1])
                found.update({pile[0]: part for pile, part in zip(piles, parts, strict=True)})
        return found

    def _deal_again(self, worker: Worker, block: int, path: str) -> None:
        assert self.deal is not None
        dataset = self.deal.dataset
        replace(self.deal, block=dataset.blocks[block], target=path).answer(worker)

    def _room(self, rows: int) -> tuple[Values, Values]:
        shape = (rows,) if self.beside == 1 else (rows, self.beside)
        return np.empty((rows, self.width), self.dtype), np.empty(shape, self.dtype)

    def _read(self, path: str, total: int, first: int, X: Values, y: Values, checksums: list[int]) -> None:
        """A pile, proven: nothing else tells that it is what was dealt."""
        try:
            with open(path, "rb", buffering=0) as file:
                read_at(file.fileno(), _bytes(X), X.itemsize * first * self.width)
                read_at(file.fileno(), _bytes(y), y.itemsize * (total * self.width + first * self.beside))
        except (OSError, EOFError) as error:
            raise damaged(path, f"{total} rows", str(error)) from None
        for values, expected in zip((X, y), checksums, strict=True):
            prove(path, values.reshape(-1).view(np.uint8), expected)

    def _order(self, rows: int) -> npt.NDArray[np.int64]:
        if self.seed is not None:
            return np.random.default_rng(self.seed).permutation(rows)
        kept = min(rows, self.most)
        return np.arange(kept) * rows // max(kept, 1)


def _taken(content: npt.NDArray[np.uint8] | None, X: Values, y: Values, checksums: list[int]) -> bool:
    """Whether a pile that was brought is what was dealt; then X and y are filled."""
    if content is None:
        return False
    for values, part, expected in zip((X, y), np.split(content, [X.nbytes]), checksums, strict=True):
        if checksum(part) != expected:
            return False
        values.reshape(-1).view(np.uint8)[:] = part
    return True


@dataclass(frozen=True)
class KnowShards:
    """Tell a worker how the shards of this key are made."""

    key: str
    ways: tuple[Request, ...]  # of each shard

    def answer(self, worker: Worker) -> None:
        worker.know(self.key, self.ways)


def opened_shard(worker: Worker, shards: Shards, shard: int) -> tuple[Values, Values]:
    """X (n, p) and y (n,) of a shard, which a machine without a disk in common makes when it is first asked for."""
    if not shards.scattered or os.path.exists(shards.path(shard)):
        return shards.open(shard)
    ways = worker.known.get(os.path.basename(shards.directory))
    if ways is None:
        raise EngineError(f"A machine of the cluster was not told how shard {shard} is made. Try again.")
    ways[shard].answer(worker)
    return shards.open(shard)


def own_path(target: str) -> str:
    """Where dealt rows are written: the target or, where its folder is not seen, among what this machine makes."""
    folder, name = os.path.split(target)
    if sees(folder):
        return target
    own = staged_blocks() / os.path.basename(folder)
    make_folder(own)
    return str(own / name)


def dealt_path(folder: str, block: int) -> str:
    return os.path.join(folder, f"dealt-{block:06d}.bin")


def write_rows(
    target: str, X: Values, y: Values, order: npt.NDArray[Any], counts: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """X[order], then y[order], into a file that gets its name when it is whole: a request may be cut off anywhere.

    The rows are piles of so many; what comes back are the checksums of X and y of each (piles, 2). Without piles it is
    that of X, and that of the whole file.
    """
    unfinished = f"{target}.{os.urandom(6).hex()}"  # of its own: whoever redoes the request may do so meanwhile
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
