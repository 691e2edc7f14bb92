"""What rows are asked about many points at once: one reading of a block gives scores, gradients and some curvatures of
all penalties in all folds; how points go on from there is in `solve.descent`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data_pipeline import design_rows
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.models import Array, Bools
from shoal.passes.arrays import RangeRequest
from shoal.passes.blocks import BlockRequest
from shoal.whatif.folds import Folds
from shoal.worker import SharedArray, Worker

PIECE_VALUES = 1 << 15  # rows x points worked on at a time: they stay in the cache, and in memory that is there already

CellOf = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Lot:
    """Points of one fold: coef (q + 1, m) for rows (1, z); the cells that it trains on and is tested on, each (cells,);
    what rows of no and of yes count for; which points' curvature is asked for."""

    trains: Bools
    tests: Bools
    coef: Array
    class_weight: tuple[float, float] | None = None
    curved: tuple[int, ...] = ()
    fitted: bool = False  # whether the deviance of the training rows is asked for as well


@dataclass(frozen=True, eq=False)
class LotSums:
    """Sums over the training rows of a lot: loss (m,), slopes (q + 1, m), curvatures (k, q + 1, q + 1); deviances of
    its test rows (m,), and of the training rows where they were asked for."""

    value: Array
    slope: Array
    square: Array
    tested: Array
    fitted: Array

    @classmethod
    def none(cls, lot: Lot) -> LotSums:
        q, m = lot.coef.shape
        return cls(np.zeros(m), np.zeros((q, m)), np.zeros((len(lot.curved), q, q)), np.zeros(m), np.zeros(m))

    def add(self, other: LotSums) -> None:
        """In place: what a block says is as large as all that is known."""
        self.value[:] += other.value
        self.slope[:] += other.slope
        self.square[:] += other.square
        self.tested[:] += other.tested
        self.fitted[:] += other.fitted


@dataclass(frozen=True, eq=False)
class CellSums:
    """Of every cell, at a points: slopes (cells, a, q + 1) and curvatures (cells, a, q + 1, q + 1)."""

    slope: Array
    square: Array

    @classmethod
    def none(cls, cells: int, points: int, q: int) -> CellSums:
        return cls(np.zeros((cells, points, q)), np.zeros((cells, points, q, q)))

    def add(self, other: CellSums) -> None:
        self.slope[:] += other.slope
        self.square[:] += other.square


@dataclass(frozen=True, eq=False)
class SomeRows:
    """Some rows: U = (1, z - centre) (n, q + 1), targets, cells, weights and what is added to scores."""

    U: Array
    y: Array
    cell: CellOf
    weight: Array | None
    offset: Array | None

    @classmethod
    def of(
        cls, X: Array, centre: Array, y: Array, cell: CellOf, weight: Array | None, offset: Array | None
    ) -> SomeRows:
        """Rows in no cell are left out."""
        U = np.ones((len(y), X.shape[1] + 1))
        np.subtract(X, centre, out=U[:, 1:])
        if (cell >= 0).all():
            return cls(U, y, cell, weight, offset)
        kept = cell >= 0
        weight, offset = (None if one is None else one[kept] for one in (weight, offset))
        return cls(U[kept], y[kept], cell[kept], weight, offset)

    def rows(self, some: slice | npt.NDArray[np.bool_]) -> SomeRows:
        weight, offset = (None if one is None else one[some] for one in (self.weight, self.offset))
        return SomeRows(self.U[some], self.y[some], self.cell[some], weight, offset)

    def scores(self, coef: Array) -> Array:
        eta = self.U @ coef
        return eta if self.offset is None else eta + self.offset[:, None]

    def counts(self, class_weight: tuple[float, float] | None) -> Array | None:
        if class_weight is None:
            return self.weight
        own = np.where(self.y == 1, class_weight[1], class_weight[0])
        return own if self.weight is None else own * self.weight


class PointsAsked(NamedTuple):
    """What one sweep is asked about: lots of points, and points whose curvature is asked for in every cell."""

    lots: tuple[Lot, ...]
    by_cell: Array | None = None  # (q + 1, a)
    cells: int = 0
    class_weight: tuple[float, float] | None = None  # of the points that are asked by cell


class PointsSaid(NamedTuple):
    """The answers, in the order of the lots."""

    lots: list[LotSums]
    by_cell: CellSums | None

    @classmethod
    def none(cls, asked: PointsAsked) -> PointsSaid:
        points = asked.by_cell
        cells = None if points is None else CellSums.none(asked.cells, points.shape[1], len(points))
        return cls([LotSums.none(lot) for lot in asked.lots], cells)

    def add(self, other: PointsSaid) -> None:
        for own, more in zip(self.lots, other.lots, strict=True):
            own.add(more)
        if self.by_cell is not None and other.by_cell is not None:
            self.by_cell.add(other.by_cell)


