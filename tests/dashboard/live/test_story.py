"""A run told in words: events from cause to end, and time left."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.dashboard.live import story as live_story
from shoal.dashboard.live import tiles as live_words
from shoal.dashboard.live.feed import ROUND_COLUMNS, columns
from shoal.dashboard.parts import wording
from shoal.metrics import Event
from support.dashboard.live import a_round


def told(*events: Event) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number, event in enumerate(events, 1):
        found.append(live_story.told(number, event, found))
    return found


def test_a_loss_is_told_from_its_cause_to_its_end() -> None:
    killed = {"command": "kill_worker", "outcome": "done"}
    events = told(
        Event(0.0, "joined", 0, "Worker 1 is here (process 7).", 1),
        Event(4.0, "command", 9, "Command kill_worker rank=1: done", None, killed),
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
    data = {"command": "set", "outcome": "Only the steps of the modes ssp and async have a bound of staleness."}
    (event,) = told(Event(1.0, "command", 3, f"Command set staleness=3: {data['outcome']}", None, data))
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


@pytest.mark.parametrize(
    ("message_", "expected"),
    [
        ("Start it again, or resume it: shoal resume 2026-1.", "Start it again, or resume it with the button on its page."),
        ("It has none yet. Wait (shoal send 2026-1 checkpoint), or start another run.",
         "It has none yet. Wait (the button Checkpoint), or start another run."),
        ("Start a new run for that: shoal train.", "Start a new run for that on the Train page."),
        ("It is running. See: shoal show 2026-1.", "It is running."),
    ],
)  # fmt: skip
def test_words_of_the_command_line_become_those_of_the_page(message_: str, expected: str) -> None:
    assert wording.for_page(message_) == expected
