"""Tables that are hard on paths of other losses: every point still ends at its minimum, or it is said why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import shoal
from shoal.api.penalty_path import PenaltyPath
from shoal.errors import ConfigError, DataError, OutOfMemory
from shoal.fitting.model_file import load_model
from shoal.tuning import follow
from support.tables import shoal as command

F = list("abcde")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng, n = np.random.default_rng(0), 200
    X = rng.normal(size=(n, 5))
    found = pd.DataFrame(X, columns=F)
    found["apart"] = (X[:, 0] > 0).astype(int)
    found["y"] = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    found["rare"] = 0
    found.loc[[5, 50, 150], "rare"] = 1
    found["count"] = rng.poisson(np.exp(X[:, 0]))
    found["time"] = rng.gamma(2, 1, n)
    found["per_time"] = rng.poisson(found["time"] * np.exp(0.5 * X[:, 0]))
    found["dup"], found["const"], found["near"] = found["a"], 3.0, found["a"] + 1e-7 * rng.normal(size=n)
    found["far"] = 1e9 + 1e6 * found["b"]
    found["steep"] = np.exp(3 * found["a"])
    return found


def settled(found: PenaltyPath) -> PenaltyPath:
    assert found.tuned.certificate.relative < 1e-8
    assert found.tuned.sweeps <= 60
    return found


@pytest.mark.parametrize("shrink", ["lasso", "ridge", "elasticnet"])
def test_columns_that_depend_on_one_another_lie_far_off_or_do_not_vary(frame: pd.DataFrame, shrink: str) -> None:
    columns = [*F, "dup", "const", "near", "far"]
    found = settled(shoal.tune(frame, "y", "logistic", features=columns, shrink=shrink))
    assert (found.coef[:, found.names.index("const")] == 0).all()
    assert any("const" in note for note in found.warnings)


@pytest.mark.parametrize("knobs", [
    {"target": "apart"}, {"target": "apart", "shrink": "ridge"}, {"target": "rare", "folds": 5}, {"target": "rare"},
    {"target": "y", "intercept": False}, {"target": "y", "standardize": False},
    {"target": "count", "model": "poisson", "features": [*F, "steep"]},
    {"target": "per_time", "model": "poisson", "offset": "time", "offset_as": "exposure"},
    {"target": "time", "model": "gamma", "features": [*F, "steep"]},
])  # fmt: skip
def test_every_point_of_every_fold_is_at_its_minimum(frame: pd.DataFrame, knobs: dict[str, Any]) -> None:
    settled(shoal.tune(frame, **{"model": "logistic", "features": F, **knobs}))


def test_more_columns_than_rows() -> None:
    rng = np.random.default_rng(1)
    wide = pd.DataFrame(rng.normal(size=(40, 70)), columns=[f"w{i}" for i in range(70)])
    wide["y"] = (wide["w0"] + 0.5 * rng.normal(size=40) > 0).astype(int)
    found = settled(shoal.tune(wide, "y", "logistic", folds=4, n_alphas=30))
    assert max(found.kept) < 40
    assert any("fits them exactly" in note for note in found.warnings)


def test_a_fold_without_one_of_the_values_is_refused_in_a_sentence(frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"All training rows of fold \d have one and the same target.*by class"):
        shoal.tune(frame, "rare", "logistic", features=F, fold_by="row", folds=5)


def test_columns_that_say_nothing(frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="No column is related to the target"):
        shoal.tune(frame, "y", "logistic", features=["const"])


def test_folds_by_class_are_for_classes(frame: pd.DataFrame) -> None:
    with pytest.raises(ConfigError, match="logistic or multinomial model for folds by class"):
        shoal.tune(frame, "count", "lasso", features=F, fold_by="class")


def test_too_little_memory_is_told_before(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "available_memory", lambda: 10_000)
    with pytest.raises(OutOfMemory):
        shoal.tune(frame, "y", "logistic", features=F)


def test_few_anchors_find_the_same_points(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """What memory allows for decides how soon points are found, not where they are."""
    many = settled(shoal.tune(frame, "y", "logistic", features=F, n_alphas=20))
    monkeypatch.setattr(follow, "ANCHORS", 1)
    few = settled(shoal.tune(frame, "y", "logistic", features=F, n_alphas=20))
    np.testing.assert_allclose(few.tuned.curve.errors, many.tuned.curve.errors, rtol=1e-8)


# ------------------------------------------------------------------ what is done with it


def test_python_models_along_a_path(frame: pd.DataFrame) -> None:
    found = shoal.tune(frame, "y", "logistic", features=F, n_alphas=10)
    best = found.best_model()
    assert best.alpha == found.best
    place = int(np.flatnonzero(found.alphas == found.best)[0])
    np.testing.assert_allclose(list(best.coefficients.values()), found.coef[place], rtol=1e-6, atol=1e-9)
    assert "log loss" in repr(found)
    X = (frame[F] - frame[F].mean()) / frame[F].std(ddof=0)
    other = LogisticRegression(C=0.5, l1_ratio=1.0, solver="saga", tol=1e-10, max_iter=100_000).fit(X, frame["y"])
    between = found.model_at(2.0)
    np.testing.assert_allclose(list(between.coefficients_standardized.values()), other.coef_[0], rtol=1e-4, atol=1e-6)


def test_an_alpha_that_nobody_named_is_the_best_of_the_curve(frame: pd.DataFrame, tmp_path: Path) -> None:
    table, out = tmp_path / "table.csv", tmp_path / "model.json"
    frame.to_csv(table, index=False)
    asked = "--target", "y", "--model", "logistic", "--shrink", "ridge", "--features", "a,b,c,d,e"
    tuned = command("tune", table, *asked, "--json").json
    trained = command("train", table, *asked, "--json").json
    assert trained["alpha"] == pytest.approx(tuned["best"], rel=1e-12)
    kept = trained["cross_validation"]
    assert kept["measure"] == "log loss"
    assert kept["fold_by"] == "class"
    assert kept["deviance"] == pytest.approx(min(tuned["cv_mean"]), rel=1e-9)
    assert "by cross-validation: 10 folds by class, log loss" in command("train", table, *asked).out
    command("tune", table, *asked, "--out", out, "--at", "1-se")
    saved = load_model(out).file.report
    assert saved.alpha == pytest.approx(tuned["one_se"], rel=1e-12)
    assert saved.cross_validation is not None
    assert saved.cross_validation.chosen == "one_se"
    assert saved.certificate.relative < 1e-8
    assert shoal.fit(frame, "y", "logistic", shrink="ridge", features=F).alpha == pytest.approx(tuned["best"], rel=1e-9)


def test_the_table_of_the_terminal(frame: pd.DataFrame, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    frame.to_csv(table, index=False)
    said = command("tune", table, "--target", "y", "--model", "logistic", "--features", "a,b", "--n-alphas", "9").out
    assert "logistic model of y, lasso penalty: 10 folds by class" in said
    assert "log loss" in said
    assert "<- best" in said
    assert "sweeps over the rows" in said
    mixed = command(
        "tune", table, "--target", "count", "--model", "poisson", "--shrink", "elasticnet", "--features", "a,b",
        "--l1-ratio", "0.2,0.8", "--n-alphas", "9",
    ).out  # fmt: skip
    assert "mean deviance" in mixed
    assert "<- chosen" in mixed
