"""What `explain` and `predict` say are types, made once: what they print can be read back, and names lead to values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shoal
from shoal.results.answers.explanation import ModelExplanation
from shoal.results.answers.predictions import FilePredictions

ROWS = 60


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    rows = "".join(f"{i},{i * 5 % 11},{2 * i + (i * 7) % 5}\n" for i in range(ROWS))
    (tmp_path / "t.csv").write_text("x,z,y\n" + rows)
    return tmp_path / "t.csv"


@pytest.mark.parametrize("model", ["linear", "lasso", "poisson"])
def test_an_explanation_is_read_back_as_it_was(model: str, table: Path) -> None:
    alpha = {"alpha": 0.1} if model == "lasso" else {}
    found = shoal.fit(table, "y", model=model, test_every=5, **alpha).explain(resamples=20, folds=4)
    assert ModelExplanation.from_dict(json.loads(json.dumps(found.as_dict()))) == found
    assert (found.model, found.rows, found["target"]) == (model, 48, "y")
    (first, *_) = found.intervals
    assert first.coefficients["x"]["low"] < first.coefficients["x"]["high"]
    assert found.as_dict()["intervals"][0]["coefficients"].keys() == {"x", "z"}
    assert found.importance is not None
    assert found.importance.rises.keys() == {"x", "z"}
    assert (found.bootstrap is None) == (model == "poisson")
    assert ("selection" in (found["bootstrap"] or {})) == (model == "lasso")


def test_what_is_said_of_predictions_is_read_back_as_it_was(table: Path) -> None:
    new = table.with_name("new.csv")
    new.write_text("x,z\n1,2\n1,2,3,4\n3,many\n")
    knobs = {"on_bad_rows": "skip"}
    found = shoal.fit(table, "y", test_every=5).predict_to(new, table.with_name("out.csv"), keep="all", **knobs)
    assert FilePredictions.from_dict(json.loads(json.dumps(found.as_dict()))) == found
    assert (found.rows, found.predicted, found["bad_rows"]) == (3, 3 - found.bad_rows, found.bad_rows)
    assert found.not_predicted
    assert found.as_dict()["not_predicted"][0].keys() >= {"line", "problem"}
    assert "preview" not in found.as_dict()
