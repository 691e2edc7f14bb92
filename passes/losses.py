"""The requests behind models of other losses: weighted sums for Newton steps, and what a model is worth on rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block
from shoal.data.splits import Split, row_weights, target_values
from shoal.data_pipeline import Chunk, design_rows
from shoal.kernels.weighted_kernel import weighted_sums
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss, Totals
from shoal.metrics import Residuals
from shoal.models import Array, Bools, Floats
from shoal.passes.arrays import RangeRequest
from shoal.passes.blocks import BlockRequest, opened
from shoal.solve.newton import Curvature, ScaleSums
from shoal.worker import Worker

MOST_PLACES = 2**20  # of scores on a grid that are counted place by place
MOST_VALUES = 51  # of a target that are told apart: more than any model of classes takes


# ------------------------------------------------------------------ the target


class TargetSeen(NamedTuple):
    """The first different values of a target in order, the training rows and all rows that have each, whether there
    are more of them, and whether all are whole numbers. Values of a column of text are their places in its levels."""

    values: Array
    train: Array
    rows: Array
    more: bool
    whole: bool

    def merge(self, other: TargetSeen) -> TargetSeen:
        values, place = np.unique(np.concatenate((self.values, other.values)), return_inverse=True)
        counts = ((self.train, other.train), (self.rows, other.rows))
        train, rows = (tallied(place, np.concatenate(pair), len(values))[:MOST_VALUES] for pair in counts)
        more = self.more or other.more or len(values) > MOST_VALUES
        return TargetSeen(values[:MOST_VALUES], train, rows, more, self.whole and other.whole)


def tallied(place: npt.NDArray[np.intp], weights: Array, count: int) -> Floats:
    """The sum of weights at each of `count` places."""
    return np.asarray(np.bincount(place, weights, count), np.float64)


@dataclass(frozen=True)
class LookAtTarget:
    """Which values a target has."""

    directory: str
    block: Block
    target: str
    split: Split
    weights: str = ""  # rows without a weight above 0 do not count
    repeats: bool = False  # each of the others is so many rows

    def answer(self, worker: Worker) -> TargetSeen:
        dataset = opened(self.directory)
        y = target_values(dataset, self.block, self.target)
        index = np.arange(self.block.first, self.block.first + self.block.rows)
        there, count = ~np.isnan(y), np.asarray(np.ones(len(y)), np.float64)
        if self.weights:
            weights = row_weights(dataset, self.block, self.weights)
            there, count = there & (weights > 0), np.asarray(weights, np.float64) if self.repeats else count
        y, test, count = y[there], self.split.is_test(index[there]), count[there]
        values, place = np.unique(y, return_inverse=True)
        rows, train = (tallied(place, weights, len(values)) for weights in (count, count * ~test))
        seen = TargetSeen(values, train, rows, False, bool((values == np.floor(values)).all()))
        return seen.merge(TargetSeen(np.zeros(0), np.zeros(0), np.zeros(0), False, True))


# ------------------------------------------------------------------ Newton steps


@dataclass(frozen=True)
class LossRequest(BlockRequest):
    """What requests at given coefficients have in common: rows with their scores eta."""

    loss: RowLoss
    coef: Array  # in the units of the file
    at_centre: float  # the score where all columns are at the centre
    centre: Array  # what is taken off the columns first, so that sums lose no digits; 0 where they are near it
    class_weight: tuple[float, float] | None  # what rows of no and of yes count for in the fit, beside their weights

    def scored(self) -> Iterator[tuple[Chunk, Array, Array]]:
        """Chunks with X less the centre and eta."""
        moved = bool(self.centre.any())
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            X = chunk.X - self.centre if moved else chunk.X
            eta = X @ self.coef + self.at_centre
            yield chunk, X, eta if chunk.offset is None else eta + chunk.offset

    def counted(self, chunk: Chunk) -> Array | None:
        """How much each row counts in the fit; None where all do alike."""
        if self.class_weight is None:
            return chunk.weight
        own = np.where(chunk.y == 1, self.class_weight[1], self.class_weight[0])
        return own if chunk.weight is None else own * chunk.weight


@dataclass(frozen=True)
class SumCurvature(LossRequest):
    """The sums of a Newton step over the training rows; `expected`: with the curvature that standard errors rest on;
    `own`: with that of the loss as it is, where steps have another."""

    expected: bool = False
    own: bool = False

    def answer(self, worker: Worker) -> Curvature:
        total = Curvature.none(len(self.coef))
        for chunk, X, eta in self.scored():
            train = ~self.split.is_test(chunk.row)
            how = self.counted(chunk), self.expected, self.own
            total = total.merge(curved(self.loss, X, chunk.y, eta, train, *how))
        return total


def curved(
    loss: RowLoss, X: Array, y: Array, eta: Array, rows: Bools, weight: Array | None = None, expected: bool = False,
    own: bool = False,
) -> Curvature:  # fmt: skip
    """The sums of some rows of a chunk."""
    if not rows.all():
        X, y, eta, weight = X[rows], y[rows], eta[rows], None if weight is None else weight[rows]
    if not len(y):
        return Curvature.none(X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # a step too long is seen by its sums, see `is_finite`
        value, g, h = loss.at(y, eta) if own else loss.steps(y, eta)
        h = loss.expected(eta) if expected else h
        n = float(len(y))
        if weight is not None:
            value, g, h, n = value * weight, g * weight, h * weight, float(weight.sum())
        square, slope = weighted_sums(X, h, g)
        margin = float(((2 * y - 1) * eta).min()) if loss.target == "two" else np.inf
        of_scale = _along_scale(loss, X, y, eta, weight)
        return Curvature(n, float(value.sum()), slope, square, float(np.abs(eta).max()), margin, of_scale)


def _along_scale(loss: RowLoss, X: Array, y: Array, eta: Array, weight: Array | None) -> ScaleSums | None:
    found = loss.along_scale(y, eta)
    if found is None:
        return None
    slope, square, cross = found if weight is None else (part * weight for part in found)
    return ScaleSums(float(slope.sum()), float(square.sum()), np.append(cross.sum(), cross @ X))


# ------------------------------------------------------------------ what it is worth


@dataclass(frozen=True)
class LossSums:
    """Over some rows: the loss, deviance and log likelihood, Pearson's squares, residuals of the mean; weighted, where
    rows have weights."""

    value: float
    deviance: float
    likelihood: float
    pearson: float
    residuals: Residuals

    @property
    def rows(self) -> int:
        return self.residuals.rows

    @property
    def total(self) -> float:
        """What sums are divided by: the weights, or the number of rows."""
        return self.residuals.total

    @property
    def totals(self) -> Totals:
        return Totals(self.total, self.value, self.deviance, self.likelihood)

    @classmethod
    def of(cls, loss: RowLoss, y: Array, eta: Array, value: Array, weight: Array | None = None) -> LossSums:
        mean = loss.mean(eta)
        residual = y - mean
        pearson = loss.pearson(y, mean) if loss.dispersed else np.zeros(1)
        parts = [value, loss.deviance(y, eta, value), loss.likelihood(y, value), pearson]
        parts = parts if weight is None else [part * weight for part in parts]
        summed = [float(part.sum()) for part in parts]
        return cls(summed[0], summed[1], summed[2], summed[3], Residuals.of(y, residual, weight))

    @classmethod
    def none(cls) -> LossSums:
        return cls(0.0, 0.0, 0.0, 0.0, Residuals.none())

    def merge(self, other: LossSums) -> LossSums:
        return LossSums(
            self.value + other.value, self.deviance + other.deviance, self.likelihood + other.likelihood,
            self.pearson + other.pearson, self.residuals.merge(other.residuals),
        )  # fmt: skip


class Ranked(NamedTuple):
    """Scores of rows in order, each once, and how many rows of no and of yes have it."""

    eta: Floats
    no: Floats
    yes: Floats
    grid: float = 0.0  # what scores are whole multiples of; 0 where they are not

    @classmethod
    def rows(cls, y: Array, eta: Array, grid: float, weight: Array | None = None) -> Ranked:
        """As they come, for `together`. With a grid, scores are rounded down to multiples of it: then they are few,
        whatever the number of rows."""
        scores = np.floor(eta / grid) * grid if grid else eta
        no, yes = (1.0 - y, y) if weight is None else (weight * (1.0 - y), weight * y)
        scores, no, yes = (np.asarray(part, np.float64) for part in (scores, no, yes))
        return cls(scores, no, yes, grid)

    @classmethod
    def of(cls, y: Array, eta: Array, grid: float, weight: Array | None = None) -> Ranked:
        return cls.together([cls.rows(y, eta, grid, weight)])

    @classmethod
    def together(cls, parts: Sequence[Ranked]) -> Ranked:
        if not parts:
            return cls(np.zeros(0), np.zeros(0), np.zeros(0))
        eta, no, yes = (np.concatenate([part[k] for part in parts]) for k in range(3))
        grid = parts[0].grid
        low, high = (float(eta.min()), float(eta.max())) if len(eta) else (0.0, 0.0)
        if not grid or not len(eta) or not (high - low) / grid < MOST_PLACES:
            values, place = np.unique(eta, return_inverse=True)
            return cls(values, tallied(place, no, len(values)), tallied(place, yes, len(values)), grid)
        place = ((eta - low) / grid).astype(np.intp)  # counting them is quicker than putting them in order
        there = np.flatnonzero(np.bincount(place))
        no, yes = (tallied(place, part, there[-1] + 1)[there] for part in (no, yes))
        return cls(np.asarray(low + there * grid, np.float64), no, yes, grid)


@dataclass(frozen=True)
class PartScores:
    """Of training rows, or of test rows: the sums of the model, those of knowing the mean alone, and, of a yes/no
    target, rows in the order of their scores; of test rows of other targets how far off they are, and their weights."""

    sums: LossSums
    null: LossSums
    ranked: tuple[Ranked, ...] = ()
    sizes: tuple[Array, ...] = ()  # |residuals|, in the spread of their rows
    weights: tuple[Array, ...] = ()  # of these rows, if they have some

    @classmethod
    def none(cls) -> PartScores:
        return cls(LossSums.none(), LossSums.none())

    def merge(self, other: PartScores) -> PartScores:
        return PartScores(
            self.sums.merge(other.sums), self.null.merge(other.null), self.ranked + other.ranked,
            self.sizes + other.sizes, self.weights + other.weights,
        )  # fmt: skip

    def settled(self) -> PartScores:
        """With all ranks in one, which is less to send."""
        return replace(self, ranked=(Ranked.together(self.ranked),) if self.ranked else ())


@dataclass(frozen=True)
class LossScores:
    """What one pass says of a model at its coefficients."""

    train: PartScores
    test: PartScores
    curvature: Curvature
    null_slope: Array  # sum g u (p + 1,) where the mean alone is known, as in `Curvature`
    unseen: int

    @property
    def null_curvature(self) -> Curvature:
        """With the slope of the model that knows a constant alone, which certificates are relative to."""
        return replace(self.curvature, slope=self.null_slope)

    def merge(self, other: LossScores) -> LossScores:
        return LossScores(
            self.train.merge(other.train), self.test.merge(other.test), self.curvature.merge(other.curvature),
            self.null_slope + other.null_slope, self.unseen + other.unseen,
        )  # fmt: skip


@dataclass(frozen=True)
class ScoreLoss(LossRequest):
    """Scores and curvature at the coefficients that a fit ended with."""

    null_eta: float  # the score of the model that knows the mean alone
    grid: float

    def answer(self, worker: Worker) -> LossScores:
        p = len(self.coef)
        found = LossScores(PartScores.none(), PartScores.none(), Curvature.none(p), np.zeros(p + 1), 0)
        for chunk, X, eta in self.scored():
            test = self.split.is_test(chunk.row)
            weight, counted = chunk.weight, self.counted(chunk)
            null = np.full(len(eta), self.null_eta) if chunk.offset is None else self.null_eta + chunk.offset
            train, held = (
                self._part(chunk.y[rows], eta[rows], null[rows], None if weight is None else weight[rows], held)
                for rows, held in ((~test, False), (test, True))
            )
            curvature = curved(self.loss, X, chunk.y, eta, ~test, counted)
            g = np.where(test, 0.0, self.loss.of_constant.at(chunk.y, null).slope)
            g = g if counted is None else g * counted
            null_slope = np.append(g.sum(), g @ X)
            found = found.merge(LossScores(train, held, curvature, null_slope, chunk.unseen))
        return replace(found, train=found.train.settled(), test=found.test.settled())

    def _part(self, y: Array, eta: Array, null_eta: Array, weight: Array | None, held: bool = False) -> PartScores:
        if not len(y):
            return PartScores.none()
        two = self.loss.target == "two"
        ranked = (Ranked.rows(y, eta, self.grid, weight),) if two else ()
        pairs = ((self.loss, eta), (self.loss.of_constant, null_eta))
        sums, null = (LossSums.of(loss, y, at, loss.at(y, at).value, weight) for loss, at in pairs)
        if two or not held:
            return PartScores(sums, null, ranked)
        sizes = self.loss.sizes(y, self.loss.mean(eta))
        return PartScores(sums, null, ranked, (sizes,), () if weight is None else (weight,))


# ------------------------------------------------------------------ rows of arrays


@dataclass(frozen=True)
class RangeCurvature(RangeRequest):
    """The sums of a Newton step over a range of rows of arrays X and Y (n, 1)."""

    loss: RowLoss
    coef: Array
    at_centre: float
    centre: Array

    def answer(self, worker: Worker) -> Curvature:
        total = Curvature.none(len(self.coef))
        for rows, y, weight in self.pieces(worker):
            X = np.asarray(rows, np.float64, order="C") - self.centre
            eta = X @ self.coef + self.at_centre
            total = total.merge(curved(self.loss, X, y[:, 0], eta, np.ones(len(eta), bool), weight))
        return total
