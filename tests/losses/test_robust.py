"""Robust standard errors: statsmodels comes to the same (figures of tools/statsmodels_references.py), and where it has
none, the formula in plain NumPy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.errors import TrainingError
from support.data.glm_tables import GlmTable, glm_tables, linear_tables
from support.tables import fitted, shared

REFERENCES = json.loads((Path(__file__).parent / "statsmodels.json").read_text())["tables"]
KINDS = ("HC0", "HC1", "HC2", "HC3")
CASES = [(name, kind) for name, said in REFERENCES.items() for kind in KINDS if said["robust"][kind]]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def tables() -> dict[str, GlmTable]:
    return {table.name: table for table in (*linear_tables(shared("data")), *glm_tables(shared("data")))}


@pytest.mark.parametrize(("name", "kind"), CASES, ids=["-".join(case) for case in CASES])
def test_equal_to_statsmodels(name: str, kind: str, tables: dict[str, GlmTable], tmp_path: Path) -> None:
    table, said = tables[name], REFERENCES[name]
    table.frame.to_csv(tmp_path / "table.csv", index=False)
    found = fitted(tmp_path / "table.csv", table.target, model=table.model, robust=kind)
    rows = [found["inference"]["intercept"], *(found["inference"]["coefficients"][n] for n in said["names"][1:])]
    np.testing.assert_allclose([row["std_error"] for row in rows], said["robust"][kind], rtol=1e-8)
    assert any(f"robust ({kind})" in note for note in found["warnings"])


@pytest.mark.parametrize("weighting", ["", "importance", "frequency"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["linear", "poisson"])
def test_equal_to_the_formula(model: str, kind: str, weighting: str) -> None:
    rng = np.random.default_rng(4)
    n = 90
    X, w = np.column_stack((np.ones(n), rng.normal(size=(n, 2)) + 3)), rng.integers(1, 4, n).astype(float)
    y = rng.poisson(np.exp(X @ [0.1, 0.2, -0.1])).astype(float)
    knobs = {"sample_weight": w, "weights_are": weighting} if weighting else {}
    fit = shoal.fit(pd.DataFrame({"a": X[:, 1], "b": X[:, 2], "y": y}), "y", model, robust=kind, **knobs)
    inference = fit.inference
    assert inference
    rows = [inference["intercept"], *inference["coefficients"].values()]
    eta = X @ [row["estimate"] for row in rows]
    c = {"": np.ones(n), "importance": w / w.mean(), "frequency": np.ones(n)}[weighting]
    times = w if weighting == "frequency" else np.ones(n)
    g, h = (c * (eta - y), c) if model == "linear" else (c * (np.exp(eta) - y), c * np.exp(eta))
    inverse = np.linalg.inv(X.T @ (X * (times * h)[:, None]))
    leverage, size = h * np.einsum("ij,jk,ik->i", X, inverse, X), times.sum()
    f = {"HC0": 1.0, "HC1": size / (size - 3), "HC2": 1 / (1 - leverage), "HC3": 1 / (1 - leverage) ** 2}[kind]
    V = inverse @ (X.T @ (X * (times * f * g**2)[:, None])) @ inverse
    np.testing.assert_allclose([row["std_error"] for row in rows], np.sqrt(np.diag(V)), rtol=1e-8)


def test_without_formulas_there_are_none(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0, 3.0], "b": [2.0, 4.0, 8.0, 6.0], "y": [1.0, 2.0, 3.0, 5.0]})
    with pytest.raises(TrainingError, match="Expected robust only where it has an effect"):
        shoal.fit(frame, "y", "ridge", alpha=1.0, robust="HC3")
    depending = shoal.fit(frame, "y", robust="HC3").inference
    assert depending
    assert depending["coefficients"]["a"]["std_error"] is None
    frame.to_csv(tmp_path / "table.csv", index=False)
    model = shoal.fit(tmp_path / "table.csv", "y", features=["a"], robust="HC1")
    assert model.refit(model="ridge", alpha=1.0).inference is None
    with pytest.raises(TrainingError, match="need the rows"):
        model.refit(model="linear")
