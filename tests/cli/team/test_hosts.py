"""`shoal queue` as a person types it: runs by the names that people gave them, and what was done in the log of deeds."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.cli.app import main
from shoal.library import notes
from shoal.people import accounts, passwords
from shoal.queueing.homes import home_mark
from shoal.queueing.jobs import RunHost
from shoal.queueing.team import forget_looks, hosts_of, needed_queue
from shoal.runs.launch import Run, launch
from shoal.settings.values import config_from
from support.cli import refused
from support.runs import run_home, small_table
from support.team.queues import emptied


@pytest.fixture(autouse=True)
def home(team_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    from shoal.database.connections import database

    monkeypatch.setattr(passwords, "MEMORY", 64)
    passwords._hasher.cache_clear()
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path
        emptied(database())
        forget_looks()
    passwords._hasher.cache_clear()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    found = launch(config_from({"file": str(small_table(tmp_path)), "target": "y"}))
    notes.give_name(found, "night run")
    return found


def test_runs_are_named_as_people_call_them(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("night run", run.id, run.id[:-2]):
        assert main(["queue", "priority", name, "7", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["id"] == run.id
    assert main(["queue", "ledger", "night run", "--json"]) == 0
    assert [one["event"] for one in json.loads(capsys.readouterr().out)] == ["put"]
    assert main(["queue", "cancel", "night run"]) == 0
    job = needed_queue().get(run.id)
    assert job is not None
    assert (job.priority, job.state) == (7, "cancelled")
    assert "Expected" in refused("queue", "cancel", "no such run")


def test_what_is_typed_is_in_the_log_of_deeds(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    accounts.add("root", "correct horse", "admin")
    assert main(["queue", "priority", "night run", "3"]) == 0
    assert main(["queue", "limit", "ann", "2"]) == 0
    assert main(["stop", run.id]) == 0
    who = f"command line of {getpass.getuser()}"
    said = [(one.who, one.deed, one.thing) for one in accounts.audit(3)][::-1]
    assert said == [
        (who, "priority 3", f"run {run.id}"), (who, "limit of ann: 2", ""), (who, "command stop", f"run {run.id}"),
    ]  # fmt: skip


def test_the_host_of_a_run_is_known_while_it_does_it_and_afterwards(run: Run) -> None:
    queue, host = needed_queue(), RunHost("big", 2, "mark", home=home_mark())
    assert hosts_of([run.id, "another"]) == {}
    job = queue.claim(host, 2)
    assert job is not None
    assert hosts_of([run.id, "another"]) == {run.id: "big"}
    assert queue.finish(run.id, job.fence)
    assert hosts_of([run.id]) == {run.id: "big"}
    assert hosts_of([]) == {}
