"""Penalties of several classes by cross-validation, against scikit-learn refitted to the rows of every fold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import shoal
from shoal.errors import DataError
from shoal.tuning import classes
from support.tables import shared
from support.tables import shoal as command

ALPHAS = [30.0, 3.0, 0.3]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Penguins by what is measured of them, in the order of the file: species by species."""
    found = pd.read_csv(shared("data", "regression", "penguins.csv")).dropna().reset_index(drop=True)
    return found.drop(columns=["island", "sex", "year"])


def by_class(frame: pd.DataFrame, k: int) -> np.ndarray:
    """The fold of each row: every k-th of each class, classes counted on from one another."""
    order = np.concatenate([np.flatnonzero(frame["species"] == name) for name in sorted(frame["species"].unique())])
    found = np.empty(len(frame), int)
    found[order] = np.arange(len(frame)) % k
    return found


def refitted(frame: pd.DataFrame, place: np.ndarray, k: int, **more: Any) -> np.ndarray:
    X, y = frame.drop(columns="species"), frame["species"]
    errors = np.empty((k, len(ALPHAS)))
    for fold in range(k):
        for at, alpha in enumerate(ALPHAS):
            tight = {"solver": "newton-cholesky", "tol": 1e-12} if not more.get("l1_ratio") else {}
            model = make_pipeline(StandardScaler(), LogisticRegression(C=1 / alpha, **{**tight, **more}))
            model.fit(X[place != fold], y[place != fold])
            errors[fold, at] = log_loss(y[place == fold], model.predict_proba(X[place == fold]), labels=model.classes_)
    return errors


@pytest.mark.parametrize("many", [300, 0])  # weights beyond which steps begin with one curvature for all folds
def test_errors_of_folds_by_class_are_those_of_scikit_learn(
    frame: pd.DataFrame, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classes, "MANY", many)
    tuned = shoal.tune(frame, "species", "multinomial", shrink="ridge", alphas=ALPHAS, folds=4).tuned
    assert tuned.choice.text == "class"
    np.testing.assert_allclose(tuned.curve.errors, refitted(frame, by_class(frame, 4), 4), rtol=1e-7)
    assert tuned.certificate.relative < 1e-8
    assert tuned.certificate.rests_on == "data"


def test_balanced_classes_and_folds_by_row(frame: pd.DataFrame) -> None:
    knobs: dict[str, Any] = {"shrink": "ridge", "alphas": ALPHAS, "folds": 3, "fold_by": "row"}
    tuned = shoal.tune(frame, "species", "multinomial", class_weight="balanced", **knobs).tuned
    place = np.arange(len(frame)) % 3
    np.testing.assert_allclose(
        tuned.curve.errors, refitted(frame, place, 3, class_weight="balanced"), rtol=1e-7
    )  # fmt: skip


def test_a_lasso_has_the_errors_of_scikit_learn_and_columns_that_leave(frame: pd.DataFrame) -> None:
    tuned = shoal.tune(frame, "species", "multinomial", shrink="lasso", alphas=ALPHAS, folds=3).tuned
    saga = {"solver": "saga", "tol": 1e-10, "max_iter": 100_000, "l1_ratio": 1.0}
    np.testing.assert_allclose(tuned.curve.errors, refitted(frame, by_class(frame, 3), 3, **saga), rtol=1e-6)
    many = shoal.tune(frame, "species", "multinomial", shrink="lasso", n_alphas=8, folds=3).tuned
    kept = many.as_dict()["n_features_kept"]
    assert kept[0] == 0
    assert kept[-1] == 4


def test_weights_are_repeated_rows(frame: pd.DataFrame) -> None:
    rng = np.random.default_rng(1)
    times = rng.integers(1, 3, len(frame))
    knobs: dict[str, Any] = {"shrink": "ridge", "alphas": ALPHAS, "folds": 3, "fold_by": "group:g"}
    own = frame.assign(g=rng.integers(0, 30, len(frame)).astype(str), n=times)
    base = {"features": [name for name in frame if name != "species"], **knobs}
    once = shoal.tune(own, "species", "multinomial", weights="n", weights_are="frequency", **base).tuned
    many = shoal.tune(own.loc[own.index.repeat(times)], "species", "multinomial", **base).tuned
    np.testing.assert_allclose(once.curve.errors, many.curve.errors, rtol=1e-8)


def test_alpha_is_chosen_where_none_is_given_and_told(frame: pd.DataFrame, tmp_path: Path) -> None:
    path, saved = tmp_path / "penguins.csv", tmp_path / "model.json"
    frame.to_csv(path, index=False)
    done = command("train", path, "--target", "species", "--model", "multinomial", "--shrink", "ridge", "--out", saved)
    assert done.code == 0, done.err
    assert "10 folds by class, log loss" in done.out
    tuned = command("tune", path, "--target", "species", "--model", "multinomial", "--shrink", "ridge")
    assert tuned.code == 0, tuned.err
    assert "sweeps over the rows" in tuned.out
    chosen = shoal.load(saved).report["alpha"]
    assert f"{chosen:.6g}" in tuned.out


def test_a_fold_without_a_class_is_told(frame: pd.DataFrame) -> None:
    rare = pd.concat([frame, frame.iloc[[0]].assign(species="Emperor")])
    with pytest.raises(DataError, match="got none with 'Emperor' in fold"):
        shoal.tune(rare, "species", "multinomial", shrink="ridge", alphas=ALPHAS, folds=3)
