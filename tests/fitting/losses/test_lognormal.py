"""Lognormal models: least squares of logarithms by NumPy and scikit-learn, smearing, scores in both units, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import ElasticNet, Lasso, Ridge
from sklearn.preprocessing import StandardScaler

import shoal
from support.tables import shared
from support.tables import shoal as command

TABLES = {"auto_mpg.csv": ("horsepower", "name"), "concrete.csv": ("strength", "")}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def real(file: str) -> tuple[pd.DataFrame, str]:
    """A real table in numbers alone, so that no program codes text in its own way."""
    target, text = TABLES[file]
    frame = pd.read_csv(shared("data", "regression", file)).dropna()
    return pd.get_dummies(frame.drop(columns=text or []), drop_first=True, dtype=float), target


def logarithms(frame: pd.DataFrame, target: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Z = (1, X), y and the coefficients of log y, by NumPy in columns of like size."""
    Z = np.column_stack((np.ones(len(frame)), frame.drop(columns=target)))
    size, y = np.abs(Z).max(axis=0), frame[target].to_numpy(float)
    return Z, y, np.linalg.lstsq(Z / size, np.log(y), rcond=None)[0] / size


@pytest.mark.parametrize("file", TABLES)
def test_real_tables_have_the_answers_of_numpy(file: str) -> None:
    frame, target = real(file)
    model = shoal.fit(frame, target=target, model="lognormal")
    Z, y, b = logarithms(frame, target)
    fitted = Z @ b
    away = np.log(y) - fitted
    smear, n, p = float(np.exp(away).mean()), *Z.shape
    names = list(frame.drop(columns=target))
    np.testing.assert_allclose([model.coefficients[name] for name in names], b[1:], rtol=1e-9)
    assert model.intercept == pytest.approx(b[0] + np.log(smear), rel=1e-10)
    np.testing.assert_allclose(model.predict(frame), smear * np.exp(fitted), rtol=1e-11)
    errors = np.sqrt(away @ away / (n - p) * np.diag(np.linalg.inv(Z.T @ Z)))
    said = model.report["inference"]["coefficients"]
    np.testing.assert_allclose([said[name]["std_error"] for name in names], errors[1:], rtol=1e-7)
    outcome = model.report["outcome"]
    about = np.log(y) - np.log(y).mean()
    off = y - smear * np.exp(fitted)
    expected = {
        "log_r2": 1 - away @ away / (about @ about), "log_rmse": np.sqrt((away**2).mean()),
        "rmse": np.sqrt((off**2).mean()), "mae": np.abs(off).mean(),
    }  # fmt: skip
    nothing = {
        "log_r2": 0.0, "log_rmse": np.log(y).std(), "rmse": y.std(), "mae": np.abs(y - y.mean()).mean()
    }  # fmt: skip
    assert outcome["train"]["scores"] == pytest.approx(expected, rel=1e-10)
    assert outcome["train"]["baseline"] == pytest.approx(nothing, rel=1e-10, abs=1e-12)
    likelihood = -n / 2 * (np.log(2 * np.pi * (away**2).mean()) + 1) - np.log(y).sum()
    assert outcome["log_likelihood"] == pytest.approx(likelihood, rel=1e-12)
    assert model.report["certificate"]["relative"] < 1e-12


PENALTIES: dict[str, tuple[dict[str, Any], Any]] = {
    "ridge": ({"alpha": 0.1}, lambda n: Ridge(0.1 * n)),
    "lasso": ({"alpha": 0.02}, lambda n: Lasso(0.02, tol=1e-13, max_iter=100_000)),
    "elasticnet": ({"alpha": 0.05, "l1_ratio": 0.3}, lambda n: ElasticNet(0.05, l1_ratio=0.3, tol=1e-13)),
}


@pytest.mark.parametrize("shrink", PENALTIES)
@pytest.mark.parametrize("file", TABLES)
def test_penalties_are_those_of_scikit_learn_on_logarithms(file: str, shrink: str) -> None:
    frame, target = real(file)
    knobs, made = PENALTIES[shrink]
    model = shoal.fit(frame, target=target, model="lognormal", shrink=shrink, **knobs)
    X, y = StandardScaler().fit_transform(frame.drop(columns=target)), frame[target].to_numpy(float)
    theirs = made(len(y)).fit(X, np.log(y))
    found = np.array([model.report["coefficients_standardized"][name] for name in frame.drop(columns=target)])
    np.testing.assert_allclose(found, theirs.coef_, atol=1e-9)
    fitted = theirs.predict(X)
    np.testing.assert_allclose(model.predict(frame), np.exp(fitted) * np.exp(np.log(y) - fitted).mean(), rtol=1e-8)


