"""Documents of a run with one bit, one byte or one value that is not theirs: told with a way on, or harmless."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.errors import Reason, Standing, StateError
from shoal.files.locks import own_lock
from shoal.home import runs_directory
from shoal.runs import scheduling
from shoal.runs.documents import read_json, write_json
from shoal.runs.folder import Run, read_config, write_state
from shoal.runs.launch import launch_job, resume
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.storage import open_storage
from shoal.training.checkpoints import Checkpoints, Snapshot
from support.cli import refused, shoal
from support.pages import open_page, said
from support.records import round_
from support.runs import ended, small_table

STOPPED = {"state": "stopped", "cause": "stopped by a command", "reason": "stopped"}
RESULT = {"model": "linear", "target": "y", "intercept": 1.5, "coefficients": {"a": 2.25}, **STOPPED}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def stopped_run(name: str = "20260101-000000-0000001") -> Run:
    run = Run(runs_directory() / name)
    run.directory.mkdir(parents=True)
    (run.directory / "started").touch()
    write_json(run.directory / "job.json", {"task": "train"})
    write_json(run.directory / "config.json", RunConfig(file="/nowhere/t.csv", target="y", solver="gradient").as_dict())
    write_json(run.directory / "result.json", RESULT)
    write_state(run.directory, Standing("stopped", "stopped by a command", Reason.STOPPED))
    return run


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["result", "state", "config", "job", "error"])
def test_no_flipped_bit_changes_what_a_run_says(name: str) -> None:
    run = stopped_run()
    path = run.directory / f"{name}.json"
    if name in ("state", "error"):
        (run.directory / "result.json").unlink()
    if name == "error":
        write_json(
            path, {"message": "Expected x, got y.", "kind": "DataError", "state": "failed", "reason": "bad_data"}
        )
    whole, before, values = path.read_bytes(), run.standing, read_json(path)
    told = 0
    for bit in range(0, 8 * len(whole), 3):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        found = run.standing
        try:
            assert {k: v for k, v in (read_json(path) or {}).items() if k in (values or {})} == values
            assert found == before
        except StateError:
            assert (found.reason, str(path) in found.cause) == (Reason.BAD_STATE, True)
            assert found.remedies
            told += 1
    assert told > len(whole)


@pytest.mark.parametrize(("name", "state", "words"), [
    ("result", "failed", "its result cannot be read"), ("state", "stopped", "stopped by a command"),
    ("config", "stopped", "Its settings cannot be read"), ("job", "stopped", "Its settings cannot be read"),
])  # fmt: skip
def test_one_state_for_everybody_who_asks(name: str, state: str, words: str) -> None:
    run = stopped_run()
    damage(run.directory / f"{name}.json")
    assert (run.state, words in run.cause) == (state, True)
    (row,) = shoal("runs", "--json").json["runs"]
    assert (row["state"], row["cause"]) == (state, run.cause)
    shown = shoal("show", run.id)
    assert (shown.code, words in shown.out) == (0, True)


def test_a_run_without_a_state_that_can_be_read() -> None:
    run = stopped_run()
    (run.directory / "result.json").unlink()
    damage(run.directory / "state.json")
    assert (run.state, run.standing.reason) == ("interrupted", Reason.BAD_STATE)
    assert f"shoal resume {run.id}" in run.cause
    with own_lock(run.directory):
        assert run.state == "running"
        assert "What its process is doing cannot be told" in run.cause


def test_settings_of_a_newer_version_say_so() -> None:
    run = stopped_run()
    write_json(run.directory / "config.json", {**run.config, "warp": 9})
    with pytest.raises(StateError, match="another version launched this run"):
        read_config(run)


def test_settings_that_cannot_be_read_are_never_guessed() -> None:
    run = stopped_run()
    damage(run.directory / "config.json")
    with pytest.raises(StateError, match=r"config\.json' is damaged: expected .*, got .*Start the fit anew"):
        read_config(run)
    assert "is damaged" in refused("resume", run.id)
    assert not run.is_gradient
    run.checkpoints_path.mkdir()
    assert run.is_gradient
    assert run.standing.remedies[0].name == "fork"


def test_documents_of_older_versions_are_read_and_one_in_the_place_of_another_is_not() -> None:
    run = stopped_run()
    (run.directory / "result.json").write_text(json.dumps(RESULT))
    assert run.standing == Standing("stopped", "stopped by a command", Reason.STOPPED)
    (run.directory / "result.json").write_bytes((run.directory / "job.json").read_bytes())
    assert run.standing.reason == Reason.BAD_STATE


@pytest.mark.parametrize("names", ["result", "state", "config", "job", "config job"])
def test_a_document_of_another_run_is_not_believed(names: str) -> None:
    run, other = stopped_run(), stopped_run("20260101-000000-0000002")
    write_json(other.directory / "result.json", {**RESULT, "intercept": 99.0})
    if names == "state":
        (run.directory / "result.json").unlink()
    for name in names.split():
        shutil.copy(other.directory / f"{name}.json", run.directory / f"{name}.json")
    assert run.standing.reason == Reason.BAD_STATE
    assert f"expected a document of {run.id}, got one of {other.id}" in run.cause
    assert (run.result or {}).get("intercept") in (None, 1.5)
    assert names != "config job" or not run.config  # which the list of runs shows
    assert other.standing.reason == Reason.STOPPED


def test_a_folder_that_was_copied_as_a_whole_is_read_and_goes_on() -> None:
    run = stopped_run()
    Checkpoints(run.checkpoints_path, of=run.owner).save(Snapshot(3))
    copy = Run(shutil.copytree(run.directory, runs_directory() / "of another name"))
    assert (copy.result, copy.standing) == (run.result, run.standing)
    assert Checkpoints(copy.checkpoints_path, of=copy.owner).steps() == [3]
    write_state(copy.directory, Standing("stopped", "once more", Reason.STOPPED))
    write_json(copy.directory / "result.json", {**RESULT, "cause": "once more"})
    assert copy.cause == "once more"


def test_a_checkpoint_of_another_run_is_passed_over() -> None:
    run, other = stopped_run(), stopped_run("20260101-000000-0000002")
    said: list[str] = []
    kept = Checkpoints(run.checkpoints_path, warn=said.append, of=run.owner)
    kept.save(Snapshot(3))
    Checkpoints(other.checkpoints_path, of=other.owner).save(Snapshot(5))
    shutil.copy(*(r.checkpoints_path / "step-000000000005.ckpt" for r in (other, run)))
    kept = Checkpoints(run.checkpoints_path, warn=said.append, of=run.owner)
    newest = kept.newest()
    assert newest is not None
    assert (newest.step, kept.steps()) == (3, [3])
    (words,) = said
    assert f"is one of the run {other.id}, not of {run.id}" in words
    Checkpoints(run.checkpoints_path).save(Snapshot(7))  # as older versions wrote them
    assert Checkpoints(run.checkpoints_path, of=run.owner).steps() == [3, 7]


def test_records_that_are_not_what_was_written_hide_nothing_else() -> None:
    run = stopped_run()
    with open_storage(run.metrics_url) as storage:
        storage.add([round_(1), round_(2)])
    assert shoal("show", run.id, "--json").json["last_round"]["round"] == 2
    with contextlib.closing(sqlite3.connect(run.metrics_path, isolation_level=None)) as connection:
        connection.execute("UPDATE rounds SET loss = loss / 2")
    shown = shoal("show", run.id)
    assert (shown.code, "record 1 of 'rounds' is not what was written" in shown.out) == (0, True)
    assert "2.25" in shown.out
    assert shoal("show", run.id, "--json").json["last_round"] is None
    page = open_page("runs", compare=f"{run.id},{stopped_run('20260101-000000-0000002').id}")
    assert f"The curves of {run.id} could not be read" in said(page)


def test_a_damaged_job_does_not_keep_a_run_from_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    run = stopped_run()
    damage(run.directory / "job.json")
    monkeypatch.setattr(scheduling, "spawn", lambda *given, **more: None)
    resume(run)
    assert read_json(run.directory / "job.json") == {"task": "train"}
    assert run.state == "queued"


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "a value": lambda data: data.replace(b'"rows":', b'"rows":1', 1),
}


def test_a_damaged_answer_is_made_again(tmp_path: Path) -> None:
    config = config_from({"file": str(small_table(tmp_path))})
    job = launch_job("inspect", config)
    assert ended(job) == "finished", job.cause
    before, path = job.result, job.directory / "result.json"
    whole = path.read_bytes()
    for damaged in DAMAGES.values():
        path.write_bytes(damaged(whole))
        assert job.damage is not None
    again = launch_job("inspect", config)
    assert ended(again) == "finished", again.cause
    assert (again.result or {})["rows"] == (before or {})["rows"]
    assert again.damage is None
