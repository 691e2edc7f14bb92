"""Requests about a range of rows of shared arrays X (n, p) and Y (n, q), with weights (n,) where rows have some; each
holds all it needs and may be redone.

Rows are copied to float64 a few at a time, so an answer has the same bits whatever the layout of the arrays.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import numpy as np

from shoal.lazy.classes import dataclass
from shoal.models import Floats
from shoal.solve.least_squares import Standardisation, stack, triangle
from shoal.solve.moments import Moments, merge_all
from shoal.worker import SharedArray, Worker

RANGE_VALUES = 1 << 21  # values of one request: a worker has them done in about 10 ms
CHUNK_VALUES = 1 << 17  # values worked on at a time: they stay in the L2 cache
FACTOR_VALUES = 1 << 20  # values factored at a time: QR gains from tall pieces more than from the cache


def row_ranges(rows: int, columns: int) -> list[tuple[int, int]]:
    """Ranges by the shape alone, never by the number of workers; tall, since each one costs columns^2 to combine."""
    step = max(RANGE_VALUES // columns, 8 * columns)
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


@dataclass(frozen=True)
class RangeRequest:
    """What requests about a range of rows have in common."""

    X: SharedArray
    Y: SharedArray
    weights: SharedArray | None
    start: int
    stop: int

    def pieces(self, worker: Worker, values: int = CHUNK_VALUES) -> Iterator[tuple[Floats, Floats, Floats | None]]:
        """Rows of X and Y with their weights, about `values` numbers at a time, as they are stored."""
        X, Y = worker.array(self.X), worker.array(self.Y)
        weights = worker.array(self.weights) if self.weights else None
        step = max(32, values // (X.shape[1] + Y.shape[1]))
        for start in range(self.start, self.stop, step):
            rows = slice(start, min(start + step, self.stop))
            yield X[rows], Y[rows], None if weights is None else weights[rows]


def summed(rows: Floats, weights: Floats | None) -> Moments:
    """Moments of rows, weighted where they have weights."""
    if weights is None:
        return Moments.of(rows)
    return (
        Moments.weighted(rows, weights) if weights.all() else Moments.weighted(rows[weights > 0], weights[weights > 0])
    )


def _side_by_side(X: Floats, Y: Floats) -> Floats:
    """[X Y] in C order, which `column_stack` keeps from X only if X has it."""
    both = np.empty((len(X), X.shape[1] + Y.shape[1]))
    both[:, : X.shape[1]], both[:, X.shape[1] :] = X, Y
    return both


@dataclass(frozen=True)
class RangeMoments(RangeRequest):
    """Moments of the columns (X..., Y...)."""

    def answer(self, worker: Worker) -> Moments:
        # The moments of a piece cost width^2 to merge: with many columns that takes many rows to pay.
        width = self.X.shape[1] + self.Y.shape[1]
        pieces = self.pieces(worker, max(CHUNK_VALUES, 8 * width * width))
        return merge_all(summed(_side_by_side(X, Y), weights) for X, Y, weights in pieces)


@dataclass(frozen=True)
class RangeCells(RangeRequest):
    """Moments of the columns (X..., Y...) over the rows of each cell, from the cell of every row (n,)."""

    cells: SharedArray
    count: int

    def answer(self, worker: Worker) -> list[Moments]:
        rows = slice(self.start, self.stop)
        X, Y, cells = worker.array(self.X)[rows], worker.array(self.Y)[rows], worker.array(self.cells)[rows]
        order = np.argsort(cells, kind="stable")
        ends = np.searchsorted(cells[order], np.arange(self.count + 1))
        chosen = (order[a:b] for a, b in itertools.pairwise(ends.tolist()))
        weights = worker.array(self.weights)[rows] if self.weights else None
        return [summed(_side_by_side(X[some], Y[some]), None if weights is None else weights[some]) for some in chosen]


@dataclass(frozen=True)
class RangeTriangle(RangeRequest):
    """The triangle of the rows [1, (X - centre)/scale, Y - mean], or [X/scale, Y] without an intercept."""

    units: Standardisation
    target_means: Floats

    def answer(self, worker: Worker) -> Floats:
        width = int(self.units.intercept) + self.X.shape[1] + self.Y.shape[1]
        pieces = self.pieces(worker, max(FACTOR_VALUES, 4 * width * width))
        parts = [triangle(self._rows(X, Y, weights)) for X, Y, weights in pieces]
        return np.asarray(functools.reduce(stack, parts), np.float64)

    def _rows(self, X: Floats, Y: Floats, weights: Floats | None) -> Floats:
        Z = np.asarray(self.units.apply(X, Y[:, 0]), np.float64)
        Z = np.column_stack((Z, Y[:, 1:] - self.target_means[1:])) if Y.shape[1] > 1 else Z
        return Z if weights is None else Z * np.sqrt(weights)[:, None]


@dataclass(frozen=True)
class ResidualSums:
    """What one pass says about q models: r'r (q,) and Xs'r (p, q)."""

    squares: Floats
    gradient: Floats

    def __add__(self, other: ResidualSums) -> ResidualSums:
        return ResidualSums(self.squares + other.squares, self.gradient + other.gradient)


@dataclass(frozen=True)
class RangeResiduals(RangeRequest):
    """Residual sums at coef (p, q) and intercept (q,); X is centred first, so far-off columns lose no digits."""

    coef: Floats
    intercept: Floats
    centre: Floats
    scale: Floats

    def answer(self, worker: Worker) -> ResidualSums:
        sums = ResidualSums(np.zeros_like(self.intercept), np.zeros_like(self.coef))
        at_centre = self.intercept + self.centre @ self.coef
        for X, Y, weights in self.pieces(worker):
            Z = np.subtract(X, self.centre, order="C")
            residual = Y - at_centre - Z @ self.coef
            counted = residual if weights is None else residual * weights[:, None]
            gradient = Z.T @ counted / self.scale[:, None]
            squares = residual**2 if weights is None else residual * counted
            sums = sums + ResidualSums(np.asarray(squares.sum(axis=0)), gradient)
        return sums
