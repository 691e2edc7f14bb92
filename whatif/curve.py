"""The errors of folds, the one place where they are made: each fold is refitted and tested on rows that it did not see.

Mean squared errors are averaged over folds without weights; the standard error is sd / sqrt(folds), sd with folds - 1.
Which weights a fold is given is for others to say: a path (`penalty_choice`), one alpha (`answers`), without a column
(`importance`). The rows themselves are not needed, but where columns nearly depend on one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from shoal.data.encoding import Encoding, mapped
from shoal.lazy.classes import dataclass
from shoal.models import TINY, Array
from shoal.solve.least_squares import LeastSquares
from shoal.solve.moments import Moments, mean_squares
from shoal.solve.paths import weights_along
from shoal.whatif.cells import CellMoments


@dataclass(frozen=True, eq=False)
class Fold:
    """The problem of a fold's training rows, and the n rows that it is tested on: moments of (columns..., target), or,
    with twice the digits, rows [columns..., target] that are equal to them, in the units of the problem."""

    problem: LeastSquares
    n: float
    test: Moments | Array

    def errors(self, W: Array) -> Array:
        """The mean squared error on the test rows, for each row of W (m, p)."""
        if isinstance(self.test, Moments):
            return mean_squares(self.test, *self.problem.units.raw_along(W))
        residuals = self.test[:, -1:] - self.test[:, :-1] @ W.T
        return np.asarray(np.einsum("ij,ij->j", residuals, residuals) / self.n)


def fold_of(cells: CellMoments, number: int) -> tuple[Encoding, Fold]:
    """A fold with the design of its training rows."""
    encoding, problem = cells.problem(number)
    cell = cells.choice.test_cell(number)
    moments = cells.cells[cell]
    if cells.factors is None:
        return encoding, Fold(problem, moments.n, mapped(moments, cells.base, encoding))
    rows = cells.factors.rows([cell], cells.base, encoding, problem.units)
    return encoding, Fold(problem, moments.n, rows[:, 1:])


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """errors (folds, m): mean squared errors at each alpha, which fall."""

    alphas: Array
    errors: Array

    @property
    def mean(self) -> Array:
        return np.asarray(self.errors.mean(axis=0))

    @property
    def standard_error(self) -> Array:
        size = np.maximum(self.errors.max(axis=0), TINY)  # squares of errors that are squares already may overflow
        return np.asarray((self.errors / size).std(axis=0, ddof=1) * size / np.sqrt(len(self.errors)))

    @property
    def best(self) -> int:
        """The place of the smallest mean error; of equals the strongest penalty."""
        return int(np.argmin(self.mean))

    @property
    def one_se(self) -> int:
        """The place of the strongest penalty whose error is within one standard error of the best."""
        bound = self.mean[self.best] + self.standard_error[self.best]
        return int(np.flatnonzero(self.mean <= bound)[np.argmax(self.alphas[self.mean <= bound])])

    def as_dict(self) -> dict[str, Any]:
        return {"alphas": self.alphas.tolist(), "cv_mean": self.mean.tolist(), "cv_se": self.standard_error.tolist()}


def curves(folds: Iterable[Fold], model: str, ratios: Sequence[float], grids: Sequence[Array]) -> list[CrossValidation]:
    """The whole path in every fold, for each mixing ratio and its alphas; folds are held one at a time."""
    errors = [
        [
            fold.errors(weights_along(fold.problem, model, grid, ratio))
            for ratio, grid in zip(ratios, grids, strict=True)
        ]
        for fold in folds
    ]
    return [
        CrossValidation(grid, np.array(found)) for grid, found in zip(grids, zip(*errors, strict=True), strict=True)
    ]


def cross_validate(cells: CellMoments, model: str, alphas: Sequence[float] | Array, l1_ratio: float) -> CrossValidation:
    """The same from the sums of cells, for one mixing ratio."""
    folds = (fold_of(cells, number)[1] for number in cells.tested)
    return curves(folds, model, [l1_ratio], [np.asarray(alphas, float)])[0]
