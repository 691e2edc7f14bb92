"""Paths of columns that nearly depend on one another, against answers in exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shoal.kernels.path_kernel import sparse_path
from shoal.models import Array


def nearly_dependent(apart: float, seed: int) -> tuple[Array, Array]:
    """R (8, 8) and z (8,) of columns that come in pairs, a step `apart` from one another."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4))
    X = np.column_stack((X, X + apart * rng.normal(size=X.shape)))
    y = X[:, :4] @ [3.0, -2.0, 1.0, 0.5] + rng.normal(size=60)
    T = np.linalg.qr(np.column_stack((X, y)), mode="r")
    return T[:8, :8], T[:8, 8]


def exactly(R: Array, z: Array, l1: float, l2: float, signs: Array) -> Array:
    """The weights on the support of `signs`: (R'R + l2) w = R'z - l1 signs, without rounding."""
    support = np.flatnonzero(signs)
    columns = [[Fraction(v) for v in R[:, j].tolist()] for j in support]
    target = [Fraction(v) for v in z.tolist()]
    rows = [
        [
            *(sum(a * b for a, b in zip(one, other, strict=True)) + (Fraction(l2) if i == k else 0) for k, other in enumerate(columns)),
            sum(a * b for a, b in zip(one, target, strict=True)) - Fraction(l1) * int(signs[support[i]]),
        ]
        for i, one in enumerate(columns)
    ]  # fmt: skip
    for i in range(len(rows)):
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for k in range(len(rows)):
            if k != i:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    w = np.zeros(len(z))
    w[support] = [float(row[-1]) for row in rows]
    return w


@pytest.mark.parametrize("l2", [0.0, 1e-9])
@pytest.mark.parametrize("apart", [1e-2, 1e-4])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_a_factor_answers_have_its_digits(apart: float, seed: int, l2: float) -> None:
    R, z = nearly_dependent(apart, seed)
    l1 = np.abs(R.T @ z).max() * np.geomspace(1, 1e-6, 40)
    W, settled = sparse_path(R.T @ R, R.T @ z, l1, np.full(40, l2), factor=(R, z))
    assert settled == 40
    condition = np.linalg.cond(R)
    for i, w in enumerate(W):
        truth = exactly(R, z, float(l1[i]), l2, np.sign(w))
        assert (np.sign(truth) == np.sign(w)).all()
        assert np.abs(w - truth).max() <= 1e-15 * condition * max(np.abs(truth).max(), 1e-300)
        correlation = R.T @ (z - R @ w) - l2 * w
        assert (np.abs(correlation) <= l1[i] * (1 + 1e-9) + 1e-10).all()


def test_the_factor_brings_back_digits_that_its_square_has_lost() -> None:
    R, z = nearly_dependent(1e-4, 1)
    l1 = np.abs(R.T @ z).max() * np.geomspace(1, 1e-6, 40)
    errors = []
    for factor in (None, (R, z)):
        w = sparse_path(R.T @ R, R.T @ z, l1, np.zeros(40), factor=factor)[0][-1]
        truth = exactly(R, z, float(l1[-1]), 0.0, np.sign(w))
        assert np.count_nonzero(w) == 8  # both of every pair are in
        errors.append(np.abs(w - truth).max())
    assert errors[1] < 1e-4 * errors[0]
