"""Errors of folds against scikit-learn pipelines that are refitted to the rows of every fold, to tight tolerance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import log_loss, mean_gamma_deviance, mean_poisson_deviance, mean_squared_error
from sklearn.model_selection import GroupKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import shoal

NUMBERS, TEXTS = ["x", "far", "gaps"], ["kind"]
ALPHAS = [30.0, 3.0, 0.3]
CLOSE = 1e-8
Splits = list[tuple[Any, Any]]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Gaps in a number, a column far from 0, a text; targets of three kinds, groups, moments in time and weights."""
    rng, n = np.random.default_rng(4), 300
    found = pd.DataFrame({
        "x": rng.standard_normal(n), "far": 1e4 + 3 * rng.standard_normal(n), "gaps": rng.gamma(2.0, 2.0, n),
        "kind": rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2]),
        "team": rng.choice([f"t{i:02}" for i in range(14)], n), "stamp": rng.permutation(n).astype(float),
        "weight": rng.integers(0, 4, n).astype(float),
    })  # fmt: skip
    score = found["x"] - 0.3 * (found["far"] - 1e4) + 0.2 * found["gaps"] + (found["kind"] == "red") - 0.8
    found["bought"] = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    found["count"] = rng.poisson(np.exp(0.4 * score)).astype(float)
    found["cost"] = rng.gamma(2.0, np.exp(0.4 * score))
    found.loc[rng.choice(n, 40, replace=False), "gaps"] = np.nan
    return found


TARGETS = {"logistic": "bought", "poisson": "count", "gamma": "cost", "lognormal": "cost"}


MEANS: dict[str, Callable[..., float]] = {
    "poisson": mean_poisson_deviance, "gamma": mean_gamma_deviance,
    "lognormal": lambda y, mean: mean_squared_error(np.log(y), np.log(mean)),
}  # fmt: skip


def pipeline(model: str, alpha: float, l1_ratio: float = 0.0, **more: Any) -> Any:
    numbers = SimpleImputer(strategy="median")
    columns = make_column_transformer(
        (numbers, NUMBERS), (OneHotEncoder(drop="first", sparse_output=False, handle_unknown="ignore"), TEXTS)
    )
    if model == "logistic":
        tight: dict[str, Any] = {"solver": "newton-cholesky", "tol": 1e-12}
        if l1_ratio:
            tight = {"solver": "saga", "tol": 1e-11, "max_iter": 100_000}
        fitted: Any = LogisticRegression(C=1 / alpha, l1_ratio=l1_ratio, **tight, **more)
    elif model == "lognormal":
        fitted = TransformedTargetRegressor(Ridge(alpha * more["rows"]), func=np.log, inverse_func=np.exp)
    else:
        kind = PoissonRegressor if model == "poisson" else GammaRegressor
        fitted = kind(alpha=alpha, solver="newton-cholesky", tol=1e-12)
    return make_pipeline(columns, StandardScaler(), fitted)


def refitted(frame: pd.DataFrame, model: str, splits: Splits, alphas: list[float], **how: Any) -> np.ndarray:
    target = TARGETS[model]
    found = []
    for train, test in splits:
        known, other = frame.loc[train], frame.loc[test]
        errors = []
        for alpha in alphas:
            more = {"rows": len(known)} if model == "lognormal" else {}
            fitted = pipeline(model, alpha, **how, **more).fit(known, known[target])
            if model == "logistic":
                errors.append(log_loss(other[target], fitted.predict_proba(other)))
            else:
                mean = MEANS[model]
                errors.append(mean(other[target], fitted.predict(other)))
        found.append(errors)
    return np.array(found)


def ours(frame: pd.DataFrame, model: str, **more: Any) -> np.ndarray:
    asked = {"folds": 4, "shrink": "ridge", "alphas": ALPHAS, "features": NUMBERS + TEXTS, "coding": "drop_first"}
    found = shoal.tune(frame, TARGETS[model], model, **{**asked, **more}).tuned
    assert found.certificate.relative < 1e-8
    assert found.certificate.rests_on == "data"
    return np.array(found.curve.errors)


def by_class(frame: pd.DataFrame, k: int) -> Splits:
    """Every k-th row of each class in the order of the file, the rows of yes counted on from those of no."""
    yes = frame["bought"] == "yes"
    order = np.concatenate((frame.index[~yes], frame.index[yes]))
    return [(np.delete(order, np.s_[i::k]), order[i::k]) for i in range(k)]


def by_row(frame: pd.DataFrame, k: int) -> Splits:
    return [(frame.index[frame.index % k != i], frame.index[frame.index % k == i]) for i in range(k)]


@pytest.mark.parametrize("model", TARGETS)
def test_errors_of_folds_are_those_of_pipelines_refitted_to_their_rows(frame: pd.DataFrame, model: str) -> None:
    splits = by_class(frame, 4) if model == "logistic" else by_row(frame, 4)
    np.testing.assert_allclose(ours(frame, model), refitted(frame, model, splits, ALPHAS), rtol=CLOSE)


