"""Logistic, Poisson and gamma models in Python and on the command line: predictions, files, exports, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

import shoal
from shoal.errors import StateError
from support.tables import shoal as command


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    rng = np.random.default_rng(11)
    x, g = rng.normal(size=400).round(3), rng.choice(["u", "v"], 400)
    eta = 1.2 * x + (g == "v") - 0.3
    y = np.where(rng.random(400) < 1 / (1 + np.exp(-eta)), 'a, "yes"', "no")
    counts, cost = rng.poisson(np.exp(eta / 2)), rng.gamma(2, np.exp(eta) / 2).round(6) + 1e-6
    found = tmp_path / "table.csv"
    pd.DataFrame({"x": x, "g": g, "y": y, "counts": counts, "cost": cost}).to_csv(found, index=False)
    return found


def test_classes_and_probabilities_of_files_frames_and_a_loaded_model(path: Path, tmp_path: Path) -> None:
    model = shoal.fit(path, target="y", model="logistic", features=["x", "g"])
    assert model.classes == ("no", 'a, "yes"')  # what is not the word for no is the yes
    frame = pd.read_csv(path)
    eta = model.intercept + frame["x"] * model.coefficients["x"] + (frame["g"] == "v") * model.coefficients["g=v"]
    p = 1 / (1 + np.exp(-eta))
    for data in (path, frame):
        found = model.predict_proba(data)
        np.testing.assert_allclose(found[:, 1], p, rtol=1e-12)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert (model.predict(data) == np.where(p >= 0.5, model.classes[1], model.classes[0])).all()
    assert model.score(frame) == pytest.approx(model.report["outcome"]["train"]["scores"]["accuracy"])
    model.save(tmp_path / "model.json")
    loaded = shoal.load(tmp_path / "model.json")
    assert (loaded.predict_proba(path) == model.predict_proba(path)).all()
    assert json.loads((tmp_path / "model.json").read_text())["version"] == 4
    assert "AUC" in str(model.summary())
    for to in ("json", "sql", "python", "onnx", "sklearn"):
        assert model.export(to, tmp_path / f"export.{to}").largest_relative < 1e-14, to


def test_predictions_of_a_file_have_the_class_and_its_probability(path: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model.json", tmp_path / "predictions.csv"
    done = command("train", path, "--target", "y", "--model", "logistic", "--features", "x,g", "--out", model)
    assert done.code == 0, done.err
    assert "odds ratio" in done.out
    assert "baseline, train" in done.out
    assert command("predict", model, path, "--out", out).code == 0
    found, own = pd.read_csv(out), shoal.load(model)
    yes = 'probability_a, "yes"'
    assert list(found) == ["row", "prediction", yes]
    assert (found["prediction"].to_numpy() == own.predict(path)).all()
    assert (found[yes].to_numpy() == own.predict_proba(path)[:, 1]).all()
    refused = command("predict", model, path, "--out", out, "--interval", "0.9")
    assert "No rows were kept for testing" in refused.err


@pytest.mark.parametrize(("target", "model"), [("counts", "poisson"), ("cost", "gamma")])
def test_means_of_counts_and_positive_numbers(path: Path, tmp_path: Path, target: str, model: str) -> None:
    found = shoal.fit(path, target=target, model=model, features=["x", "g"])
    frame = pd.read_csv(path)
    eta = found.intercept + frame["x"] * found.coefficients["x"] + (frame["g"] == "v") * found.coefficients["g=v"]
    np.testing.assert_allclose(found.predict(frame), np.exp(eta), rtol=1e-12)
    np.testing.assert_allclose(found.predict(path), np.exp(eta), rtol=1e-12)
    # Of the canonical link the means add up to the counts themselves.
    if model == "poisson":
        assert found.predict(frame).sum() == pytest.approx(frame[target].sum(), rel=1e-9)
    for to in ("json", "sql", "python", "onnx"):
        assert found.export(to, tmp_path / f"export.{to}").largest_relative < 1e-14, to
    with pytest.raises(StateError, match="which has classes and probabilities, got"):
        found.predict_proba(frame)


def _drawn(model: str, rows: int, seed: int) -> pd.DataFrame:
    """Rows whose spread is what the model takes it for, but for gamma: there it is too heavy a tail."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows).round(3)
    mean = np.exp(1.5 + 0.7 * x)
    y = {
        "poisson": rng.poisson(mean).astype(float),
        "gamma": (mean * rng.lognormal(-0.5, 1.0, rows)).round(6) + 1e-6,
        "huber": 3 * x + rng.standard_t(3, rows).round(6),
        "quantile": 3 * x + rng.exponential(2.0, rows).round(6),
    }[model]
    return pd.DataFrame({"x": x, "y": y})