def said_of(loss: RowLoss, asked: PointsAsked, pieces: Iterator[SomeRows]) -> PointsSaid:
    total = PointsSaid.none(asked)
    widest = max([1, *(lot.coef.shape[1] for lot in asked.lots)])
    step = max(64, PIECE_VALUES // widest)
    with np.errstate(over="ignore", invalid="ignore"):  # a step too long is seen by its sums
        for large in pieces:
            for start in range(0, len(large.y), step):
                piece = large.rows(slice(start, start + step))
                for lot, own in zip(asked.lots, total.lots, strict=True):
                    _add_lot(loss, lot, piece, own)
            if total.by_cell is not None and asked.by_cell is not None:
                _add_cells(loss, asked.by_cell, large, asked.class_weight, total.by_cell)
    return total


def _add_lot(loss: RowLoss, lot: Lot, piece: SomeRows, own: LotSums) -> None:
    """The rows of one piece: those that the lot trains on, and those that it is tested on."""
    trained = lot.trains[piece.cell]
    tested = lot.tests[piece.cell]
    if tested.any():
        rest = piece.rows(tested)
        eta = rest.scores(lot.coef)
        y = rest.y[:, None]
        own.tested[:] += _summed(loss.deviance(y, eta, loss.at(y, eta).value), rest.weight)
    part = piece if trained.all() else piece.rows(trained)
    if not len(part.y):
        return
    eta, y, counts = part.scores(lot.coef), part.y[:, None], part.counts(lot.class_weight)
    value, g, h = loss.at(y, eta)
    own.value[:] += _summed(value, counts)
    if lot.fitted:
        own.fitted[:] += _summed(loss.deviance(y, eta, value), part.weight)
    if counts is not None:
        g = g * counts[:, None]
    own.slope[:] += part.U.T @ g
    for k, place in enumerate(lot.curved):
        own.square[k] += _bent(part.U, h[:, place], counts)


def _add_cells(
    loss: RowLoss, coef: Array, piece: SomeRows, class_weight: tuple[float, float] | None, own: CellSums
) -> None:
    for cell in np.unique(piece.cell).tolist():
        if cell >= len(own.slope):
            continue  # kept for testing
        part = piece.rows(piece.cell == cell)
        pieces, counts = loss.at(part.y[:, None], part.scores(coef)), part.counts(class_weight)
        g = pieces.slope if counts is None else pieces.slope * counts[:, None]
        own.slope[cell] += g.T @ part.U
        for k in range(coef.shape[1]):
            own.square[cell, k] += _bent(part.U, pieces.curvature[:, k], counts)


def _summed(values: Array, weight: Array | None) -> Array:
    return np.asarray(values.sum(axis=0) if weight is None else weight @ values)


def _bent(U: Array, h: Array, counts: Array | None) -> Array:
    """sum h u u'."""
    V = U * np.sqrt(h if counts is None else h * counts)[:, None]
    return np.asarray(V.T @ V)


@dataclass(frozen=True)
class AskPoints(BlockRequest):
    """Ask the rows of a block of a file."""

    folds: Folds
    loss: RowLoss
    centre: Array
    asked: PointsAsked

    def answer(self, worker: Worker) -> PointsSaid:
        return said_of(self.loss, self.asked, self._pieces())

    def _pieces(self) -> Iterator[SomeRows]:
        count = self.folds.choice.cells
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            cell = self.folds.of(self.dataset, self.block, chunk.row)
            cell = np.where(self.split.is_test(chunk.row), count, cell)
            yield SomeRows.of(chunk.X, self.centre, chunk.y, cell, chunk.weight, chunk.offset)


@dataclass(frozen=True)
class AskRange(RangeRequest):
    """Ask a range of rows of arrays X and Y (n, 1)."""

    cells: SharedArray
    loss: RowLoss
    centre: Array
    asked: PointsAsked

    def answer(self, worker: Worker) -> PointsSaid:
        return said_of(self.loss, self.asked, self._pieces(worker))

    def _pieces(self, worker: Worker) -> Iterator[SomeRows]:
        cells, at = worker.array(self.cells), self.start
        for X, Y, weight in self.pieces(worker):
            yield SomeRows.of(np.asarray(X, np.float64), self.centre, Y[:, 0], cells[at : at + len(X)], weight, None)
            at += len(X)


def together(asked: PointsAsked, parts: Iterator[PointsSaid]) -> PointsSaid:
    """In the order of blocks: the same bits for any number of workers."""
    total = PointsSaid.none(asked)
    for part in parts:
        total.add(part)
    return total


def fold_tables(
    trains: Sequence[Sequence[int]], tests: Sequence[Sequence[int]], cells: int
) -> list[tuple[Bools, Bools]]:
    """The cells of each fold as tables (cells + 1,); the last is that of rows kept for testing."""
    found = []
    for trained, tested in zip(trains, tests, strict=True):
        pair = np.zeros((2, cells + 1), bool)
        pair[0, list(trained)], pair[1, list(tested)] = True, True
        found.append((pair[0], pair[1]))
    return found
