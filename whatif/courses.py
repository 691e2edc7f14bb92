"""What a study is asked, and what is answered: a whole path with its errors in every fold, or one alpha of it. Who
works on answers, and which of them are kept, is in `answers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from shoal.data.encoding import Encoding, mapped
from shoal.lazy.classes import dataclass
from shoal.models import L1L2, Array, Certificate
from shoal.solve.least_squares import LeastSquares
from shoal.solve.moments import Moments, mean_squares
from shoal.solve.paths import Path, certificate_of
from shoal.whatif.cells import CellMoments
from shoal.whatif.curve import CrossValidation, Fold, fold_of

FOLDS_BYTES = 512 << 20  # of the problems of all folds: some 1,200 columns in ten folds


class Question(NamedTuple):
    """What a course is asked for; `columns` are those of the file that may predict, in their order."""

    target: str
    columns: tuple[str, ...]
    model: str
    l1_ratio: float = 0.5

    @property
    def setting(self) -> tuple[str, tuple[str, ...]]:
        return self.target, self.columns


@dataclass(frozen=True, eq=False)
class Setting:
    """One target and one choice of columns: the problem of all training rows, and that of every fold."""

    cells: CellMoments
    encoding: Encoding
    problem: LeastSquares
    train: Moments
    held: Moments | None

    @classmethod
    def of(cls, cells: CellMoments) -> Setting:
        encoding, problem = cells.problem()
        held = mapped(cells.held, cells.base, encoding) if cells.held.n else None
        return cls(cells, encoding, problem, cells.training(None)[1], held)

    @property
    def folds(self) -> Iterable[Fold]:
        """Kept for the next question, unless the table is so wide that they are made anew, one at a time."""
        return self._folds if self.keeps_folds else self._made()

    @cached_property
    def _folds(self) -> list[Fold]:
        return list(self._made())

    def _made(self) -> Iterator[Fold]:
        return (fold_of(self.cells, number)[1] for number in self.cells.tested)

    @property
    def keeps_folds(self) -> bool:
        return self._bytes(len(self.cells.cells)) <= FOLDS_BYTES

    @property
    def has_folds(self) -> bool:
        """Whether their problems are made: where columns are many, that takes longer than one model."""
        return "_folds" in vars(self)

    def make_folds(self, pause: Callable[[], None]) -> None:
        """One by one, with a pause before each; those that are not kept are made when they are asked for."""
        if self.has_folds or not self.keeps_folds:
            return
        made = []
        for number in self.cells.tested:
            pause()
            made.append(fold_of(self.cells, number)[1])
        vars(self).setdefault("_folds", made)

    @property
    def size(self) -> int:
        return self._bytes(len(self.cells.cells) if self.keeps_folds else 1)

    def _bytes(self, folds: int) -> int:
        """Nearly: R and its square for so many folds, the sums of their cells, and the same in their designs."""
        return 32 * (folds + 2) * (len(self.problem.z) + 1) ** 2

    def errors(self, weights: Callable[[LeastSquares], Array], pause: Callable[[], None] = lambda: None) -> Array:
        """(folds, m): the mean squared errors of the weights (m, p) that each fold's problem is given."""
        found = []
        for fold in self.folds:
            pause()
            found.append(fold.errors(weights(fold.problem)))
        return np.array(found)


@dataclass(frozen=True)
class Scores:
    """Root mean squared error, and the share of the target's variance that is explained (None if it does not vary)."""

    rmse: float
    r2: float | None

    @classmethod
    def of(cls, mean_square: float, rows: Moments) -> Scores:
        variance = float(rows.scatter[-1, -1] / rows.n)
        return cls(float(np.sqrt(mean_square)), 1 - mean_square / variance if variance > 0 else None)


@dataclass(frozen=True, eq=False)
class Point:
    """The model at one alpha; w in standardised columns, coef in the units of the file."""

    alpha: float
    w: Array
    coef: Array
    intercept: float
    cv_mean: float
    cv_se: float
    cross_validated: Scores
    train: Scores
    test: Scores | None
    certificate: Certificate


@dataclass(frozen=True, eq=False)
class Course:
    """The whole path of a question, and its errors in every fold; a linear model has the one alpha 0.

    It does not hold on to its setting, which takes many times its own memory.
    """

    path: Path
    cv: CrossValidation
    train: Array  # mean squared errors (m,) on training rows
    test: Array | None  # and on those that were kept for testing
    trained: Moments  # of the target
    held: Moments | None
    seconds: float

    @property
    def alphas(self) -> Array:
        return self.path.alphas

    @property
    def size(self) -> int:
        return 2 * self.path.W.nbytes

    def place(self, alpha: float) -> int | None:
        """Where exactly this alpha stands; None if it is between two."""
        found = np.flatnonzero(self.alphas == alpha)
        return int(found[0]) if len(found) else None

    def point(self, place: int) -> Point:
        path = self.path
        mean = float(self.cv.mean[place])
        return Point(
            alpha=float(self.alphas[place]),
            w=path.W[place],
            coef=path.coef[place],
            intercept=float(path.intercepts[place]),
            cv_mean=mean,
            cv_se=float(self.cv.standard_error[place]),
            cross_validated=Scores.of(mean, self.trained),
            train=Scores.of(float(self.train[place]), self.trained),
            test=None if self.test is None or self.held is None else Scores.of(float(self.test[place]), self.held),
            certificate=path.certificates[place],
        )


def point_at(setting: Setting, alpha: float, penalty: L1L2, w: Array, cv: CrossValidation | None) -> Point:
    """Without errors over folds its figures of cross-validation are NaN."""
    problem = setting.problem
    coef, intercepts = problem.units.raw_along(w[None])
    mean, error = (float(cv.mean[0]), float(cv.standard_error[0])) if cv else (math.nan, math.nan)
    scores = [
        None if rows is None else Scores.of(float(mean_squares(rows, coef, intercepts)[0]), rows)
        for rows in (setting.train, setting.held)
    ]
    assert scores[0] is not None
    return Point(
        alpha, w, coef[0], float(intercepts[0]), mean, error, Scores.of(mean, setting.train),
        scores[0], scores[1], certificate_of(problem, penalty, w),
    )  # fmt: skip
