"""Logistic, Poisson and gamma models in Python and on the command line: predictions, files, exports, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

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
    assert model.classes == ("no", 'a, "yes"') or model.classes == ('a, "yes"', "no")
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
    assert "nothing known, train" in done.out
    assert command("predict", model, path, "--out", out).code == 0
    found, own = pd.read_csv(out), shoal.load(model)
    assert list(found) == ["row", "prediction", "probability"]
    assert (found["prediction"].to_numpy() == own.predict(path)).all()
    assert (found["probability"].to_numpy() == own.predict_proba(path)[:, 1]).all()
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


def test_what_is_not_there_yet_is_refused_in_words(path: Path, tmp_path: Path) -> None:
    model = shoal.fit(path, target="y", model="logistic", features=["x", "g"])
    model.save(tmp_path / "model.json")
    with pytest.raises(StateError, match="refit from sums, got logistic"):
        model.refit(alpha=2.0)
    counts = shoal.fit(path, target="counts", model="poisson", features=["x", "g"])
    with pytest.raises(StateError, match="Prediction intervals are for linear models; this is a poisson model"):
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
