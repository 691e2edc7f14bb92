"""Limits among numbers (<0,5 and >200): named with their rows, and read as was said, in training and prediction."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shoal.data.notation.limits import parts, value
from shoal.errors import BadRowsError, ConfigError
from support.tables import column, fitted, opened, shoal, written

NUMBERS = np.random.default_rng(5).lognormal(0, 1, 300).round(2)
LOW, HIGH = 0.5, 3.0


def table(numbers: np.ndarray = NUMBERS) -> str:
    """x, of which only limits are known at its ends, with decimal commas, and y."""
    cells = [f"<{LOW}" if x < LOW else f"> {HIGH} mg" if x > HIGH else f"{x} mg" for x in numbers]
    rows = [f"{cell};{2 * x + 1:.3f}".replace(".", ",") for cell, x in zip(cells, numbers, strict=True)]
    return "\n".join(["x;y", *rows]) + "\n"


def by_pandas(way: str) -> pd.Series:
    low = {"limit": LOW, "half": LOW / 2, "missing": np.nan}[way]
    high = np.nan if way == "missing" else HIGH
    x = pd.Series(NUMBERS)
    return x.mask(x < LOW, low).mask(x > HIGH, high)


def test_limits_are_counted_and_a_failed_fit_offers_how_to_read_them(tmp_path: Path) -> None:
    path = written(tmp_path, table())
    low, high = int((NUMBERS < LOW).sum()), int((NUMBERS > HIGH).sum())
    answer = shoal("inspect", path, "--json").json
    found = next(one for one in answer["columns"] if one["name"] == "x")
    assert (found["type"], found["words"], dict(found["limits"])) == ("numeric", [], {"<…": low, ">…": high})
    assert "--limits x=half" in shoal("inspect", path).out
    with pytest.raises(BadRowsError) as caught:
        fitted(path, "y")
    assert (caught.value.remedies[0].name, caught.value.remedies[0].arguments) == ("limits", ("x=half",))


@pytest.mark.parametrize("way", ["limit", "half", "missing"])
def test_limits_are_read_as_was_said(way: str, tmp_path: Path) -> None:
    path = written(tmp_path, table())
    for said in (way, f"x={way}"):
        dataset = opened(path, limits=[said])
        assert dataset.manifest.bad_count == 0
        np.testing.assert_allclose(np.array(column(dataset, "x"), float), by_pandas(way))
    assert any("Limits in 'x', such as" in note for note in dataset.manifest.notes)


def test_a_model_reads_them_as_it_did_in_training(tmp_path: Path) -> None:
    path, model = written(tmp_path, table()), tmp_path / "m.json"
    fit = shoal("train", path, "--target", "y", "--limits", "x=half", "--out", model)
    assert fit.code == 0, fit.err
    assert json.loads(model.read_text())["config"]["limits"] == ["x=half"]
    slope, start = np.polyfit(by_pandas("half"), (2 * NUMBERS + 1).round(3), 1)
    new = written(tmp_path, "x;n\n<0,5;1\n1,5 mg;2\n>7 mg;3\n", "new.csv")
    assert shoal("predict", model, new, "--out", tmp_path / "p.csv").code == 0
    found = pd.read_csv(tmp_path / "p.csv")["prediction"]
    np.testing.assert_allclose(found, start + slope * np.array([0.25, 1.5, 7.0]), rtol=1e-9)


def test_new_rows_may_lack_a_column_that_the_model_left_out(tmp_path: Path) -> None:
    lines = table().splitlines()
    path = written(tmp_path, "\n".join([f"z;{lines[0]}", *(f"{i % 7};{line}" for i, line in enumerate(lines[1:]))]))
    model, new = tmp_path / "m.json", written(tmp_path, "z;n\n1;1\n2;2\n", "new.csv")
    assert shoal("train", path, "--target", "y", "--limits", "x=half", "--exclude", "x", "--out", model).code == 0
    told = shoal("predict", model, new, "--out", tmp_path / "p.csv")
    assert told.code == 0, told.err


def test_names_with_such_signs_stay_names(tmp_path: Path) -> None:
    """Bands of incomes and ages are no numbers, whatever is asked for of limits."""
    bands = ["<10", "10-20", ">20"]
    path = written(
        tmp_path, "band,pay,y\n" + "".join(f"{bands[i % 3]},{['<=50K', '>50K'][i % 2]},{i}\n" for i in range(60))
    )
    for limits in ([], ["half"]):
        assert [one.type for one in opened(path, limits=limits).manifest.columns] == [
            "categorical",
            "categorical",
            "numeric",
        ]


def test_what_is_said_wrongly_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, table())
    for said in ("x=halve", "z=half"):
        with pytest.raises(ConfigError, match="limit, half, missing"):
            opened(path, limits=[said])


def test_what_a_limit_is() -> None:
    assert parts("<= 0,5") == ("≤", "0,5")
    assert [parts(text) for text in ("<b>", "<2020-01-01", "a<5", "<")] == [None] * 4
    assert value("<-5", "half", float) == -5.0  # half of it would be above
    assert (value("<5", "half", float), value(">5", "half", float), value("5", "half", float)) == (2.5, 5.0, None)
    assert math.isnan(value("<5", "missing", float) or 0.0)
