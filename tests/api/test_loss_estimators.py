"""Estimators for yes/no, counts and positive numbers against scikit-learn's own of these names, and by its checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.linear_model as theirs
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import shoal
from shoal.tasks.workers import close_pools

ESTIMATORS = [
    shoal.LogisticRegression, shoal.PoissonRegressor, shoal.GammaRegressor, shoal.LognormalRegressor,
    shoal.HuberRegressor, shoal.QuantileRegressor,
]  # fmt: skip
TIGHT = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 1000}


def rows(kind: str, n: int = 400) -> tuple[np.ndarray, Any]:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, 5)) * [1, 2, 0.1, 5, 1] + [0, 3, 40, 0, 0]
    eta = X @ [0.5, -0.2, 1.0, 0.05, 0.0] - 40.0 + 0.3
    if kind == "classes":
        scores = np.outer(eta, [0.0, 1.0, -1.0]) + X[:, :1] * [0.3, 0.0, 1.0] + rng.gumbel(size=(n, 3))
        return X, np.array(["low", "mid", "top"])[scores.argmax(axis=1)]
    if kind == "logistic":
        return X, np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no")
    return X, rng.poisson(np.exp(eta)) if kind == "poisson" else rng.gamma(2.0, np.exp(eta)) + 1e-9


PAIRS = [
    ("logistic", shoal.LogisticRegression(0.3), theirs.LogisticRegression(C=0.3, **TIGHT)),
    ("classes", shoal.LogisticRegression(0.3), theirs.LogisticRegression(C=0.3, **TIGHT)),
    ("poisson", shoal.PoissonRegressor(0.2), theirs.PoissonRegressor(alpha=0.2, **TIGHT)),
    ("gamma", shoal.GammaRegressor(0.2), theirs.GammaRegressor(alpha=0.2, **TIGHT)),
]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scikit_learns_checks_pass(estimator: type) -> None:
    results = check_estimator(estimator(engine="inline"), on_skip=None, on_fail="raise")
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] != "passed"] in ([], ["check_array_api_input"])


@pytest.mark.parametrize("weighted", [False, True])
def test_logarithms_are_fitted_as_scikit_learn_does_and_their_means_predicted(weighted: bool) -> None:
    X, y = rows("gamma")
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    found = shoal.LognormalRegressor(0.2).fit(X, y, weights if weighted else None)
    expected = theirs.Ridge(0.2 * weights.sum()).fit(X, np.log(y), weights)
    smearing = np.average(y / np.exp(expected.predict(X)), weights=weights)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(found.predict(X), smearing * np.exp(expected.predict(X)), rtol=1e-7)
    assert found.smearing_ == pytest.approx(smearing, rel=1e-8)


@pytest.mark.parametrize(("kind", "ours", "other"), PAIRS, ids=[pair[0] for pair in PAIRS])
@pytest.mark.parametrize("intercept", [True, False])
def test_equal_to_scikit_learn(kind: str, ours: Any, other: Any, intercept: bool) -> None:
    X, y = rows(kind)
    found = clone(ours).set_params(fit_intercept=intercept).fit(X, y)
    expected = clone(other).set_params(fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-6, atol=1e-9)
    assert found.score(X, y) == pytest.approx(expected.score(X, y), rel=1e-9)
    np.testing.assert_array_equal(found.predict(X).shape, expected.predict(X).shape)
    assert found.certificate_.relative < 1e-8
    if kind in ("logistic", "classes"):
        np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-6)
        assert (found.predict(X) == expected.predict(X)).all()
        assert found.classes_.tolist() == sorted(set(y))


def test_a_lasso_leaves_out_what_scikit_learn_leaves_out() -> None:
    X, y = rows("logistic")
    found = shoal.LogisticRegression(0.05, l1_ratio=1.0, standardize=True).fit(X, y)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = theirs.LogisticRegression(
        C=0.05, l1_ratio=1.0, solver="saga", tol=1e-12, max_iter=100_000, random_state=0
    ).fit(Z, y)
    np.testing.assert_allclose(found.coef_[0] * X.std(axis=0), expected.coef_[0], rtol=1e-5, atol=1e-7)
    assert ((found.coef_ == 0) == (expected.coef_ == 0)).all()


def test_workers_change_no_bits() -> None:
    X, y = rows("poisson", 30_000)
    try:
        one, many = (
            shoal.PoissonRegressor(0.1, engine=engine, n_workers=2).fit(X, y) for engine in ("inline", "processes")
        )
    finally:
        close_pools()
    assert one.coef_.tobytes() == many.coef_.tobytes()
    assert one.intercept_ == many.intercept_


@pytest.mark.parametrize(
    ("estimator", "y", "words"),
    [
        (shoal.LogisticRegression(), [1, 1, 1, 1], "got one class"),
        (shoal.LogisticRegression(C=0.0), [0, 1, 0, 1], "Expected C to be a number greater than 0"),
        (shoal.PoissonRegressor(), [0, -1, 2, 1], "of 0 or more"),
        (shoal.PoissonRegressor(), [0, 0, 0, 0], "some of them above"),
        (shoal.GammaRegressor(), [0, 1, 2, 1], "greater than 0"),
        (shoal.GammaRegressor(l1_ratio=2), [1, 1, 2, 1], "l1_ratio"),
    ],
)
def test_what_cannot_be_is_refused(estimator: Any, y: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        estimator.fit(np.arange(8.0).reshape(4, 2), y)


def numbers_with_tails(n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 4)) * [1, 3, 0.2, 5] + [0, 30, 0, 0]
    return X, X @ [1.0, -0.5, 4.0, 0.0] + rng.standard_t(2, n)


@pytest.mark.parametrize("knobs", [{}, {"alpha": 5.0}, {"epsilon": 2.0, "fit_intercept": False}], ids=str)
def test_huber_is_at_or_below_scikit_learn(knobs: dict[str, Any]) -> None:
    """scikit-learn's own stops when its value falls by less than 2e-9 of itself: so it is near, and never lower."""
    from sklearn.linear_model._huber import _huber_loss_and_gradient

    X, y = numbers_with_tails()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    found = shoal.HuberRegressor(**knobs).fit(X, y, sample_weight=weight)
    other = theirs.HuberRegressor(**knobs, max_iter=10_000, tol=1e-12).fit(X, y, sample_weight=weight)
    ends = [np.r_[one.coef_, *([one.intercept_] if one.fit_intercept else []), one.scale_] for one in (found, other)]
    values = [_huber_loss_and_gradient(end, X, y, found.epsilon, found.alpha, weight) for end in ends]
    assert values[0][0] <= values[1][0] * (1 + 1e-13)
    assert np.abs(values[0][1]).max() < 1e-5 * len(y)
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-3, atol=1e-3)
    assert found.certificate_.relative < 1e-8
    assert (found.outliers_ == (np.abs(y - found.predict(X)) > found.epsilon * found.scale_)).all()


