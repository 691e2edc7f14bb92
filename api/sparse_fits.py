"""Exact fits to sparse matrices and the errors of their splits, by this process: zeros are never filled in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from shoal.api.array_fits import FitPlan, check_finite
from shoal.kernels.threads import one_thread
from shoal.losses.base import LossOfRows, RowLoss
from shoal.models import L1L2, Floats
from shoal.settings.limits import SOLVING, memory_for_exact
from shoal.solve.paths import Solution
from shoal.solve.rows.along import points_along
from shoal.solve.rows.sparse import SparseRows
from shoal.solve.rows.steps import RowsOptimum, minimise_rows
from shoal.solve.rows.wide import solve_wide
from shoal.utils import available_memory
from shoal.whatif.curve import CrossValidation
from shoal.whatif.penalty_choice import grid_for


def solve_sparse_all(plan: FitPlan, X: Any, Y: Floats, weights: Floats | None) -> list[Solution]:
    """One solution for each column of Y (n, targets), certified by the rows of X (n, p), a matrix of scipy."""
    found = []
    with one_thread, np.errstate(over="ignore", invalid="ignore"):
        for y in Y.T:
            rows = _rows(plan, X, y, weights)
            found.append(solve_wide(rows, plan.penalty(rows.n)))
    return found


def _rows(plan: FitPlan, X: Any, y: Floats, weights: Floats | None) -> SparseRows:
    most = max(1, math.isqrt(memory_for_exact(available_memory()) // (8 * SOLVING)))
    rows = SparseRows.of(X, y, plan.intercept, plan.standardize, weights, most)
    check_finite(rows.squares, rows.y_scatter)
    return rows


def minimise_sparse(
    loss: RowLoss, X: Any, y: Floats, weights: Floats | None, penalty: L1L2, intercept: bool, standardize: bool
) -> RowsOptimum:
    """The minimum of another loss with a penalty, certified by the rows of X (n, p), a matrix of scipy."""
    with one_thread, np.errstate(over="ignore", invalid="ignore"):
        rows = SparseRows.of(X, y, intercept, standardize, weights)
        check_finite(rows.squares, rows.y_scatter)
        constant = loss.eta(rows.units.y_mean) if intercept else 0.0
        return minimise_rows(rows, LossOfRows(loss, y, weights), penalty, constant)


def as_dense(X: Any) -> Floats:
    """Of what has no way for sparse rows yet, filled in where there is memory for it."""
    need, free = 24 * X.shape[0] * X.shape[1], memory_for_exact(available_memory())
    if need > free:
        raise ValueError(
            "Expected a smaller sparse X: this model fills its zeros in, which takes "
            f"{need / 1e6:,.0f} MB of the {free / 1e6:,.0f} MB that may be used. Give fewer columns, or choose a "
            "model that keeps them, such as a logistic model of two classes with a penalty."
        )
    return np.asarray(X.toarray(), np.float64)


# ------------------------------------------------------------------ splits


def sparse_grids(
    plan: FitPlan, X: Any, y: Floats, weights: Floats | None, ratios: Sequence[float], count: int
) -> list[Floats] | None:
    """The alphas for each mixing ratio, by all rows; None where no column is related to the target."""
    with one_thread, np.errstate(over="ignore", invalid="ignore"):
        rows = _rows(plan, X, y, weights)
        if not rows.zero_gradient > 0:
            return None
        return [np.asarray(grid_for(rows, plan.model, ratio, count), np.float64) for ratio in ratios]


def sparse_curves(
    plan: FitPlan, X: Any, y: Floats, weights: Floats | None, splits: Iterable[tuple[Any, Any]],
    ratios: Sequence[float], grids: Sequence[Floats],
) -> list[CrossValidation]:  # fmt: skip
    """The whole path in every split (training rows, test rows), for each mixing ratio and its alphas, which fall."""
    counts = np.ones(X.shape[0]) if weights is None else weights
    errors: list[list[list[float]]] = [[] for _ in ratios]
    for train, test in splits:
        with one_thread, np.errstate(over="ignore", invalid="ignore"):
            rows = _rows(plan, X[train], y[train], None if weights is None else weights[train])
            held, target, count = X[test], y[test], counts[test]
            for own, ratio, grid in zip(errors, ratios, grids, strict=True):
                found = []
                for point in points_along(rows, plan.model, grid, ratio):
                    coef, intercept = rows.units.raw(point.w)
                    residual = target - intercept - held @ coef
                    found.append(float(count @ residual**2) / float(count.sum()))
                own.append(found)
    return [CrossValidation(grid, np.array(own)) for grid, own in zip(grids, errors, strict=True)]
