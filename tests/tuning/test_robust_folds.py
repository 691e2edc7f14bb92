"""Folds of huber and quantile models: errors are those of scikit-learn refitted to the rows of each fold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import HuberRegressor, QuantileRegressor
from sklearn.linear_model._huber import _huber_loss_and_gradient

import shoal
from shoal.cli import app as cli
from shoal.tuning import robust

FOLDS, ROWS = 4, 303  # of which no share is a whole number of rows, so that every quantile is one row


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def far_off(seed: int = 2) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 4)) * np.linspace(0.5, 4, 4) + 3
    y = X @ np.linspace(1, -1, 4) + rng.standard_t(2, ROWS) * (1 + 0.3 * np.abs(X[:, 0]))
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(4)]).assign(y=y), X, y


def parts(X: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training columns and test columns in the units of the fold, and which rows it is tested on."""
    held = np.arange(len(X)) % FOLDS == k
    mean, scale = X[~held].mean(axis=0), X[~held].std(axis=0)
    return (X[~held] - mean) / scale, (X[held] - mean) / scale, held


@pytest.mark.parametrize("near", [2000, 40])  # all rows at once, or those near a line and what changes sides
def test_errors_of_a_quantile_are_those_of_scikit_learn_at_every_alpha(
    near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robust, "NEAR_ROWS", near)
    monkeypatch.setattr(robust, "LEAST_NEAR", 1)
    frame, X, y = far_off()
    found = shoal.tune(frame, "y", "quantile", shrink="lasso", quantile=0.83, folds=FOLDS, n_alphas=8)
    for i, alpha in enumerate(found.alphas):
        errors = []
        for k in range(FOLDS):
            trained, tested, held = parts(X, k)
            theirs = QuantileRegressor(quantile=0.83, alpha=alpha, solver="highs").fit(trained, y[~held])
            r = y[held] - theirs.predict(tested)
            errors.append(np.maximum(0.83 * r, -0.17 * r).mean())
        assert found.cv_mean[i] == pytest.approx(np.mean(errors), rel=1e-9)
    assert found.measure == "pinball loss"


def test_errors_of_huber_are_those_of_scikit_learn_at_its_minimum(tmp_path: Path) -> None:
    frame, X, y = far_off()
    weight = np.random.default_rng(0).integers(1, 4, ROWS).astype(float)
    frame["w"] = weight
    alphas = [0.5, 20.0, 400.0]
    found = shoal.tune(
        frame, "y", "huber", shrink="ridge", weights="w", weights_are="frequency", folds=FOLDS, alphas=alphas
    )
    for i, alpha in enumerate(found.alphas):
        losses = []
        for k in range(FOLDS):
            held = np.arange(ROWS) % FOLDS == k
            mean = np.average(X[~held], axis=0, weights=weight[~held])
            scale = np.sqrt(np.average((X[~held] - mean) ** 2, axis=0, weights=weight[~held]))
            Z, Zt, c = (X[~held] - mean) / scale, (X[held] - mean) / scale, weight[~held]
            start = HuberRegressor(alpha=alpha, max_iter=1000).fit(Z, y[~held], c)
            at = np.concatenate((start.coef_, [start.intercept_, start.scale_]))
            about = (Z, y[~held], 1.35, alpha, c)
            at = minimize(_huber_loss_and_gradient, at, about, "BFGS", jac=True, options={"gtol": 1e-7}).x
            r, s = y[held] - Zt @ at[:-2] - at[-2], at[-1]
            z = np.clip(r / s, -1.35, 1.35)
            losses.append(np.average(s / 2 + z * r - s * z**2 / 2, weights=weight[held]))
        assert found.cv_mean[i] == pytest.approx(np.mean(losses), rel=1e-6), alpha
    assert found.measure == "huber loss"


def test_an_alpha_that_is_not_given_is_chosen_and_kept_and_pulled_weights_are_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, _, _ = far_off()
    frame.to_csv(tmp_path / "t.csv", index=False)
    for model, own in (("huber", ["--huber-epsilon", "2"]), ("quantile", ["--quantile", "0.83"])):
        asked = [
            *own,
            str(tmp_path / "t.csv"),
            "--target",
            "y",
            "--model",
            model,
            "--shrink",
            "lasso",
            "--engine",
            "inline",
        ]
        assert cli.main(["tune", *asked, "--json"]) == 0
        tuned = json.loads(capsys.readouterr().out)
        assert tuned["n_features_kept"][0] <= 1  # rounding may leave the first one in
        assert tuned["certificate"]["relative"] < 1e-8
        assert cli.main(["train", *asked, "--json"]) == 0
        trained = json.loads(capsys.readouterr().out)
        assert trained["cross_validation"]["best"] == trained["alpha"] == pytest.approx(tuned["best"])
        assert trained["coefficients"] == pytest.approx(tuned["coefficients"]["best"], rel=1e-5, abs=1e-9)
