"""How a run ended, in its folder: a reason for programs; a cause and a remedy, which terminal and page each word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import DiskFull, Reason
from shoal.processes.run import Attendant, Hosted, Life, Stopped, failure
from shoal.runs.commands import post
from shoal.runs.folder import Run
from shoal.runs.launch import launch
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.storage import Storage
from shoal.utils import RunLog
from support.pages import open_page, said
from support.runs import ended, endless_run, made, run_home, short_run, small_table, training
from support.tables import shoal


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path


def kept(run: Run, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.directory / f"{name}.json").read_text())
    return found


def test_a_finished_run_says_why_in_all_its_files(tmp_path: Path) -> None:
    run = launch(short_run(small_table(tmp_path), engine="inline"))
    assert ended(run) == "finished"
    assert kept(run, "result")["reason"] == kept(run, "state")["reason"] == "converged"
    assert run.standing.reason == Reason.CONVERGED
    assert shoal("runs", "--json").json["runs"][0]["reason"] == "converged"
    assert "It ended because it came as close to the optimum as was asked for." in said(open_page("train", run=run.id))


def test_an_exact_fit_is_complete(tmp_path: Path) -> None:
    run = launch(config_from({"file": str(small_table(tmp_path)), "target": "y"}))
    assert ended(run) == "finished"
    assert kept(run, "state")["reason"] == "complete"
    assert run.standing.reason == Reason.COMPLETE


def test_a_run_that_a_person_stopped(tmp_path: Path) -> None:
    run = training(launch(endless_run(small_table(tmp_path), engine="inline")))
    post(run, "stop")
    assert ended(run) == "stopped"
    assert kept(run, "result")["reason"] == kept(run, "state")["reason"] == "stopped"


def test_a_failed_run_tells_terminal_and_page_the_same_in_their_own_words(tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("x,y\n" + "".join(f"{i},{2 * i}\n" for i in range(20)) + "1,2,3\n")
    run = launch(config_from({"file": str(data), "target": "y", "on_bad_rows": "stop"}))
    assert ended(run) == "failed"
    error = kept(run, "error")
    assert (error["kind"], error["reason"]) == ("BadRowsError", "bad_data")
    assert "--" not in error["message"]
    assert error["remedies"][0]["name"] == "on_bad_rows"
    shown = said(open_page("train", run=run.id))
    typed = shoal("show", run.id).out
    assert error["message"] in typed
    assert "leave these rows out with --on-bad-rows skip." in typed
    assert "set 'Rows that cannot be read' to 'skip all of them'" in shown.replace("&#x27;", "'").replace("&#39;", "'")
    assert "--on-bad-rows" not in shown


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), Reason.OUT_OF_MEMORY),
        (OSError(28, "No space left on device", "/x"), Reason.OUT_OF_DISK),
        (OSError(13, "Permission denied", "/x"), Reason.RESOURCES),
        (ZeroDivisionError("division by zero"), Reason.UNFORESEEN),
    ],
)
def test_what_was_not_foreseen_has_a_reason_as_well(error: Exception, reason: Reason) -> None:
    assert (failure(error).state, failure(error).reason) == ("failed", reason)


def test_a_stop_that_training_cannot_be_told_of_names_the_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    run, word = made(lock=""), "The disk is full: no room for a command."
    (run.directory / "lock.json").rename(run.directory / "lock")
    attendant = Attendant(run)

    def full(run: Run) -> Storage:
        raise DiskFull(word)

    def heard(life: Life, config: RunConfig) -> None:
        attendant._pass_on()
        raise Stopped

    monkeypatch.setattr(Run, "open_records", full)
    monkeypatch.setattr(attendant, "_end_the_work", lambda: None)
    monkeypatch.setattr(Life, "_work", heard)
    with RunLog(run.directory) as log:
        Life(run, log, attendant, Hosted()).live()
    assert (run.state, run.standing.reason) == ("stopped", Reason.OUT_OF_DISK)
    assert word in run.cause
    assert "by a signal" not in run.cause
