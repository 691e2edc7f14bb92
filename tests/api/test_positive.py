"""Coefficients of 0 or more, against scikit-learn's estimators with positive=True."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.linear_model as theirs
from scipy import sparse
from sklearn.datasets import load_diabetes

import shoal

TIGHT = {"tol": 1e-14, "max_iter": 1_000_000}
PAIRS = [
    (shoal.LinearRegression(positive=True), theirs.LinearRegression(positive=True)),
    (shoal.Ridge(2.0, positive=True), theirs.Ridge(2.0, positive=True, **TIGHT)),
    (shoal.Lasso(0.05, positive=True), theirs.Lasso(0.05, positive=True, **TIGHT)),
    (shoal.ElasticNet(0.1, l1_ratio=0.3, positive=True), theirs.ElasticNet(0.1, l1_ratio=0.3, positive=True, **TIGHT)),
]


def tables() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 12)) @ rng.normal(size=(12, 12)) + 50
    near = X[:, 0] + 1e-3 * rng.normal(size=300)  # nearly the same as another column
    made = np.column_stack((X, near))
    diabetes = load_diabetes(scaled=False)
    return [(made, made @ rng.normal(size=13) + rng.normal(size=300)), (diabetes.data, diabetes.target)]


@pytest.mark.parametrize(("ours", "other"), PAIRS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("intercept", [True, False])
def test_equal_to_scikit_learn_or_lower(ours: Any, other: Any, intercept: bool) -> None:
    """On a real table and on one with columns far from zero that nearly depend on one another; there predictions are
    compared, and what is minimised is no higher than theirs."""
    for place, (X, y) in enumerate(tables()):
        found = ours.set_params(fit_intercept=intercept).fit(X, y)
        expected = other.set_params(fit_intercept=intercept).fit(X, y)
        assert (found.coef_ >= 0).all()
        assert (found.coef_ == 0).any()
        assert found.certificate_.relative < 1e-9
        np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=2e-4)
        assert objective(ours, found, X, y) <= objective(ours, expected, X, y) * (1 + 1e-10)
        if place:
            np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-5, atol=1e-5 * np.abs(found.coef_).max())


def objective(of: Any, fitted: Any, X: np.ndarray, y: np.ndarray) -> float:
    squares, w = float(((y - fitted.predict(X)) ** 2).sum()), fitted.coef_
    alpha, n = getattr(of, "alpha", 0.0), len(y)
    if isinstance(of, shoal.Ridge):
        return squares + alpha * float(w @ w)
    ratio = getattr(of, "l1_ratio", 1.0)
    return squares / (2 * n) + alpha * (ratio * float(np.abs(w).sum()) + (1 - ratio) / 2 * float(w @ w))


def test_several_targets_weights_and_sparse_rows() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 4))
    Y = np.column_stack((X @ [1.0, -1.0, 0.5, 0.0], X @ [0.0, 2.0, -0.3, 1.0])) + rng.normal(size=(80, 2))
    weights = rng.integers(0, 4, 80).astype(float)
    both = shoal.LinearRegression(positive=True).fit(X, Y, sample_weight=weights)
    expected = theirs.LinearRegression(positive=True).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(both.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="Expected a dense X beside positive=True"):
        shoal.Lasso(0.1, positive=True).fit(sparse.csr_matrix(X), Y[:, 0])
