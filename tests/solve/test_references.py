"""Fits from CSV files against stored scikit-learn references and NIST's certified values."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.references import CODINGS, our_names
from support.tables import SHARED, fitted, shared, shoal

DATA = SHARED / "data" / "regression"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def cases() -> list[Any]:
    found = []
    for path in sorted(DATA.glob("*.reference.json")):
        reference = json.loads(path.read_text())
        for coding, details in reference["codings"].items():
            found += [
                pytest.param(path.name, coding, name, id=f"{reference['dataset']}-{coding}-{name}")
                for name in details["models"]
            ]
    return found or [pytest.param("missing.reference.json", "", "", id="shared-is-missing")]


@pytest.mark.parametrize(("file", "coding", "name"), cases())
def test_equal_to_the_reference(file: str, coding: str, name: str) -> None:
    reference = json.loads(shared("data", "regression", file).read_text())
    details = reference["codings"][coding]
    expected = details["models"][name]
    found = fitted(
        DATA / reference["file"],
        reference["target"],
        features=reference["features"],
        model=name.split("_")[0],
        alpha=expected["alpha"] if expected["alpha"] is not None else 1.0,
        coding=CODINGS[coding],
        test_every=5,
        missing=reference["read"]["na_tokens"],
        **({"l1_ratio": expected["l1_ratio"]} if expected.get("l1_ratio") is not None else {}),
    )
    assert found["rows_read"] == reference["n_rows_file"]
    assert (found["train"]["rows"], found["test"]["rows"]) == (reference["n_train"], reference["n_test"])
    assert found["rows_dropped"].get("target_missing", 0) == reference["n_target_missing"]
    for ours, theirs in (("test", "test_"), ("train", "train_")):
        for score in ("rmse", "mae", "r2"):
            if theirs + score in expected:
                assert found[ours][score] == pytest.approx(expected[theirs + score], rel=1e-6), (ours, score)
    names = our_names(reference, details["columns"])
    assert sorted(found["coefficients_standardized"]) == sorted(names)
    weights = np.array([found["coefficients_standardized"][n] for n in names])
    theirs_w = np.array(expected["coef_standardised"])
    if name.startswith(("lasso", "elasticnet")):
        assert {n for n, w in zip(names, weights, strict=True) if w} == {
            n for n, w in zip(names, theirs_w, strict=True) if w
        }
    unique = details["ols_coefs_unique"] or not name.startswith("linear")
    if unique:
        scale = np.abs(theirs_w).max()
        np.testing.assert_allclose(weights, theirs_w, rtol=1e-6, atol=1e-6 * scale)
        raw = np.array([found["coefficients"][n] for n in names])
        np.testing.assert_allclose(raw, theirs_w / details["scaler_scale"], rtol=2e-6, atol=1e-6 * np.abs(raw).max())
        intercept = expected["intercept"] - float(np.dot(theirs_w / details["scaler_scale"], details["scaler_mean"]))
        assert found["intercept"] == pytest.approx(intercept, rel=1e-5, abs=1e-5 * abs(expected["intercept"]))
    assert found["unique"] == unique
    assert unique or any("minimum" in w or "norm" in w or "depend" in w for w in found["warnings"])


def digits(found: float, certified: float) -> float:
    if found == certified:
        return 16.0
    return -math.log10(abs(found - certified) / abs(certified)) if certified else -math.log10(abs(found))


@pytest.mark.parametrize(("problem", "file", "least"), [
    ("Norris", "Norris.csv", 9), ("Longley", "Longley.csv", 9), ("Wampler1", "Wampler1_expanded.csv", 9),
])  # fmt: skip
def test_certified_digits_from_the_command_line(problem: str, file: str, least: int) -> None:
    certified = json.loads(shared("data", "nist", "certified.json").read_text())[problem]
    path = shared("data", "nist", file)
    header = path.read_text().splitlines()[0].split(",")
    answer = shoal("train", path, "--target", "y", "--json")
    assert (answer.code, answer.err) == (0, "")
    found = answer.json
    assert list(found["coefficients"]) == [name for name in header if name != "y"]
    ours = [found["intercept"], *found["coefficients"].values()]
    inference = found["inference"]
    errors = [inference["intercept"]["std_error"], *(e["std_error"] for e in inference["coefficients"].values())]
    for value, std_error, truth in zip(ours, errors, certified["certified"], strict=True):
        assert digits(value, truth["estimate"]) >= least, truth["param"]
        if truth["std_error"]:
            assert digits(std_error, truth["std_error"]) >= least, truth["param"]
    if certified["residual_sd"]:
        assert digits(inference["residual_sd"], certified["residual_sd"]) >= least
    assert inference["residual_df"] == certified["residual_df"]
    assert digits(found["train"]["r2"], certified["r_squared"]) >= least
