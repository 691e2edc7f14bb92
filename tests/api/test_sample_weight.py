"""Estimators with sample_weight against scikit-learn's own of these names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.linear_model as theirs
from sklearn.model_selection import KFold

import shoal

TIGHT = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 1000}
SETTLED = {"tol": 1e-14, "max_iter": 100_000}
PAIRS = [
    (shoal.LinearRegression(), theirs.LinearRegression()),
    (shoal.Ridge(3.0), theirs.Ridge(3.0)),
    (shoal.Lasso(0.1), theirs.Lasso(0.1, **SETTLED)),
    (shoal.ElasticNet(0.1, l1_ratio=0.3), theirs.ElasticNet(0.1, l1_ratio=0.3, **SETTLED)),
    (shoal.PoissonRegressor(0.2), theirs.PoissonRegressor(alpha=0.2, **TIGHT)),
    (shoal.GammaRegressor(0.2), theirs.GammaRegressor(alpha=0.2, **TIGHT)),
    (shoal.LogisticRegression(0.3), theirs.LogisticRegression(C=0.3, **TIGHT)),
    (
        shoal.LogisticRegression(0.3, class_weight={0: 1.0, 1: 3.0}),
        theirs.LogisticRegression(C=0.3, class_weight={0: 1.0, 1: 3.0}, **TIGHT),
    ),
]


def rows(estimator: Any, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 4)) * [1, 2, 0.5, 1] + [0, 3, 40, 0]
    eta = X @ [0.4, -0.2, 0.3, 0.0] - 11.5
    kind = type(estimator).__name__
    y = {
        "LogisticRegression": rng.random(n) < 1 / (1 + np.exp(-eta)),
        "PoissonRegressor": rng.poisson(np.exp(eta)),
        "GammaRegressor": rng.gamma(2.0, np.exp(eta)),
    }.get(kind, eta + rng.normal(size=n))
    return X, np.asarray(y, float), rng.integers(0, 5, n) * 0.7


@pytest.mark.parametrize(("ours", "other"), PAIRS, ids=[type(pair[0]).__name__ for pair in PAIRS])
def test_equal_to_scikit_learn(ours: Any, other: Any) -> None:
    X, y, w = rows(ours)
    found, expected = ours.fit(X, y, sample_weight=w), other.fit(X, y, sample_weight=w)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-6, atol=1e-9)
    assert found.score(X, y, sample_weight=w) == pytest.approx(expected.score(X, y, sample_weight=w), rel=1e-9)


def test_folds_weigh_their_errors_as_scikit_learns_do() -> None:
    X, y, w = rows(None)
    w, alphas, cv = w + 0.1, [1.0, 0.1, 0.01], KFold(4)
    found = shoal.LassoCV(alphas=alphas, cv=cv).fit(X, y, sample_weight=w)
    expected = theirs.LassoCV(alphas=alphas, cv=cv, **SETTLED).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(found.mse_path_, expected.mse_path_, rtol=1e-8)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-7)


def test_balanced_classes_count_as_much() -> None:
    X, y, w = rows(shoal.LogisticRegression())
    balanced = shoal.LogisticRegression(np.inf, class_weight="balanced").fit(X, y, sample_weight=w)
    by_hand = w * np.where(y == 1, w.sum() / (2 * w[y == 1].sum()), w.sum() / (2 * w[y == 0].sum()))
    np.testing.assert_allclose(balanced.coef_, shoal.LogisticRegression(np.inf).fit(X, y, by_hand).coef_, rtol=1e-9)
    assert float(by_hand @ balanced.predict_proba(X)[:, 1]) == pytest.approx(w.sum() / 2)


def test_negative_weights_are_refused() -> None:
    X, y, w = rows(None)
    with pytest.raises(ValueError, match="Negative values"):
        shoal.Ridge().fit(X, y, sample_weight=-w)
    with pytest.raises(ValueError, match="at least one non-zero"):
        shoal.Ridge().fit(X, y, sample_weight=0 * w)
