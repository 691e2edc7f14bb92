"""Offsets: statsmodels comes to the same (figures of tools/statsmodels_references.py), and predictions need the column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.errors import TrainingError
from shoal.fitting.model_file import usable
from shoal.tasks.explain_row import explain
from support.data.glm_tables import GlmTable, glm_tables, offset
from support.tables import shared

REFERENCES = json.loads((Path(__file__).parent / "statsmodels.json").read_text())["tables"]
CASES = [(name, kind) for name, said in REFERENCES.items() for kind in said["offset"]]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def tables() -> dict[str, GlmTable]:
    return {table.name: table for table in glm_tables(shared("data"))}


@pytest.mark.parametrize(("name", "kind"), CASES, ids=["-".join(case) for case in CASES])
def test_equal_to_statsmodels(name: str, kind: str, tables: dict[str, GlmTable], tmp_path: Path) -> None:
    table, theirs = tables[name], REFERENCES[name]["offset"][kind]
    frame = table.frame.assign(seen=offset(len(table.frame), kind))
    frame.to_csv(tmp_path / "table.csv", index=False)
    model = shoal.fit(tmp_path / "table.csv", table.target, table.model, offset="seen", offset_as=kind)
    assert model.inference
    rows = [model.inference["intercept"], *(model.inference["coefficients"][n] for n in REFERENCES[name]["names"][1:])]
    np.testing.assert_allclose([row["estimate"] for row in rows], theirs["coefficients"], rtol=1e-6)
    np.testing.assert_allclose([row["std_error"] for row in rows], theirs["std_errors"], rtol=1e-7)
    assert model.report["outcome"]["deviance"] == pytest.approx(theirs["deviance"], rel=1e-10)
    assert model.report["outcome"]["null_deviance"] == pytest.approx(theirs["null_deviance"], rel=1e-9)
    model.save(tmp_path / "model.json")
    again = shoal.load(tmp_path / "model.json")
    for data in (frame.head(5), tmp_path / "table.csv"):
        found = again.predict_proba(data)[:, 1] if table.yes else again.predict(data)
        np.testing.assert_allclose(found[:5], theirs["first"], rtol=1e-7)


def counted(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.normal(size=n), "years": rng.integers(1, 9, n).astype(float)})
    return frame.assign(claims=rng.poisson(frame["years"] * np.exp(0.3 * frame["x"])))


@pytest.mark.parametrize("model", ["poisson", "gamma"])
@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_exposures_of_any_size_move_the_intercept_alone(model: str, size: float) -> None:
    frame = counted().assign(claims=lambda d: d["claims"] + 0.5 * (model == "gamma"), years=1.0)
    plain = shoal.fit(frame, "claims", model, features=["x"])
    found = shoal.fit(frame.assign(years=size), "claims", model, offset="years", offset_as="exposure", features=["x"])
    assert found.coefficients == pytest.approx(plain.coefficients, rel=1e-9)
    assert found.intercept + np.log(size) == pytest.approx(plain.intercept, rel=1e-9)
    assert found.report["outcome"]["null_deviance"] == pytest.approx(plain.report["outcome"]["null_deviance"], rel=1e-9)


def test_rows_without_an_offset_are_left_out_and_not_predicted(tmp_path: Path) -> None:
    frame = counted()
    frame.loc[:3, "years"] = np.nan
    frame.to_csv(tmp_path / "claims.csv", index=False)
    model = shoal.fit(tmp_path / "claims.csv", "claims", "poisson", offset="years", offset_as="exposure")
    assert model.report["rows_dropped"] == {"offset_missing": 4}
    assert any("predictions need that column" in note for note in model.warnings)
    whole = shoal.fit(frame.dropna(), "claims", "poisson", offset="years", offset_as="exposure")
    assert model.coefficients == pytest.approx(whole.coefficients)
    with pytest.warns(UserWarning, match="4 rows could not be read or have no value of 'years' to add"):
        predicted = model.predict(tmp_path / "claims.csv")
    assert np.isnan(predicted[:4]).all()
    assert not np.isnan(predicted[4:]).any()
    said = model.predict_to(tmp_path / "claims.csv", tmp_path / "out.csv")
    assert any("4 rows have no prediction: row 0: offset(log(years)) has no value, as years is missing" in note
               for note in said["warnings"])  # fmt: skip
    with pytest.raises(TrainingError, match="years"):
        model.predict(pd.DataFrame({"x": [1.0]}))
    one = {**{name: float(frame[name][9]) for name in frame if name != "claims"}, "years": 3.5}
    found = explain(usable(model._file), one)  # what the form of the Models page shows
    assert np.exp(found.prediction) == pytest.approx(model.predict(pd.DataFrame([one]))[0], rel=1e-12)
    assert next(part.adds for part in found.parts if part.column == "years") == pytest.approx(np.log(3.5))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": "linear", "offset": "years"}, "Expected offset only where it has an effect"),
    ({"model": "huber", "offset": "years"}, "subtract the column from the target, fit the difference, and add"),
    ({"model": "poisson", "offset": "x", "offset_as": "exposure"}, "Expected an exposure greater than 0 in 'x'"),
    ({"model": "poisson", "offset": "claims"}, "cannot be the offset as well"),
    ({"model": "logistic", "offset": "years", "offset_as": "exposure"}, "for counts and positive numbers"),
]


@pytest.mark.parametrize(("knobs", "said"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_cannot_be_an_offset_is_said(knobs: dict[str, Any], said: str) -> None:
    frame = counted()
    frame = frame.assign(claims=frame["claims"] > 0) if knobs["model"] == "logistic" else frame
    with pytest.raises(TrainingError, match=said):
        shoal.fit(frame, "claims", **knobs)
