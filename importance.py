"""What a column is worth: how much the cross-validated error rises when it is left out and the model refitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cross_validation import CellMoments, mean_squares, raw_weights
from least_squares import ENOUGH_DIGITS, LeastSquares, digits
from models import Array, Penalty, penalty_for
from path_kernel import sparse_path
from paths import solve


@dataclass(frozen=True)
class Importance:
    """The mean over folds of the squared error with all columns, and its rise without each one of them."""

    error: float
    rises: dict[str, float]


def drop_one(cells: CellMoments, model: str, alpha: float, l1_ratio: float) -> Importance:
    """At this alpha, for every column of the file: with all its levels and its missing indicator."""
    columns = cells.base.columns
    errors = np.array([_fold(cells, fold, columns, model, alpha, l1_ratio) for fold in range(cells.choice.count)])
    mean = errors.mean(axis=0)
    return Importance(float(mean[0]), dict(zip(columns, (mean[1:] - mean[0]).tolist(), strict=True)))


def _fold(cells: CellMoments, fold: int, columns: list[str], model: str, alpha: float, l1_ratio: float) -> Array:
    """The error with all columns, then without each."""
    encoding, problem = cells.problem(fold)
    fitter = _WithoutSome(problem, penalty_for(model, alpha, l1_ratio, problem.n))
    owner = np.array([term.column for term in encoding.terms])
    W = np.array([fitter.full, *(fitter.weights(owner == column) for column in columns)])
    return mean_squares(cells.test(fold, encoding), *raw_weights(problem, W))


class _WithoutSome:
    """Fits without some of the design columns, all from one Gram matrix."""

    def __init__(self, problem: LeastSquares, penalty: Penalty) -> None:
        self.problem, self.penalty = problem, penalty
        self.H, self.c = problem.gram / problem.n, problem.R.T @ problem.z / problem.n
        self.full = solve(problem, penalty).w

    def weights(self, left_out: NDArray[np.bool_]) -> Array:
        """The weights, 0 where a column is left out."""
        if not self.full[left_out].any() and self.penalty.l1 > 0:
            return self.full  # what had no weight is not missed
        if self.penalty.l1 == 0:
            return self._smooth(left_out)
        l1, l2 = np.array([self.penalty.l1]), np.array([self.penalty.l2])
        W, settled = sparse_path(self.H, self.c, l1, l2, self.full, left_out)
        return W[0] if settled else self._again(left_out)

    def _smooth(self, J: NDArray[np.bool_]) -> Array:
        """w - C[:, J] C[J, J]^-1 w[J] with C = (H + l2)^-1: what is left out is made up for by the others."""
        if self._inverse is None:
            return self._again(J)
        w: Array = self.full - self._inverse[:, J] @ np.linalg.solve(self._inverse[np.ix_(J, J)], self.full[J])
        return np.where(J, 0.0, w)

    @cached_property
    def _inverse(self) -> Array | None:
        """None where H is nearly singular: then weights have to be found anew."""
        problem = self.problem
        if digits(problem, self.penalty.l2) < ENOUGH_DIGITS:
            return None
        return np.linalg.inv(self.H + self.penalty.l2 * np.eye(len(self.c)))

    def _again(self, left_out: NDArray[np.bool_]) -> Array:
        """A column of zeros is one that does not vary."""
        return solve(replace(self.problem, R=np.where(left_out, 0.0, self.problem.R)), self.penalty).w
