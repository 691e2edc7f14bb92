"""What a column is worth: how much the cross-validated error rises when it is left out and the model refitted."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.data.encoding import Encoding
from shoal.kernels.path_kernel import sparse_path
from shoal.lazy.classes import dataclass
from shoal.models import L1L2, Array, penalty_for
from shoal.solve.least_squares import LeastSquares
from shoal.solve.paths import solve
from shoal.solve.smooth import safe_inverse, triangular, unit_columns
from shoal.whatif.cells import CellMoments
from shoal.whatif.curve import Fold, fold_of


@dataclass(frozen=True)
class Importance:
    """The mean of the squared error over folds that have test rows, with all columns, and its rise without each."""

    error: float
    rises: dict[str, float]


def drop_one(cells: CellMoments, model: str, alpha: float, l1_ratio: float) -> Importance:
    """At this alpha, for every column of the file: with its levels, its missing indicator, its square and products."""
    columns = cells.columns
    errors = np.array([_errors(*fold_of(cells, number), columns, model, alpha, l1_ratio) for number in cells.tested])
    mean = errors.mean(axis=0)
    return Importance(float(mean[0]), dict(zip(columns, (mean[1:] - mean[0]).tolist(), strict=True)))


def _errors(encoding: Encoding, fold: Fold, columns: list[str], model: str, alpha: float, l1_ratio: float) -> Array:
    """Of a fold with all columns, then without each."""
    fitter = _WithoutSome(fold.problem, penalty_for(model, alpha, l1_ratio, fold.problem.n))
    return fold.errors(np.array([fitter.full, *(fitter.weights(encoding.owned_by(column)) for column in columns)]))


class _WithoutSome:
    """Fits without some of the design columns, all from one Gram matrix."""

    def __init__(self, problem: LeastSquares, penalty: L1L2) -> None:
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
        """w - C[:, J] C[J, J]^-1 w[J] with C = (R'R + n l2)^-1: what is left out is made up for by the others.

        C = A A' is never formed, which would square the condition number: C[:, J] C[J, J]^-1 = A pinv(A[J]).
        """
        A = self._inverse
        if A is None:
            return self._again(J)
        w: Array = self.full - A @ np.linalg.lstsq(A[J], self.full[J], rcond=None)[0]
        return np.where(J, 0.0, w)

    @cached_property
    def _inverse(self) -> Array | None:
        """A = T^-1 (0 for columns that do not vary) with T'T = R'R + n l2; None where it is nearly singular: then
        weights have to be found anew."""
        live = self.problem.norms > 0
        unit, norms = unit_columns(triangular(self.problem, self.penalty.l2, live)[0])
        inverse = safe_inverse(unit, self.problem.floor)
        if inverse is None:
            return None
        A = np.zeros((len(live), len(norms)))
        A[live] = inverse / norms[:, None]
        return A

    def _again(self, left_out: NDArray[np.bool_]) -> Array:
        """A column of zeros is one that does not vary."""
        return solve(replace(self.problem, R=np.where(left_out, 0.0, self.problem.R)), self.penalty).w
