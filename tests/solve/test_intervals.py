"""Intervals by formula: against the formulas on rows, and by simulation of what each of them claims to hold."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Lasso

from shoal.models import Array
from shoal.solve.intervals import (
    MEANINGS,
    NODES,
    Intervals,
    debiased_intervals,
    desparsified,
    intervals_for,
    linear_intervals,
    meaning,
    ridge_intervals,
)
from shoal.solve.least_squares import LeastSquares
from shoal.solve.moments import Moments

BOUND = 4.5  # standard deviations of a binomial share: one in 300,000 fails by chance


def problem_of(X: Array, y: Array, intercept: bool = True, standardize: bool = True) -> LeastSquares:
    return LeastSquares.from_moments(Moments.of(np.column_stack((X, y))), intercept, standardize)


def table(n: int, p: int, seed: int = 0, rho: float = 0.6) -> tuple[Array, Array]:
    """Correlated columns in different units, and true coefficients."""
    rng = np.random.default_rng(seed)
    L = np.linalg.cholesky(rho ** np.abs(np.subtract.outer(np.arange(p), np.arange(p))))
    X = rng.normal(size=(n, p)) @ L.T * np.geomspace(0.5, 20, p) + rng.normal(size=p) * 5
    return X, rng.normal(size=p) / np.geomspace(0.5, 20, p)


def within(share: float, claimed: float, trials: int, clusters: int = 1) -> bool:
    """Whether a share of trials is what was claimed; coefficients of one sample count as one trial at worst."""
    return abs(share - claimed) < BOUND * math.sqrt(claimed * (1 - claimed) / (trials / clusters))


# ------------------------------------------------------------------ ridge


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("n", [60, 14])  # 14: few degrees of freedom, so ridge's own residuals give the variance
def test_ridge_is_the_sandwich_formula(n: int, intercept: bool, standardize: bool) -> None:
    p, alpha = 6, 7.0
    X, b = table(n, p)
    y = X @ b + np.random.default_rng(1).normal(size=n) + 3
    found = ridge_intervals(problem_of(X, y, intercept, standardize), alpha / n, 0.9)

    scale = X.std(axis=0) if standardize else np.ones(p)
    Z = (X - X.mean(axis=0) if intercept else X) / scale
    t = y - y.mean() if intercept else y
    inverse = np.linalg.inv(Z.T @ Z + alpha * np.eye(p))
    w = inverse @ Z.T @ t
    hat = Z @ inverse @ Z.T
    if n == 60:
        rest = t - Z @ np.linalg.lstsq(Z, t, rcond=None)[0]
        df: float = n - p - intercept
    else:
        rest = t - Z @ w
        df = n - intercept - np.trace(2 * hat - hat @ hat)
    variance = rest @ rest / df
    error = np.sqrt(variance * np.diag(inverse @ Z.T @ Z @ inverse)) / scale
    half = stats.t.ppf(0.95, df) * error
    np.testing.assert_allclose(found.estimate, w / scale, rtol=1e-9)
    np.testing.assert_allclose(found.std_error, error, rtol=1e-9)
    np.testing.assert_allclose(found.low, w / scale - half, rtol=1e-8)
    np.testing.assert_allclose(found.high, w / scale + half, rtol=1e-8)
    assert found.residual_df == pytest.approx(df)
    if intercept:
        c = X.mean(axis=0) / scale
        own = math.sqrt(variance * (1 / n + c @ inverse @ Z.T @ Z @ inverse @ c))
        assert found.intercept is not None
        assert found.intercept[0] == pytest.approx(y.mean() - X.mean(axis=0) @ (w / scale))
        assert found.intercept[1] == pytest.approx(own)
    else:
        assert found.intercept is None


def test_ridge_covers_the_expected_ridge_coefficient_and_not_the_true_one() -> None:
    n, p, alpha, trials = 40, 5, 20.0, 800
    X, b = table(n, p, seed=3)
    rng = np.random.default_rng(4)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    truth = b * X.std(axis=0)
    expected = np.linalg.solve(Z.T @ Z + alpha * np.eye(p), Z.T @ Z @ truth) / X.std(axis=0)
    held, held_true = np.zeros((2, trials, p))
    for i in range(trials):
        found = ridge_intervals(problem_of(X, X @ b + rng.normal(size=n)), alpha / n, 0.9)
        held[i] = (found.low <= expected) & (expected <= found.high)
        held_true[i] = (found.low <= b) & (b <= found.high)
    assert all(within(share, 0.9, trials) for share in held.mean(axis=0)), held.mean(axis=0)
    assert held_true.mean(axis=0).min() < 0.7  # the words say so


# ------------------------------------------------------------------ debiased


def test_taking_the_pull_out_of_any_lasso_leads_to_least_squares() -> None:
    n, p = 80, 7
    X, b = table(n, p)
    y = X @ b + np.random.default_rng(2).normal(size=n)
    found = debiased_intervals(problem_of(X, y))
    assert found.kind == "debiased"
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    t = y - y.mean()
    M = np.linalg.inv(Z.T @ Z / n)
    for alpha in (0.01, 0.5, 100.0):
        w = Lasso(alpha=alpha, tol=1e-12, max_iter=100_000).fit(Z, t).coef_
        one_step = (w + M @ Z.T @ (t - Z @ w) / n) / X.std(axis=0)
        np.testing.assert_allclose(found.estimate, one_step, rtol=1e-8)
    rest = t - Z @ np.linalg.lstsq(Z, t, rcond=None)[0]
    error = np.sqrt(rest @ rest / (n - p - 1) * np.diag(M) / n) / X.std(axis=0)
    np.testing.assert_allclose(found.std_error, error, rtol=1e-9)
    half = stats.t.ppf(0.975, n - p - 1) * error
    np.testing.assert_allclose(found.high - found.low, 2 * half, rtol=1e-9)


def test_debiased_and_linear_intervals_cover_the_true_coefficients() -> None:
    n, p, trials = 30, 6, 800
    rng = np.random.default_rng(5)
    held = np.zeros((trials, p))
    for i in range(trials):
        X, b = table(n, p, seed=1000 + i)
        b[:3] = 0
        found = debiased_intervals(problem_of(X, X @ b + 2 * rng.normal(size=n)), 0.9)
        held[i] = (found.low <= b) & (b <= found.high)
    assert all(within(share, 0.9, trials) for share in held.mean(axis=0)), held.mean(axis=0)


def test_fewer_rows_than_columns_is_the_scaled_lasso_with_nodewise_corrections() -> None:
    n, p = 50, 70
    rng = np.random.default_rng(6)
    X = rng.normal(size=(n, p)) * np.geomspace(1, 10, p)
    y = 2 * X[:, 0] + rng.normal(size=n)
    problem = problem_of(X, y)
    found = desparsified(problem)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    t = y - y.mean()
    penalty = math.sqrt(2 * math.log(p) / n)
    lasso = Lasso(alpha=found.noise * penalty, tol=1e-13, max_iter=1_000_000, fit_intercept=False).fit(Z, t).coef_
    np.testing.assert_allclose(found.w, lasso, atol=1e-5)
    assert found.noise == pytest.approx(math.sqrt(((t - Z @ lasso) ** 2).mean()), rel=1e-4)
    np.testing.assert_allclose(found.b, found.w + found.M @ Z.T @ (t - Z @ found.w) / n, rtol=1e-8)
    H = Z.T @ Z / n
    np.testing.assert_allclose(np.diag(found.M @ H), 1, rtol=1e-9)
    for j in (0, 5, 69):  # what the others do not predict of a column is nearly at right angles to them
        node = -found.M[j] / found.M[j, j]
        node[j] = 0
        noise = math.sqrt(((Z[:, j] - Z @ node) ** 2).mean())
        others = np.abs(np.delete(Z.T @ (Z[:, j] - Z @ node) / n, j))
        assert others.max() == pytest.approx(NODES * penalty * noise, rel=1e-4)
    said = debiased_intervals(problem)
    rows = Z @ found.M.T
    sd = math.sqrt(((t - Z @ found.w) ** 2).sum() / (n - 1 - np.count_nonzero(found.w)))
    np.testing.assert_allclose(said.std_error, sd * np.sqrt((rows**2).sum(axis=0)) / n / X.std(axis=0), rtol=1e-5)
    np.testing.assert_allclose(said.high - said.estimate, 1.959963984540054 * said.std_error, rtol=1e-9)


def test_fewer_rows_than_columns_covers_about_as_claimed() -> None:
    n, p, trials = 80, 100, 30
    rng = np.random.default_rng(7)
    L = np.linalg.cholesky(0.3 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p))))
    b = np.zeros(p)
    b[[0, 30, 60]] = 1.0
    held, widths = np.zeros((trials, p)), np.zeros((trials, p))
    for i in range(trials):
        X = rng.normal(size=(n, p)) @ L.T
        found = debiased_intervals(problem_of(X, X @ b + rng.normal(size=n)))
        assert found.kind == "desparsified"
        held[i] = (found.low <= b) & (b <= found.high)
        widths[i] = found.high - found.low
    nothing = np.delete(held, [0, 30, 60], axis=1)
    assert 0.92 < nothing.mean() < 0.98
    assert held[:, [0, 30, 60]].mean() > 0.85  # 90 intervals; "about", as the words say
    assert widths.mean() < 0.8  # about twice as wide as with one column alone, 4 / sqrt(80) = 0.45


# ------------------------------------------------------------------ odd columns, words


def test_what_is_not_determined_has_no_interval() -> None:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(50, 4))
    X[:, 2] = X[:, 1]
    X[:, 3] = 5.0
    y = X[:, 0] + rng.normal(size=50)
    for found in (linear_intervals(problem_of(X, y)), debiased_intervals(problem_of(X, y))):
        assert np.isfinite([found.low[0], found.high[0]]).all()
        assert np.isnan(found.low[1:]).all()
        assert np.isnan(found.high[1:]).all()
    ridge = ridge_intervals(problem_of(X, y), 0.1)  # ridge shares the weight, and says what comes of it
    assert np.isfinite(ridge.low).all()
    assert ridge.estimate[1] == pytest.approx(ridge.estimate[2])
    assert ridge.estimate[3] == ridge.std_error[3] == 0
    reference = ridge_intervals(problem_of(X[:, :3], y), 0.1)
    np.testing.assert_allclose(ridge.std_error[:3], reference.std_error, rtol=1e-9)
    assert ridge.residual_df == 47


def test_each_model_has_its_intervals() -> None:
    X, b = table(50, 3)
    problem = problem_of(X, X @ b + np.random.default_rng(0).normal(size=50))
    kinds = {model: [one.kind for one in intervals_for(problem, model, 0.1)] for model in ("linear", "ridge", "lasso")}
    assert kinds == {"linear": ["linear"], "ridge": ["ridge", "debiased"], "lasso": ["debiased"]}
    assert [one.kind for one in intervals_for(problem, "elasticnet", 0.1)] == ["debiased"]
    assert [one.kind for one in intervals_for(problem, "ridge", 0.0)] == ["linear"]
    said = intervals_for(problem, "ridge", 0.1, confidence=0.9)[0].as_dict(["a", "b", "c"])
    assert set(said["coefficients"]["b"]) == {"estimate", "std_error", "low", "high"}
    assert set(said["intercept"]) == {"estimate", "std_error", "low", "high"}
    assert "90 %" in said["meaning"]


@pytest.mark.parametrize("kind", MEANINGS)
def test_meanings_are_sentences(kind: str) -> None:
    said = meaning(kind, 0.9, 500, "the 120 training rows")
    assert "{" not in said
    assert said.endswith(".")
    if kind.startswith("bootstrap"):
        assert "5 %" in said
        assert "500" in said
        assert "120 training rows" in said


def test_an_interval_says_what_it_means() -> None:
    found = linear_intervals(problem_of(*_small()))
    assert isinstance(found, Intervals)
    assert "95 %" in found.meaning
    assert "99.9 %" in dataclasses.replace(found, confidence=0.999).meaning


def _small() -> tuple[Array, Array]:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(20, 2))
    return X, X[:, 0] + rng.normal(size=20)