@pytest.mark.parametrize(("shrink", "ratio"), [("lasso", 1.0), ("elasticnet", 0.3)])
def test_sparse_ones_as_well(frame: pd.DataFrame, shrink: str, ratio: float) -> None:
    found = ours(frame, "logistic", shrink=shrink, **({"l1_ratio": ratio} if ratio < 1 else {}))
    theirs = refitted(frame, "logistic", by_class(frame, 4)[:2], ALPHAS, l1_ratio=ratio)
    np.testing.assert_allclose(found[:2], theirs, rtol=1e-7)


def test_folds_by_class_have_their_share_of_each(frame: pd.DataFrame) -> None:
    sizes = [frame.loc[test, "bought"].value_counts() for _, test in by_class(frame, 7)]
    for value in ("yes", "no"):
        assert max(size[value] for size in sizes) - min(size[value] for size in sizes) <= 1
    found = shoal.tune(frame, "bought", "logistic", folds=7, alphas=[1.0], features=NUMBERS, shrink="ridge")
    assert found.tuned.choice.text == "class"


@pytest.mark.parametrize("way", ["group:team", "time:stamp", "hash"])
def test_other_folds(frame: pd.DataFrame, way: str) -> None:
    if way == "group:team":
        splits = [(frame.index[a], frame.index[b]) for a, b in GroupKFold(4).split(frame, groups=frame["team"])]
    elif way == "time:stamp":
        ordered = frame.sort_values("stamp").index
        splits = [(ordered[a], ordered[b]) for a, b in TimeSeriesSplit(4).split(ordered)]
    else:
        found = ours(frame, "poisson", fold_by=way)
        assert found.shape == (4, 3)
        return
    np.testing.assert_allclose(
        ours(frame, "poisson", fold_by=way), refitted(frame, "poisson", splits, ALPHAS), rtol=CLOSE
    )


def test_weights_are_repeated_rows(frame: pd.DataFrame) -> None:
    """A fold of weighted rows is the fold of as many equal rows."""
    again = frame.loc[frame.index.repeat(frame["weight"].astype(int))]
    splits = [
        (again.index[again.index % 4 != i].unique(), again.index[again.index % 4 == i].unique()) for i in range(4)
    ]
    found = ours(frame, "poisson", weights="weight", weights_are="frequency", impute="mean", fold_by="row")
    for errors, (train, test) in zip(found, splits, strict=True):
        known, other = again.loc[train], again.loc[test]
        columns = make_column_transformer(
            (SimpleImputer(strategy="mean"), NUMBERS), (OneHotEncoder(drop="first", sparse_output=False), TEXTS)
        )
        theirs = [
            mean_poisson_deviance(other["count"], make_pipeline(
                columns, StandardScaler(), PoissonRegressor(alpha=alpha, solver="newton-cholesky", tol=1e-12),
            ).fit(known, known["count"]).predict(other))
            for alpha in ALPHAS
        ]  # fmt: skip
        np.testing.assert_allclose(errors, theirs, rtol=CLOSE)


def test_balanced_classes_by_the_rows_of_each_fold(frame: pd.DataFrame) -> None:
    found = ours(frame, "logistic", class_weight="balanced")
    theirs = refitted(frame, "logistic", by_class(frame, 4), ALPHAS, class_weight="balanced")
    np.testing.assert_allclose(found, theirs, rtol=CLOSE)


def test_rows_kept_for_testing_are_in_no_fold(frame: pd.DataFrame) -> None:
    kept = frame.loc[frame.index % 5 != 0]
    found = shoal.tune(
        frame, "bought", "logistic", folds=4, alphas=ALPHAS, shrink="ridge", features=NUMBERS + TEXTS,
        coding="drop_first", test_every=5,
    ).tuned  # fmt: skip
    np.testing.assert_allclose(found.curve.errors, refitted(kept, "logistic", by_class(kept, 4), ALPHAS), rtol=CLOSE)
    held = frame.loc[frame.index % 5 == 0]
    fitted = pipeline("logistic", found.alpha("best")).fit(kept, kept["bought"])
    scores = found.scores("best")["test"]
    assert scores["rows"] == len(held)
    assert scores["log_loss"] == pytest.approx(log_loss(held["bought"], fitted.predict_proba(held)), rel=CLOSE)


def test_the_same_bits_for_any_number_of_workers(frame: pd.DataFrame, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    frame.to_csv(table, index=False)
    found = [
        shoal.tune(table, "bought", "logistic", n_alphas=20, folds=3, features=NUMBERS, engine=engine, workers=workers)
        for engine, workers in (("inline", 0), ("processes", 1), ("processes", 3))
    ]
    shoal.close_pools()
    for other in found[1:]:
        assert (other.tuned.curve.errors == found[0].tuned.curve.errors).all()
        assert (other.coef == found[0].coef).all()
