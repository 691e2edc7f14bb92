"""Files that jobs and runs leave for people: damaged ones are never handed out, and made again where that can be done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.errors import DamagedFile
from shoal.library.saved_models import save_run
from shoal.results.model import BY_HAND
from shoal.runs import made_files
from shoal.runs.launch import launch, launch_job
from shoal.settings.values import config_from
from support.runs import ended, run_home, small_table


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_damaged_predictions_are_refused_and_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_home(tmp_path / "home", monkeypatch):
        table = small_table(tmp_path)
        run = launch(config_from({"file": str(table), "target": "y"}))
        assert ended(run) == "finished", run.cause
        config, arguments = config_from({"file": str(table)}), {"model": str(run.model_path)}
        job = launch_job("predict", config, arguments)
        assert ended(job) == "finished", job.cause
        path = job.directory / "predictions.csv"
        right = path.read_bytes()
        assert launch_job("predict", config, arguments).state == "finished"
        assert made_files.handed_out(path) == path
        flip(path)
        with pytest.raises(DamagedFile, match=r"'predictions\.csv' is damaged: expected"):
            made_files.prove(path)
        again = launch_job("predict", config, arguments)
        assert ended(again) == "finished", again.cause
        assert path.read_bytes() == right
        flip(path)
        with pytest.raises(DamagedFile):
            made_files.handed_out(path)
        assert not path.exists()  # so that a page that shows it makes it again
        assert ended(launch_job("predict", config, arguments)) == "finished"
        assert path.read_bytes() == right


@pytest.mark.parametrize("knobs", [{}, {"solver": "gradient", "epochs": 1}], ids=["exact", "gradient"])
def test_the_model_file_of_another_run_is_not_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knobs: dict[str, Any]
) -> None:
    with run_home(tmp_path / "home", monkeypatch):
        table = small_table(tmp_path)
        config = {"file": str(table), "target": "y", **knobs}
        run, other = (launch(config_from({**config, "alpha": alpha, "model": "ridge"})) for alpha in (0.1, 5.0))
        assert [ended(run), ended(other)] == ["finished"] * 2, run.cause
        own = run.model_path.read_bytes()
        assert made_files.prove_model(run.model_path) == run.model_path
        run.model_path.write_bytes(other.model_path.read_bytes())  # whole, and what it says is proven
        with pytest.raises(DamagedFile, match="not the model file that its run has made"):
            shoal.load(run.model_path)
        with pytest.raises(DamagedFile):
            save_run(run, run.result or {})
        job = launch_job("predict", config_from({"file": str(table)}), {"model": str(run.model_path)})
        assert (ended(job), "not the model file" in job.cause) == ("failed", True)
        said = json.loads(own)
        run.model_path.write_text(json.dumps({**said, "intercept": 7.0, "checksum": BY_HAND}))
        assert shoal.load(run.model_path).intercept == 7.0
        copy = tmp_path / "copy.json"  # elsewhere it belongs to nobody
        copy.write_bytes(other.model_path.read_bytes())
        assert shoal.load(copy).intercept == json.loads(copy.read_bytes())["intercept"]


def test_a_large_file_is_proven_when_it_is_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_files, "AT_A_GLANCE", 100)
    path = tmp_path / "predictions.csv"
    path.write_bytes(b"1\n" * 1000)
    made_files.seal(tmp_path, [path.name])
    assert made_files.damage(tmp_path) is None
    flip(path)
    assert made_files.damage(tmp_path) is None
    with pytest.raises(DamagedFile):
        made_files.handed_out(path)
    assert "No such file" in str(made_files.damage(tmp_path))


def test_files_of_older_versions_are_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("as it is")
    assert made_files.handed_out(path) == path
