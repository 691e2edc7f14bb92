"""The requests behind models of several classes: sums for Newton steps, and what a model is worth on rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from shoal.data.splits import Split
from shoal.data_pipeline import Chunk, design_rows
from shoal.lazy.classes import dataclass
from shoal.losses.multinomial import Multinomial
from shoal.models import Array, Bools
from shoal.passes.arrays import RangeRequest
from shoal.passes.blocks import CALIBRATION_SEED, BlockRequest
from shoal.solve.classes.newton import ClassSums
from shoal.solve.ranking import Ranked
from shoal.worker import Worker

WIDE_VALUES = 1 << 19  # of rows times (classes x columns) that are multiplied at a time
SURE = 1e-16  # the nearest that a probability comes to 0 and 1 in ranks


@dataclass(frozen=True)
class ClassRequest(BlockRequest):
    """What requests at given coefficients have in common: rows with a score for each class."""

    coef: Array  # (K, p) in the units of the file
    at_centre: Array  # (K,): the scores where all columns are at the centre
    centre: Array
    class_weight: tuple[float, ...] | None  # what rows of each class count for in the fit, beside their weights

    def scored(self) -> Iterator[tuple[Chunk, Array, npt.NDArray[np.intp], Array]]:
        """Chunks with X less the centre, the place of each row's class, and scores (n, K)."""
        moved = bool(self.centre.any())
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            X = chunk.X - self.centre if moved else chunk.X
            yield chunk, X, chunk.y.astype(np.intp), X @ self.coef.T + self.at_centre

    def counted(self, y: npt.NDArray[np.intp], weight: Array | None) -> Array | None:
        """How much each row counts in the fit; None where all do alike."""
        if self.class_weight is None:
            return weight
        own = np.array(self.class_weight)[y]
        return own if weight is None else own * weight


@dataclass(frozen=True)
class SumClasses(ClassRequest):
    """The sums of a Newton step over the training rows; not `curved`: without their curvature."""

    curved: bool = True

    def answer(self, worker: Worker) -> ClassSums:
        total = ClassSums.none(self.coef.shape, self.curved)
        for chunk, X, y, eta in self.scored():
            train = ~self.split.is_test(chunk.row)
            total = total.merge(summed_classes(X, y, eta, train, self.counted(y, chunk.weight), self.curved))
        return total


def summed_classes(
    X: Array, y: npt.NDArray[np.intp], eta: Array, rows: Bools, weight: Array | None = None, curved: bool = True
) -> ClassSums:
    """The sums of some rows of a chunk."""
    if not rows.all():
        X, y, eta, weight = X[rows], y[rows], eta[rows], None if weight is None else weight[rows]
    K, q = eta.shape[1], X.shape[1] + 1
    if not len(y):
        return ClassSums.none((K, q - 1), curved)
    value, shares = Multinomial().at(y, eta)
    own = eta[np.arange(len(y)), y]
    others = eta.copy()
    others[np.arange(len(y)), y] = -np.inf
    margin, reach = float((own - others.max(axis=1)).min()), float(np.ptp(eta, axis=1).max())
    off = shares.copy()
    off[np.arange(len(y)), y] -= 1
    n: float = float(len(y))
    counted: Array = np.ones(len(y))
    if weight is not None:
        n, counted = float(weight.sum()), weight
    U = np.empty((len(y), q))
    U[:, 0], U[:, 1:] = 1.0, X
    slope = (off * counted[:, None]).T @ U
    square = _curvature(U, shares, counted) if curved else np.zeros((0, 0))
    return ClassSums(n, float(value @ counted), slope, square, reach, margin)


