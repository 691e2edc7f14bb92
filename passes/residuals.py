"""The requests behind a model's diagnostics: two passes over blocks, whose reports are small and merge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.splits import Split
from shoal.data_pipeline import design_rows
from shoal.metrics import Residuals
from shoal.models import Array, Bools, Integers
from shoal.passes.blocks import BlockRequest
from shoal.worker import Worker

SAMPLE = 2_000  # rows that are drawn as points
LARGEST = 20  # residuals that are listed


class PredictedRows(NamedTuple):
    """Some rows: their index in the file, the target, the prediction, and whether they were kept for testing."""

    row: npt.NDArray[np.int64]
    actual: Array
    predicted: Array
    test: Bools

    @property
    def residual(self) -> Array:
        return self.actual - self.predicted

    def take(self, chosen: npt.NDArray[np.intp]) -> PredictedRows:
        return PredictedRows(self.row[chosen], self.actual[chosen], self.predicted[chosen], self.test[chosen])

    @classmethod
    def none(cls) -> PredictedRows:
        return cls(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0, bool))

    @classmethod
    def together(cls, parts: list[PredictedRows]) -> PredictedRows:
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True)
class ResidualRequest(BlockRequest):
    """What both passes have in common: the rows of a block with their predictions."""

    coef: Array
    intercept: float

    def pieces(self) -> Iterator[tuple[PredictedRows, int]]:
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            predicted = chunk.X @ self.coef + self.intercept
            yield PredictedRows(chunk.row, chunk.y, predicted, self.split.is_test(chunk.row)), chunk.unseen


@dataclass(frozen=True)
class Overview:
    """The first pass: exact sums, the ends of the ranges, a uniform sample and the largest residuals."""

    train: Residuals
    test: Residuals
    low: Array  # of actual, predicted, residual
    high: Array
    sample: PredictedRows
    largest: PredictedRows
    unseen: int

    def merge(self, other: Overview, seed: int) -> Overview:
        return Overview(
            self.train.merge(other.train),
            self.test.merge(other.test),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            sampled(PredictedRows.together([self.sample, other.sample]), seed),
            furthest(PredictedRows.together([self.largest, other.largest])),
            self.unseen + other.unseen,
        )


def sampled(rows: PredictedRows, seed: int) -> PredictedRows:
    """Those with the smallest hash of their index: a uniform sample, whoever looked at which block."""
    if len(rows.row) <= SAMPLE:
        return rows
    return rows.take(np.argsort(Split(seed=seed).hashed(rows.row), kind="stable")[:SAMPLE])


def furthest(rows: PredictedRows) -> PredictedRows:
    """The largest residuals, the first in the file where two are equal."""
    return rows.take(np.lexsort((rows.row, -np.abs(rows.residual)))[:LARGEST])


@dataclass(frozen=True)
class Survey(ResidualRequest):
    """Ask for an Overview; `seed` is that of the sample, another than the split's or it would draw test rows only."""

    seed: int

    def answer(self, worker: Worker) -> Overview:
        ends = np.full(3, np.inf)
        found = Overview(Residuals.none(), Residuals.none(), ends, -ends, PredictedRows.none(), PredictedRows.none(), 0)
        for rows, unseen in self.pieces():
            if len(rows.row):
                found = found.merge(self._of(rows, unseen), self.seed)
        return found

    def _of(self, rows: PredictedRows, unseen: int) -> Overview:
        train, test = (Residuals.of(rows.actual[part], rows.residual[part]) for part in (~rows.test, rows.test))
        values = np.stack([rows.actual, rows.predicted, rows.residual])
        sample, largest = sampled(rows, self.seed), furthest(rows)
        return Overview(train, test, values.min(axis=1), values.max(axis=1), sample, largest, unseen)


@dataclass(frozen=True)
class Edges:
    """Where the second pass counts; rows beyond the ends of a grid are not in it."""

    grid: Array  # of actual and predicted alike
    residual: Array
    ranks: Array  # residuals of the sample, in order: all rows counted between them give quantiles
    predicted: Array  # the inner edges of bins with about as many rows each


@dataclass(frozen=True)
class Counted:
    """The second pass, train and test apart: counts over a grid, a histogram, and sums by bins of the prediction."""

    grid: Integers  # (2, actual, predicted)
    residual: Integers  # (2, bins)
    ranks: Integers  # (bins,)
    bins: Array  # (4, bins): rows, sums of the prediction, of the residual and of its square

    def merge(self, other: Counted) -> Counted:
        return Counted(
            self.grid + other.grid,
            self.residual + other.residual,
            self.ranks + other.ranks,
            self.bins + other.bins,
        )


@dataclass(frozen=True)
class Count(ResidualRequest):
    edges: Edges

    def answer(self, worker: Worker) -> Counted:
        total: Counted | None = None
        for rows, _ in self.pieces():
            part = self._of(rows)
            total = part if total is None else total.merge(part)
        return total or self._of(PredictedRows.none())

    def _of(self, rows: PredictedRows) -> Counted:
        edges, residual = self.edges, rows.residual
        place = np.searchsorted(edges.predicted, rows.predicted, side="right")
        width = len(edges.predicted) + 1
        weights = (None, rows.predicted, residual, residual**2)
        parts = (~rows.test, rows.test)
        between = np.searchsorted(edges.ranks, residual, side="right")
        return Counted(
            np.stack([_grid(edges.grid, rows.actual[p], rows.predicted[p]) for p in parts]),
            np.stack([np.histogram(residual[p], edges.residual)[0] for p in parts]).astype(np.int64),
            np.bincount(between, minlength=len(edges.ranks) + 1),
            np.stack([np.bincount(place, w, width).astype(np.float64) for w in weights]),
        )


def _grid(edges: Array, actual: Array, predicted: Array) -> Integers:
    return np.asarray(np.histogram2d(actual, predicted, (edges, edges))[0]).astype(np.int64)
