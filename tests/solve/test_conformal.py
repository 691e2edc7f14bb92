"""Prediction intervals: exact ranks, what a fit says against scikit-learn on the rows, and marginal coverage."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import shoal as api
from shoal.api.predicted import usual_sets
from shoal.errors import ConfigError, StateError
from shoal.passes import blocks
from shoal.solve.conformal import LEVELS, half_width, half_width_of, prediction_interval, prediction_sets, rank_of
from support.tables import fitted, shoal, small_pieces


def test_the_rank_is_exact() -> None:
    for rows in (*range(1, 400), 999_999):
        for level in LEVELS:
            exact = math.ceil(Fraction(rows + 1) * Fraction(round(level * 100), 100))
            assert rank_of(rows, level) == exact
    sizes = np.arange(1.0, 10.0)
    assert half_width(sizes, 0.9) == 9.0  # ceil(10 * 0.9) = 9: the largest of nine will just do
    assert half_width(sizes[:8], 0.9) is None
    assert half_width(sizes, 0.5) == 5.0
    assert half_width(np.arange(1.0, 20.0), 0.95) == 19.0
    assert half_width(np.arange(1.0, 19.0), 0.95) is None


def test_too_few_rows_are_said_and_not_shown() -> None:
    said = prediction_interval([np.array([3.0, 1.0]), np.array([2.0, 4.0, 5.0])], 5)
    assert said.rows == 5
    assert said.half_widths == {"0.5": 3.0, "0.8": 5.0, "0.9": None, "0.95": None, "0.99": None}
    assert said.note == "5 test rows are too few for 90 % and 95 % and 99 %. Keep more rows for testing."
    with pytest.raises(StateError, match=r"no prediction interval of 95 %\. 5 test rows are too few"):
        half_width_of(said, 0.95)
    assert "decided when training stopped" in str(prediction_interval([np.ones(200)], 200, True).note)
    assert prediction_interval([np.ones(200)], 200).note is None


def table(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    y = a - 2 * b + a * b + rng.standard_t(3, size=n) * (1 + np.abs(b))
    return pd.DataFrame({"a": a, "b": np.where(rng.random(n) < 0.1, np.nan, b), "y": y})


@pytest.mark.parametrize(
    "knobs", [{"test_every": 4}, {"test_fraction": 0.3, "seed": 5}, {"test_every": 3, "impute": "drop"}]
)
def test_a_fit_says_what_its_test_rows_say(tmp_path: Path, knobs: dict[str, Any]) -> None:
    frame = table(500)
    frame.to_csv(tmp_path / "t.csv", index=False)
    said = fitted(tmp_path / "t.csv", "y", **knobs)
    index = np.arange(500)
    if "test_every" in knobs:
        test = index % knobs["test_every"] == 0
    else:
        test = np.isin(index, _test_rows(tmp_path / "t.csv", **knobs))
    if knobs.get("impute") == "drop":
        test, frame = test[frame.b.notna()], frame.dropna()
    X = frame[["a", "b"]].fillna(frame[~test].b.median()).to_numpy()
    model = LinearRegression().fit(X[~test], frame.y[~test])
    sizes = np.sort(np.abs(frame.y[test] - model.predict(X[test])))
    found = said["prediction_interval"]
    assert found["rows"] == said["test"]["rows"] == len(sizes)
    for level in (0.8, 0.9, 0.95):
        assert found["half_widths"][str(level)] == pytest.approx(sizes[math.ceil((len(sizes) + 1) * level) - 1])
    assert said["contents"]["prediction_interval"] == found
    assert "at least this share" in found["meaning"]


def _test_rows(path: Path, test_fraction: float, seed: int) -> list[int]:
    """The rows that the product keeps for testing, as its own diagnostics list them."""
    from shoal.settings.values import config_from
    from shoal.tasks.diagnose import diagnose

    said = fitted(path, "y", test_fraction=test_fraction, seed=seed)
    path.with_suffix(".json").write_text(json.dumps(said["contents"]))
    seen = diagnose(path.with_suffix(".json"), config_from({**said["contents"]["config"]}), own_data=True).as_dict()[
        "sample"
    ]
    return [row for row, test in zip(seen["row"], seen["test"], strict=True) if test]


def test_marginal_coverage(tmp_path: Path) -> None:
    """The model is wrong and the noise has heavy tails and no constant spread: the intervals hold all the same.

    Each fit has m = 30 calibration rows, so that a new row lies within with probability k / (m + 1), k the rank; given
    the fit, the share of new rows within is Beta(k, m + 1 - k).
    """
    fits, m, new, level = 160, 30, 60, 0.8
    k = math.ceil((m + 1) * level)
    shares = []
    for seed in range(fits):
        path = tmp_path / "t.csv"
        frame = table(3 * m + new, seed)
        frame[: 3 * m].to_csv(path, index=False)
        model = api.fit(path, "y", test_every=3, engine="inline")
        found, low, high = model.predict(frame[3 * m :], interval=level)
        y = frame.y[3 * m :].to_numpy()
        shares.append(((low <= y) & (y <= high)).mean())
        assert model.prediction_interval["rows"] == m
        assert np.allclose(found - low, high - found)
    claimed = k / (m + 1)
    of_fits = claimed * (1 - claimed) / (m + 2)
    spread = math.sqrt((of_fits + claimed * (1 - claimed) / new) / fits)
    assert abs(np.mean(shares) - claimed) < 4 * spread, (np.mean(shares), claimed, spread)
    assert 4 * spread < 0.04  # decisive: the naive quantile of training residuals would be found out


def test_predictions_with_intervals(tmp_path: Path) -> None:
    frame = table(200)
    data, model, out = tmp_path / "t.csv", tmp_path / "m.json", tmp_path / "p.csv"
    frame.to_csv(data, index=False)
    trained = shoal("train", data, "--target", "y", "--test-every", "4", "--out", model)
    width = json.loads(model.read_text())["prediction_interval"]["half_widths"]["0.9"]
    assert f"90 % of new rows like the test rows lie within ± {width:.6g}" in trained.out
    plain = shoal("predict", model, data, "--out", out)
    assert plain.code == 0
    before = pd.read_csv(out)
    assert list(before) == ["row", "prediction"]
    said = shoal("predict", model, data, "--out", out, "--interval", "0.9", "--json")
    assert said.json["half_width"] == width
    after = pd.read_csv(out)
    assert list(after) == ["row", "prediction", "lower", "upper"]
    assert after.prediction.equals(before.prediction)
    np.testing.assert_allclose(after.lower, after.prediction - width, rtol=1e-12)
    np.testing.assert_allclose(after.upper, after.prediction + width, rtol=1e-12)
    loaded = api.load(model)
    assert isinstance(loaded.predict(data), np.ndarray)
    found, low, high = loaded.predict(data, interval=0.95)
    wide = json.loads(model.read_text())["prediction_interval"]["half_widths"]["0.95"]
    np.testing.assert_allclose([found - low, high - found], wide)


def test_rows_that_cannot_be_read_have_no_interval(tmp_path: Path) -> None:
    data, model, out = tmp_path / "t.csv", tmp_path / "m.json", tmp_path / "p.csv"
    table(100).to_csv(data, index=False)
    assert shoal("train", data, "--target", "y", "--test-every", "4", "--out", model).code == 0
    (tmp_path / "new.csv").write_text("a,b\n1,2\n3,4,5,6\n5,6\n")
    assert shoal("predict", model, tmp_path / "new.csv", "--out", out, "--interval", "0.8").code == 0
    assert out.read_text().splitlines()[2] == "1,,,"


def test_no_interval_is_a_sentence(tmp_path: Path) -> None:
    data, model, out = tmp_path / "t.csv", tmp_path / "m.json", tmp_path / "p.csv"
    table(100).to_csv(data, index=False)
    assert shoal("train", data, "--target", "y", "--out", model).code == 0
    for level, expected in (
        ("0.9", "No rows were kept for testing"),
        ("0.7", "Expected an interval of 0.5"),
        ("9", "got 9"),
    ):
        said = shoal("predict", model, data, "--out", out, "--interval", level)
        assert said.is_plain()
        assert expected in said.err
        assert not out.exists()
    contents = json.loads(model.read_text())
    del contents["prediction_interval"], contents["checksum"]
    model.write_text(json.dumps(contents))
    assert (
        "before there were prediction intervals" in shoal("predict", model, data, "--out", out, "--interval", "0.9").err
    )
    with pytest.raises(ConfigError, match=r"0\.99, got 2"):
        api.load(model).predict(data, interval=2)


def test_a_refit_says_that_it_saw_no_rows(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    table(100).to_csv(data, index=False)
    refitted = api.fit(data, "y", test_every=4, engine="inline").refit(model="ridge", alpha=1.0)
    assert refitted.prediction_interval["rows"] == 0
    with pytest.raises(StateError, match="refitted from sums"):
        refitted.predict(data, interval=0.9)


def test_a_gradient_run_has_prediction_intervals(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    table(400).to_csv(data, index=False)
    exact = api.fit(data, "y", test_every=4, engine="inline")
    model = api.fit(data, "y", test_every=4, engine="inline", solver="gradient", batch_size=50)
    assert model.prediction_interval["rows"] == 100
    width = model.prediction_interval["half_widths"]["0.9"]
    assert width == pytest.approx(exact.prediction_interval["half_widths"]["0.9"], rel=1e-3)


def test_of_many_test_rows_a_random_part_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,000 test rows 200 calibrate, the same for any blocks; quantiles are about those of all."""
    data = tmp_path / "t.csv"
    table(2000).to_csv(data, index=False)
    whole = fitted(data, "y", test_every=2)["prediction_interval"]
    monkeypatch.setattr(blocks, "CALIBRATION_ROWS", 200)
    part = fitted(data, "y", test_every=2)["prediction_interval"]
    assert whole["rows"] == 1000
    assert 140 < part["rows"] < 260
    assert part["half_widths"]["0.8"] == pytest.approx(whole["half_widths"]["0.8"], rel=0.35)
    (tmp_path / "again.csv").write_bytes(data.read_bytes() + b"")
    with small_pieces(monkeypatch, 4096):
        again = fitted(tmp_path / "again.csv", "y", test_every=2, categorical=[])["prediction_interval"]
    assert again["rows"] == part["rows"]
    assert again["half_widths"]["0.9"] == pytest.approx(part["half_widths"]["0.9"], rel=1e-9)


def test_sets_of_classes_hold_the_true_one_as_often_as_they_say_even_if_the_model_is_wrong() -> None:
    """1,000 times 99 test rows and one new row, with probabilities that are far from right."""
    rng = np.random.default_rng(3)
    held, sizes = {"0.5": 0, "0.8": 0, "0.9": 0, "0.95": 0}, []
    for _ in range(1000):
        true = rng.random(100)
        y = rng.random(100) < true
        said = np.clip(true**3 + 0.1 * rng.normal(size=100), 0.001, 0.999)
        found = prediction_sets(said[:99], 1.0 - y[:99], y[:99] * 1.0, 99)
        for level in held:
            usual = found.half_widths[level]
            assert usual is not None
            (own,) = usual_sets(said[99:], (False, True), usual)
            held[level] += bool(y[99]) in own
            sizes.append(len(own))
    assert set(sizes) == {1, 2}
    for level, count in held.items():
        assert count / 1000 > float(level) - 3 * math.sqrt(float(level) * (1 - float(level)) / 1000)
    assert held["0.9"] / 1000 < 0.99  # and no larger than they have to be
