"""Shapes of columns in predictions of files, frames and single rows, in gradient runs, and as flags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.fitting.model_file import load_model
from shoal.tasks.explain_row import explain
from support.data.encoding import saved
from support.tables import shoal as command


def table() -> pd.DataFrame:
    random = np.random.default_rng(4)
    sold = pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 900, 300), unit="D")
    found = pd.DataFrame({"area": random.lognormal(4, 0.5, 300), "sold": sold, "lot": random.normal(size=300)})
    found["price"] = 20 * np.log(found.area) + sold.month + np.sin(found.lot) + random.normal(size=300)
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_HOME", str(tmp_path_factory.mktemp("home")))
        return shoal.fit(table(), "price", transform=["area=log", "sold=month+trend", "lot=spline(4)"])


def test_frames_files_and_single_rows_are_predicted_alike_and_a_logarithm_of_nothing_is_named(
    model: Any, tmp_path: Path
) -> None:
    rows = table().drop(columns="price").head(8)
    rows.loc[3, "area"], rows.loc[5, "area"], rows.loc[6, "area"] = 0.0, -2.0, np.nan
    with pytest.warns(UserWarning, match="2 rows have a number without a logarithm or root"):
        frame = model.predict(rows)
    assert np.flatnonzero(np.isnan(frame)).tolist() == [3, 5]
    model.save(tmp_path / "model.json")
    answer = command("predict", tmp_path / "model.json", saved(tmp_path, rows), "--out", tmp_path / "out.csv", "--json")
    said = json.loads(answer.out)
    written = pd.read_csv(tmp_path / "out.csv")["prediction"]
    assert np.allclose(written, frame, rtol=1e-12, equal_nan=True)
    assert said["not_predicted"] == [
        {"row": 3, "problem": "log(area) has no value, as area is 0"},
        {"row": 5, "problem": "log(area) has no value, as area is -2"},
    ]
    assert "2 rows have no prediction: row 3: log(area) has no value, as area is 0; row 5" in " ".join(said["warnings"])
    one = load_model(tmp_path / "model.json")
    day = float((rows.sold[0] - pd.Timestamp("1970-01-01")).days)
    found = explain(one, {"area": float(rows.area[0]), "sold": day, "lot": float(rows.lot[0])})
    assert found.prediction == pytest.approx(frame[0], rel=1e-12)
    assert [part.column for part in found.parts] == ["area", "sold", "lot"]
    assert sum(part.adds for part in found.parts) + found.intercept == pytest.approx(frame[0], rel=1e-12)
    gone = explain(
        one, {"area": None, "sold": float((rows.sold[6] - pd.Timestamp("1970-01-01")).days), "lot": float(rows.lot[6])}
    )
    assert gone.prediction == pytest.approx(frame[6], rel=1e-12)


def test_the_flag_may_be_repeated_and_gradient_steps_end_where_the_exact_fit_does(tmp_path: Path) -> None:
    path = saved(tmp_path, table())
    flags = ["--transform", "area=log", "--transform", "sold=month,lot=spline(4)", "--model", "ridge", "--alpha", "1"]
    exact = command("train", path, "--target", "price", *flags, "--json")
    steps = command(
        "train", path, "--target", "price", *flags, "--json", "--solver", "gradient", "--engine", "inline",
        "--tolerance", "1e-9",
    )  # fmt: skip
    assert exact.code == 0, exact.err
    assert steps.code == 0, steps.err
    found, wanted = json.loads(steps.out)["coefficients"], json.loads(exact.out)["coefficients"]
    assert list(found) == list(wanted)
    assert {"log(area)", "month(sold)=12", "spline(lot)[5]"} <= set(wanted)
    assert np.allclose(list(found.values()), list(wanted.values()), rtol=1e-4, atol=1e-4)
