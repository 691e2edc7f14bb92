"""Answers by their optimality conditions, worked out here from the rows, and against scikit-learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge

from shoal.errors import DataError
from shoal.kernels.path_kernel import sparse_path
from shoal.models import L1L2, penalty_for
from shoal.solve import sparse
from shoal.solve.inference import inference
from shoal.solve.least_squares import LeastSquares, Standardisation, triangle
from shoal.solve.moments import Moments, merge_all
from shoal.solve.paths import Solution, alpha_grid, polish, refine, solve, with_certificate


def _correlated(rng: np.random.Generator, n: int, p: int, rho: float) -> np.ndarray:
    return np.sqrt(rho) * rng.standard_normal((n, 1)) + np.sqrt(1 - rho) * rng.standard_normal((n, p))


def _one_hot(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.column_stack([np.eye(k)[rng.integers(0, k, n)] for k in (3, 5, 9)])


def _design(name: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    numeric = rng.standard_normal((120, 8)) * np.logspace(-1, 1, 8) + 2
    return {
        "dense": numeric,
        "correlated": _correlated(rng, 150, 30, 0.95),
        "near copies": _correlated(rng, 150, 10, 0.9999),
        "wide": rng.standard_normal((25, 60)),
        "wide correlated": _correlated(rng, 25, 60, 0.9),
        "constant": np.column_stack((numeric, np.full(120, 0.1))),
        "duplicates": np.column_stack((numeric, numeric[:, :4], 3 * numeric[:, 4])),
        "one-hot": _one_hot(rng, 200),
        "one-hot and numbers": np.column_stack((_one_hot(rng, 120), numeric)),
        "balanced": np.column_stack([np.eye(4)[np.arange(60) % 4], np.eye(3)[np.arange(60) // 4 % 3]]),
        "integers": rng.integers(-1, 2, (30, 40)).astype(float),
    }[name]


DESIGNS = [
    "dense",
    "correlated",
    "near copies",
    "wide",
    "wide correlated",
    "constant",
    "duplicates",
    "one-hot",
    "one-hot and numbers",
    "balanced",
    "integers",
]
UNIQUE = ["dense", "correlated", "near copies", "wide", "constant"]


def _target(X: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(8)
    w = np.where(rng.random(X.shape[1]) < 0.4, rng.standard_normal(X.shape[1]), 0)
    return X @ w + 0.5 * rng.standard_normal(len(X)) + 3


def _problems(X: np.ndarray, y: np.ndarray, intercept: bool = True, standardize: bool = True) -> list[LeastSquares]:
    moments = Moments.of(np.column_stack((X, y)))
    units = Standardisation.of(moments, intercept, standardize)
    T = triangle(units.apply(X, y))
    return [
        LeastSquares.from_moments(moments, intercept, standardize),
        LeastSquares.from_triangle(T, units, len(X)),
    ]


def _units(X: np.ndarray, intercept: bool, standardize: bool) -> np.ndarray:
    scale = np.where(X.std(axis=0) < 1e-12, 1, X.std(axis=0)) if standardize else np.ones(X.shape[1])
    return (X - X.mean(axis=0) * intercept) / scale


def _stationarity(X: np.ndarray, y: np.ndarray, penalty: L1L2, solution: Solution, Z: np.ndarray) -> float:
    """The distance to optimality, from the rows and the answer in the file's units; no code of ours in it."""
    residual = y - solution.intercept - X @ solution.coef
    pull = Z.T @ residual / len(y) - penalty.l2 * solution.w
    at_zero = np.maximum(np.abs(pull) - penalty.l1, 0)
    gap = np.where(solution.w == 0, at_zero, np.abs(pull - penalty.l1 * np.sign(solution.w)))
    return float(gap.max() / np.abs(Z.T @ (y - y.mean())).max() * len(y))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("design", DESIGNS)
