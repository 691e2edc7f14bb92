"""The requests behind a model's diagnostics, two passes over blocks, and those behind robust standard errors; their
reports are small and merge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block, Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.data_pipeline import design_rows
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.losses.layers import NetworkMean
from shoal.metrics import Residuals
from shoal.models import Array, Bools, Integers
from shoal.passes.blocks import BlockRequest
from shoal.passes.losses import LossRequest
from shoal.passes.quantiles import Swept
from shoal.solve.inference import Bread
from shoal.solve.least_squares import LeastSquares
from shoal.worker import Worker

SAMPLE = 2_000  # rows that are drawn as points
LARGEST = 20  # residuals that are listed


class PredictedRows(NamedTuple):
    """Some rows: their index in the file, the target, the prediction, whether they were kept for testing, and how far
    off it is: by how much, or, of another loss than squares, the deviance residual sign(y - mean) sqrt(deviance)."""

    row: npt.NDArray[np.int64]
    actual: Array
    predicted: Array
    test: Bools
    residual: Array
    weight: Array | None = None  # how much each counts in sums, where that differs

    @property
    def error(self) -> Array:
        """In the unit of the target, whatever the loss."""
        return self.actual - self.predicted

    def take(self, chosen: npt.NDArray[np.intp]) -> PredictedRows:
        weight = None if self.weight is None else self.weight[chosen]
        return PredictedRows(
            self.row[chosen], self.actual[chosen], self.predicted[chosen], self.test[chosen], self.residual[chosen],
            weight,
        )  # fmt: skip

    @classmethod
    def none(cls) -> PredictedRows:
        return cls(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0, bool), np.zeros(0))

    @classmethod
    def together(cls, parts: list[PredictedRows]) -> PredictedRows:
        """Without weights: those are for sums, which are made part by part."""
        return cls(*(np.concatenate(column) for column in list(zip(*parts, strict=True))[:-1]))


@dataclass(frozen=True)
class ResidualRequest(BlockRequest):
    """What both passes have in common: the rows of a block with their predictions."""

    coef: Array
    intercept: float
    mean: RowLoss | NetworkMean | None  # None for squares of a straight line

    def scored(self, X: Array) -> tuple[Array, RowLoss | None]:
        """Scores of design rows, and the loss that knows what is expected of them."""
        if isinstance(self.mean, NetworkMean):
            return self.mean.scores(X), self.mean.loss
        return X @ self.coef + self.intercept, self.mean

    def pieces(self) -> Iterator[tuple[PredictedRows, int]]:
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            with np.errstate(over="ignore", invalid="ignore"):
                (scores, loss), test = self.scored(chunk.X), self.split.is_test(chunk.row)
                if loss is None:
                    rows = PredictedRows(chunk.row, chunk.y, scores, test, chunk.y - scores, chunk.weight)
                    usable = np.isfinite(rows.residual)
                else:
                    away = deviance_residuals(loss, chunk.y, scores)
                    rows = PredictedRows(chunk.row, chunk.y, loss.mean(scores), test, away, chunk.weight)
                    usable = np.isfinite(scores)
            if not usable.all():  # no offset, a shape without a value, or more than a double can hold
                rows = rows.take(np.flatnonzero(usable))
            yield rows, chunk.unseen


def deviance_residuals(loss: RowLoss, y: Array, eta: Array) -> Array:
    """sign(y - mean) sqrt(deviance) of each row, whose squares sum to the deviance; the sign is that of the way down,
    which is another one only between the median and the mean of a loss of logarithms."""
    value, slope, _ = loss.at(y, eta)
    return np.asarray(-np.sign(slope) * np.sqrt(np.maximum(loss.deviance(y, eta, value), 0.0)))


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
        weight, residual = rows.weight, rows.error
        train, test = (
            Residuals.of(rows.actual[part], residual[part], None if weight is None else weight[part])
            for part in (~rows.test, rows.test)
        )
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
        weights = (None, rows.predicted, rows.error, rows.error**2)
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


# ------------------------------------------------------------------ standard errors whatever the spread of each row


@dataclass(frozen=True)
class SumMeat(LossRequest):
    """B over the training rows of a block, in the units of the bread, for robust errors (HC0 to HC3):

        V = A^-1 B A^-1,    A = sum h u u',    B = sum f g^2 u u',    u = (1, x)

    with slopes g and curvatures h of the loss at the optimum, and f by the kind of errors; A^-1 comes from the fit.
    """

    scale: Array
    live: Bools
    root: Array  # (q, q): A^-1 = root root'
    kind: str
    intercept: bool
    repeats: bool  # weights say how many equal rows each one stands for

    def answer(self, worker: Worker) -> Array:
        total = np.zeros_like(self.root)
        for chunk, X, eta in self.scored():
            train = ~self.split.is_test(chunk.row)
            if train.any():
                own, times = self.counted(chunk), chunk.weight if self.repeats else None
                own = own if times is None or own is None else own / times  # of one of the rows that it stands for
                U = self._rows(X[train])
                g = self._slopes(chunk.y[train], eta[train], U, None if own is None else own[train])
                U *= (g if times is None else g * np.sqrt(times[train]))[:, None]
                total += U.T @ U
        return total

    def _rows(self, X: Array) -> Array:
        Z = X[:, self.live] / self.scale[self.live]
        return np.column_stack((np.ones(len(Z)), Z)) if self.intercept else Z

    def _slopes(self, y: Array, eta: Array, U: Array, own: Array | None) -> Array:
        """g sqrt(f) of each row."""
        _, g, h = self.loss.at(y, eta)
        if own is not None:
            g, h = g * own, h * own
        if self.kind not in ("HC2", "HC3"):
            return g
        leverage = h * ((U @ self.root) ** 2).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):  # a row that decides a coefficient alone
            return np.asarray(g / (np.sqrt(1 - leverage) if self.kind == "HC2" else 1 - leverage))


@dataclass(frozen=True)
class RobustRows:
    """Where the rows of a fit are, and how it ended: loss, coefficients and intercept in the units of the file."""

    dataset: Dataset
    encoding: Encoding
    split: Split
    loss: RowLoss
    coef: Array
    intercept: float
    class_weight: tuple[float, float] | None
    repeats: bool

    def errors(self, swept: Swept, problem: LeastSquares, weight: float | None, kind: str) -> tuple[Array, float]:
        """Standard errors of the coefficients (p,) and of the intercept; NaN where columns depend on one another."""
        bread = Bread.of(problem, weight)
        if bread is None:
            return np.full(len(self.coef), np.nan), float("nan")
        requests = [self._request(block, bread, kind) for block in self.dataset.blocks]
        total = sum(swept("robust errors", requests), np.zeros_like(bread.root))
        free = problem.n - len(bread.root)
        return bread.errors(total * (problem.n / free if kind == "HC1" and free > 0 else 1.0))

    def _request(self, block: Block, bread: Bread, kind: str) -> SumMeat:
        units = bread.problem.units
        at_centre = self.intercept + float(units.centre @ self.coef)
        return SumMeat(
            str(self.dataset.directory), block, self.encoding, self.split, self.loss, self.coef, at_centre,
            units.centre, self.class_weight, units.scale, bread.live, bread.root, kind, units.intercept, self.repeats,
        )  # fmt: skip
