"""Exports of yes/no, count and positive models, with and without an offset, run by the programs they are meant for."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io

import shoal
from support.exports import ALL, RUN

N = 400
KNOBS: dict[str, dict[str, Any]] = {
    "logistic": {"model": "logistic", "target": "ja_nein"},
    "logistic shifted": {"model": "logistic", "target": "ja_nein", "offset": "shift"},
    "poisson": {"model": "poisson", "target": "visits", "interactions": ["x:g"], "squares": ["x"]},
    "poisson exposed": {"model": "poisson", "target": "visits", "offset": "days", "offset_as": "exposure"},
    "gamma lasso": {"model": "gamma", "target": "cost", "shrink": "lasso", "alpha": 0.02, "transform": ["z=log1p"]},
    "lognormal": {"model": "lognormal", "target": "cost", "offset": "days", "offset_as": "exposure"},
    "gamma exposed": {"model": "gamma", "target": "cost", "offset": "days", "offset_as": "exposure"},
}


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path_factory.getbasetemp() / "home"))


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(9)
    found = pd.DataFrame({"x": rng.normal(size=N), "z": rng.exponential(size=N), "g": rng.choice(["a", "b", "c'"], N)})
    found["shift"], found["days"] = rng.normal(size=N), rng.uniform(1, 30, N)
    eta = 0.6 * found["x"] - 0.4 * found["z"] + 0.5 * (found["g"] == "b")
    found["ja_nein"] = np.where(rng.random(N) < 1 / (1 + np.exp(-eta - found["shift"])), "ja", "nein")
    found["visits"] = rng.poisson(np.exp(eta) * found["days"])
    found["cost"] = rng.gamma(2.0, np.exp(eta) * found["days"])
    found.loc[::17, "x"] = np.nan
    return found


def by_hand(model: shoal.FittedModel, rows: pd.DataFrame, knobs: dict[str, Any]) -> np.ndarray:
    """From scores that NumPy adds up, of a model without products and shapes."""
    eta = np.full(len(rows), model.intercept)
    for name, value in model.coefficients.items():
        column, _, level = name.partition("=")
        x = rows[column].fillna(rows[column].median()) if not level else (rows[column] == level) * 1.0
        eta = eta + value * x.to_numpy(float)
    if knobs.get("offset"):
        added = rows[knobs["offset"]].to_numpy(float)
        eta = eta + (np.log(added) if knobs.get("offset_as") == "exposure" else added)
    return 1 / (1 + np.exp(-eta)) if knobs["model"] == "logistic" else np.exp(eta)


@pytest.mark.parametrize("to", ALL)
@pytest.mark.parametrize("kind", KNOBS)
def test_exports_predict_what_the_model_predicts(kind: str, to: str, tmp_path: Path) -> None:
    rows, knobs = frame(), KNOBS[kind]
    others = {"ja_nein", "visits", "cost", "shift", "days"} - {knobs["target"], knobs.get("offset", "")}
    table = rows.drop(columns=sorted(others))
    model = shoal.fit(table, **knobs)
    path = tmp_path / f"m.{'skops' if to == 'sklearn' else to}"
    proof = model.export(to, path, **({"table": "rows"} if to == "sql" else {}))
    assert proof.rows >= 1000
    assert proof.largest_relative < 1e-12
    given = table.drop(columns=knobs["target"])
    expected = model.predict_proba(given)[:, 1] if knobs["model"] == "logistic" else model.predict(given)
    if to == "sklearn" and knobs["model"] == "logistic":
        found = skops.io.load(path, trusted=["numpy.dtype"]).predict_proba(given)[:, 1]
    elif to == "json" and knobs["model"] == "logistic":
        found = shoal.load(path).predict_proba(given)[:, 1]
    else:
        found = RUN[to](path, given, "rows")
    assert found == pytest.approx(expected, rel=1e-11)
    if kind in ("logistic", "logistic shifted", "poisson exposed", "gamma exposed", "lognormal"):
        assert found == pytest.approx(by_hand(model, given, knobs), rel=1e-9)


@pytest.mark.parametrize("to", ["sql", "python", "onnx", "json"])
def test_a_row_without_its_exposure_has_no_prediction(to: str, tmp_path: Path) -> None:
    model = shoal.fit(frame()[["x", "days", "visits"]], **KNOBS["poisson exposed"])
    path = tmp_path / f"m.{to}"
    model.export(to, path, **({"table": "rows"} if to == "sql" else {}))
    given = pd.DataFrame({"x": [0.5, 0.5, 0.5], "days": [7.0, np.nan, 0.0]})
    with pytest.warns(UserWarning, match="NaN") if to == "json" else nullcontext():
        found = RUN[to](path, given, "rows")
    assert np.isnan(found).tolist() == [False, True, True]


def test_a_pipeline_refuses_a_row_without_its_exposure(tmp_path: Path) -> None:
    model = shoal.fit(frame()[["x", "days", "visits"]], **KNOBS["poisson exposed"])
    model.export("sklearn", tmp_path / "m.skops")
    made = skops.io.load(tmp_path / "m.skops", trusted=["numpy.dtype"])
    with pytest.raises(ValueError, match="NaN"):
        made.predict(pd.DataFrame({"x": [0.5], "days": [np.nan]}))
    far = made.predict(pd.DataFrame({"x": [1e6], "days": [7.0]}))
    assert np.isfinite(far).all()  # a power that is no double is cut
