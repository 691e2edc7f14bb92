"""Models of yes/no, counts and positive numbers against R's glm and glmnet, statsmodels and scikit-learn on real tables:
figures of tools/glm_references.py, kept in references.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.data.glm_tables import GlmTable, glm_tables
from support.tables import fitted, shared

REFERENCES = json.loads((Path(__file__).parent / "references.json").read_text())["tables"]
CLOSE = 1e-6  # of a coefficient, or of its standard error where that is larger
PENALISED = [(name, shrink) for name, table in REFERENCES.items() for shrink in table["penalised"]]


@pytest.fixture(scope="module")
def tables() -> dict[str, GlmTable]:
    return {table.name: table for table in glm_tables(shared("data"))}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def fit(table: GlmTable, folder: Path, **knobs: Any) -> dict[str, Any]:
    path = folder / "table.csv"
    table.frame.to_csv(path, index=False)
    return fitted(path, table.target, model=table.model, **knobs)


def coefficients(found: dict[str, Any], names: list[str]) -> np.ndarray:
    return np.array([found["intercept"], *(found["coefficients"][name] for name in names[1:])])


@pytest.mark.parametrize("name", REFERENCES)
def test_equal_to_r_and_statsmodels(name: str, tables: dict[str, GlmTable], tmp_path: Path) -> None:
    theirs, found = REFERENCES[name], fit(tables[name], tmp_path)
    assert found["train"]["rows"] == theirs["rows"]
    coef, errors = np.array(theirs["coefficients"]), np.array(theirs["std_errors"])
    apart = np.abs(coefficients(found, theirs["names"]) - coef) / np.maximum(np.abs(coef), errors)
    assert apart.max() < CLOSE
    outcome, inference = found["outcome"], found["inference"]
    assert outcome["log_likelihood"] == pytest.approx(theirs["log_likelihood"], rel=1e-10)
    assert outcome["deviance"] == pytest.approx(theirs["deviance"], rel=1e-10)
    assert outcome["null_deviance"] == pytest.approx(theirs["null_deviance"], rel=1e-10)
    if theirs["model"] == "gamma":
        assert outcome["dispersion"] == pytest.approx(theirs["dispersion"], rel=1e-6)
    estimates = [inference["intercept"], *(inference["coefficients"][n] for n in theirs["names"][1:])]
    np.testing.assert_allclose([e["std_error"] for e in estimates], errors, rtol=CLOSE)
    np.testing.assert_allclose([e["p_value"] for e in estimates], theirs["p"], rtol=1e-4, atol=1e-12)
    assert found["certificate"]["relative"] < 1e-8
    assert found["certificate"]["rests_on"] == "data"


@pytest.mark.parametrize(("name", "shrink"), PENALISED)
def test_equal_to_glmnet(name: str, shrink: str, tables: dict[str, GlmTable], tmp_path: Path) -> None:
    theirs = REFERENCES[name]
    expected = theirs["penalised"][shrink]
    alpha = expected["lambda"] * (theirs["rows"] if theirs["model"] == "logistic" else 1)
    found = fit(tables[name], tmp_path, shrink=shrink, alpha=alpha)
    coef = np.array(expected["coefficients"])
    # Errors of an intercept are those of the coefficients, times columns that lie far from zero.
    size = np.maximum(np.abs(coef), 1e-2 * np.array(theirs["std_errors"]))
    assert (np.abs(coefficients(found, theirs["names"]) - coef) / size).max() < CLOSE
    ours = coefficients(found, theirs["names"])
    assert ((ours == 0) == (coef == 0)).all()
    assert found["certificate"]["relative"] < 1e-8
    assert found["inference"] is None