def test_every_answer_is_optimal_on_the_rows(design: str, intercept: bool, standardize: bool) -> None:
    X = _design(design)
    y, Z = _target(X), _units(X, intercept, standardize)
    largest = np.abs(Z.T @ (y - y.mean() * intercept)).max() / len(y)
    for problem in _problems(X, y, intercept, standardize):
        loose = 1e-9 if problem.rests_on == "moments" else 1e-11
        for l1, l2 in [
            (0, 0),
            (0, 1e-9),
            (0, 0.1),
            (0.3, 0),
            (0.03, 0),
            (1e-4, 0),
            (0.01, 0.1),
            (1e-3, 1e-6),
        ]:
            penalty = L1L2(l1 * largest, l2)
            solution = solve(problem, penalty)
            assert _stationarity(X, y, penalty, solution, Z) < loose, penalty
            assert solution.certificate.relative < 1e-10
            assert solution.certificate.rests_on == problem.rests_on
            assert intercept or solution.intercept == 0


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("design", UNIQUE)
def test_scikit_learn_agrees(design: str, intercept: bool) -> None:
    X = _design(design)
    y, n = _target(X), len(X)
    options = {"fit_intercept": intercept, "tol": 1e-14, "max_iter": 10**6}
    models = {
        ("ridge", 2.0, 0.0): Ridge(2.0, fit_intercept=intercept, solver="svd"),
        ("lasso", 0.1, 1.0): Lasso(0.1, **options),
        ("elasticnet", 0.1, 0.3): ElasticNet(0.1, l1_ratio=0.3, **options),
    }
    for (model, alpha, ratio), estimator in models.items():
        estimator.fit(X, y)
        for problem in _problems(X, y, intercept, standardize=False):
            solution = solve(problem, penalty_for(model, alpha, ratio, n))
            size = np.abs(estimator.coef_).max()
            np.testing.assert_allclose(solution.coef, estimator.coef_, rtol=0, atol=1e-7 * size)
            assert solution.intercept == pytest.approx(estimator.intercept_, rel=1e-7, abs=1e-7)
            assert solution.unique


@pytest.mark.parametrize("design", ["duplicates", "one-hot", "wide", "constant", "balanced", "dense"])
def test_the_smallest_norm_is_given_where_many_answers_fit(design: str) -> None:
    X = _design(design)
    y = _target(X)
    truth = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=1e-10)[0]
    for problem in _problems(X, y, standardize=False):
        solution = solve(problem, L1L2())
        np.testing.assert_allclose(solution.coef, truth, rtol=0, atol=1e-7 * np.abs(truth).max())
        assert solution.unique == (design in ("dense", "constant"))
        assert any("not unique" in note for note in solution.notes) != solution.unique
        assert solution.rank == np.linalg.matrix_rank(X - X.mean(axis=0), tol=1e-8)


def test_linear_equals_scikit_learn_and_a_constant_column_gets_no_weight() -> None:
    X = _design("constant")
    y = _target(X)
    truth = LinearRegression().fit(X[:, :-1], y)
    for problem in _problems(X, y):
        solution = solve(problem, L1L2())
        np.testing.assert_allclose(solution.coef[:-1], truth.coef_, rtol=1e-10)
        assert solution.coef[-1] == 0
        assert solution.notes == ("1 column does not vary; its weight is 0.",)


def test_without_intercept_a_constant_column_is_a_column() -> None:
    X = np.column_stack((_design("dense"), np.full(120, 2.0)))
    y = _target(X)
    for problem in _problems(X, y, intercept=False):
        solution = solve(problem, L1L2())
        np.testing.assert_allclose(solution.coef, np.linalg.lstsq(X, y)[0], rtol=1e-9)
        assert solution.unique


@pytest.mark.parametrize("design", ["dense", "one-hot", "wide correlated", "duplicates"])
def test_a_start_changes_the_time_only(design: str) -> None:
    X = _design(design)
    problem = _problems(X, _target(X))[1]
    start = None
    for share in np.geomspace(1, 1e-4, 15):
        penalty = L1L2(l1=share * problem.zero_gradient)
        warm, cold = solve(problem, penalty, start), solve(problem, penalty)
        start = warm.w
        fit = np.linalg.norm(problem.R @ (warm.w - cold.w))
        assert fit <= 1e-9 * np.sqrt(problem.y_scatter)
        assert penalty.value(warm.w) == pytest.approx(penalty.value(cold.w), rel=1e-9)
        if warm.unique:
            np.testing.assert_allclose(warm.w, cold.w, rtol=0, atol=1e-9)


def test_the_largest_useful_l1_gives_no_weights_and_a_little_less_gives_one() -> None:
    X = _design("correlated")
    problem = _problems(X, _target(X))[0]
    assert not solve(problem, L1L2(l1=problem.zero_gradient)).w.any()
    assert (solve(problem, L1L2(l1=0.9999 * problem.zero_gradient)).w != 0).sum() == 1


