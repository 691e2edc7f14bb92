"""A run told in words: events from cause to end, and time left."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.dashboard.live import story as live_story
from shoal.dashboard.live import tiles as live_words
from shoal.dashboard.live.feed import ROUND_COLUMNS, columns
from shoal.metrics import Event
from support.dashboard.live import a_round


def told(*events: Event) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number, event in enumerate(events, 1):
        found.append(live_story.told(number, event, found))
    return found


def test_a_loss_is_told_from_its_cause_to_its_end() -> None:
    killed = {"command": "kill_worker", "outcome": "done", "arguments": {"rank": "1"}}
    events = told(
        Event(0.0, "joined", 0, "Worker 1 is here (process 7).", 1),
        Event(4.0, "command", 9, "In whatever words.", None, killed),
        Event(4.5, "lost", 9, "Worker 1 is gone.", 1, {"tasks_redone": 8}),
        Event(6.0, "restarted", 12, "Worker 1 is here (process 8).", 1),
        Event(9.0, "lost", 20, "Worker 1 is gone.", 1, {"tasks_redone": 1}),
    )
    assert events[1]["rank"] == 1
    assert events[1]["text"] == "Worker 1 is killed, on request."
    assert events[2]["note"] == "Noticed after 500 ms. Its work (8 batches) is handed over."
    assert events[3]["note"] == "Back after 1.5 s."
    assert events[3]["tone"] == "good"
    assert events[4]["note"] == "Its work (1 batch) is handed over."  # nobody asked for this one
    lanes = live_story.lanes(events)
    assert [(lane["from"], lane["to"], lane["state"]) for lane in lanes] == [
        (0.0, 4.5, "here"), (4.5, 6.0, "lost"), (6.0, 9.0, "here"), (9.0, None, "lost"),
    ]  # fmt: skip


def test_workers_go_with_their_run() -> None:
    events = told(
        Event(0.0, "started", 0, "Training begins."), Event(1.0, "joined", 0, "Worker 0 is here.", 0),
        Event(5.0, "checkpoint", 9, "Checkpoint of round 9."), Event(5.0, "started", 9, "Training begins."),
        Event(6.0, "joined", 9, "Worker 0 is here.", 0),
    )  # fmt: skip
    assert [(lane["from"], lane["to"]) for lane in live_story.lanes(events)] == [(1.0, 5.0), (6.0, None)]


def test_a_refused_command_says_why() -> None:
    why = "Only the steps of the modes ssp and async have a bound of staleness."
    data = {"command": "set", "outcome": why, "arguments": {"staleness": 3}}
    (event,) = told(Event(1.0, "command", 3, "In whatever words.", None, data))
    assert event["tone"] == "warn"
    assert event["text"].startswith("Set staleness to 3: refused. Only the steps")


def test_time_left() -> None:
    steps = columns([a_round(n, seconds=float(n)) for n in range(1, 41)], ROUND_COLUMNS)  # 0.1 epochs a second
    assert live_words.time_left(steps, {"epochs": 10}) == pytest.approx(60)
    assert live_words.time_left(steps, {"epochs": 10, "max_seconds": 45}) == pytest.approx(5)
    passes = [a_round(n, seconds=float(n), phase="finish", distance=10.0**-n) for n in range(1, 5)]
    finish = columns(passes, ROUND_COLUMNS)
    assert live_words.time_left(finish, {"tolerance": 1e-9}) == pytest.approx(5)
    assert live_words.time_left(columns(passes[:1], ROUND_COLUMNS), {"tolerance": 1e-9}) is None


@pytest.mark.parametrize("rank", ["the first", "-1", None])
def test_a_worker_that_nobody_has_leaves_the_request_in_words(rank: str | None) -> None:
    """As a run of an earlier version, whose events have no arguments, or as a request that was refused."""
    arguments = {} if rank is None else {"rank": rank}
    data = {"command": "kill_worker", "outcome": "Expected the number of a worker.", "arguments": arguments}
    (event,) = told(Event(1.0, "command", 3, "Command kill_worker rank=2: refused", None, data))
    assert event["rank"] is None
    assert event["text"] == "Kill worker: refused. Expected the number of a worker."


def test_what_a_person_changes_is_marked_and_a_slowed_worker_stays_so_until_it_is_freed() -> None:
    def command(
        at: float, name: str, before: dict[str, Any] | None = None, outcome: str = "done", **arguments: Any
    ) -> Event:
        data = {"command": name, "outcome": outcome, "arguments": arguments, "before": before or {}}
        return Event(at, "command", int(10 * at), "In whatever words.", None, data)

    events = told(
        Event(0.0, "joined", 0, "Worker 1 is here (process 7).", 1),
        command(1.0, "set", {"learning_rate": 0.1}, learning_rate=0.05),
        command(2.0, "slow_worker", rank=1, factor=4),
        command(3.0, "set", learning_rate="many", outcome="Expected a number."),
        command(4.0, "checkpoint"),
    )
    assert [event["mark"] for event in events] == ["", "learning rate 0.1 to 0.05", "worker 1 slowed down", "", ""]
    assert live_story.lanes(events)[-1]["slow"] == 4
    freed = live_story.told(9, command(5.0, "slow_worker", rank=1, factor=1), events)
    assert (freed["text"], freed["mark"]) == ("Worker 1 is freed, on request.", "worker 1 freed")
    assert live_story.lanes([*events, freed])[-1]["slow"] == 0
    again = live_story.told(9, Event(6.0, "restarted", 70, "Worker 1 is here (process 8).", 1), events)
    assert live_story.lanes([*events, again])[-1]["slow"] == 0  # another process
