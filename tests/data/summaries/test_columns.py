"""Columns summed up, against NumPy and pandas: bins of training, and rows to predict by the same bins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.data.summaries.columns import BINS, LEVELS, MOST_COLUMNS, MOST_ROWS, tallied
from shoal.fitting.model_file import load_model
from shoal.results.model import TrainingColumn


def test_a_model_file_says_what_its_training_columns_were_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    chance = np.random.default_rng(0)
    table = pd.DataFrame({
        "a": chance.normal(5, 2, 1000), "same": 7.0, "few": chance.integers(0, 3, 1000),
        "t": chance.choice([f"level{i}" for i in range(30)], 1000), "y": chance.normal(size=1000),
    })  # fmt: skip
    table.loc[::4, "a"] = np.nan
    table.loc[::10, "t"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    shoal.fit(tmp_path / "t.csv", "y", "ridge", alpha=1.0).save(tmp_path / "m.json")
    design = load_model(tmp_path / "m.json").file.design
    a = design.columns["a"]
    there = table["a"].dropna()
    assert (a.rows, a.missing, len(a.shares)) == (1000, 0.25, BINS)
    assert (a.mean, a.deviation) == pytest.approx((there.mean(), there.std(ddof=0)), rel=1e-12)
    assert a.edges == pytest.approx(np.quantile(there, np.arange(1, BINS) / BINS, method="lower"))
    assert a.shares == pytest.approx([0.1] * BINS, abs=0.002)
    few = design.columns["few"]
    assert few.edges == (0.0, 1.0, 2.0)
    assert few.shares == pytest.approx([*(table["few"].value_counts(normalize=True).sort_index()), 0.0], abs=1e-6)
    t = design.columns["t"]
    counts = table["t"].value_counts()
    assert t.levels is not None
    assert len(t.levels) == LEVELS
    assert t.missing == pytest.approx(0.1)
    assert t.shares[:LEVELS] == pytest.approx([counts[level] / 900 for level in t.levels], abs=1e-6)
    assert sum(t.shares) == pytest.approx(1, abs=1e-5)


def test_wide_and_long_tables_stay_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    chance = np.random.default_rng(0)
    wide = pd.DataFrame(chance.normal(size=(50, MOST_COLUMNS + 40))).rename(columns="x{}".format).assign(y=1.0)
    wide["y"] = wide["x0"]
    shoal.fit(wide, "y", "ridge", alpha=1.0).save(tmp_path / "wide.json")
    assert len(load_model(tmp_path / "wide.json").file.design.columns) == MOST_COLUMNS
    long = pd.DataFrame({"a": np.arange(3.0 * MOST_ROWS), "y": 1.0 * (np.arange(3 * MOST_ROWS) % 7)})
    shoal.fit(long, "y").save(tmp_path / "long.json")
    column = load_model(tmp_path / "long.json").file.design.columns["a"]
    assert column.rows <= MOST_ROWS
    assert column.mean == pytest.approx(long["a"].mean(), rel=0.01)


def test_rows_are_counted_by_the_bins_of_training_and_parts_merge() -> None:
    training = {
        "a": TrainingColumn(100, 0.0, (0.5, 0.3, 0.2), (1.0, 2.0), None, 1.2, 0.5),
        "t": TrainingColumn(100, 0.0, (0.6, 0.3, 0.1), (), ("u", "v")),
        "gone": TrainingColumn(100, 0.0, (1.0,)),
    }
    values = [0.5, 1.0, 1.5, 2.5, None, 9.0]
    texts = ["u", "v", "w", "new", None, "u"]
    whole = tallied(training, {"a": values, "t": texts}, {"t": ("u", "v", "w")})
    assert set(whole) == {"a", "t"}
    assert (whole["a"].rows, whole["a"].missing, whole["a"].bins) == (6, 1, (2, 1, 2))
    assert (whole["t"].missing, whole["t"].bins, whole["t"].unknown) == (1, (2, 1, 2), 1)
    parts = [
        tallied(training, {"a": values[k:m], "t": texts[k:m]}, {"t": ("u", "v", "w")}) for k, m in ((0, 4), (4, 6))
    ]
    for name in ("a", "t"):
        merged = parts[0][name].merge(parts[1][name])
        assert merged.bins == whole[name].bins
        assert (merged.rows, merged.missing, merged.unknown) == (6, 1, whole[name].unknown)
        assert (merged.mean, merged.squares) == pytest.approx((whole[name].mean, whole[name].squares))
    there = [value for value in values if value is not None]
    assert (whole["a"].mean, whole["a"].squares) == pytest.approx((np.mean(there), np.var(there) * 5))
