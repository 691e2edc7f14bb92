"""`shoal explain`: what it says about each kind of model, also where the data have changed or are gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from support.tables import Answer, shoal

KEYS = {
    "model", "target", "alpha", "l1_ratio", "file", "rows", "intercept", "intercepts", "coefficients", "references", "dates", "confidence", "intervals",
    "bootstrap", "importance", "prediction_interval", "notes",
}  # fmt: skip
NAMES = ["a", "b", "kind=y", "kind=z"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 240))
    kind = rng.choice(["x", "y", "z"], 240)
    y = 2 * a + (kind == "y") + rng.normal(size=240)
    frame = pd.DataFrame({"a": a, "b": np.where(rng.random(240) < 0.1, np.nan, b), "kind": kind, "y": y})
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def trained(data: Path, *flags: str) -> Path:
    out = data.with_suffix(".json")
    said = shoal("train", data, "--target", "y", "--out", out, *flags)
    assert said.code == 0, said.err
    return out


def explained(model: Path | str, *flags: str) -> dict[str, Any]:
    said = shoal("explain", model, "--resamples", "60", "--json", *flags)
    assert said.code == 0, said.err
    found: dict[str, Any] = said.json
    assert found.keys() == KEYS
    return found


def test_a_linear_model(data: Path) -> None:
    model = trained(data, "--test-every", "5")
    found = explained(model, "--confidence", "0.9")
    contents = json.loads(model.read_text())
    assert (found["model"], found["alpha"], found["rows"], found["notes"]) == ("linear", None, 192, [])
    assert found["coefficients"] == contents["coefficients"]
    assert found["prediction_interval"] == contents["prediction_interval"]
    (interval,) = found["intervals"]
    assert (interval["kind"], interval["confidence"]) == ("linear", 0.9)
    for name in NAMES:
        one, own = interval["coefficients"][name], contents["inference"]["coefficients"][name]
        assert one["std_error"] == pytest.approx(own["std_error"], rel=1e-9)
        half = stats.t.ppf(0.95, contents["inference"]["residual_df"]) * own["std_error"]
        assert one["high"] == pytest.approx(own["estimate"] + half, rel=1e-9)
    drawn = found["bootstrap"]
    assert (drawn["kind"], drawn["resamples"], drawn["units"], drawn["by_rows"]) == ("linear", 60, 192, True)
    assert drawn["coefficients"]["a"]["low"] < 2 < drawn["coefficients"]["a"]["high"]
    assert drawn["intercept"]["low"] < contents["intercept"] < drawn["intercept"]["high"]
    assert "selection" not in drawn
    important = found["importance"]
    assert list(important["rises"]) == ["a", "kind", "b"]
    assert (important["folds"], important["fold_by"]) == (10, "hash")
    assert important["rises"]["a"] > 1 > important["rises"]["b"]


@pytest.mark.parametrize("model", ["ridge", "lasso", "elasticnet"])
def test_a_model_with_a_penalty(data: Path, model: str) -> None:
    found = explained(trained(data, "--model", model, "--alpha", "0.2"))
    kinds = [one["kind"] for one in found["intervals"]]
    assert kinds == (["ridge", "debiased"] if model == "ridge" else ["debiased"])
    assert found["importance"]["fold_by"] == "row"
    assert (found["l1_ratio"] is None) == (model != "elasticnet")
    assert found["prediction_interval"]["note"].startswith("No rows were kept for testing")
    if model == "ridge":
        assert found["bootstrap"]["kind"] == "ridge"
        assert found["intervals"][0]["coefficients"]["a"]["estimate"] == pytest.approx(found["coefficients"]["a"])
    else:
        assert found["bootstrap"]["kind"] == "debiased"
        selected = {name: one["selected"] for name, one in found["bootstrap"]["selection"]["columns"].items()}
        assert selected["a"] == 1
        assert selected["b"] < 1
    assert all(one["meaning"].endswith(".") for one in (*found["intervals"], found["bootstrap"], found["importance"]))


def test_another_alpha(data: Path) -> None:
    model = trained(data, "--model", "lasso", "--alpha", "0.2", "--test-every", "5")
    own, other = explained(model), explained(model, "--alpha", "0.5")
    reference = json.loads(trained(data, "--model", "lasso", "--alpha", "0.5", "--test-every", "5").read_text())
    assert other["alpha"] == 0.5
    for name in NAMES:
        assert other["coefficients"][name] == pytest.approx(reference["coefficients"][name], abs=1e-9)
    widths = other["prediction_interval"]["half_widths"]
    assert widths["0.9"] == pytest.approx(reference["prediction_interval"]["half_widths"]["0.9"])
    assert widths["0.9"] != pytest.approx(own["prediction_interval"]["half_widths"]["0.9"])
    assert own["importance"]["rises"]["a"] > other["importance"]["rises"]["a"]
    assert any("alpha that was asked for" in note for note in other["notes"])


def test_a_gradient_run_that_stopped_short_is_compared_with_the_optimum(data: Path) -> None:
    def run(*flags: str) -> dict[str, Any]:
        told = ("--solver", "gradient", "--workers", "1", "--batch-size", "40", "--register", "t-y")
        return explained(trained(data, *told, *flags))

    near, short = run(), run("--tolerance", "0", "--epochs", "1")
    assert explained("t-y:1")["coefficients"] == near["coefficients"]  # each run saves a version, as it was told
    assert explained("t-y")["coefficients"] == short["coefficients"]
    assert near["notes"] == []
    assert near["intervals"][0]["kind"] == "linear"
    assert any("standard errors" in note for note in short["notes"])
    exact = near["intervals"][0]["coefficients"]["a"]
    assert short["intervals"][0]["coefficients"]["a"]["estimate"] == pytest.approx(exact["estimate"])


@pytest.mark.parametrize("what", ["changed", "gone"])
def test_without_its_data_the_model_file_speaks(data: Path, what: str) -> None:
    model = trained(data, "--test-every", "5")
    if what == "gone":
        data.unlink()
    else:
        data.write_text(data.read_text() + "1,1,x,1\n")
    found = explained(model)
    (note,) = found["notes"]
    assert ("not there any more" if what == "gone" else "not what it was") in note
    assert found["intervals"][0]["coefficients"]["a"]["low"] < 2
    assert found["prediction_interval"]["rows"] == 48
    assert found["bootstrap"] is None
    assert found["importance"] is None
    assert shoal("explain", model).is_plain()
    if what == "gone":
        lasso = json.loads(model.read_text())
        lasso["model"] = lasso["config"]["model"] = "lasso"
        lasso["alpha"] = 0.1
        lasso["checksum"] = "none"
        model.write_text(json.dumps(lasso))
        assert "not there any more" in shoal("explain", model, "--alpha", "0.3").err


def test_a_model_from_before_prediction_intervals_is_looked_at_anew(data: Path) -> None:
    model = trained(data, "--test-every", "5")
    contents = json.loads(model.read_text())
    said = contents.pop("prediction_interval")
    contents.pop("checksum")
    model.write_text(json.dumps(contents))
    found = explained(model)["prediction_interval"]
    assert found["rows"] == said["rows"]
    assert found["half_widths"]["0.9"] == pytest.approx(said["half_widths"]["0.9"])


def test_more_columns_than_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(24, 40))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(40)]).assign(y=3 * X[:, 0] + rng.normal(size=24))
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = explained(trained(tmp_path / "t.csv", "--model", "lasso", "--alpha", "0.3"), "--folds", "4")
    assert [one["kind"] for one in found["intervals"]] == ["desparsified"]
    assert found["bootstrap"]["kind"] == "desparsified"
    assert found["intervals"][0]["coefficients"]["x0"]["low"] > 1
    assert "guide" in found["intervals"][0]["meaning"]
    assert found["bootstrap"]["selection"]["columns"]["x0"]["selected"] > 0.9
    linear = explained(trained(tmp_path / "t.csv"), "--folds", "4")
    assert linear["intervals"][0]["coefficients"]["x0"]["low"] is None
    assert next(iter(linear["importance"]["rises"])) == "x0"


def test_tables_for_the_eye(data: Path) -> None:
    said = shoal(
        "explain", trained(data, "--model", "lasso", "--alpha", "0.1", "--test-every", "5"), "--resamples", "60"
    )
    assert said.is_plain()
    for text in (
        "lasso model of y, alpha = 0.1: 192 training rows", "selected", "With the shrinkage of the penalty removed",
        "intervals by formula, 95 %", "intervals by 60 resamples", "Importance of each column", "rise without it",
        "Prediction intervals: from 48 test rows", "90 %",
    ):  # fmt: skip
        assert text in said.out
    assert max(map(len, said.out.splitlines())) <= 120


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--resamples", "3"], "20 to 100000 resamples, got 3"),
        (["--confidence", "1.5"], "confidence from 0.5"),
        (["--folds", "1"], "at least 2 folds, got 1"),
        (["--fold-by", "moon"], "row, hash, class, group:COLUMN or time:COLUMN"),
        (["--alpha", "2"], "a linear model has no penalty"),
        (["--resamples", "many"], "invalid int value"),
        (["--seed", "-1"], "seed of at least 0, got -1"),
    ],
)
def test_bad_wishes_are_refused_in_a_sentence(data: Path, flags: list[str], expected: str) -> None:
    said: Answer = shoal("explain", trained(data), *flags)
    assert said.code == 1
    assert said.is_plain()
    assert expected in said.err


def test_no_model_is_a_sentence(tmp_path: Path) -> None:
    for wrong in ("nothing", str(tmp_path / "none.json")):
        said = shoal("explain", wrong)
        assert said.code == 1
        assert said.is_plain()