def _sizes(model: str, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """How far off rows are: in standard deviations of counts, roots of the deviance of positive numbers, as it is."""
    if model == "gamma":
        return np.sqrt([metrics.mean_gamma_deviance([a], [b]) for a, b in zip(y, mean, strict=True)])
    return np.abs(y - mean) / (np.sqrt(mean) if model == "poisson" else 1.0)


@pytest.mark.parametrize("model", ["poisson", "gamma", "huber", "quantile"])
def test_intervals_about_numbers_hold_new_rows(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    table, new, out, saved = (tmp_path / name for name in ("table.csv", "new.csv", "out.csv", "model.json"))
    _drawn(model, 6000, 1).to_csv(table, index=False)
    rows = _drawn(model, 4000, 2)
    rows.to_csv(new, index=False)
    done = command("train", table, "--target", "y", "--model", model, "--test-every", "2", "--out", saved)
    assert done.code == 0, done.err
    assert "90 % of new rows like the test rows lie within" in done.out
    own = shoal.load(saved)
    mean, low, high = own.predict(rows, interval=0.9)
    assert 0.885 < ((rows["y"] >= low) & (rows["y"] <= high)).mean() < 0.915
    # The half-width itself, from the rows that were kept for testing: the rank of split conformal.
    test = pd.read_csv(table).iloc[::2]
    expected = own.predict(test)
    sizes = np.sort(_sizes(model, test["y"].to_numpy(), expected))
    width = sizes[int(np.ceil(0.9 * (len(sizes) + 1))) - 1]
    assert own.prediction_interval["half_widths"]["0.9"] == pytest.approx(width, rel=1e-12)
    if model == "gamma":  # skewed as its rows are, and never from 0
        assert (low > 0).all()
        np.testing.assert_allclose(_sizes(model, low, mean), width, rtol=1e-9)
    else:
        at, least = (np.sqrt(mean), 0.0) if model == "poisson" else (1.0, -np.inf)
        np.testing.assert_allclose(low, np.maximum(mean - width * at, least), rtol=1e-12)
    np.testing.assert_allclose(_sizes(model, high, mean), width, rtol=1e-9)
    assert command("predict", saved, new, "--out", out, "--interval", "0.9").code == 0
    written = pd.read_csv(out)
    assert (written[["prediction", "lower", "upper"]].to_numpy() == np.column_stack((mean, low, high))).all()
    assert "Prediction intervals: from 3,000 test rows" in command("explain", saved).out


def test_what_is_not_there_yet_is_refused_in_words(path: Path, tmp_path: Path) -> None:
    model = shoal.fit(path, target="y", model="logistic", features=["x", "g"])
    model.save(tmp_path / "model.json")
    with pytest.raises(StateError, match="refit from sums, got logistic"):
        model.refit(alpha=2.0)
    counts = shoal.fit(path, target="counts", model="poisson", features=["x", "g"])
    with pytest.raises(StateError, match="No rows were kept for testing"):
        counts.predict(path, interval=0.9)
    done = command("train", path, "--target", "y", "--model", "auto", "--epochs", "3")
    assert "auto models are fitted exactly only" in done.err


def test_a_straight_line_through_yes_and_no_is_told_of_the_other_model(path: Path) -> None:
    frame = pd.read_csv(path)
    frame["y"] = (frame["y"] == "no").astype(int)
    frame.to_csv(path, index=False)
    done = command("train", path, "--target", "y")
    assert done.code == 0
    assert "--model logistic" in done.out
