"""Resamples of penalised models of other losses: each is the refit of scikit-learn to rows that count as drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor, Ridge
from sklearn.preprocessing import StandardScaler

import shoal
from shoal.settings.config import RunConfig
from shoal.tasks.outcomes.bootstrap import resampled, times_drawn
from shoal.tasks.outcomes.class_bootstrap import resampled_classes
from shoal.tasks.train import coordinated
from shoal.utils import silent
from support.tables import shoal as command

TIGHT: dict[str, Any] = {"solver": "newton-cholesky", "tol": 1e-12}
TARGETS = {"logistic": "bought", "poisson": "count", "gamma": "cost", "lognormal": "cost"}
COLUMNS = ["a", "b", "far"]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    rng, n = np.random.default_rng(4), 400
    found = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "far": 1e3 + 3 * rng.normal(size=n)})
    score = found["a"] - 0.5 * found["b"] + 0.1 * (found["far"] - 1e3)
    found["bought"] = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    found["count"] = rng.poisson(np.exp(0.4 * score))
    found["cost"] = rng.gamma(2.0, np.exp(0.4 * score)) + 1e-6
    drawn = np.outer(score, [1.0, 0.0, -0.5]) + rng.gumbel(size=(n, 3))
    found["kind"] = np.array(["k", "l", "m"])[drawn.argmax(axis=1)]
    found.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def refitted(model: str, X: np.ndarray, y: Any, alpha: float, times: np.ndarray) -> np.ndarray:
    if model == "lognormal":
        return np.asarray(Ridge(alpha * times.sum()).fit(X, np.log(y), times).coef_)
    made = {
        "logistic": lambda: LogisticRegression(C=1 / alpha, **TIGHT),
        "poisson": lambda: PoissonRegressor(alpha=alpha, **TIGHT),
        "gamma": lambda: GammaRegressor(alpha=alpha, **TIGHT),
    }[model]()
    return np.ravel(made.fit(X, y, times).coef_)


@pytest.mark.parametrize("model", TARGETS)
def test_every_resample_is_the_refit_of_scikit_learn(model: str, path: Path) -> None:
    config = RunConfig(
        str(path), TARGETS[model], model, shrink="ridge", alpha=0.3, features=tuple(COLUMNS), engine="inline"
    )
    with coordinated(config, silent) as coordinator:
        found = resampled(coordinator, coordinator.open(config), config, 20, 0.95, seed=3)
    frame = pd.read_csv(path)
    scaler = StandardScaler().fit(frame[COLUMNS])
    X, y = scaler.transform(frame[COLUMNS]), frame[TARGETS[model]]
    times = times_drawn(np.arange(len(frame)), range(20), 3)
    for number in range(20):
        expected = refitted(model, X, y, 0.3, times[:, number]) / scaler.scale_
        np.testing.assert_allclose(found.coef[number], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("shrink", "alpha"), [("ridge", 0.3), ("lasso", 4.0)])
def test_resamples_of_classes_are_refits_too(shrink: str, alpha: float, path: Path) -> None:
    config = RunConfig(
        str(path), "kind", "multinomial", shrink=shrink, alpha=alpha, features=tuple(COLUMNS), engine="inline"
    )
    with coordinated(config, silent) as coordinator:
        found = resampled_classes(coordinator, coordinator.open(config), config, 20, 0.95, seed=3)
    frame = pd.read_csv(path)
    scaler = StandardScaler().fit(frame[COLUMNS])
    X, times = scaler.transform(frame[COLUMNS]), times_drawn(np.arange(len(frame)), range(20), 3)
    how = TIGHT if shrink == "ridge" else {"solver": "saga", "tol": 1e-9, "max_iter": 20_000, "l1_ratio": 1.0}
    for number in (0, 19):
        theirs = LogisticRegression(C=1 / alpha, **how).fit(X, frame["kind"], times[:, number])
        expected = (theirs.coef_ / scaler.scale_).ravel()
        np.testing.assert_allclose(found.coef[number], expected, rtol=1e-5, atol=1e-6)
    assert (found.selected is not None) == (shrink == "lasso")


def test_draws_are_poisson_numbers_that_have_nothing_to_do_with_one_another() -> None:
    times = times_drawn(np.arange(20_000), range(6), 0)
    assert times.mean(axis=0) == pytest.approx(np.ones(6), abs=0.03)
    assert times.var(axis=0) == pytest.approx(np.ones(6), abs=0.06)
    assert np.abs(np.corrcoef(times.T) - np.eye(6)).max() < 0.03
    assert np.abs(np.corrcoef(times[1:, 0], times[:-1, 0])[0, 1]) < 0.03
    assert (times != times_drawn(np.arange(20_000), range(6), 1)).any()


def test_explain_shows_them_with_shares_of_selection(path: Path, tmp_path: Path) -> None:
    saved = tmp_path / "model.json"
    made = command(
        "train", path, "--target", "bought", "--model", "logistic", "--shrink", "lasso", "--alpha", "8", "--features",
        "a,b,far", "--out", saved,
    )  # fmt: skip
    assert made.code == 0, made.err
    said = command("explain", saved, "--resamples", "60")
    assert said.code == 0, said.err
    assert "With the shrinkage of the penalty: intervals by 60 resamples, 95 %" in said.out
    found = shoal.load(saved).explain(resamples=60)
    told = found["bootstrap"]
    assert told["coefficients"]["a"]["low"] < found["coefficients"]["a"] < told["coefficients"]["a"]["high"]
    assert told["selection"]["columns"]["a"]["selected"] == 1.0
    assert found["importance"] is not None


def test_the_spread_of_resamples_is_the_standard_error_where_a_penalty_is_weak(path: Path) -> None:
    base: dict[str, Any] = {"target": "count", "model": "poisson", "features": COLUMNS}
    free = shoal.fit(path, **base).report["inference"]["coefficients"]
    config = RunConfig(
        str(path), "count", "poisson", shrink="ridge", alpha=1e-9, features=tuple(COLUMNS), engine="inline"
    )
    with coordinated(config, silent) as coordinator:
        found = resampled(coordinator, coordinator.open(config), config, 400, 0.95, seed=0)
    expected = np.array([free[name]["std_error"] for name in COLUMNS])
    assert found.std_error == pytest.approx(expected, rel=0.25)
