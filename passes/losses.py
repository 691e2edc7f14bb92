"""The requests behind models of other losses: weighted sums for Newton steps, and what a model is worth on rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block
from shoal.data.splits import Split, row_weights, target_values
from shoal.data_pipeline import Chunk, design_rows
from shoal.kernels.losses_kernel import KernelSums, loss_sums, takes
from shoal.kernels.weighted_kernel import weighted_sums
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss, Totals
from shoal.metrics import Residuals
from shoal.models import Array, Bools
from shoal.passes.arrays import RangeRequest
from shoal.passes.blocks import BlockRequest, opened
from shoal.solve.newton import Curvature, ScaleSums
from shoal.solve.ranking import Ranked, tallied
from shoal.worker import Worker

FIRST_ROWS = 256  # that values of a target are looked for in first
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
        values, place = _told_apart(y)
        rows, train = (tallied(place, weights, len(values)) for weights in (count, count * ~test))
        seen = TargetSeen(values, train, rows, False, bool((values == np.floor(values)).all()))
        return seen.merge(TargetSeen(np.zeros(0), np.zeros(0), np.zeros(0), False, True))


def _told_apart(y: Array) -> tuple[Array, npt.NDArray[np.intp]]:
    """The different values in order, and where among them each is; unsorted where the first rows have them all."""
    values = np.unique(y[:FIRST_ROWS])
    place = np.minimum(np.searchsorted(values, y), max(len(values) - 1, 0))
    if len(values) <= MOST_VALUES and bool((values[place] == y).all()):
        return values, place
    return np.unique(y, return_inverse=True)


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
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            yield chunk, *self.moved(chunk)

    def moved(self, chunk: Chunk) -> tuple[Array, Array]:
        X = chunk.X - self.centre if self.centre.any() else chunk.X
        eta = X @ self.coef + self.at_centre
        return X, eta if chunk.offset is None else eta + chunk.offset

    def counted(self, chunk: Chunk) -> Array | None:
        """How much each row counts in the fit; None where all do alike."""
        if self.class_weight is None:
            return chunk.weight
        own = np.where(chunk.y == 1, self.class_weight[1], self.class_weight[0])
        return own if chunk.weight is None else own * chunk.weight

    def by_kernel(
        self, chunk: Chunk, squares: bool, beside: Array | None = None, rows: bool = False
    ) -> tuple[Curvature, KernelSums]:
        """Sums over the training rows of a chunk, in one reading of them; `beside` is another slope."""
        weight, used = self.counted(chunk), None
        n = float(len(chunk.y)) if weight is None else float(weight.sum())
        if self.split.tests:
            used = ~self.split.is_test(chunk.row)
            n = float(used.sum()) if weight is None else float(weight[used].sum())
        centre = self.centre if self.centre.any() else None
        found = loss_sums(
            self.loss.name, chunk.X, chunk.y, self.coef, self.at_centre, centre=centre, offset=chunk.offset,
            weight=weight, used=used, beside=beside, squares=squares, rows=rows,
        )  # fmt: skip
        return kernel_curvature(found, self.loss, n), found


@dataclass(frozen=True)
class SumCurvature(LossRequest):
    """The sums of a Newton step over the training rows; `expected`: with the curvature that standard errors rest on;
    `own`: with that of the loss as it is, where steps have another; without `squares`, slopes alone, if it is less."""

    expected: bool = False
    own: bool = False
    squares: bool = True

    def answer(self, worker: Worker) -> Curvature:
        quick = in_c(self.loss, len(self.coef), self.squares) and not self.expected
        total = Curvature.none(len(self.coef), self.squares or not quick)
        if not quick:
            for chunk, X, eta in self.scored():
                train = ~self.split.is_test(chunk.row)
                how = self.counted(chunk), self.expected, self.own
                total = total.merge(curved(self.loss, X, chunk.y, eta, train, *how))
            return total
        for chunk in design_rows(self.encoding, self.dataset, self.block, at_once=True):
            total = total.merge(self.by_kernel(chunk, self.squares)[0])
        return total


def in_c(loss: RowLoss, columns: int, squares: bool) -> bool:
    """Whether sums of a loss are made in one reading of the rows."""
    return loss.in_c and takes(columns, squares)


def kernel_curvature(sums: KernelSums, loss: RowLoss, rows: float) -> Curvature:
    margin = sums.margin if loss.target == "two" else np.inf
    square = np.zeros((0, 0)) if sums.square is None else sums.square
    return Curvature(rows, sums.value, sums.slope, square, sums.reach, margin)


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
    def of(
        cls, loss: RowLoss, y: Array, eta: Array, value: Array, weight: Array | None = None, mean: Array | None = None
    ) -> LossSums:
        mean = loss.mean(eta) if mean is None else mean
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


class RowsAt(NamedTuple):
    """Of rows (n,) each: the score, the mean there, and the loss."""

    eta: Array
    mean: Array
    value: Array

    @classmethod
    def of(cls, loss: RowLoss, y: Array, eta: Array) -> RowsAt:
        return cls(eta, loss.mean(eta), loss.at(y, eta).value)

    def some(self, rows: Bools | slice) -> RowsAt:
        return RowsAt(self.eta[rows], self.mean[rows], self.value[rows])


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
    squares: bool  # whether the curvature is asked for, or slopes alone, if that is less

    def answer(self, worker: Worker) -> LossScores:
        p, quick = len(self.coef), in_c(self.loss, len(self.coef), self.squares)
        none = Curvature.none(p, self.squares or not quick)
        found = LossScores(PartScores.none(), PartScores.none(), none, np.zeros(p + 1), 0)
        for chunk in design_rows(self.encoding, self.dataset, self.block, at_once=quick):
            test = self.split.is_test(chunk.row)
            at, null, curvature, null_slope = self._by_kernel(chunk, test) if quick else self._by_rows(chunk, test)
            parts = [PartScores.none(), PartScores.none()]
            chosen: tuple[Bools | slice, ...] = (~test, test) if self.split.tests else (slice(None),)
            for held, rows in enumerate(chosen):
                weight = None if chunk.weight is None else chunk.weight[rows]
                parts[held] = self._part(chunk.y[rows], at.some(rows), null.some(rows), weight, bool(held))
            found = found.merge(LossScores(parts[0], parts[1], curvature, null_slope, chunk.unseen))
        return replace(found, train=found.train.settled(), test=found.test.settled())

    def _by_kernel(self, chunk: Chunk, test: Bools) -> tuple[RowsAt, RowsAt, Curvature, Array]:
        null, g = self._null(chunk, test)
        curvature, sums = self.by_kernel(chunk, self.squares, g, rows=True)
        assert sums.rows is not None
        assert sums.beside is not None
        return RowsAt(*sums.rows), null, curvature, sums.beside

    def _by_rows(self, chunk: Chunk, test: Bools) -> tuple[RowsAt, RowsAt, Curvature, Array]:
        X, eta = self.moved(chunk)
        null, g = self._null(chunk, test)
        curvature = curved(self.loss, X, chunk.y, eta, ~test, self.counted(chunk))
        return RowsAt.of(self.loss, chunk.y, eta), null, curvature, np.append(g.sum(), g @ X)

    def _null(self, chunk: Chunk, test: Bools) -> tuple[RowsAt, Array]:
        """What rows come to where a constant alone is known, and slopes there of those that are fitted."""
        loss, y, counted = self.loss.of_constant, chunk.y, self.counted(chunk)
        if loss.target == "two" and chunk.offset is None:  # two values have two losses
            eta, yes = np.full(2, self.null_eta), y == 1
            value, slope = (np.where(yes, part[1], part[0]) for part in loss.at(np.array([0.0, 1.0]), eta)[:2])
            constant, mean = (np.full(len(y), part[0]) for part in (eta, loss.mean(eta)))
            rows = RowsAt(constant, mean, np.asarray(value))
        else:
            null = np.full(len(y), self.null_eta) if chunk.offset is None else self.null_eta + chunk.offset
            value, slope, _ = loss.at(y, null)
            rows = RowsAt(null, loss.mean(null), value)
        slope = np.where(test, 0.0, slope) if self.split.tests else slope
        return rows, np.asarray(slope if counted is None else slope * counted)

    def _part(self, y: Array, at: RowsAt, null: RowsAt, weight: Array | None, held: bool = False) -> PartScores:
        if not len(y):
            return PartScores.none()
        two = self.loss.target == "two"
        ranked = (Ranked.rows(y, at.eta, self.grid, weight),) if two else ()
        pairs = ((self.loss, at), (self.loss.of_constant, null))
        sums, of_null = (LossSums.of(loss, y, rows.eta, rows.value, weight, rows.mean) for loss, rows in pairs)
        if two or not held:
            return PartScores(sums, of_null, ranked)
        sizes = self.loss.sizes(y, at.mean)
        return PartScores(sums, of_null, ranked, (sizes,), () if weight is None else (weight,))


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
        quick = in_c(self.loss, len(self.coef), True)
        for rows, y, weight in self.pieces(worker):
            X = np.asarray(rows, np.float64, order="C")
            if quick:
                where = self.loss.name, X, y[:, 0], self.coef, self.at_centre
                sums = loss_sums(*where, centre=self.centre, weight=weight)
                n = float(len(X)) if weight is None else float(weight.sum())
                total = total.merge(kernel_curvature(sums, self.loss, n))
            else:
                X = X - self.centre
                eta = X @ self.coef + self.at_centre
                total = total.merge(curved(self.loss, X, y[:, 0], eta, np.ones(len(eta), bool), weight))
        return total
