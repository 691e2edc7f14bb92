"""Linear models without a coefficient below 0: scikit-learn's and SciPy's answers, folds, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import nnls
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import shoal
from shoal.errors import ConfigError
from support.tables import shared
from support.tables import shoal as command

TIGHT: dict[str, Any] = {"positive": True, "tol": 1e-14, "max_iter": 1_000_000}
MODELS: dict[str, tuple[dict[str, Any], Any]] = {
    "linear": ({}, LinearRegression(positive=True)),
    "ridge": ({"alpha": 5.0}, Ridge(5.0, **TIGHT)),
    "lasso": ({"alpha": 0.3}, Lasso(0.3, **TIGHT)),
    "elasticnet": ({"alpha": 0.3, "l1_ratio": 0.4}, ElasticNet(0.3, l1_ratio=0.4, **TIGHT)),
}
TABLES = {"auto_mpg.csv": ("mpg", "name"), "concrete.csv": ("strength", "")}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def real(file: str) -> tuple[pd.DataFrame, str]:
    target, text = TABLES[file]
    frame = pd.read_csv(shared("data", "regression", file)).dropna()
    return pd.get_dummies(frame.drop(columns=text or []), drop_first=True, dtype=float), target


@pytest.mark.parametrize("file", TABLES)
@pytest.mark.parametrize("model", MODELS)
def test_real_tables_have_the_answers_of_scikit_learn(model: str, file: str) -> None:
    frame, target = real(file)
    knobs, theirs = MODELS[model]
    found = shoal.fit(frame, target=target, model=model, nonnegative=True, **knobs)
    X = StandardScaler().fit_transform(frame.drop(columns=target))
    theirs.fit(X, frame[target])
    w = np.array(list(found.report["coefficients_standardized"].values()))
    np.testing.assert_allclose(w, theirs.coef_, atol=(1e-7 if model == "ridge" else 1e-10) * np.abs(w).max())
    np.testing.assert_allclose(found.predict(frame), theirs.predict(X), rtol=1e-6)
    assert (w >= 0).all()
    assert (w == 0).any()
    assert found.report["certificate"]["kind"] == "kkt"
    assert found.report["certificate"]["rests_on"] == "data"
    assert found.report["certificate"]["relative"] < 1e-12
    assert found.report["inference"] is None
    assert any("No coefficient may be below 0" in note for note in found.report["routine"])
    if model == "linear":
        np.testing.assert_allclose(w, nnls(X, (frame[target] - frame[target].mean()).to_numpy())[0], atol=1e-10)


def test_weights_of_rows_and_more_columns_than_rows() -> None:
    rng = np.random.default_rng(2)
    X, weight = rng.normal(size=(40, 3)), rng.integers(1, 4, 40)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=X @ [2.0, -1.0, 0.5] + rng.normal(size=40), n=weight)
    once = shoal.fit(frame, target="y", nonnegative=True, weights="n", weights_are="frequency")
    many = shoal.fit(frame.loc[frame.index.repeat(weight)].drop(columns="n"), target="y", nonnegative=True)
    assert once.coefficients == pytest.approx(many.coefficients, rel=1e-9)
    assert once.coefficients["b"] == 0
    wide = pd.DataFrame(rng.normal(size=(30, 80))).add_prefix("x").assign(y=rng.normal(size=30))
    found = shoal.fit(wide, target="y", nonnegative=True, model="lasso", alpha=0.05)
    theirs = Lasso(0.05, **TIGHT).fit(StandardScaler().fit_transform(wide.drop(columns="y")), wide["y"])
    w = np.array(list(found.report["coefficients_standardized"].values()))
    np.testing.assert_allclose(w, theirs.coef_, atol=1e-9)


def test_all_columns_that_pull_down_leave_the_mean() -> None:
    x = np.arange(20.0)
    found = shoal.fit(pd.DataFrame({"x": x, "y": 3 - x}), target="y", nonnegative=True)
    assert found.coefficients == {"x": 0.0}
    assert found.intercept == pytest.approx((3 - x).mean())


@pytest.mark.parametrize("model", ["ridge", "lasso", "elasticnet"])
def test_errors_of_folds_are_those_of_scikit_learn(model: str) -> None:
    frame, target = real("concrete.csv")
    alphas = [30.0, 3.0, 0.3]
    mixed = {"l1_ratio": 0.4} if model == "elasticnet" else {}
    tuned = shoal.tune(frame, target, model, alphas=alphas, folds=4, nonnegative=True, **mixed).tuned
    kind = {"ridge": Ridge, "lasso": Lasso, "elasticnet": ElasticNet}[model]
    X, y, place = frame.drop(columns=target), frame[target], np.arange(len(frame)) % 4
    expected = [
        [
            ((pipe.fit(X[place != k], y[place != k]).predict(X[place == k]) - y[place == k]) ** 2).mean()
            for pipe in (make_pipeline(StandardScaler(), kind(alpha, **mixed, **TIGHT)) for alpha in alphas)
        ]
        for k in range(4)
    ]
    np.testing.assert_allclose(tuned.curve.errors, expected, rtol=1e-7)
    assert tuned.certificate.relative < 1e-12


def test_alpha_is_chosen_with_the_bound_and_a_refit_keeps_it(tmp_path: Path) -> None:
    frame, target = real("concrete.csv")
    path, saved = tmp_path / "table.csv", tmp_path / "model.json"
    frame.to_csv(path, index=False)
    found = shoal.fit(path, target=target, model="lasso", nonnegative=True)
    free = shoal.fit(path, target=target, model="lasso")
    assert found.report["cross_validation"]["rmse"] > free.report["cross_validation"]["rmse"]
    again = found.refit(alpha=0.5)
    assert min(again.coefficients.values()) == 0
    found.save(saved)
    said = command("explain", saved)
    assert "not worked out for coefficients that are held at 0 or more" in said.out
    assert command("export", saved, "--to", "report", "--out", tmp_path / "report.html").code == 0


@pytest.mark.parametrize(("more", "knob"), [({"model": "gamma"}, "model"), ({"solver": "gradient"}, "solver")])
def test_what_has_no_bound_is_refused_in_a_sentence(more: dict[str, Any], knob: str) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0], "y": [1.0, 3.0, 2.0]})
    with pytest.raises(ConfigError, match="nonnegative") as refused:
        shoal.fit(frame, target="y", nonnegative=True, **more)
    assert knob in str(refused.value)
