"""The queue of gradient runs: slots, order, places that survive a killed process. All processes are real."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.errors import ConfigError, StateError
from shoal.home import is_held
from shoal.runs import slots
from shoal.runs.folder import ticket_of
from shoal.runs.launch import launch, post, resume, wait_settled
from support.runs import (
    SLOW,
    began,
    ended,
    endless_run,
    made,
    run_home,
    short_run,
    slots_taken,
    small_table,
    until,
    waiting,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_table(tmp_path)


def test_a_run_needs_a_slot_a_worker_and_at_most_all(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_SLOTS", "3")
    assert [slots.slots_for(short_run(data, workers=w)) for w in (1, 2, 3, 9)] == [1, 2, 3, 3]
    assert slots.slots_for(short_run(data, workers="auto")) == min(3, len(os.sched_getaffinity(0)))
    assert slots.slots_for(short_run(data, workers=3, engine="inline")) == 1
    monkeypatch.setenv("SHOAL_SLOTS", "many")
    with pytest.raises(ConfigError, match="SHOAL_SLOTS"):
        slots.slots()


def test_runs_wait_without_numpy_and_start_in_order_one_at_a_time(data: Path) -> None:
    with slots_taken(0):
        runs = [launch(short_run(data, engine="inline")) for _ in range(3)]
        waiting(*runs)
        assert "1 core" in runs[0].cause
        assert "2 runs are ahead" in runs[2].cause
        assert runs[0].progress == ("waiting in the queue", 0.0)
        mapped = Path(f"/proc/{runs[1].pid}/maps").read_text()
        assert "numpy" not in mapped
        with pytest.raises(StateError, match="waits in the queue"):
            post(runs[0], "pause")
        with pytest.raises(StateError, match="waits in the queue"):
            resume(runs[0])
    assert [ended(run) for run in runs] == ["finished"] * 3, [run.error for run in runs]
    over = [json.loads((run.directory / "state.json").read_text())["at"] for run in runs]
    assert began(runs[0]) < over[0] <= began(runs[1]) < over[1] <= began(runs[2])
    assert slots.tickets() == []


def test_nobody_passes_the_first_even_if_there_is_room_for_a_smaller_one(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_SLOTS", "2")
    with slots_taken(0):
        large, small = launch(short_run(data, workers=2)), launch(short_run(data, workers=1))
        waiting(large, small)
        until(lambda: is_held(Path(os.environ["SHOAL_HOME"]) / "queue" / "slot-1"))  # the first keeps what is free
        assert "of which 1 is free" in until(lambda: "free" in large.cause and large.cause)
        time.sleep(3 * slots.LOOK)
        assert (large.state, small.state) == ("queued", "queued")
    assert (ended(large), ended(small)) == ("finished", "finished"), (large.error, small.error)
    assert began(large) < began(small)


def test_runs_for_which_there_is_room_run_at_the_same_time(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_SLOTS", "2")
    first, second = (launch(endless_run(data, engine="inline")) for _ in range(2))
    until(lambda: (first.state, second.state) == ("running", "running"))
    assert slots.tickets() == []
    os.kill(first.pid or 0, signal.SIGKILL)
    until(lambda: first.state == "interrupted")
    assert slots.revive(starting=0) == []  # it did not wait any more: only a person resumes it
    post(second, "stop")
    assert ended(second) == "stopped"


def test_a_queued_run_whose_process_is_killed_keeps_its_place(data: Path) -> None:
    with slots_taken(0):
        first, second = (launch(short_run(data, engine="inline")) for _ in range(2))
        waiting(first, second)
        for run in (first, second):
            os.kill(run.pid or 0, signal.SIGKILL)
            until(lambda run=run: not run.is_alive)
        assert (first.state, second.state) == ("queued", "queued")
        assert slots.revive(starting=0) == [first, second]
        waiting(first, second)
        assert slots.revive(starting=0) == []
    assert (ended(first), ended(second)) == ("finished", "finished"), (first.error, second.error)
    assert began(first) < began(second)


def test_stop_in_the_queue_with_and_without_a_process(data: Path) -> None:
    with slots_taken(0):
        runs = [launch(short_run(data, engine="inline")) for _ in range(2)]
        waiting(*runs)
        os.kill(runs[1].pid or 0, signal.SIGKILL)
        until(lambda: not runs[1].is_alive)
        for run in runs:
            assert wait_settled(run, post(run, "stop"), SLOW).outcome == "done"
            assert (run.state, ticket_of(run.id)) == ("stopped", None)
            assert "stopped" in run.cause
        assert slots.revive(starting=0) == []
        again = resume(runs[0])
        waiting(again)
    assert ended(again) == "finished", again.error


def test_a_run_that_cannot_start_is_given_up_and_says_so(data: Path) -> None:
    with slots_taken(0):
        run = launch(short_run(data))
        waiting(run)
        os.kill(run.pid or 0, signal.SIGKILL)
        until(lambda: not run.is_alive)
    (run.directory / "lock").unlink()
    (run.directory / "lock").mkdir()  # no process can lock that
    tries = [slots.revive(starting=0) for _ in range(slots.STARTS + 2)]
    assert tries == [[run]] * slots.STARTS + [[], []]
    assert run.state == "interrupted"
    assert "3 times" in run.cause


def test_tickets_are_in_order_even_if_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [made() for _ in range(3)]
    for run, now in zip(runs, (5_000, 3_000, 4_000), strict=True):
        with monkeypatch.context() as patch:
            patch.setattr(time, "time_ns", lambda now=now: now)
            slots.enqueue(run)
    assert [ticket.run for ticket in slots.tickets()] == runs
    shutil.rmtree(runs[0].directory)
    assert slots.revive(starting=0) == []  # none of them waits: they are forgotten
    assert slots.tickets() == []
