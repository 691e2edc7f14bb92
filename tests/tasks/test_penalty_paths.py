"""Whole paths of penalties with certificates, and `shoal.path`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model as reference
from sklearn.preprocessing import StandardScaler

import shoal as api
from shoal.errors import ConfigError, TrainingError
from shoal.models import certify, penalty_for
from shoal.solve.least_squares import LeastSquares, Standardisation, triangle
from shoal.solve.moments import Moments
from shoal.solve.paths import alpha_grid, certify_along, follow, weights_along
from support.tables import TIGHT, frame_of, rows, shoal, tuned

# ------------------------------------------------------------------ whole paths


def problem_of(X: np.ndarray, y: np.ndarray, from_rows: bool = False, standardize: bool = True) -> LeastSquares:
    moments = Moments.of(np.column_stack((X, y)))
    if not from_rows:
        return LeastSquares.from_moments(moments, True, standardize)
    units = Standardisation.of(moments, True, standardize)
    return LeastSquares.from_triangle(triangle(units.apply(X, y)), units, moments.n)


@pytest.mark.parametrize(("model", "ratio"), [("ridge", 0.5), ("lasso", 1.0), ("elasticnet", 0.2), ("elasticnet", 0.0)])
def test_a_path_is_scikit_learns_at_every_point(model: str, ratio: float) -> None:
    X, y = rows(60, 9)
    Z = StandardScaler().fit(X)
    problem = problem_of(X, y)
    alphas = np.append(alpha_grid(problem, model, ratio, 12), 0.0)
    path = follow(problem, model, alphas, ratio)
    for i, alpha in enumerate(alphas):
        if alpha == 0:
            theirs: Any = reference.LinearRegression()
        elif model == "ridge" or ratio == 0:
            theirs = reference.Ridge(alpha=alpha if model == "ridge" else alpha * len(y), solver="svd")
        else:
            theirs = reference.ElasticNet(alpha=alpha, l1_ratio=ratio, **TIGHT)
        theirs.fit(Z.transform(X), y)
        np.testing.assert_allclose(path.W[i], theirs.coef_, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(path.coef[i] @ X.T + path.intercepts[i], theirs.predict(Z.transform(X)), rtol=1e-9)
        assert path.kept[i] == np.count_nonzero(theirs.coef_)
    assert path.worst.relative == max(c.relative for c in path.certificates) < 1e-12


@pytest.mark.parametrize("model", ["ridge", "lasso", "elasticnet"])
def test_certificates_of_many_points_are_those_of_each(model: str) -> None:
    """Also of points that are far from the optimum, where they are large."""
    problem = problem_of(*rows(50, 7))
    alphas = np.array([3.0, 0.5, 0.01, 0.0])
    W = weights_along(problem, model, alphas, 0.4)
    for guess in (W, W + np.random.default_rng(0).standard_normal(W.shape), np.zeros_like(W)):
        for alpha, w, found in zip(alphas, guess, certify_along(problem, model, alphas, 0.4, guess), strict=True):
            expected = certify(
                penalty_for(model, alpha, 0.4, problem.n), w, problem.gradient(w), problem.rss(w), problem.n,
                y_scatter=problem.y_scatter, zero_gradient=problem.zero_gradient, rests_on="moments",
            )  # fmt: skip
            assert (found.kind, found.rests_on) == (expected.kind, expected.rests_on)
            assert found.value == pytest.approx(expected.value, rel=1e-9, abs=1e-13)
            assert found.relative == pytest.approx(expected.relative, rel=1e-9, abs=1e-13)


def powers() -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(1, 2, 80)
    return np.column_stack([x**k for k in range(1, 7)]), np.cos(4 * x)


def test_where_squares_lose_digits_the_path_is_found_on_the_triangle() -> None:
    """Powers of x, against QR of the rows on the same support: normal equations would lose twice as many digits."""
    X, y = powers()
    problem = problem_of(X, y, from_rows=True)
    alphas = np.asarray(alpha_grid(problem, "lasso", 1.0, 25)) / 100
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    most = 0
    for alpha, w in zip(alphas, weights_along(problem, "lasso", alphas), strict=True):
        support = w != 0
        Q, R = np.linalg.qr(Z[:, support])
        pull = np.linalg.solve(R.T, len(y) * alpha * np.sign(w[support]))
        np.testing.assert_allclose(w[support], np.linalg.solve(R, Q.T @ (y - y.mean()) - pull), rtol=1e-9)
        correlation = Z.T @ (y - y.mean() - Z @ w) / len(y)
        assert (np.abs(correlation) <= alpha * (1 + 1e-9) + 1e-13).all()
        most = max(most, int(support.sum()))
    assert most >= 4


def test_a_ridge_path_of_such_columns_rests_on_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.fitting.exact.SMALL", 0)
    path = tmp_path / "powers.csv"
    frame_of(*powers()).to_csv(path, index=False, float_format="%.17g")
    found = api.path(path, target="y", model="ridge", alphas=[1e-3, 1e-8])
    assert {certificate.rests_on for certificate in found.certificates} == {"data"}


# ------------------------------------------------------------------ in Python


def test_path_of_a_file_and_of_a_frame(table: Path) -> None:
    X, y = rows()
    for data in (table, frame_of(X, y)):
        path = api.path(data, target="y", n_alphas=10)
        scaler = StandardScaler().fit(X)
        for i, alpha in enumerate(path.alphas):
            theirs = reference.Lasso(alpha=alpha, **TIGHT).fit(scaler.transform(X), y)
            np.testing.assert_allclose(path.coef[i], theirs.coef_ / scaler.scale_, rtol=1e-8, atol=1e-9)
        assert path.coefficients.shape == (10, 5)
        assert path.coefficients.columns.tolist() == path.names == [f"x{j}" for j in range(5)]
        assert path.kept == [np.count_nonzero(row) for row in path.coef]
        assert len(path.certificates) == 10
        assert max(c.relative for c in path.certificates) < 1e-12
        assert repr(path).startswith("<PenaltyPath: lasso models of 'y', 10 alphas")
        with pytest.raises(ConfigError, match="made without folds"):
            path.best  # noqa: B018


def test_path_with_folds_is_what_the_command_says(table: Path) -> None:
    found = tuned(table, "--folds", "6", "--fold-by", "hash", "--seed", "5", "--n-alphas", "9")
    path = api.path(table, target="y", n_alphas=9, folds=6, fold_by="hash", seed=5)
    np.testing.assert_array_equal(path.cv_mean, found["cv_mean"])
    np.testing.assert_array_equal(path.cv_se, found["cv_se"])
    assert (path.best, path.one_se) == (found["best"], found["one_se"])
    assert "6 folds by hash, 80 rows" in repr(path)


@pytest.mark.parametrize("frame", [False, True], ids=["file", "frame"])
def test_models_of_a_path(table: Path, frame: bool) -> None:
    X, y = rows()
    path = api.path(frame_of(X, y) if frame else table, target="y", model="ridge", n_alphas=9, folds=4)
    model = path.best_model()
    place = int(np.flatnonzero(path.alphas == path.best)[0])
    np.testing.assert_allclose(list(model.coefficients.values()), path.coef[place], rtol=1e-9)
    assert model.alpha == path.best
    between = path.model_at(7.5)
    expected = api.fit(table, target="y", model="ridge", alpha=7.5)
    np.testing.assert_allclose(list(between.coefficients.values()), list(expected.coefficients.values()), rtol=1e-9)
    np.testing.assert_allclose(between.predict(table), expected.predict(table), rtol=1e-9)
    assert path.one_se_model().alpha == path.one_se >= path.best


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"alphas": [-1.0]}, "at least 0"),
        ({"alphas": ["x"]}, "got 'x'"),
        ({"alphas": [True]}, "got True"),
        ({"alphas": [], "folds": 3}, "at least one alpha"),
        ({"folds": 1}, "at least 2 folds"),
        ({"model": "elasticnet", "l1_ratio": [0.1, 0.9]}, "need folds to choose by"),
        ({"model": "tree"}, "'tree'"),
        ({"colour": 1}, "'colour'"),
        ({"features": ["y"]}, "also among the features"),
    ],
)
def test_path_refuses(table: Path, knobs: dict[str, Any], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        api.path(table, target="y", **knobs)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e5])
@pytest.mark.parametrize(("model", "ratio"), [("ridge", 0.0), ("elasticnet", 0.3), ("lasso", 1.0)])
def test_the_best_alpha_lies_inside_the_path_whatever_the_unit_of_the_target(
    model: str, ratio: float, unit: float
) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 6))
    y = X @ [3.0, -2.0, 1.0, 0.5, 0.0, 0.0] + rng.normal(size=120)
    problem = LeastSquares.from_moments(Moments.of(np.column_stack((X, y * unit))), True, True)
    alphas = alpha_grid(problem, model, ratio)
    W = weights_along(problem, model, alphas, ratio)
    least = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0] * X.std(axis=0) * unit
    assert np.abs(W[0]).max() <= 2e-3 * np.abs(least).max()  # the first leaves nothing, or nearly so
    assert np.abs(W[-1] - least).max() <= 2e-3 * np.abs(least).max()  # the last hardly shrinks


def test_a_negative_list_is_no_flag(table: Path) -> None:
    answer = shoal("tune", table, "--target", "y", "--alphas", "-1,2")
    assert answer.code == 1
    assert "at least 0, got -1" in answer.err


def test_odd_values_in_python_are_sentences(table: Path, tmp_path: Path) -> None:
    for wrong in ({"folds": "x"}, {"folds": 5.0}, {"folds": True}):
        with pytest.raises(ConfigError, match="whole number of folds"):
            api.path(table, target="y", **wrong)
    found = api.path(table, target="y", alphas=1.0)
    assert found.alphas.tolist() == [1.0]
    with pytest.raises(ConfigError, match="alpha to be a number"):
        found.model_at("x")
    with pytest.raises(TrainingError, match="data frame with columns"):
        api.path(pd.DataFrame(), target="y")
    (tmp_path / "flat.csv").write_text("a,y\n" + "".join(f"{i},3\n" for i in range(20)))
    with pytest.raises(TrainingError, match="target does not vary"):
        api.path(tmp_path / "flat.csv", target="y")