def drawn(rows: int, seed: int, **more: Any) -> pd.DataFrame:
    """y with a mean of e^(1 + x / 2), about which it spreads by a factor that is no normal's logarithm."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    spread = rng.exponential(0.8, rows) - 0.8
    return pd.DataFrame({"x": x, "y": np.exp(1 + x / 2 + spread) / (1 / (1 - 0.8) * np.exp(-0.8)), **more})


def test_predictions_are_means_where_logarithms_are_not_normal(tmp_path: Path) -> None:
    """e^(log fit) alone is far too low here; half the variance of logarithms would be too."""
    frame = drawn(40_000, 1)
    model = shoal.fit(frame, target="y", model="lognormal")
    new = drawn(40_000, 2)
    said, mean = model.predict(new).mean(), new["y"].mean()
    shift = model.report["outcome"]["parameters"]["shift"]
    assert said == pytest.approx(mean, rel=0.1)
    assert said * np.exp(-shift) < 0.6 * mean  # transformed back as it is
    assert said * np.exp(0.8**2 / 2 - shift) < 0.75 * mean  # as if logarithms were normal


def test_weights_are_repeated_rows_and_an_exposure_is_taken_off_the_logarithm() -> None:
    rng = np.random.default_rng(3)
    frame = drawn(500, 4, times=rng.integers(1, 4, 500), days=rng.uniform(1, 9, 500))
    base = {"target": "y", "model": "lognormal", "features": ["x"]}
    once = shoal.fit(frame, weights="times", weights_are="frequency", **base)
    many = shoal.fit(frame.loc[frame.index.repeat(frame["times"])], **base)
    assert once.intercept == pytest.approx(many.intercept, rel=1e-10)
    assert once.coefficients["x"] == pytest.approx(many.coefficients["x"], rel=1e-10)
    assert once.report["outcome"]["train"]["scores"] == pytest.approx(many.report["outcome"]["train"]["scores"])
    exposed = shoal.fit(frame, offset="days", offset_as="exposure", **base)
    rates = shoal.fit(frame.assign(y=frame["y"] / frame["days"]), **base)
    assert exposed.intercept == pytest.approx(rates.intercept, rel=1e-9)
    assert exposed.coefficients["x"] == pytest.approx(rates.coefficients["x"], rel=1e-9)
    assert exposed.report["outcome"]["null_deviance"] == pytest.approx(rates.report["outcome"]["null_deviance"])


def test_without_an_intercept_the_smearing_is_all_that_stands_there() -> None:
    frame = drawn(300, 5)
    model = shoal.fit(frame, target="y", model="lognormal", intercept=False)
    x, logs = frame["x"], np.log(frame["y"])
    slope = float(x @ logs / (x @ x))
    assert model.coefficients["x"] == pytest.approx(slope, rel=1e-11)
    assert model.intercept == pytest.approx(float(np.log(np.exp(logs - slope * x).mean())), rel=1e-10)
    assert model.report["outcome"]["null_deviance"] == pytest.approx(float((logs**2).sum()), rel=1e-11)


def test_gradient_steps_end_at_the_exact_model(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    drawn(2000, 6).to_csv(path, index=False)
    exact, steps = (
        shoal.fit(path, target="y", model="lognormal", solver=way, engine="inline") for way in ("exact", "gradient")
    )
    assert steps.intercept == pytest.approx(exact.intercept, abs=1e-4)
    assert steps.coefficients["x"] == pytest.approx(exact.coefficients["x"], abs=1e-4)
    assert steps.report["distance_to_optimum"] < 1e-6


@pytest.mark.parametrize("low", [0.0, -2.5])
def test_what_has_no_logarithm_is_refused_in_a_sentence(low: float, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    drawn(50, 7).assign(y=[low, *range(1, 50)]).to_csv(path, index=False)
    for words in (["train", "--out", str(tmp_path / "m.json")], ["tune", "--shrink", "ridge"]):
        done = command(words[0], path, "--target", "y", "--model", "lognormal", *words[1:])
        assert done.code != 0
        assert f"Expected numbers greater than 0 in 'y' for a lognormal model, got {low:g} as the smallest" in done.err


def test_the_terminal_says_factors_of_the_prediction_and_the_file_has_them(tmp_path: Path) -> None:
    path, saved, out = tmp_path / "table.csv", tmp_path / "m.json", tmp_path / "p.csv"
    drawn(6000, 8).to_csv(path, index=False)
    done = command("train", path, "--target", "y", "--model", "lognormal", "--test-every", "2", "--out", saved)
    assert done.code == 0, done.err
    assert "RMSE of logarithms" in done.out
    assert "smearing factor 1." in done.out or "smearing factor 2." in done.out
    assert "times the prediction" in done.out
    assert command("predict", saved, path, "--out", out, "--interval", "0.9").code == 0
    made, model = pd.read_csv(out), shoal.load(saved)
    said = model.prediction_interval
    width = said["half_widths"]["0.9"]
    new = drawn(4000, 9)
    _, low, high = model.predict(new, interval=0.9)
    assert 0.885 < ((new["y"] >= low) & (new["y"] <= high)).mean() < 0.915
    np.testing.assert_allclose(made["upper"] / made["prediction"], said["centre"] * np.exp(width), rtol=1e-12)
    np.testing.assert_allclose(made["lower"] / made["prediction"], said["centre"] * np.exp(-width), rtol=1e-12)