def _curvature(U: Array, shares: Array, counted: Array) -> Array:
    """sum c (P_k [k = l] - P_k P_l) u u' (K q, K q): all pairs of classes by one product of rows of K q columns."""
    (rows, q), K = U.shape, shares.shape[1]
    square = np.zeros((K * q, K * q))
    for k in range(K):
        own = U * np.sqrt(counted * shares[:, k])[:, None]
        square[k * q : (k + 1) * q, k * q : (k + 1) * q] = own.T @ own
    step = max(64, WIDE_VALUES // (K * q))
    rooted = np.sqrt(counted)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        wide = (shares[part] * rooted[part, None])[:, :, None] * U[part, None, :]
        wide = wide.reshape(len(wide), K * q)
        square -= wide.T @ wide
    return square


# ------------------------------------------------------------------ what it is worth


@dataclass(frozen=True)
class ClassScores:
    """Of training rows, or of test rows: sums of the loss of the model and of knowing the shares of classes alone, how
    many rows of each class are called what (K, K), rows in the order of each class's probability, and 1 less the
    probability of the class that came."""

    rows: int
    total: float  # what rows count for
    value: float
    null: float
    squares: float  # of what probabilities are off by, over all classes
    null_squares: float
    calls: Array
    ranked: tuple[tuple[Ranked, ...], ...] = ()  # parts, each with one a class
    sizes: tuple[Array, ...] = ()
    weights: tuple[Array, ...] = ()

    @classmethod
    def none(cls, classes: int) -> ClassScores:
        return cls(0, 0.0, 0.0, 0.0, 0.0, 0.0, np.zeros((classes, classes)))

    def merge(self, other: ClassScores) -> ClassScores:
        return ClassScores(
            self.rows + other.rows, self.total + other.total, self.value + other.value, self.null + other.null,
            self.squares + other.squares, self.null_squares + other.null_squares, self.calls + other.calls,
            self.ranked + other.ranked, self.sizes + other.sizes, self.weights + other.weights,
        )  # fmt: skip

    def settled(self) -> ClassScores:
        """With the ranks of each class in one, which is less to send."""
        return replace(self, ranked=(self.by_class(),) if self.ranked else ())

    def by_class(self) -> tuple[Ranked, ...]:
        return tuple(Ranked.together(parts) for parts in zip(*self.ranked, strict=True))


@dataclass(frozen=True)
class ScoredClasses:
    """What one pass says of a model at its coefficients."""

    train: ClassScores
    test: ClassScores
    sums: ClassSums
    null_slope: Array  # (K, q): where the shares of classes alone are known, as in `ClassSums`
    unseen: int

    def merge(self, other: ScoredClasses) -> ScoredClasses:
        return ScoredClasses(
            self.train.merge(other.train), self.test.merge(other.test), self.sums.merge(other.sums),
            self.null_slope + other.null_slope, self.unseen + other.unseen,
        )  # fmt: skip


@dataclass(frozen=True)
class ScoreClasses(ClassRequest):
    """Scores and curvature at the coefficients that a fit ended with."""

    known: Array  # (K,): scores of a model that knows the shares of classes alone
    grid: float
    kept: float  # the share of test rows whose probabilities are kept for sets of classes
    curved: bool = True

    def answer(self, worker: Worker) -> ScoredClasses:
        K, p = self.coef.shape
        none = ClassScores.none(K)
        found = ScoredClasses(none, none, ClassSums.none((K, p), self.curved), np.zeros((K, p + 1)), 0)
        for chunk, X, y, eta in self.scored():
            test = self.split.is_test(chunk.row)
            train, held = (
                self._part(y[rows], eta[rows], None if chunk.weight is None else chunk.weight[rows])
                for rows in (~test, test)
            )
            held = self._sized(held, y[test], eta[test], chunk.row[test], chunk.weight, test)
            counted = self.counted(y, chunk.weight)
            sums = summed_classes(X, y, eta, ~test, counted, self.curved)
            known = np.broadcast_to(self.known, eta.shape)
            null_slope = summed_classes(X, y, known, ~test, counted, curved=False).slope
            found = found.merge(ScoredClasses(train, held, sums, null_slope, chunk.unseen))
        return replace(found, train=found.train.settled(), test=found.test.settled())

    def _part(self, y: npt.NDArray[np.intp], eta: Array, weight: Array | None) -> ClassScores:
        K = eta.shape[1]
        if not len(y):
            return ClassScores.none(K)
        counted = np.ones(len(y)) if weight is None else weight
        value, shares = Multinomial().at(y, eta)
        null, known = Multinomial().at(y, np.broadcast_to(self.known, eta.shape))
        came = np.eye(K)[y]
        calls = np.zeros((K, K))
        np.add.at(calls, (y, shares.argmax(axis=1)), counted)
        sure = np.clip(shares, SURE, 1 - SURE)
        ranks = np.log(sure) - np.log1p(-sure)
        ranked = tuple(Ranked.of(came[:, k], ranks[:, k], self.grid, weight) for k in range(K))
        return ClassScores(
            len(y), float(counted.sum()), float(value @ counted), float(null @ counted),
            float(((shares - came) ** 2).sum(axis=1) @ counted), float(((known - came) ** 2).sum(axis=1) @ counted),
            calls, (ranked,),
        )  # fmt: skip

    def _sized(
        self, held: ClassScores, y: npt.NDArray[np.intp], eta: Array, row: npt.NDArray[np.int64],
        weight: Array | None, test: Bools,
    ) -> ClassScores:  # fmt: skip
        """With 1 less the probability of what came in test rows, of a random part of them where there are many."""
        if not len(y):
            return held
        sizes = 1 - Multinomial().mean(eta)[np.arange(len(y)), y]
        own = None if weight is None else weight[test]
        if self.kept < 1:
            chosen = Split(seed=CALIBRATION_SEED).hashed(row) < self.kept
            sizes, own = sizes[chosen], None if own is None else own[chosen]
        return replace(held, sizes=(sizes,), weights=() if own is None else (own,))


# ------------------------------------------------------------------ rows of arrays


@dataclass(frozen=True)
class RangeClasses(RangeRequest):
    """The sums of a Newton step over a range of rows of arrays X and Y (n, 1), the places of classes."""

    coef: Array
    at_centre: Array
    centre: Array
    curved: bool = True

    def answer(self, worker: Worker) -> ClassSums:
        total = ClassSums.none(self.coef.shape, self.curved)
        for rows, y, weight in self.pieces(worker):
            X = np.asarray(rows, np.float64, order="C") - self.centre
            eta = X @ self.coef.T + self.at_centre
            all_ = np.ones(len(eta), bool)
            total = total.merge(summed_classes(X, y[:, 0].astype(np.intp), eta, all_, weight, self.curved))
        return total