@pytest.mark.parametrize("knobs", [{"alpha": 0.0}, {"alpha": 0.02, "quantile": 0.8}, {"alpha": 0.01, "fit_intercept": False}], ids=str)  # fmt: skip
def test_quantiles_are_those_of_scikit_learn(knobs: dict[str, Any]) -> None:
    X, y = numbers_with_tails()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    found = shoal.QuantileRegressor(**knobs).fit(X, y, sample_weight=weight)
    other = theirs.QuantileRegressor(**knobs, solver="highs").fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(found.coef_, other.coef_, rtol=1e-8, atol=1e-9)
    assert found.intercept_ == pytest.approx(other.intercept_, rel=1e-8)
    assert found.certificate_.relative < 1e-9


@pytest.mark.parametrize(
    "estimator", [shoal.HuberRegressor(alpha=0.0), shoal.QuantileRegressor(alpha=0.0, quantile=0.9)]
)
def test_bits_of_robust_fits_are_the_same_for_any_number_of_workers(estimator: Any) -> None:
    X, y = numbers_with_tails(60_000)
    one = clone(estimator).set_params(engine="inline").fit(X, y)
    two = clone(estimator).set_params(engine="processes", n_workers=2).fit(X, y)
    close_pools()
    assert (one.coef_ == two.coef_).all()
    assert one.intercept_ == two.intercept_
