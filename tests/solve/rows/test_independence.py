"""Sparse columns that are independent by where their values stand, held against NumPy's rank of the filled matrix."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from shoal.models import L1L2
from shoal.solve.rows.independence import entangled
from shoal.solve.rows.sparse import SparseRows
from shoal.solve.rows.wide import NOT_UNIQUE, solve_wide


@pytest.mark.parametrize("seed", range(12))
def test_what_is_taken_out_adds_its_number_to_the_rank(seed: int) -> None:
    random = np.random.default_rng(seed)
    A = random.standard_normal((40, 24)) * (random.random((40, 24)) < (0.04, 0.08, 0.15)[seed % 3])
    A[:, 5], A[:, 9] = A[:, 3] - A[:, 4], (random.random(40) < 0.5) * 1e-9
    counted = random.random(40) < 0.9
    norms = np.linalg.norm(A, axis=0)
    left = entangled(sp.csc_array(A), counted, norms, intercept=True)
    inside = np.column_stack((A[counted], np.ones(counted.sum())))
    rank = np.linalg.matrix_rank
    assert rank(inside) == len(norms) - len(left) + rank(np.column_stack((inside[:, left], inside[:, -1])))


def test_without_an_empty_row_an_intercept_takes_part() -> None:
    levels = sp.csc_array(np.eye(5)[np.arange(20) % 5])  # these add up to the intercept
    assert len(entangled(levels, np.ones(20, bool), np.ones(5), intercept=True)) == 5
    assert not len(entangled(levels, np.ones(20, bool), np.ones(5), intercept=False))


def test_a_lasso_with_twin_columns_is_told_not_to_be_unique() -> None:
    random = np.random.default_rng(1)
    X = sp.random(3000, 1200, 0.002, "csc", random_state=2)
    y = X[:, :40] @ random.standard_normal(40) + 0.01 * random.standard_normal(3000)
    twins = sp.hstack((X, X[:, :1]), "csc")
    alone, both = (SparseRows.of(one, y, True, True) for one in (X, twins))
    l1 = 0.05 * alone.zero_gradient
    assert solve_wide(alone, L1L2(l1, 0.0)).unique
    found = solve_wide(both, L1L2(l1, 0.0))
    assert not found.unique
    assert NOT_UNIQUE in found.notes
