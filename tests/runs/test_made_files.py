"""Files that jobs and runs leave for people: damaged ones are never handed out, and made again where that can be done."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.errors import DamagedFile
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
