"""What a column is worth: how much the cross-validated error rises when it is left out and the model refitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cross_validation import CellMoments, mean_squares
from least_squares import LeastSquares
from models import Array, Penalty, penalty_for
from moments import Moments
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


def _fold(cells: CellMoments, fold: int, columns: list[str], model: str, alpha: float, l1_ratio: float) -> list[float]:
    """The error with all columns, then without each."""
    encoding, problem = cells.problem(fold)
    test = cells.test(fold, encoding)
    penalty = penalty_for(model, alpha, l1_ratio, problem.n)
    fitter = _Subsets(problem, penalty)
    owner = np.array([term.column for term in encoding.terms])
    everything = np.ones(len(owner), bool)
    return [fitter.error(test, everything), *(fitter.error(test, owner != column) for column in columns)]


class _Subsets:
    """Fits on some of the design columns, all from one Gram matrix."""

    def __init__(self, problem: LeastSquares, penalty: Penalty) -> None:
        self.problem, self.penalty = problem, penalty
        self.H, self.c = problem.gram / problem.n, problem.R.T @ problem.z / problem.n
        self.full = solve(problem, penalty).w

    def error(self, test: Moments, kept: np.ndarray) -> float:
        places = np.flatnonzero(kept)
        w = self.full if kept.all() else self._weights(places)
        coef = w / self.problem.scale[places]
        offset = self.problem.y_mean - float(self.problem.centre[places] @ coef) if self.problem.intercept else 0.0
        part = test.take([*places, len(kept)])
        return float(mean_squares(part, coef[None, :], np.array([offset]))[0])

    def _weights(self, places: np.ndarray) -> Array:
        if not self.full[kept_out(len(self.full), places)].any() and self.penalty.l1 > 0:
            return self.full[places]  # what had no weight is not missed
        H, c = self.H[np.ix_(places, places)], self.c[places]
        if self.penalty.l1 > 0:
            W, settled = sparse_path(H, c, np.array([self.penalty.l1]), np.array([self.penalty.l2]), self.full[places])
            if settled:
                return W[0]
        elif self.penalty.l2 > 0:
            return np.linalg.solve(H + self.penalty.l2 * np.eye(len(c)), c)
        return solve(_part(self.problem, places), self.penalty).w


def kept_out(count: int, places: np.ndarray) -> np.ndarray:
    out = np.ones(count, bool)
    out[places] = False
    return out


def _part(problem: LeastSquares, places: np.ndarray) -> LeastSquares:
    """The same problem with fewer columns."""
    from dataclasses import replace

    from least_squares import triangle

    T = triangle(np.column_stack((problem.R[:, places], problem.z)))
    k = len(places)
    lost = float(T[k, k] ** 2) if len(T) > k else 0.0
    return replace(
        problem, R=T[:k, :k], z=T[:k, k], rest=problem.rest + lost, centre=problem.centre[places], scale=problem.scale[places]
    )
