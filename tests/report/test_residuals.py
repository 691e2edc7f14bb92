"""Residuals, columns and lineage in a report: those of SciPy and pandas."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from shoal.exports import report
from support.report import TARGET, Made, along, harmless, number, penguins, plain


@pytest.mark.parametrize("knobs", [{}, {"test_every": 4}])
def test_residual_charts_hold_every_row(knobs: dict[str, Any], make: Callable[..., Made]) -> None:
    made = make(plain, "y", model="linear", **knobs)
    page, frame = made.report(), made.frame
    predicted = made.contents["intercept"] + sum(c * frame[n] for n, c in made.contents["coefficients"].items())
    test = np.arange(len(frame)) % 4 == 0 if knobs else np.zeros(len(frame), bool)
    residual = frame["y"] - predicted
    for part, which in (("train", ~test), ("test", test)):
        clouds = page.charts(f"dot many {part}")
        if not which.any():
            assert clouds == []
            continue
        against, residuals = clouds
        assert len(against) == len(residuals) == which.sum()
        assert along(against[:, 0], predicted[which])
        assert along(against[:, 1], frame["y"][which], up=True)
        assert along(residuals[:, 1], residual[which], up=True)
    said = re.search(
        r"Half of the residuals lie between (\S+) and (\S+), nine in ten between (\S+) and (\S+)\.", page.text
    )
    assert said is not None
    wanted = np.quantile(residual, [0.25, 0.75, 0.05, 0.95])
    assert [float(x) for x in said.groups()] == pytest.approx(wanted.tolist(), rel=1e-4)


def test_the_normal_plot_is_scipys(make: Callable[..., Made]) -> None:
    made = make(plain, "y", model="linear")
    predicted = made.contents["intercept"] + sum(c * made.frame[n] for n, c in made.contents["coefficients"].items())
    cloud = next(c for c in made.report().charts("dot train") if len(c) == len(made.frame))
    places = stats.norm.ppf((np.arange(len(cloud)) + 0.5) / len(cloud))
    assert along(cloud[:, 0], places)
    assert along(cloud[:, 1], np.sort(made.frame["y"] - predicted), up=True)


def test_columns_are_described_as_pandas_does(make: Callable[..., Made]) -> None:
    made = make(penguins, TARGET)
    page, frame = made.report(), made.frame
    table = page.rows("Data")
    assert list(table) == list(frame.columns)
    used = frame[frame[TARGET].notna()]
    for name in frame:
        row = table[name]
        assert row["role"] == ("target" if name == TARGET else "used")
        assert number(row["missing"]) == frame[name].isna().sum()
        if frame[name].dtype == float or name == "year":
            wanted = {"min": frame[name].min(), "mean": used[name].mean(), "max": frame[name].max()}
            assert {k: number(row[k]) for k in wanted} == pytest.approx(wanted, rel=1e-5)
        else:
            counts = frame[name].value_counts()
            assert row["levels (rows)"] == ", ".join(f"{level} ({count:,})" for level, count in counts.items())
    assert (
        "344 rows read; 2 left out, as they had no value in the column to predict; 342 used for training" in page.text
    )


def with_gaps() -> pd.DataFrame:
    frame = plain()
    frame.loc[::7, "a"] = np.nan
    frame.loc[3::5, "y"] = np.nan
    return frame


@pytest.mark.parametrize("knobs", [{}, {"impute": "mean", "test_every": 3}, {"impute": "drop"}])
def test_means_are_of_the_values_that_are_there(knobs: dict[str, Any], make: Callable[..., Made]) -> None:
    made = make(with_gaps, "y", **knobs)
    frame = made.frame.dropna(subset=["y", "a"] if knobs.get("impute") == "drop" else ["y"])
    table = made.report().rows("Data")
    assert {n: number(table[n]["mean"]) for n in "abcdy"} == pytest.approx(frame.mean().to_dict(), rel=1e-5)
    assert number(table["a"]["missing"]) == made.frame["a"].isna().sum()
    test = np.arange(len(made.frame)) % 3 == 0 if "test_every" in knobs else np.zeros(len(made.frame), bool)
    filled = made.frame["a"][~test & made.frame["y"].notna()]
    assert number(table["a"]["if missing"]) == pytest.approx(filled.mean() if knobs else filled.median(), rel=1e-5)


def test_formula_and_lineage_in_words(make: Callable[..., Made], tmp_path: Path) -> None:
    made = make(plain, "y", model="ridge", alpha=3.0)
    text = made.report().text
    terms = {name: short for name, short in re.findall(r"([-\d.e]+) × (\w)", text)}  # noqa: C416
    assert {name: abs(v) for name, v in made.contents["coefficients"].items()} == pytest.approx(
        {name: float(value) for value, name in terms.items()}, rel=1e-5
    )
    folder = tmp_path / "v3"
    folder.mkdir()
    shutil.copy(made.path, folder / "model.json")
    card = {"run": "20260101-000000-abcd", "created": 0.0, "seconds": 1.25, "note": "for <b>them</b>", "created_": 1}
    (folder / "card.json").write_text(json.dumps({**card, "created": 86400.0}))
    report(folder / "model.json", tmp_path / "r.html")
    lineage = harmless((tmp_path / "r.html").read_text()).rows("Lineage")
    wanted = {"run": "20260101-000000-abcd", "saved": "1970-01-02 00:00:00 UTC", "training took": "1.25 s",
              "note": "for <b>them</b>", "fingerprint of the data": made.contents["data"]["content"],
              "data file": "table.csv", "solver": "exact"}  # fmt: skip
    assert {name: lineage[name]["value"] for name in wanted} == wanted
    (folder / "card.json").write_text("{")  # damaged: the report does without it
    report(folder / "model.json", tmp_path / "r.html")
    assert "run" not in harmless((tmp_path / "r.html").read_text()).rows("Lineage")
