"""Exact fits to sparse matrices, by this process: zeros are never filled in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shoal.api.array_fits import FitPlan, check_finite
from shoal.kernels.threads import one_thread
from shoal.models import Floats
from shoal.settings.limits import SOLVING, memory_for_exact
from shoal.solve.paths import Solution
from shoal.solve.rows.sparse import SparseRows
from shoal.solve.rows.wide import solve_wide
from shoal.utils import available_memory


def solve_sparse_all(plan: FitPlan, X: Any, Y: Floats, weights: Floats | None) -> list[Solution]:
    """One solution for each column of Y (n, targets), certified by the rows of X (n, p), a matrix of scipy."""
    most = max(1, math.isqrt(memory_for_exact(available_memory()) // (8 * SOLVING)))
    found = []
    with one_thread, np.errstate(over="ignore", invalid="ignore"):
        for y in Y.T:
            rows = SparseRows.of(X, y, plan.intercept, plan.standardize, weights, most)
            check_finite(rows.squares, rows.y_scatter)
            found.append(solve_wide(rows, plan.penalty(rows.n)))
    return found
