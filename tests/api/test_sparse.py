"""Sparse matrices: the answers of scikit-learn on the same matrix, in memory that zeros do not take."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model as reference
from sklearn.base import clone
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import shoal
from shoal.api.estimators import ElasticNet, Exact, Lasso, LinearRegression, Ridge
from shoal.errors import DataError, ResourceError
from shoal.solve.rows.sparse import SparseRows

TIGHT = {"tol": 1e-13, "max_iter": 200_000}
SHAPES = {"tall": (900, 40, 0.1), "wide": (150, 2500, 0.02), "many of both": (2100, 1100, 0.008)}


def table(shape: str, seed: int = 0) -> tuple[Any, Any]:
    n, p, density = SHAPES[shape]
    random = np.random.default_rng(seed)
    X = sp.random_array((n, p), density=density, format="csr", rng=random, data_sampler=random.standard_normal)
    return X, X[:, :8] @ np.linspace(-3, 4, 8) + 0.1 * random.standard_normal(n) + 2


def strength(X: Any, y: Any) -> float:
    return 0.05 * float(np.abs(X.T @ (y - y.mean())).max()) / len(y)


def objective(model: Any, X: Any, y: Any, l1: float, l2: float) -> float:
    r, w = y - X @ model.coef_ - model.intercept_, model.coef_
    return float(r @ r / (2 * len(y)) + l1 * np.abs(w).sum() + l2 / 2 * w @ w)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_lasso_and_elastic_net_are_scikit_learns(shape: str, intercept: bool) -> None:
    X, y = table(shape)
    a = strength(X, y) * (1 if intercept else 5)
    for ours, theirs, l1, l2 in (
        (Lasso(a), reference.Lasso(a, **TIGHT), a, 0.0),
        (ElasticNet(a, l1_ratio=0.7), reference.ElasticNet(a, l1_ratio=0.7, **TIGHT), 0.7 * a, 0.3 * a),
    ):
        found, expected = (m.set_params(fit_intercept=intercept).fit(X, y) for m in (ours, theirs))
        best = objective(expected, X, y, l1, l2)
        assert objective(found, X, y, l1, l2) <= best * (1 + 1e-9)
        np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-7)
        assert found.certificate_.relative < 1e-12
        assert found.certificate_.rests_on == "data"
        np.testing.assert_allclose(found.predict(X), found.predict(X.toarray()), atol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_ridge_and_linear_are_those_of_the_filled_matrix(shape: str, intercept: bool) -> None:
    X, y = table(shape)
    full, n = X.toarray(), len(y)
    ridge = Ridge(2.0, fit_intercept=intercept).fit(X, y)
    expected = reference.Ridge(2.0, fit_intercept=intercept, solver="cholesky").fit(full, y)
    assert objective(ridge, X, y, 0, 2 / n) <= objective(expected, full, y, 0, 2 / n) * (1 + 1e-9)
    np.testing.assert_allclose(ridge.coef_, expected.coef_, atol=1e-9)
    assert ridge.certificate_.relative < 1e-10
    linear = LinearRegression(fit_intercept=intercept).fit(X, y)
    centred = full - full.mean(axis=0) if intercept else full
    smallest = np.linalg.lstsq(centred, y - y.mean() if intercept else y)[0]
    np.testing.assert_allclose(linear.coef_, smallest, atol=1e-7)


def test_many_weights_need_no_square_matrix_of_their_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table("many of both")
    a = strength(X, y) / 100
    expected = reference.ElasticNet(a, l1_ratio=0.5, **TIGHT).fit(X, y)
    monkeypatch.delattr(SparseRows, "part")
    found = ElasticNet(a, l1_ratio=0.5).fit(X, y)
    assert np.count_nonzero(found.coef_) > 900
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-8)
    assert found.certificate_.relative < 1e-12


def test_where_descent_would_take_long_the_answer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table("many of both")
    usual = Lasso(strength(X, y)).fit(X, y)
    monkeypatch.setattr("shoal.solve.rows.sparse.PASSES", 0)
    monkeypatch.setattr("shoal.solve.rows.sparse.TOUCHED", 0)
    found = Lasso(strength(X, y)).fit(X, y)
    np.testing.assert_allclose(found.coef_, usual.coef_, atol=1e-12)


def odd_table() -> tuple[Any, Any]:
    """Columns without values, constant, far from zero, twins, with stored zeros and with values stored twice."""
    X, y = table("tall")
    n, random = X.shape[0], np.random.default_rng(1)
    far = 1e6 + random.standard_normal((n, 1))
    X = sp.hstack([X, sp.csr_array((n, 3)), sp.csr_array(np.full((n, 1), 7.0)), sp.csr_array(far), X[:, [0]]], "csr")
    extra = sp.coo_array((np.r_[X.data, 0.5, 0.0], (np.r_[X.nonzero()[0], 0, 1], np.r_[X.nonzero()[1], 0, 1])), X.shape)
    return extra, y + far[:, 0]


@pytest.mark.parametrize("kind", ["coo", "csc", "csr", "lil"])
def test_odd_columns_and_every_format(kind: str) -> None:
    X, y = odd_table()
    a = 0.05
    found = Lasso(a).fit(X.asformat(kind), y)
    dense = Lasso(a, engine="inline").fit(X.toarray(), y)
    assert objective(found, X.toarray(), y, a, 0) == pytest.approx(objective(dense, X.toarray(), y, a, 0), rel=1e-9)
    np.testing.assert_allclose(found.predict(X), dense.predict(X.toarray()), rtol=1e-9)
    assert found.coef_[40:44].tolist() == [0] * 4
    assert "4 columns do not vary; their weights are 0." in found.notes_
    linear = LinearRegression().fit(X.asformat(kind), y)
    np.testing.assert_allclose(
        linear.predict(X), LinearRegression().fit(X.toarray(), y).predict(X.toarray()), rtol=1e-9
    )


def test_standardising_is_a_scaler_that_centres_nothing() -> None:
    """The intercept takes up the centres, so that the scale alone is the difference."""
    X, y = table("wide")
    a = strength(X, y) / 3
    found = Lasso(a, standardize=True).fit(X, y)
    theirs = make_pipeline(StandardScaler(with_mean=False), reference.Lasso(a, **TIGHT)).fit(X, y)
    np.testing.assert_allclose(found.predict(X), theirs.predict(X), atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("estimator", [Lasso(0.002), ElasticNet(0.004), Ridge(1.5)])
def test_weights_are_repeated_rows(estimator: Exact, shape: str) -> None:
    X, y = table(shape)
    times = np.arange(len(y)) % 3
    weighted = estimator.fit(X, y, sample_weight=times)
    found = weighted.coef_, weighted.intercept_
    repeated = estimator.fit(sp.csr_array(X.tocsr()[np.repeat(np.arange(len(y)), times)]), np.repeat(y, times))
    np.testing.assert_allclose(found[0], repeated.coef_, atol=1e-9)
    assert found[1] == pytest.approx(repeated.intercept_, rel=1e-9)


def test_several_targets() -> None:
    X, y = table("wide")
    both = Lasso(0.01).fit(X, np.column_stack((y, -2 * y)))
    assert both.coef_.shape == (2, 2500)
    np.testing.assert_array_equal(both.coef_[0], Lasso(0.01).fit(X, y).coef_)
    assert both.predict(X).shape == (150, 2)


def test_a_million_columns_take_no_more_memory_than_their_values() -> None:
    n, p, random = 2000, 1_000_000, np.random.default_rng(0)
    at = random.integers(0, n, 300_000), random.integers(0, p, 300_000)
    X = sp.csr_array((random.standard_normal(300_000), at), (n, p))
    y = X[:, [3, 77]] @ [1.0, 2.0] + random.standard_normal(n)
    tracemalloc.start()
    model = Lasso(0.9 * strength(X, y) / 0.05).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0 < np.count_nonzero(model.coef_) < 50
    assert model.certificate_.relative < 1e-12
    assert peak < 50 * 8 * p


def test_more_columns_in_the_model_than_memory_has_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table("wide")
    monkeypatch.setattr("shoal.api.sparse_fits.available_memory", lambda: 100_000)
    with pytest.raises(ResourceError, match="Choose a larger alpha, or a ridge model"):
        Lasso(1e-6).fit(X, y)
    Ridge().fit(X, y)


def test_what_is_no_number_is_refused() -> None:
    X, y = table("tall")
    X.data[5] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        Lasso().fit(X, y)
    X.data[5] = 1e200
    with pytest.raises(ValueError, match="too large for float64"):
        Lasso().fit(X, y)


def test_fit_takes_a_sparse_matrix_that_can_be_filled_in_and_names_the_way_for_others() -> None:
    X, y = table("tall")
    model = shoal.fit(X, y, "lasso", alpha=0.01, standardize=False)
    np.testing.assert_allclose(list(model.coefficients.values()), Lasso(0.01).fit(X, y).coef_, atol=1e-9)
    huge = sp.csr_array(([1.0], ([0], [0])), (10, 3_000_000))
    with pytest.raises(DataError, match=r"shoal\.Lasso"):
        shoal.fit(huge, np.zeros(10))


# ------------------------------------------------------------------ penalties chosen by splits


@pytest.mark.parametrize("columns", [60, 1500])
@pytest.mark.parametrize("weighted", [False, True])
def test_estimators_with_splits_have_the_errors_of_scikit_learn(columns: int, weighted: bool) -> None:
    random = np.random.default_rng(columns)
    X = sp.random_array((200, columns), density=0.05, format="csr", rng=random, data_sampler=random.standard_normal)
    X = X.tocsr()
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    y = X[:, :8] @ np.linspace(-3, 4, 8) + 0.3 * random.standard_normal(200) + 2
    weights = random.integers(0, 4, 200).astype(float) if weighted else None
    alphas = [0.1, 0.01, 0.001]
    splits = KFold(4)
    tight: dict[str, Any] = {"tol": 1e-12, "max_iter": 200_000}
    for model, theirs in [
        (shoal.LassoCV(alphas=alphas, cv=splits), lambda alpha: reference.Lasso(alpha, **tight)),
        (
            shoal.ElasticNetCV(alphas=alphas, cv=splits, l1_ratio=0.7),
            lambda alpha: reference.ElasticNet(alpha, l1_ratio=0.7, **tight),
        ),
        (
            shoal.RidgeCV(alphas=alphas, cv=splits),
            lambda alpha: reference.Ridge(alpha, solver="sparse_cg", tol=1e-13, max_iter=20_000),
        ),
    ]:
        model.fit(X, y, sample_weight=weights)
        errors = np.zeros((3, 4))
        for fold, (train, test) in enumerate(splits.split(X)):
            for place, alpha in enumerate(alphas):
                own = None if weights is None else weights[train]
                fitted = theirs(alpha).fit(X[train], y[train], sample_weight=own)
                held = None if weights is None else weights[test]
                errors[place, fold] = mean_squared_error(y[test], fitted.predict(X[test]), sample_weight=held)
        np.testing.assert_allclose(model.mse_path_, errors, rtol=1e-5)
        assert model.alpha_ == alphas[int(np.argmin(errors.mean(axis=1)))]
        np.testing.assert_allclose(model.coef_, theirs(model.alpha_).fit(X, y, sample_weight=weights).coef_, atol=1e-5)
        np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_, atol=1e-10)


def test_alphas_that_nobody_names_are_those_of_filled_in_rows() -> None:
    random = np.random.default_rng(5)
    X = sp.random_array((120, 40), density=0.1, format="coo", rng=random, data_sampler=random.standard_normal)
    y = X.toarray()[:, :5] @ np.ones(5) + 0.1 * random.standard_normal(120)
    for kind in (shoal.LassoCV, shoal.RidgeCV, shoal.ElasticNetCV):
        sparse, dense = kind(n_alphas=20).fit(X, y), kind(n_alphas=20).fit(X.toarray(), y)
        np.testing.assert_allclose(sparse.alphas_, dense.alphas_, rtol=1e-10)
        np.testing.assert_allclose(sparse.mse_path_, dense.mse_path_, rtol=1e-5)
        assert sparse.alpha_ == pytest.approx(dense.alpha_)
    flat = shoal.LassoCV(n_alphas=3).fit(X, np.ones(120))
    assert "all penalties are alike" in " ".join(flat.notes_)
    with pytest.raises(ValueError, match="rows that count in each part"):
        shoal.LassoCV(cv=2).fit(X, y, sample_weight=np.arange(120) % 2)


def yes_or_no(n: int = 600, p: int = 900) -> tuple[Any, Any]:
    """Texts by common and rare words: near-dependent columns, one without zeros far from 0, and an empty one."""
    random = np.random.default_rng(4)
    at = (np.repeat(np.arange(n), 15), (p * random.random(15 * n) ** 3).astype(int))
    X = sp.csr_matrix((1 + random.random(15 * n), at), (n, p)).tolil()
    X[:, 7], X[:, 11] = 1e3 + random.standard_normal((n, 1)), 0.0
    X = X.tocsr()
    eta = X[:, 8:60] @ random.standard_normal(52) * 0.5 + 0.3
    return X, (random.random(n) < 1 / (1 + np.exp(-eta))).astype(int)


@pytest.mark.parametrize(("C", "intercept"), [(0.1, True), (50.0, False)])
def test_logistic_with_a_ridge_is_scikit_learns(C: float, intercept: bool) -> None:
    X, y = yes_or_no()
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    X = X.tolil()
    X[:, 7] = 0.0  # scikit-learn's steps do not end beside a column that far from 0
    X = X.tocsr()
    theirs = reference.LogisticRegression(C=C, fit_intercept=intercept, solver="newton-cg", tol=1e-12, max_iter=1000)
    theirs.fit(X, y, weight)
    ours = shoal.LogisticRegression(C, fit_intercept=intercept).fit(X, y, weight)
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-7 * np.abs(theirs.coef_).max()
    assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-6, abs=1e-9)
    assert ours.predict_proba(X) == pytest.approx(theirs.predict_proba(X), abs=1e-7)
    assert ours.certificate_.relative < 1e-11


@pytest.mark.parametrize(("C", "l1_ratio"), [(1.0, 1.0), (20.0, 1.0), (1.0, 0.5), (20.0, 0.9)])
def test_logistic_with_an_l1_part_meets_its_conditions(C: float, l1_ratio: float) -> None:
    X, y = yes_or_no()
    found = shoal.LogisticRegression(C, l1_ratio=l1_ratio).fit(X, y)
    w = found.coef_[0]
    assert 0 < np.count_nonzero(w) < 0.8 * len(w)
    slope = 1 / (1 + np.exp(-(X @ w + found.intercept_[0]))) - y
    smooth = X.T @ slope + (1 - l1_ratio) / C * w
    off = np.where(w == 0, np.maximum(np.abs(smooth) - l1_ratio / C, 0), np.abs(smooth + l1_ratio / C * np.sign(w)))
    steepest = np.abs(X.T @ (y - y.mean())).max()
    assert max(off.max(), abs(slope.sum())) < 1e-9 * steepest
    assert found.certificate_.relative < 1e-11


def test_counts_and_positive_numbers_of_sparse_rows_are_scikit_learns() -> None:
    X, _ = yes_or_no()
    X = X[:, 8:400] * 0.2
    random = np.random.default_rng(3)
    mean = np.exp(X @ random.standard_normal(392) * 0.3)
    for ours, theirs, y in (
        (
            shoal.PoissonRegressor(0.1),
            reference.PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=5000),
            random.poisson(mean),
        ),
        (
            shoal.GammaRegressor(0.1),
            reference.GammaRegressor(alpha=0.1, tol=1e-10, max_iter=5000),
            mean * random.gamma(2, 0.5, 600),
        ),
    ):
        assert ours.fit(X, y).coef_ == pytest.approx(theirs.fit(X, y).coef_, abs=1e-6)
        assert ours.predict(X) == pytest.approx(theirs.predict(X), rel=1e-5)
        assert ours.certificate_.relative < 1e-10


def test_several_classes_and_no_penalty_are_as_of_dense_rows() -> None:
    X, y = yes_or_no()
    X, y = X[:, 8:30], y + (np.arange(len(y)) % 3 == 0)
    ours = shoal.LogisticRegression(engine="inline").fit(X, y)
    theirs = reference.LogisticRegression(tol=1e-10, max_iter=5000).fit(X, y)
    assert ours.predict_proba(X) == pytest.approx(theirs.predict_proba(X), abs=1e-5)


def test_estimators_that_fill_zeros_in_take_them_too() -> None:
    X, y = table("tall")
    X = X[:, :10]
    for model, target in (
        (shoal.HuberRegressor(alpha=0.1), y),
        (shoal.QuantileRegressor(alpha=0.01), y),
        (shoal.LogisticRegressionCV(4), y > np.median(y)),
    ):
        filled = clone(model).fit(X.toarray(), target)
        found = model.fit(X, target)
        np.testing.assert_array_equal(found.coef_, filled.coef_)
        np.testing.assert_allclose(found.predict(X), filled.predict(X.toarray()), rtol=1e-12)
