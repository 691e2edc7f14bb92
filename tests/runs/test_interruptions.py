"""Runs that were killed go on by themselves: whoever looks, after a rest, so many times, and never against a person's will."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from shoal.errors import Reason
from shoal.files.locks import lock_file
from shoal.home import queue_directory, runs_directory
from shoal.runs import interruptions, scheduling, tickets
from shoal.runs.commands import metrics_of, post, wait_settled
from shoal.runs.launch import Run, launch, resume
from shoal.settings.config import RunConfig
from support.cli import shoal
from support.gates.orders import Orders
from support.processes import command_of
from support.runs import ended, endless_run, made, rounds, run_home, small_table, training, until


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(interruptions, "FIRST_REST", 0.05)  # here; the process that watches has its own
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path
    until(lambda: not watchers())


@pytest.fixture(autouse=True)
def nobody_watches(home: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """Unless a test is about the one who is left behind: rests are those of whoever takes a run up."""
    with contextlib.ExitStack() as held:
        if "somebody" not in request.node.name:
            queue_directory().mkdir(parents=True)
            held.enter_context(lock_file(queue_directory() / scheduling.WATCH) or contextlib.nullcontext())
        yield


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_table(tmp_path)


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    return Orders(tmp_path / "orders", monkeypatch)


def lasting(data: Path, **knobs: Any) -> RunConfig:
    return endless_run(data, **{"engine": "inline", "retries": 2, **knobs})


def watchers() -> list[psutil.Process]:
    wanted = f"{scheduling.WATCHER} {queue_directory()}"
    return [process for process in psutil.process_iter() if wanted in command_of(process)]


def killed(run: Run) -> Run:
    pid = until(lambda: run.pid)
    os.kill(pid, signal.SIGKILL)
    until(lambda: run.pid != pid)
    return run


def stopped(run: Run) -> None:
    wait_settled(run, post(run, "stop"), 60.0)
    assert ended(run) == "stopped"
    assert tickets.tickets() == tickets.tickets_at_work() == []


def beginnings(run: Run) -> list[str]:
    with metrics_of(run) as storage:
        assert storage is not None
        return [event.text for _, event in storage.events(kinds=["started"])]


# ------------------------------------------------------------------ going on


def test_a_killed_run_goes_on_from_its_checkpoint_and_says_so_and_in_the_end_fails_with_its_cause(data: Path) -> None:
    run = training(launch(lasting(data, retries=1)))
    until(lambda: list(run.checkpoints_path.glob("*.ckpt")))
    killed(run)
    assert (run.state, "goes on by itself in a moment" in run.cause) == ("interrupted", True)
    done = rounds(run)
    scheduling.keep_going()
    assert run.state in ("queued", "preparing", "running")
    until(lambda: run.state == "running" and rounds(run) > done)
    assert "goes on by itself (try 1 of 1)" in run.cause
    first, second = beginnings(run)
    assert first == "Training begins."
    assert second.startswith("Its process was killed; it goes on by itself (try 1 of 1). Resuming from the checkpoint")
    killed(run)
    until(lambda: not run.is_alive)
    scheduling.keep_going()
    assert (run.state, run.standing.reason) == ("failed", Reason.KILLED)
    assert "killed 2 times in a row" in run.cause
    assert tickets.tickets() == tickets.tickets_at_work() == []
    stopped(training(resume(run)))  # a person may still


def test_a_run_at_work_leaves_somebody_behind_who_takes_it_up(data: Path) -> None:
    run = training(launch(lasting(data)))
    (one,) = until(watchers)
    assert "numpy" not in Path(f"/proc/{one.pid}/maps").read_text()
    killed(run)
    until(lambda: run.state == "running" and len(beginnings(run)) == 2)  # nobody looked but the one left behind
    stopped(run)


def test_a_killed_run_that_is_followed_goes_on_before_the_eyes_of_the_follower(data: Path, orders: Orders) -> None:
    orders.hold("start")
    knobs = ["--solver", "gradient", "--engine", "inline", "--epochs", "2", "--callbacks", "gates"]
    answers: list[Any] = []
    follower = threading.Thread(target=lambda: answers.append(shoal("train", str(data), "--target", "y", *knobs)))
    follower.start()
    name = until(lambda: next(iter(runs_directory().glob("2*")), None))
    run = Run(name)
    with orders.held(run, "start"):
        os.kill(run.pid or 0, signal.SIGKILL)
    follower.join(120)
    assert ended(run) == "finished", run.error
    assert answers[0].code == 0
    assert "try 1 of 3" in beginnings(run)[-1]


# ------------------------------------------------------------------ what a person wants


def test_a_run_that_was_told_to_stop_is_never_taken_up(data: Path) -> None:
    run = training(launch(lasting(data)))
    os.kill(run.pid or 0, signal.SIGSTOP)
    post(run, "stop")  # which it does not see
    killed(run)
    scheduling.keep_going()
    assert ended(run) == "stopped"
    assert "told to stop" in run.cause
    assert tickets.tickets() == tickets.tickets_at_work() == []


def test_a_run_that_was_killed_can_be_stopped_before_it_goes_on(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruptions, "FIRST_REST", 3600.0)
    first = killed(training(launch(lasting(data))))
    post(first, "stop")
    assert first.state == "stopped"
    second = killed(training(launch(lasting(data))))
    scheduling.keep_going()
    assert second.state == "queued"
    assert "goes on by itself in 5.0 min (try 1 of 2)" in second.cause
    other = launch(lasting(data))
    training(other)  # others pass by one that rests
    stopped_one = post(second, "stop")
    assert wait_settled(second, stopped_one).outcome == "done"
    scheduling.keep_going()
    assert second.state == "stopped"
    stopped(other)


def test_a_person_who_resumes_it_does_not_wait(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruptions, "FIRST_REST", 3600.0)
    run = killed(training(launch(lasting(data))))
    scheduling.keep_going()
    assert run.state == "queued"
    stopped(training(resume(run)))


@pytest.mark.parametrize(("state", "taken_up"), [("running", True), ("preparing", True), ("paused", False), ("stopping", False),
                                                 ("finished", False), ("", False)])  # fmt: skip
def test_which_states_are_taken_up(state: str, taken_up: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruptions, "FIRST_REST", 3600.0)
    run = made(**({"state": {"state": state, "cause": ""}} if state else {}))
    tickets.Ticket(f"{1:020d}-{run.id}", at_work=True).write(tickets.Terms(allowed=1))
    interruptions.take_up()
    assert tickets.has_ticket(run.id) == taken_up
    assert tickets.tickets_at_work() == []
    assert run.state == {"paused": "interrupted", "stopping": "stopped", "": "interrupted"}.get(
        state, "queued" if taken_up else state
    )


# ------------------------------------------------------------------ how often, and what is not there


def test_rests_grow_and_end_and_a_long_life_begins_to_count_anew() -> None:
    assert [interruptions.rest_before(number) for number in (1, 2, 3, 1000)] == pytest.approx([0.05, 0.25, 1.25, 300.0])
    run = made(state={"state": "running", "cause": ""})
    ticket = tickets.Ticket(f"{1:020d}-{run.id}", at_work=True)
    ticket.write(tickets.Terms(tries=3, allowed=3))
    began = (run.directory / "state.json").stat().st_mtime - interruptions.CALM - 1
    os.utime(ticket.path, (began, began))
    interruptions.take_up()
    (again,) = tickets.tickets()
    assert again.terms.tries == 1
    assert again.name == ticket.name  # its old place


def test_folders_that_are_gone_and_damaged_tickets_are_left_alone(home: Path) -> None:
    run = made(state={"state": "running", "cause": ""})
    gone = tickets.Ticket(f"{1:020d}-20260101-000000-0000000", at_work=True)
    gone.write(tickets.Terms(allowed=3))
    damaged = tickets.Ticket(f"{2:020d}-{run.id}", at_work=True)
    damaged.write(replace(tickets.Terms(), allowed=3))
    damaged.path.write_text(damaged.path.read_text().replace("3", "4"))
    interruptions.take_up()
    assert tickets.tickets() == tickets.tickets_at_work() == []
    assert run.state == "interrupted"


def test_no_tries_means_that_a_person_decides(data: Path) -> None:
    run = killed(training(launch(lasting(data, retries=0))))
    scheduling.keep_going()
    assert run.state == "interrupted"
    assert "by itself" not in run.cause
