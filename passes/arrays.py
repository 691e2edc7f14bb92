"""Requests about a range of rows of shared arrays X (n, p) and Y (n, q); each holds all it needs and may be redone.

Rows are copied to float64 a few at a time, so an answer has the same bits whatever the layout of the arrays.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

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
    start: int
    stop: int

    def pieces(self, worker: Worker, values: int = CHUNK_VALUES) -> Iterator[tuple[Floats, Floats]]:
        """Rows of X and Y, about `values` numbers at a time, as they are stored."""
        X, Y = worker.array(self.X), worker.array(self.Y)
        step = max(32, values // (X.shape[1] + Y.shape[1]))
        for start in range(self.start, self.stop, step):
            rows = slice(start, min(start + step, self.stop))
            yield X[rows], Y[rows]


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
        return merge_all(Moments.of(_side_by_side(X, Y)) for X, Y in pieces)


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
        return [Moments.of(_side_by_side(X[some], Y[some])) for some in chosen]


@dataclass(frozen=True)
class RangeTriangle(RangeRequest):
    """The triangle of the rows [1, (X - centre)/scale, Y - mean], or [X/scale, Y] without an intercept."""

    units: Standardisation
    target_means: Floats

    def answer(self, worker: Worker) -> Floats:
        width = int(self.units.intercept) + self.X.shape[1] + self.Y.shape[1]
        parts = [triangle(self._rows(X, Y)) for X, Y in self.pieces(worker, max(FACTOR_VALUES, 4 * width * width))]
        return np.asarray(functools.reduce(stack, parts), np.float64)

    def _rows(self, X: Floats, Y: Floats) -> Floats:
        Z = np.asarray(self.units.apply(X, Y[:, 0]), np.float64)
        return np.column_stack((Z, Y[:, 1:] - self.target_means[1:])) if Y.shape[1] > 1 else Z


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
        for X, Y in self.pieces(worker):
            Z = np.subtract(X, self.centre, order="C")
            residual = Y - at_centre - Z @ self.coef
            gradient = Z.T @ residual / self.scale[:, None]
            sums = sums + ResidualSums(np.asarray((residual**2).sum(axis=0)), gradient)
        return sums
