"""What a person may expect of runs that wait and of runs that are killed, whoever keeps the queue: tickets or a team's hosts.

The rules of the tables (memory, SQLite, PostgreSQL) have a contract of their own, `tests/queueing/test_contract.py`.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.runs import scheduling
from shoal.runs.commands import post
from shoal.runs.launch import Run, launch, resume
from support.runs import ended, endless_run, rounds, run_home, short_run, small_table, training, until, waiting
from support.team.hosts import hosts_in, started


@pytest.fixture(scope="session", autouse=True)
def _server_first(request: pytest.FixtureRequest) -> None:
    """Before the first test, which would be blamed for its processes; where there is none, its own tests are skipped."""
    with contextlib.suppress(pytest.skip.Exception):
        request.getfixturevalue("postgres")


@pytest.fixture(params=["tickets", "hosts"])
def data(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A table, where one run has room at a time."""
    if request.param == "tickets":
        with run_home(tmp_path / "home", monkeypatch):
            yield small_table(tmp_path)
        return
    request.getfixturevalue("team_database")
    with run_home(tmp_path / "home", monkeypatch), hosts_in(tmp_path) as up:
        started(up, "one", 1, tmp_path)
        yield small_table(tmp_path)


def seen(run: Run) -> str:
    """Its state, as whoever looks at the list finds it."""
    scheduling.keep_going()
    return run.state


def killed(run: Run) -> None:
    pid = until(lambda: run.pid)
    os.kill(pid, signal.SIGKILL)
    until(lambda: run.pid != pid)


def test_runs_wait_their_turn_without_a_process_and_can_be_taken_out_and_put_back(data: Path) -> None:
    first = training(launch(endless_run(data)))
    second, third = launch(short_run(data)), launch(short_run(data))
    waiting(second, third)
    assert "1" in third.cause
    assert "ahead" in third.cause
    post(second, "stop")
    assert (second.state, second.pid, rounds(second)) == ("stopped", None, 0)
    resume(second)
    waiting(third, second)
    post(first, "stop")
    assert ended(first) == "stopped"
    assert ended(third) == ended(second) == "finished"
    assert (third.started_at or 0) < (second.started_at or 0), "who was put back is behind the others"


def test_a_killed_run_goes_on_from_its_checkpoint_as_often_as_it_may_and_then_waits_for_a_person(data: Path) -> None:
    run = training(launch(endless_run(data, retries=1)))
    until(lambda: list(run.checkpoints_path.glob("step-*.ckpt")))
    made = rounds(run)
    killed(run)
    until(lambda: seen(run) == "running" and rounds(run) > made)
    said = (run.directory / "log.txt").read_text()
    assert "goes on by itself" in said
    assert "(try 1 of 1)" in said
    assert "Resuming from the checkpoint of round" in said
    killed(run)
    until(lambda: seen(run) == "failed")
    assert "2 times" in run.cause
    resume(run)
    training(run)
    post(run, "stop")
    assert ended(run) == "stopped"
