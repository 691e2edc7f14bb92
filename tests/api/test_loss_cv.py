"""LogisticRegressionCV against scikit-learn: its checks, and models refitted to the rows of every split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, RepeatedStratifiedKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import shoal

CS = [0.01, 0.3, 10.0]


def rows(n: int = 160, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * [1, 10, 0.1, 1, 1] + [0, 500, 0, 3, 0]
    eta = X[:, 0] - 0.1 * (X[:, 1] - 500) + 5 * X[:, 2] - 0.5
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no")


def refitted(X: np.ndarray, y: np.ndarray, splits: Any, weights: np.ndarray | None = None, **more: Any) -> np.ndarray:
    """Log losses (m, splits) of scikit-learn's models, standardised by the training rows of each split."""
    found = []
    for C in CS:
        errors = []
        for train, test in splits:
            model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000, **more)
            own = {} if weights is None else {"logisticregression__sample_weight": weights[train],
                                              "standardscaler__sample_weight": weights[train]}  # fmt: skip
            fitted = make_pipeline(StandardScaler(), model).fit(X[train], y[train], **own)
            of_test = None if weights is None else weights[test]
            errors.append(log_loss(y[test], fitted.predict_proba(X[test]), sample_weight=of_test))
        found.append(errors)
    return np.array(found)


def test_scikit_learns_checks_pass() -> None:
    results = check_estimator(shoal.LogisticRegressionCV(4, engine="inline"), on_skip=None, on_fail="raise")
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] != "passed"] in ([], ["check_array_api_input"])


@pytest.mark.parametrize(
    "cv",
    [KFold(4), ShuffleSplit(12, random_state=0), RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)],
    ids=["k", "shuffled", "repeated"],
)
def test_errors_are_those_of_models_refitted_to_every_split(cv: Any) -> None:
    X, y = rows()
    found = shoal.LogisticRegressionCV(CS, cv=cv, standardize=True).fit(X, y)
    expected = refitted(X, y, list(cv.split(X, y)))
    np.testing.assert_allclose(found.log_loss_path_, expected, rtol=1e-8)
    assert pytest.approx(CS[int(np.argmin(expected.mean(axis=1)))]) == found.C_
    assert found.certificate_.relative < 1e-8
    whole = make_pipeline(StandardScaler(), LogisticRegression(C=found.C_, solver="newton-cholesky", tol=1e-12))
    np.testing.assert_allclose(found.predict_proba(X), whole.fit(X, y).predict_proba(X), rtol=1e-7)


def test_a_number_of_folds_takes_every_kth_row_of_each_class() -> None:
    X, y = rows()
    order = np.concatenate((np.flatnonzero(y == "no"), np.flatnonzero(y == "yes")))
    splits = [(np.delete(order, np.s_[k::5]), order[k::5]) for k in range(5)]
    found = shoal.LogisticRegressionCV(CS, standardize=True).fit(X, y)
    np.testing.assert_allclose(found.log_loss_path_, refitted(X, y, splits), rtol=1e-8)


def test_weights_and_balanced_classes() -> None:
    X, y = rows()
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    splits = list(KFold(3).split(X))
    found = shoal.LogisticRegressionCV(CS, cv=KFold(3), standardize=True).fit(X, y, weights)
    np.testing.assert_allclose(found.log_loss_path_, refitted(X, y, splits, weights), rtol=1e-8)
    found = shoal.LogisticRegressionCV(CS, cv=KFold(3), standardize=True, class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(found.log_loss_path_, refitted(X, y, splits, class_weight="balanced"), rtol=1e-8)


def test_several_mixing_ratios_and_exact_zeros() -> None:
    X, y = rows()
    X = np.column_stack((X, np.random.default_rng(1).normal(size=(len(X), 6))))
    found = shoal.LogisticRegressionCV(20, l1_ratio=[0.2, 1.0], standardize=True, selection="one_se").fit(X, y)
    assert found.Cs_.shape == (2, 20)
    assert found.log_loss_path_.shape == (2, 20, 5)
    assert found.l1_ratio_ in (0.2, 1.0)
    assert found.one_se_C_ == found.C_ <= found.best_C_
    assert (found.coef_ == 0).any()
    alone = shoal.LogisticRegression(found.C_, l1_ratio=found.l1_ratio_, standardize=True).fit(X, y)
    np.testing.assert_allclose(found.coef_, alone.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(found.coef_ == 0, alone.coef_ == 0)


def test_the_same_bits_for_any_engine() -> None:
    X, y = rows()
    one, other = (
        shoal.LogisticRegressionCV(8, engine=engine, n_workers=workers).fit(X, y)
        for engine, workers in (("inline", None), ("processes", 2))
    )
    shoal.close_pools()
    assert (one.coef_ == other.coef_).all()
    assert (one.log_loss_path_ == other.log_loss_path_).all()


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"Cs": 0}, "numbers greater than 0"),
        ({"Cs": [1.0, -1.0]}, "numbers greater than 0"),
        ({"l1_ratio": 2.0}, "l1_ratio from 0"),
        ({"selection": "worst"}, "one of best, one_se"),
        ({"cv": 1}, "at least 2"),
        ({"cv": 500}, "as many rows as folds"),
        ({"cv": [([0, 0, 1], [2])]}, "each once"),
        ({"cv": [(np.arange(4), np.arange(4, 8))]}, "one and the same target"),
    ],
)
def test_bad_knobs_are_refused_in_a_sentence(knobs: dict[str, Any], sentence: str) -> None:
    X, y = rows()
    order = np.argsort(y, kind="stable")  # the first rows have one class
    with pytest.raises(ValueError, match=sentence):
        shoal.LogisticRegressionCV(**knobs).fit(X[order], y[order])
