"""Intervals that follow the rows: scikit-learn's quantile lines and NumPy's correction come to the same ends wherever they
are asked for, and they hold where the spread of rows is not alike."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import QuantileRegressor

import shoal as api
from shoal.errors import TrainingError
from shoal.fitting.model_file import load_model
from shoal.solve.conformal import between
from shoal.tasks.predict_rows import RowPredictor
from support.tables import shoal


def growing(n: int, seed: int = 0, gaps: float = 0.05) -> pd.DataFrame:
    """Numbers whose spread grows with a column, that column with gaps, and names."""
    rng = np.random.default_rng(seed)
    x, z, c = rng.uniform(0, 10, n), rng.normal(size=n), rng.choice(["a", "b", "d"], n)
    y = 2 + 3 * x + z + np.where(c == "b", 4, 0) + rng.normal(size=n) * (0.3 + 0.5 * x)
    return pd.DataFrame({"x": np.where(rng.random(n) < gaps, np.nan, x), "z": z, "c": c, "y": y})


def ends_of(
    frame: pd.DataFrame, new: pd.DataFrame, level: float, every: int, weight: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """By scikit-learn and NumPy alone."""
    test = np.arange(len(frame)) % every == 0

    def design(of: pd.DataFrame) -> np.ndarray:
        return np.column_stack((of.x.fillna(frame.x[~test].median()), of.z, of.c == "b", of.c == "d")).astype(float)

    X, y = design(frame), frame.y.to_numpy()
    w = np.ones(len(y)) if weight is None else np.asarray(weight, float)
    lines = [
        QuantileRegressor(quantile=q, alpha=0, solver="highs").fit(X[~test], y[~test], sample_weight=w[~test])
        for q in ((1 - level) / 2, 1 - (1 - level) / 2)
    ]
    low, high = np.sort([line.predict(X[test]) for line in lines], axis=0)
    outside = np.repeat(np.maximum(low - y[test], y[test] - high), w[test].astype(int))
    correction = np.sort(outside)[math.ceil((len(outside) + 1) * level) - 1]
    low, high = np.sort([line.predict(design(new)) for line in lines], axis=0)
    return low - correction, high + correction


@pytest.mark.parametrize("model", ["linear", "lasso", "huber", "quantile"])
def test_the_ends_are_those_of_scikit_learn_wherever_they_are_asked_for(model: str, tmp_path: Path) -> None:
    data, saved, rows, out = (tmp_path / name for name in ("t.csv", "m.json", "new.csv", "p.csv"))
    frame, new = growing(500), growing(40, seed=1).drop(columns="y")
    frame.to_csv(data, index=False)
    new.to_csv(rows, index=False)
    knobs = ["--target", "y", "--model", model, *(["--alpha", "1"] if model == "lasso" else [])]
    plain = json.loads(shoal("train", data, *knobs, "--test-every", "4", "--json").out)
    said = shoal("train", data, *knobs, "--test-every", "4", "--bands", "0.85", "--out", saved)
    low, high = ends_of(frame, new, 0.85, 4)
    assert shoal("predict", saved, rows, "--out", out, "--interval", "0.85").out.count("that follow the rows") == 1
    found = pd.read_csv(out)
    np.testing.assert_allclose(found[["lower", "upper"]], np.column_stack((low, high)), atol=1e-6, rtol=1e-6)
    loaded = api.load(saved)
    for given in (new, rows):
        prediction, *ends = loaded.predict(given, interval=0.85)
        np.testing.assert_allclose(prediction, found.prediction, rtol=1e-12)
        np.testing.assert_allclose(ends, [found.lower, found.upper], rtol=1e-12)
    records = [{k: None if v != v else v for k, v in row.items()} for row in new.to_dict("records")]
    by_row = RowPredictor(load_model(saved)).predict(records, interval=0.85)
    np.testing.assert_allclose([by_row.lower, by_row.upper], [found.lower, found.upper], rtol=1e-12)

    # The model itself is what it is without, another level has the width that it had, and that is said.
    assert loaded.report["coefficients"] == plain["coefficients"]
    other = shoal("predict", saved, rows, "--out", out, "--interval", "0.95")
    assert "for every row alike (those of 85 % follow the rows)" in other.out
    even = pd.read_csv(out)
    np.testing.assert_allclose(even.upper - even.prediction, plain["prediction_interval"]["half_widths"]["0.95"])
    bands = loaded.report["bands"]
    test = frame[np.arange(len(frame)) % 4 == 0]
    widths = np.diff(ends_of(frame, test, 0.85, 4), axis=0)[0]
    assert bands["mean_width"] == pytest.approx(widths.mean(), rel=1e-6)
    assert [bands["narrow"], bands["wide"]] == pytest.approx(np.quantile(widths, (0.1, 0.9)), rel=1e-6)
    assert f"Intervals of 85 % follow the rows: {bands['mean_width']:.6g} wide on average in 125 test rows" in said.out


def test_whole_weights_are_repeated_rows() -> None:
    frame, new = growing(300, seed=4), growing(20, seed=5)
    frame["w"] = np.random.default_rng(4).integers(1, 4, len(frame))
    frame["x"] = frame.x.fillna(5.0)  # medians of weighted rows are tested elsewhere
    knobs = {"test_every": 3, "bands": 0.8, "weights": "w", "weights_are": "frequency", "engine": "inline"}
    _, *ends = api.fit(frame, "y", **knobs).predict(new.assign(x=new.x.fillna(5.0)), interval=0.8)
    expected = ends_of(frame, new.assign(x=new.x.fillna(5.0)), 0.8, 3, frame.w)
    np.testing.assert_allclose(ends, expected, atol=1e-6, rtol=1e-6)


def test_they_hold_in_every_quarter_where_one_width_does_not() -> None:
    """Each fit has m = 100 calibrating rows: over many fits a new row lies within with probability k / (m + 1)."""
    fits, m, new, level = 60, 100, 400, 0.9
    shares: dict[str, list[list[float]]] = {"bands": [], "even": []}
    for seed in range(fits):
        frame = growing(3 * m + new, seed, gaps=0)
        model = api.fit(frame[: 3 * m], "y", test_every=3, bands=level, engine="inline")
        rows = frame[3 * m :]
        found, *ends = model.predict(rows, interval=level)
        width = model.prediction_interval["half_widths"][str(level)]
        quarter = np.argsort(np.argsort(found)) * 4 // new
        for name, (low, high) in {"bands": ends, "even": (found - width, found + width)}.items():
            held = (low <= rows.y) & (rows.y <= high)
            shares[name].append([float(held[quarter == part].mean()) for part in range(4)])
    bands, even = (np.mean(shares[name], axis=0) for name in ("bands", "even"))
    claimed = math.ceil((m + 1) * level) / (m + 1)
    spread = math.sqrt((claimed * (1 - claimed) * (1 / (m + 2) + 1 / new)) / fits)
    print(f"held in quarters of predictions: bands {bands.round(3)}, of one width {even.round(3)}")
    assert abs(bands.mean() - claimed) < 4 * spread < 0.02
    assert abs(even.mean() - claimed) < 4 * spread
    assert np.abs(bands - level).max() < 0.03
    assert np.abs(even - level).max() > 0.1


def test_lines_that_cross_are_put_in_their_order_and_ends_never_cross() -> None:
    low, high = between(np.array([0.0, 3.0, 0.0]), np.array([2.0, 1.0, 0.4]), -0.5)
    np.testing.assert_allclose([low, high], [[0.5, 1.5, 0.2], [1.5, 2.5, 0.2]])


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"bands": 0.9}, "test_every"),
        ({"bands": 0.9, "test_every": 4, "model": "poisson"}, "only where it has an effect"),
        ({"bands": 0.9, "test_every": 4, "solver": "gradient"}, "only where it has an effect"),
        ({"bands": 0.9, "test_every": 4, "max_levels": 30_000}, "no bands beside max_levels"),
        ({"bands": 90, "test_every": 4}, "from 0 to 0.99, got 90"),
    ],
)
def test_what_cannot_be_is_refused(knobs: dict[str, Any], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        api.fit(growing(80), "y", **knobs)


def test_too_few_test_rows_are_said_with_what_to_do() -> None:
    model = api.fit(growing(40), "y", bands=0.95, test_every=4, engine="inline")
    assert "bands" not in model.report
    [told] = [text for text in model.warnings if "follow the rows" in text]
    assert told == (
        "Intervals of 95 % that follow the rows need at least 19 test rows, got 10: there are none. Keep more rows for "
        "testing (--test-every 5), or set bands to a lower level."
    )


def test_a_date_that_is_predicted_has_dates_for_ends(tmp_path: Path) -> None:
    data, saved, out = tmp_path / "t.csv", tmp_path / "m.json", tmp_path / "p.csv"
    frame = growing(200).fillna({"x": 5.0})
    frame["y"] = (pd.Timestamp("2024-01-01") + pd.to_timedelta((frame.y * 9).round(), "D")).dt.strftime("%Y-%m-%d")
    frame.to_csv(data, index=False)
    assert shoal("train", data, "--target", "y", "--test-every", "3", "--bands", "0.9", "--out", saved).code == 0
    assert shoal("predict", saved, data, "--out", out, "--interval", "0.9").code == 0
    found = pd.read_csv(out, parse_dates=["prediction", "lower", "upper"])
    assert ((found.lower <= found.prediction) & (found.prediction <= found.upper)).mean() > 0.95
    held = (found.lower <= pd.to_datetime(frame.y)) & (pd.to_datetime(frame.y) <= found.upper)
    assert 0.82 < held.mean() < 0.98