@pytest.mark.parametrize("design", DESIGNS)
def test_the_walk_alone_finds_the_support(design: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = _design(design)
    problem = _problems(X, _target(X))[1]
    monkeypatch.setattr(sparse, "GUESSES", 3)
    for share in (0.5, 0.05, 1e-3):
        penalty = L1L2(l1=share * problem.zero_gradient)
        signs = sparse._walk(problem, penalty, 0.0)
        w = sparse._settle(problem, penalty, signs)
        assert w is not None
        assert penalty.optimality_gap(w, problem.gradient(w)) < 1e-12 * problem.zero_gradient


@pytest.mark.parametrize("design", ["duplicates", "dense", "one-hot"])
def test_coordinate_descent_is_there_when_all_else_fails(design: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = _design(design)
    problem = _problems(X, _target(X))[1]
    penalty = L1L2(l1=0.05 * problem.zero_gradient)
    good = solve(problem, penalty)
    monkeypatch.setattr(sparse, "_settle", lambda *_: None)
    monkeypatch.setattr(sparse, "_walk", lambda *_: None)
    last_resort = solve(problem, penalty)
    assert "coordinate descent" in last_resort.notes[0]
    assert last_resort.certificate.relative < 1e-9
    np.testing.assert_allclose(problem.R @ last_resort.w, problem.R @ good.w, atol=1e-6)


def test_shared_weight_is_said_to_be_shared() -> None:
    X = _design("duplicates")
    problem = _problems(X, _target(X))[1]
    lasso = solve(problem, L1L2(l1=0.01 * problem.zero_gradient))
    assert not lasso.unique
    assert "other splits" in lasso.notes[-1]
    assert solve(problem, L1L2(l1=0.01, l2=0.01)).unique


@pytest.mark.parametrize("l1", [0.0, 0.01, 0.2])
@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_gradients_from_the_data_repair_a_coarse_problem(l1: float, l2: float) -> None:
    """The moments stand for a slightly wrong problem; two passes over the rows bring back the true answer."""
    X = _design("correlated")
    y = _target(X)
    coarse, problem = _problems(X, y)
    penalty = L1L2(l1 * problem.zero_gradient, l2)
    truth = solve(problem, penalty)
    rng = np.random.default_rng(0)
    coarse = replace(coarse, R=coarse.R * (1 + 1e-6 * rng.standard_normal(coarse.R.shape)), z=coarse.z * (1 + 1e-4))
    solution, Z = solve(coarse, penalty), _units(X, True, True)
    assert np.abs(solution.w - truth.w).max() > 1e-7
    for _ in range(4):
        residual = y - y.mean() - Z @ solution.w
        solution = refine(coarse, penalty, solution, Z.T @ residual)
    np.testing.assert_allclose(solution.w, truth.w, atol=1e-12)
    residual = y - y.mean() - Z @ solution.w
    certified = with_certificate(problem, penalty, solution, Z.T @ residual, residual @ residual)
    assert certified.certificate.rests_on == "data"
    assert certified.certificate.relative < 1e-12


def test_refining_a_rank_deficient_answer_keeps_it_optimal() -> None:
    X = _design("one-hot and numbers")
    y, Z = _target(X), _units(X, True, True)
    problem = _problems(X, y)[0]
    for penalty in (L1L2(), L1L2(l1=0.01)):
        solution = solve(problem, penalty)
        solution = refine(problem, penalty, solution, Z.T @ (y - y.mean() - Z @ solution.w))
        assert _stationarity(X, y, penalty, solution, Z) < 1e-12


@pytest.mark.parametrize("intercept", [True, False])
def test_inference_equals_the_textbook(intercept: bool) -> None:
    X = _design("dense")
    y, n, p = _target(X), 120, 8
    A = np.column_stack((np.ones(n), X)) if intercept else X
    theta, (rss,) = np.linalg.lstsq(A, y)[:2]
    df = n - p - intercept
    errors = np.sqrt(np.diag(np.linalg.inv(A.T @ A)) * rss / df)
    total = ((y - y.mean() * intercept) ** 2).sum()
    f = (total - rss) / p / (rss / df)
    for problem in _problems(X, y, intercept):
        got = inference(problem, solve(problem, L1L2()), confidence=0.9)
        np.testing.assert_allclose(got.coef.std_error, errors[-p:], rtol=1e-9)
        np.testing.assert_allclose(got.coef.t, (theta / errors)[-p:], rtol=1e-8)
        t_test = 2 * scipy.stats.t.sf(np.abs(theta / errors), df)[-p:]
        np.testing.assert_allclose(got.coef.p_value, t_test, rtol=1e-6, atol=1e-300)
        reach = scipy.stats.t.ppf(0.95, df) * errors[-p:]
        np.testing.assert_allclose(got.coef.high - got.coef.low, 2 * reach, rtol=1e-9)
        assert (got.residual_df, got.residual_sd) == (df, pytest.approx(np.sqrt(rss / df), rel=1e-9))
        assert got.f == pytest.approx(f, rel=1e-9)
        assert got.f_p_value == pytest.approx(scipy.stats.f.sf(f, p, df), rel=1e-6)
        assert got.r2 == pytest.approx(1 - rss / total, rel=1e-12)
        assert got.adjusted_r2 == pytest.approx(1 - (rss / df) / (total / (n - intercept)), rel=1e-12)
        assert (got.intercept is not None) == intercept
        if got.intercept is not None:
            assert got.intercept.std_error[0] == pytest.approx(errors[0], rel=1e-9)


def test_inference_is_silent_only_about_what_is_not_determined() -> None:
    X = _design("dense")
    y = _target(X)
    plain = _problems(X, y)[1]
    doubled = _problems(np.column_stack((X, X[:, 0], np.ones(120))), y)[1]
    truth, got = inference(plain, solve(plain, L1L2())), inference(doubled, solve(doubled, L1L2()))
    assert np.isnan(got.coef.std_error[[0, 8, 9]]).all()
    np.testing.assert_allclose(got.coef.std_error[1:8], truth.coef.std_error[1:], rtol=1e-9)
    assert got.intercept is not None
    assert truth.intercept is not None
    assert got.intercept.std_error[0] == pytest.approx(truth.intercept.std_error[0], rel=1e-9)
    assert got.residual_df == truth.residual_df


def test_inference_without_degrees_of_freedom_or_without_residuals() -> None:
    X = _design("wide")
    for problem in _problems(X, _target(X)):
        got = inference(problem, solve(problem, L1L2()))
        assert got.residual_df <= 0
        assert np.isnan(got.coef.std_error).all()
        assert np.isnan([got.f, got.f_p_value, got.adjusted_r2, got.residual_sd]).all()
    x = np.arange(8.0)[:, None]
    for problem in _problems(x, np.zeros(8)):
        got = inference(problem, solve(problem, L1L2()))
        assert got.coef.std_error[0] == 0
        assert np.isnan(got.r2)


@pytest.mark.parametrize("penalty", [L1L2(), L1L2(l2=0.1), L1L2(l1=0.1)])
def test_nothing_to_fit(penalty: L1L2) -> None:
    """Only constant columns, or a single row: the mean of y is the answer."""
    for X, y in [(np.ones((5, 2)), np.arange(5.0)), (np.array([[3.0, 4.0]]), np.array([2.0]))]:
        for problem in _problems(X, y):
            solution = solve(problem, penalty)
            assert not solution.w.any()
            assert solution.intercept == pytest.approx(y.mean())
            assert solution.rank == 0
            inference(problem, solution)
            polish(X, y, problem, solution)


@pytest.mark.parametrize("kind", ["wide", "sum", "levels"])
def test_the_quick_path_is_optimal_where_columns_depend_on_one_another(kind: str) -> None:
    """Also for the columns that cannot come in because they depend on those that are in."""
    rng = np.random.default_rng(7)
    for _ in range(40):
        n, p = (int(rng.integers(2, 20)), 25) if kind == "wide" else (80, 10)
        X = rng.standard_normal((n, p))
        if kind == "sum":
            X[:, 1] = X[:, 0] + X[:, 3] - X[:, 4]
        if kind == "levels":
            X = np.column_stack([np.eye(5)[rng.integers(0, 5, n)] for _ in range(4)])
        X = X - X.mean(axis=0)
        y = X[:, 1] + rng.standard_normal(n)
        H, c = X.T @ X / n, X.T @ (y - y.mean()) / n
        l1 = np.geomspace(1, 1e-4, 30) * np.abs(c).max()
        W, settled = sparse_path(H, c, l1, np.zeros(30))
        assert settled == 30
        for w, bound in zip(W, l1, strict=True):
            assert L1L2(l1=bound).optimality_gap(w, H @ w - c) < 1e-9 * np.abs(c).max()


def test_the_quick_path_of_nothing_and_of_what_is_no_number() -> None:
    assert sparse_path(np.zeros((0, 0)), np.zeros(0), np.ones(2), np.zeros(2))[0].shape == (2, 0)
    assert sparse_path(np.eye(2), np.ones(2), np.zeros(0), np.zeros(0))[0].shape == (0, 2)
    for bad in (np.nan, np.inf):
        given = np.eye(3), np.array([1.0, bad, 1.0]), np.array([0.1]), np.zeros(1)
        assert sparse_path(*given)[0].shape == (1, 3)  # it ends
        assert sparse_path(np.diag([1.0, bad, 1.0]), np.ones(3), np.array([0.1]), np.zeros(1))[0][0, 0] == 0.9


@pytest.mark.parametrize("model", ["ridge", "lasso", "elasticnet"])
def test_no_path_to_a_target_that_varies_by_rounding_only(model: str) -> None:
    """Sums of parts may leave a slope where no scatter is left."""
    rng = np.random.default_rng(0)
    for value in (0.1, 0.7, 1 / 3, 5.0):
        Z = np.column_stack((rng.standard_normal((60, 2)), np.full(60, value)))
        for parts in (1, 3, 7):
            moments = merge_all(Moments.of(Z[i::parts]) for i in range(parts))
            with pytest.raises(DataError, match="target does not vary"):
                alpha_grid(LeastSquares.from_moments(moments, True, True), model)
