"""The accounts of runs for lists, and their tags and notes: whatever happens to a folder, nothing breaks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from shoal.errors import ConfigError, StateError
from shoal.home import runs_directory
from shoal.library import accounts, notes
from shoal.runs.commands import metrics_of
from shoal.runs.folder import Run
from shoal.runs.launch import resume
from support.library import a_copy, launched, only
from support.runs import ended, endless_run, made, rounds, small_table, training, until
from support.tables import shoal

# ------------------------------------------------------------------ the account says what the run says


def test_account_equals_the_result(finished: Path) -> None:
    run = a_copy(finished)
    result, account = run.result, only()
    assert result is not None
    assert (account.id, account.state, account.cause) == (run.id, run.state, run.cause)
    assert (account.model, account.alpha, account.target, account.file_name) == ("ridge", 0.5, "y", "table.csv")
    assert (account.solver, account.mode, account.epochs_wanted) == ("gradient", "sync", 4)
    assert (account.epochs, account.distance) == (result["epochs"], result["distance_to_optimum"])
    assert (account.train_r2, account.train_rmse) == (result["train"]["r2"], result["train"]["rmse"])
    assert (account.test_r2, account.test_rmse) == (result["test"]["r2"], result["test"]["rmse"])
    assert (account.started, account.duration) == (run.started_at, result["timings"]["total"])
    assert (account.tags, account.note, account.forked_from, account.archived) == ((), "", None, False)
    assert accounts.from_dict(json.loads(json.dumps(account.as_dict()))) == account


def test_result_is_read_once(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_copy(finished)
    first = only()
    kept = json.loads((run.directory / accounts.FILE).read_text())
    assert accounts.from_dict(kept["summary"]) == first
    monkeypatch.setattr(accounts, "_known", {})  # as in another process
    monkeypatch.setattr(Run, "result", property(lambda run: pytest.fail("the result was read again")))
    assert only() == first


def test_a_torn_or_foreign_account_is_made_anew(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_copy(finished)
    first = only()
    for text in (
        "{torn",
        "[]",
        '{"version": 0}',
        json.dumps({"version": 1, "key": [], "summary": {"id": "x", "state": "y"}}),
    ):
        (run.directory / accounts.FILE).write_text(text)
        monkeypatch.setattr(accounts, "_known", {})
        assert only() == first


def test_account_follows_the_run(tmp_path: Path) -> None:
    run = training(launched(endless_run(small_table(tmp_path))))
    going = only()
    assert (going.state, going.is_active, (run.directory / accounts.FILE).exists()) == ("running", True, False)
    before = [accounts.summary_of(run)]
    until(lambda: accounts.have_gone_on(before))  # its epochs go on
    assert shoal("stop", run.id).code == 0
    ended(run)
    stopped = only()
    assert (stopped.state, stopped.epochs is not None and stopped.epochs >= (going.epochs or 0)) == ("stopped", True)
    done = rounds(run)
    resume(run)
    until(lambda: rounds(run) > done + 3)
    assert only().state == "running"
    assert shoal("stop", run.id).code == 0
    ended(run)
    again = only()
    assert (again.state, again.epochs is not None and again.epochs > (stopped.epochs or 0)) == ("stopped", True)


def test_a_killed_run_tells_how_far_it_came(tmp_path: Path) -> None:
    run = training(launched(endless_run(small_table(tmp_path))))
    pid = run.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not run.is_alive)
    account = only()
    with metrics_of(run) as storage:
        last = storage.last_round() if storage else None
    assert last is not None
    assert (account.state, account.epochs, account.distance) == ("interrupted", last.epoch, last.distance)


def test_annotated_run_is_told_anew(finished: Path) -> None:
    run = a_copy(finished)
    assert only().tags == ()
    notes.write(run, ["baseline"], "as good as it gets")
    assert (only().tags, only().note) == (("baseline",), "as good as it gets")


def test_forked_from_and_names_without_a_start() -> None:
    run = made(job={"task": "train", "forked_from": {"run": "20260101-000000-0000000", "step": 7}})
    (run.directory / "started").unlink()
    account = accounts.summary_of(run)
    assert account.forked_from == "20260101-000000-0000000"
    assert account.started is None
    assert account.made is not None
    assert abs(account.made - time.time()) < 60


# ------------------------------------------------------------------ damage


@pytest.mark.parametrize("name", ["config", "job", "state", "result", "error", "about", "summary"])
@pytest.mark.parametrize(
    "text", ["", "{torn", "[1, 2]", "null", '{"train": 3, "epochs": "many", "tags": 1, "state": "finished"}']
)
def test_damaged_files_never_break_the_list(name: str, text: str) -> None:
    run = made(**{name: text})
    good = made(result={"state": "finished", "cause": "", "train": {"r2": 0.5}, "test": {}})
    found = {account.id: account for account in accounts.summaries(archived=True)}
    assert set(found) == {run.id, good.id}
    assert found[good.id].train_r2 == 0.5
    assert (found[run.id].state, found[run.id].cause) == (run.state, run.cause)


def test_folders_that_are_no_runs_and_runs_that_vanish(finished: Path) -> None:
    run = a_copy(finished)
    (runs_directory() / "empty").mkdir()
    (runs_directory() / "file").write_text("x")
    (run.directory / "metrics.sqlite").write_bytes(b"not a store" * 100)
    (run.directory / "result.json").unlink()
    (run.directory / "state.json").write_text('{"state": "stopped", "cause": "", "at": 1}')
    assert only().epochs is None  # its store cannot be read
    shutil.rmtree(run.directory)
    assert accounts.summaries() == []
    assert accounts.summary_of(run).state == "interrupted"  # somebody still holds its name
    assert not run.directory.exists()
    shutil.rmtree(runs_directory())
    assert accounts.summaries(archived=True) == []


def test_no_numbers_that_are_none_or_endless() -> None:
    made(result={"train": {"r2": float("nan"), "rmse": float("inf")}, "epochs": True, "distance_to_optimum": None})
    account = only()
    assert (account.train_r2, account.train_rmse, account.epochs, account.distance) == (None, None, None, None)


def test_a_thousand_runs(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ("config.json", "job.json", "state.json", "result.json", "started")
    for i in range(1000):
        folder = runs_directory() / f"20260101-000000-{i:07d}"
        folder.mkdir(parents=True)
        for name in small:
            os.link(finished / name, folder / name)
    found = accounts.summaries()
    assert [account.id for account in found] == [f"20260101-000000-{i:07d}" for i in reversed(range(1000))]
    monkeypatch.setattr(Run, "result", property(lambda run: pytest.fail("a result was read again")))
    assert accounts.summaries() == found
    monkeypatch.setattr(accounts, "_known", {})
    assert accounts.summaries() == found


# ------------------------------------------------------------------ tags and notes


def test_tags_are_short_words_in_lower_case() -> None:
    assert notes.tags_in(" Baseline, try-2  #größe baseline") == ("baseline", "try-2", "größe")
    assert notes.tags_in("") == ()
    for text in ("<b>", "=1+1", "a" * 25, "-x", "a/b", " ".join(f"t{i}" for i in range(13))):
        with pytest.raises(ConfigError, match="Expected"):
            notes.tags_in(text)


def test_notes_are_kept_as_they_are(finished: Path) -> None:
    run = a_copy(finished)
    note = "first line\n<script>alert(1)</script> größer =1+1"
    notes.write(run, ["best"], f"  {note}\n")
    assert notes.read(run) == notes.About(("best",), note)
    with pytest.raises(ConfigError, match=r"at most 4,000 characters, got 4,001"):
        notes.write(run, [], "x" * 4001)
    assert notes.read(run).note == note
    shutil.rmtree(run.directory)
    with pytest.raises(StateError, match="is gone"):
        notes.write(run, [], "")
    assert not run.directory.exists()
