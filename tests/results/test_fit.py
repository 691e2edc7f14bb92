"""Reports as types: what is written comes back, older files are read, damaged ones are said to be so and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import Reason, StateError
from shoal.fitting.model_file import load_model, save_model
from shoal.results.fit import FitReport, FitScores
from shoal.results.model import ModelFile
from shoal.results.plain import Malformed
from shoal.runs.folder import Run
from shoal.runs.launch import launch
from shoal.settings.values import config_from
from shoal.tasks.train import train
from support.runs import ended, short_run

TABLE = "a,b,y\n" + "".join(f"{i % 7},{'uvw'[i % 3]},{(i * i) % 11 + i % 7}\n" for i in range(60)) + ",u,3\n"
LITTLE: dict[str, Any] = {
    "model": "ridge", "target": "y", "alpha": 2.0, "intercept": 1, "coefficients": {"a": 0.5},
    "train": {"rows": 3, "r2": 0.25},
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    file = tmp_path / "t.csv"
    file.write_text(TABLE)
    return file


@pytest.mark.parametrize("knobs", [{}, {"model": "elasticnet", "alpha": 0.1, "test_every": 4}], ids=str)
def test_a_model_file_comes_back_bit_by_bit(path: Path, knobs: dict[str, Any]) -> None:
    trained = train(config_from({"file": str(path), "target": "y", "engine": "inline", **knobs}))
    for number in (1, 2):
        save_model(
            path.with_name(f"{number}.json"),
            trained.model if number == 1 else load_model(path.with_name("1.json")).file,
        )
    assert path.with_name("1.json").read_bytes() == path.with_name("2.json").read_bytes()
    assert FitReport.from_dict(json.loads(json.dumps(trained.report.as_dict()))) == trained.report
    assert trained.report.train.rows + trained.report.test.rows == 61
    assert trained.report.filled["a"].rows == 1


def test_a_gradient_run_comes_back_and_its_facts_stand_beside_the_others(path: Path) -> None:
    run = launch(short_run(path, target="y", epochs=3, tolerance=0.0, finish_passes=0))
    assert ended(run) == "finished", run.cause
    written, report = json.loads((run.directory / "result.json").read_text()), run.report
    assert list(written)[-1] == "checksum"
    written.pop("checksum")
    assert written.pop("folder") == run.id
    assert report is not None
    assert report.training is not None
    assert report.as_dict() == written
    assert list(report.as_dict()) == list(written)
    assert written["solver"] == "gradient"
    assert (
        (written["epochs"], written["state"])
        == (report.training.epochs, report.training.ending.state)
        == (3, "finished")
    )
    assert report.training.ending.reason == Reason(written["reason"])
    assert load_model(run.model_path).report.training == report.training


def test_what_older_programs_did_not_say_has_a_usual_value() -> None:
    found = FitReport.from_dict(LITTLE)
    assert found.train == FitScores(3, 0.25)
    assert (found.test.rows, found.honest, found.inference, found.warnings, found.training) == (
        0,
        found.train,
        None,
        (),
        None,
    )
    assert found.standardized == {"a": 0.5}


def test_what_later_programs_say_besides_is_kept() -> None:
    values = {**LITTLE, "design": {"terms": [], "known_levels": {}}, "news": {"of": [1, None]}}
    assert ModelFile.from_dict(values).as_dict()["news"] == {"of": [1, None]}


@pytest.mark.parametrize(("change", "words"), [
    ({"coefficients": None}, "'coefficients' should be an object"),
    ({"coefficients": {"a": "0.5"}}, "'coefficients.a' should be a number"),
    ({"intercept": True}, "'intercept' should be a number"),
    ({"train": {"rows": 2.5}}, "'train.rows' should be a whole number"),
    ({"train": [1]}, "'train' should be an object"),
    ({"warnings": "one"}, "'warnings' should be a list"),
    ({"warnings": [1]}, r"'warnings\[0\]' should be a text"),
    ({"inference": {"confidence": 0.95}}, "'inference.coefficients' is missing"),
    ({"solver": "gradient", "mode": "sync", "rounds": 1}, "'epochs' is missing"),
])  # fmt: skip
def test_what_is_wrong_is_named_by_its_place(change: dict[str, Any], words: str) -> None:
    with pytest.raises(Malformed, match=words):
        FitReport.from_dict({**LITTLE, **change})


def test_a_damaged_result_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps({**LITTLE, "coefficients": [1]}))
    with pytest.raises(StateError, match=r"damaged \('coefficients' should be an object\).*Train again\."):
        Run(tmp_path).report  # noqa: B018
    (tmp_path / "result.json").write_text("{torn")
    with pytest.raises(StateError, match=r"result\.json' is damaged: expected a JSON document, got .*Train again\."):
        Run(tmp_path).report  # noqa: B018
    (tmp_path / "result.json").unlink()
    assert Run(tmp_path).report is None
