"""RidgeCV, LassoCV and ElasticNetCV against scikit-learn's checks, its answers on the same splits, and refits by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model as reference
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, RepeatedKFold, ShuffleSplit, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from shoal.api import cv_estimators
from shoal.api.cv_estimators import ElasticNetCV, LassoCV, RidgeCV
from shoal.tasks import workers

ESTIMATORS = [RidgeCV, LassoCV, ElasticNetCV]
TIGHT: dict[str, Any] = {"tol": 1e-13, "max_iter": 500_000}
ALPHAS = np.geomspace(2, 1e-3, 12)


@pytest.fixture(scope="module")
def pool() -> Iterator[None]:
    with workers.pooled_engine(2):
        pass
    yield
    workers.close_pools()


def numbers(n: int = 150, p: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.logspace(-0.5, 0.5, p) + 3
    return X, X @ np.where(np.arange(p) % 3, 0.0, 1.5) + 2 * rng.standard_normal(n) - 3


# ------------------------------------------------------------------ scikit-learn's own checks


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scikit_learns_checks_pass_inline(estimator: type) -> None:
    _check(estimator(engine="inline"))


@pytest.mark.usefixtures("pool")
def test_scikit_learns_checks_pass_with_workers() -> None:
    _check(LassoCV(engine="processes", n_workers=2))


def _check(estimator: object) -> None:
    results = check_estimator(estimator, on_skip=None, on_fail="raise")
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] != "passed"] in ([], ["check_array_api_input"])


def test_shoal_has_them_and_its_import_stays_cheap() -> None:
    script = (
        "import sys, shoal\n"
        "assert 'sklearn' not in sys.modules\n"
        "assert {'RidgeCV', 'LassoCV', 'ElasticNetCV'} <= set(dir(shoal)) and shoal.LassoCV().n_alphas == 100\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])


# ------------------------------------------------------------------ the same answers as scikit-learn's

SPLITTERS = {
    "blocks": KFold(5),
    "shuffled": KFold(4, shuffle=True, random_state=1),
    "time": TimeSeriesSplit(5),
    "random": ShuffleSplit(6, random_state=2),
    "repeated": RepeatedKFold(n_splits=3, n_repeats=2, random_state=3),
    "once": [(np.arange(100), np.arange(100, 150))],
}


@pytest.mark.parametrize("name", SPLITTERS)
@pytest.mark.parametrize("intercept", [True, False])
def test_lasso_is_scikit_learns(name: str, intercept: bool) -> None:
    X, y = numbers()
    cv = SPLITTERS[name]
    ours = LassoCV(alphas=ALPHAS, cv=cv, fit_intercept=intercept).fit(X, y)
    theirs = reference.LassoCV(alphas=ALPHAS, cv=cv, fit_intercept=intercept, **TIGHT).fit(X, y)
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_.reshape(12, -1), rtol=1e-8)
    assert ours.alpha_ == theirs.alpha_
    np.testing.assert_array_equal(ours.alphas_, theirs.alphas_)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-9)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-8, abs=1e-9)
    assert ours.certificate_.rests_on == "data"
    assert ours.certificate_.relative < 1e-10


@pytest.mark.parametrize("ratios", [0.4, [0.1, 0.5, 0.9, 1.0]], ids=["one", "several"])
def test_elastic_net_is_scikit_learns(ratios: Any) -> None:
    X, y = numbers(seed=1)
    cv = KFold(5, shuffle=True, random_state=0)
    ours = ElasticNetCV(l1_ratio=ratios, alphas=ALPHAS, cv=cv).fit(X, y)
    theirs = reference.ElasticNetCV(l1_ratio=ratios, alphas=ALPHAS, cv=cv, **TIGHT).fit(X, y)
    assert ours.mse_path_.shape == theirs.mse_path_.shape
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-8)
    assert (ours.alpha_, ours.l1_ratio_) == (theirs.alpha_, theirs.l1_ratio_)
    assert np.shape(ours.alphas_) == ((len(ratios), 12) if isinstance(ratios, list) else (12,))
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-9)


def test_ridge_is_scikit_learns() -> None:
    X, y = numbers(seed=2)
    alphas, cv = np.geomspace(1e4, 1e-2, 15), KFold(6, shuffle=True, random_state=0)
    ours = RidgeCV(alphas=alphas, cv=cv).fit(X, y)
    theirs = reference.RidgeCV(alphas=alphas, cv=cv, scoring="neg_mean_squared_error").fit(X, y)
    assert ours.alpha_ == theirs.alpha_
    assert ours.mse_path_.mean(axis=1).min() == pytest.approx(-theirs.best_score_, rel=1e-10)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)


def test_groups_come_as_splits() -> None:
    X, y = numbers()
    splits = list(GroupKFold(4).split(X, y, np.arange(len(X)) // 7))
    ours = LassoCV(alphas=ALPHAS, cv=splits).fit(X, y)
    theirs = reference.LassoCV(alphas=ALPHAS, cv=splits, **TIGHT).fit(X, y)
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-8)


def test_splits_may_be_masks_and_may_repeat_rows() -> None:
    X, y = numbers()
    masks = [(np.arange(150) % 3 != k, np.arange(150) % 3 == k) for k in range(3)]
    np.testing.assert_array_equal(
        LassoCV(alphas=ALPHAS, cv=masks).fit(X, y).mse_path_, LassoCV(alphas=ALPHAS, cv=3).fit(X, y).mse_path_
    )
    drawn = [(np.random.default_rng(k).integers(0, 120, 120), np.arange(120, 150)) for k in range(3)]
    theirs = reference.LassoCV(alphas=ALPHAS, cv=drawn, **TIGHT).fit(X, y)
    np.testing.assert_allclose(LassoCV(alphas=ALPHAS, cv=drawn).fit(X, y).mse_path_, theirs.mse_path_, rtol=1e-8)


def test_a_row_that_is_trained_on_and_tested_counts_in_both() -> None:
    X, y = numbers()
    both = [(np.arange(0, 100), np.arange(60, 150)), (np.arange(50, 150), np.arange(0, 80))]
    theirs = reference.LassoCV(alphas=ALPHAS, cv=both, **TIGHT).fit(X, y)
    np.testing.assert_allclose(LassoCV(alphas=ALPHAS, cv=both).fit(X, y).mse_path_, theirs.mse_path_, rtol=1e-8)


def test_leave_one_out() -> None:
    X, y = numbers(30, 4)
    theirs = reference.LassoCV(alphas=ALPHAS, cv=LeaveOneOut(), **TIGHT).fit(X, y)
    ours = LassoCV(alphas=ALPHAS, cv=LeaveOneOut()).fit(X, y)
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-7, atol=1e-10)
    assert ours.alpha_ == theirs.alpha_


# ------------------------------------------------------------------ what is ours


@pytest.mark.parametrize("cv", [None, 7])
def test_a_number_of_folds_takes_rows_in_turn(cv: int | None) -> None:
    X, y = numbers()
    k = cv or 5
    splits = [(np.flatnonzero(np.arange(150) % k != f), np.flatnonzero(np.arange(150) % k == f)) for f in range(k)]
    theirs = reference.LassoCV(alphas=ALPHAS, cv=splits, **TIGHT).fit(X, y)
    np.testing.assert_allclose(LassoCV(alphas=ALPHAS, cv=cv).fit(X, y).mse_path_, theirs.mse_path_, rtol=1e-8)


def test_standardising_is_learnt_in_every_fold() -> None:
    X, y = numbers()
    ours = LassoCV(alphas=ALPHAS, cv=KFold(5), standardize=True).fit(X, y)
    for fold, (train, test) in enumerate(KFold(5).split(X)):
        for i, alpha in enumerate(ALPHAS):
            model = make_pipeline(StandardScaler(), reference.Lasso(alpha=alpha, **TIGHT)).fit(X[train], y[train])
            error = ((y[test] - model.predict(X[test])) ** 2).mean()
            assert ours.mse_path_[i, fold] == pytest.approx(error, rel=1e-8)
    whole = make_pipeline(StandardScaler(), reference.Lasso(alpha=ours.alpha_, **TIGHT)).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), whole.predict(X), rtol=1e-8)


def test_the_alphas_begin_where_the_first_column_comes_in() -> None:
    X, y = numbers()
    model = LassoCV(n_alphas=30).fit(X, y)
    largest = np.abs((X - X.mean(axis=0)).T @ (y - y.mean())).max() / len(y)
    assert len(model.alphas_) == 30
    assert model.alphas_[0] == pytest.approx(largest, rel=1e-12)
    assert model.alphas_[-1] == pytest.approx(largest * 1e-4, rel=1e-12)


def test_one_standard_error() -> None:
    X, y = numbers(60, seed=5)
    best = LassoCV(alphas=ALPHAS).fit(X, y)
    plain = LassoCV(alphas=ALPHAS, selection="one_se").fit(X, y)
    mean = best.mse_path_.mean(axis=1)
    bound = mean.min() + best.mse_path_[mean.argmin()].std(ddof=1) / np.sqrt(5)
    assert plain.alpha_ == ALPHAS[mean <= bound].max() == best.one_se_alpha_
    assert plain.alpha_ > best.alpha_ == ALPHAS[mean.argmin()]
    np.testing.assert_allclose(plain.coef_, reference.Lasso(alpha=plain.alpha_, **TIGHT).fit(X, y).coef_, rtol=1e-8)


def test_unsorted_and_repeated_alphas() -> None:
    X, y = numbers()
    model = LassoCV(alphas=[0.1, 3.0, 0.1, 1.0]).fit(X, y)
    assert model.alphas_.tolist() == [3.0, 1.0, 0.1]
    assert model.mse_path_.shape == (3, 5)


def test_powers_of_a_column_are_fitted_from_rows() -> None:
    """Moments have too few digits for this; the errors are compared with least squares on the rows."""
    x = np.linspace(1, 3, 300)
    X, y = np.column_stack([x**k for k in range(1, 8)]), np.sin(3 * x)
    alpha = 1e-9
    ours = RidgeCV(alphas=[alpha], cv=5).fit(X, y)
    for fold in range(5):
        train, test = np.arange(300) % 5 != fold, np.arange(300) % 5 == fold
        centred = X[train] - X[train].mean(axis=0)
        rows = np.vstack((centred, np.sqrt(alpha) * np.eye(7)))
        w = np.linalg.lstsq(rows, np.append(y[train] - y[train].mean(), np.zeros(7)), rcond=None)[0]
        error = ((y[test] - y[train].mean() - (X[test] - X[train].mean(axis=0)) @ w) ** 2).mean()
        assert ours.mse_path_[0, fold] == pytest.approx(error, rel=1e-7)


@pytest.mark.usefixtures("pool")
@pytest.mark.parametrize("name", ["blocks", "random"])
def test_the_same_bits_from_workers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.passes.arrays.RANGE_VALUES", 400)
    X, y = numbers()
    fits = [
        LassoCV(alphas=ALPHAS, cv=SPLITTERS[name], engine=engine, n_workers=2).fit(X, y)
        for engine in ("inline", "processes")
    ]
    np.testing.assert_array_equal(fits[0].mse_path_, fits[1].mse_path_)
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


def test_data_frames_and_single_precision() -> None:
    X, y = numbers()
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(8)])
    model = RidgeCV(alphas=[1.0, 10.0]).fit(frame, y)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    single = RidgeCV(alphas=[1.0, 10.0]).fit(X.astype(np.float32), y)
    double = RidgeCV(alphas=[1.0, 10.0]).fit(X.astype(np.float32).astype(float), y)
    np.testing.assert_allclose(single.mse_path_, double.mse_path_, rtol=1e-12)


def test_more_columns_than_rows() -> None:
    X, y = numbers(24, 40)
    alphas = [1.0, 0.3]
    theirs = reference.LassoCV(alphas=alphas, cv=KFold(4), **TIGHT).fit(X, y)
    ours = LassoCV(alphas=alphas, cv=KFold(4)).fit(X, y)
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-7)


@pytest.mark.parametrize("value", [5.0, 0.1, 1e-3])
def test_a_constant_target_and_a_constant_column(value: float) -> None:
    X, _ = numbers(20, 3)
    X[:, 1] = 4.0
    model = LassoCV().fit(X, np.full(20, value))
    assert (model.coef_.tolist(), model.intercept_) == ([0, 0, 0], pytest.approx(value, rel=1e-15))
    assert "No column is related" in model.notes_[0]


# ------------------------------------------------------------------ what cannot be asked for


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"alphas": [1.0, -0.1]}, "at least 0, got -0.1"),
        ({"alphas": [np.nan]}, "finite numbers"),
        ({"alphas": [np.inf]}, "finite numbers"),
        ({"alphas": []}, "at least one alpha"),
        ({"n_alphas": 0}, "from 1 to"),
        ({"n_alphas": 2.5}, "from 1 to"),
        ({"cv": 1}, "a number of at least 2"),
        ({"cv": 200}, "n_samples=150 for 200 folds"),
        ({"cv": [(np.arange(10), np.arange(0))]}, "rows to test on"),
        ({"cv": []}, "rows to train on"),
        ({"cv": [(np.arange(100), np.arange(100, 150))], "selection": "one_se"}, "at least 2 splits"),
        ({"selection": "least"}, "one of best, one_se"),
        ({"engine": "gpu"}, "one of auto"),
        ({"n_workers": 0}, "at least 1"),
    ],
)
def test_a_plain_sentence_for_what_cannot_be(parameters: dict[str, Any], said: str) -> None:
    X, y = numbers()
    with pytest.raises(ValueError, match=said):
        LassoCV(**parameters).fit(X, y)


@pytest.mark.parametrize(("ratio", "said"), [(1.5, "got 1.5"), ([0.5, -1], "got -1"), ([], "at least one l1_ratio")])
def test_mixing_ratios_are_checked(ratio: Any, said: str) -> None:
    X, y = numbers()
    with pytest.raises(ValueError, match=said):
        ElasticNetCV(l1_ratio=ratio).fit(X, y)


def test_many_splits_are_not_kept_as_cells() -> None:
    rows = np.arange(60)
    few = [cv_estimators._Split(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    many = [cv_estimators._Split(a, b) for a, b in ShuffleSplit(8, test_size=0.5, random_state=0).split(rows)]
    cells = cv_estimators._cells(few, 60)
    assert cells is not None
    assert np.unique(cells[0]).tolist() == [0, 1, 2]
    assert cv_estimators._cells(many, 60) is None


def test_clone_and_parameters() -> None:
    model = ElasticNetCV(l1_ratio=[0.1, 0.9], n_alphas=7, cv=3, selection="one_se", standardize=True)
    assert clone(model).get_params() == model.get_params()
