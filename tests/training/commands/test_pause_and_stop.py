"""Pause, resume, stop and checkpoint on request, and commands that are refused."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.errors import Reason
from shoal.metrics import Event
from shoal.training.conductor import Conductor
from support.runs import until
from support.tables import same_bits
from support.training import (
    ENDLESS,
    KNOBS,
    MODES,
    NAMES,
    At,
    Bench,
    Each,
    Post,
    Reference,
    Script,
    Trainer,
    Vector,
    done_at,
    settled,
    wait_for,
)

# ------------------------------------------------------------------ pause, resume, stop, checkpoint


class Person(threading.Thread):
    """Waits until a run is paused, lets some time go by, and then does something."""

    WAIT = 0.25

    def __init__(self, bench: Bench, then: Callable[[], Any]) -> None:
        super().__init__()
        self._bench, self._then = bench, then

    def run(self) -> None:
        until(lambda: any(state == "paused" for state, _ in self._bench.states))
        time.sleep(self.WAIT)
        self._then()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.join()


def still(bench: Bench) -> tuple[Event, Event]:
    """Nothing happened between the checkpoint of the pause and the command after it."""
    pause, then = bench.events("command")[:2]
    saved = next(event for event in bench.events("checkpoint") if event.seconds >= pause.seconds)
    assert then.seconds - saved.seconds >= Person.WAIT - 0.05
    assert saved.round == then.round
    assert not [r for r in bench.rounds if saved.seconds < r.seconds < then.seconds]
    return saved, then


@pytest.mark.parametrize(("mode", "workers"), [*((mode, 0) for mode in MODES), ("local", 2), ("async", 2)])
def test_a_paused_run_stands_still_until_it_is_resumed(
    mode: str, workers: int, run: Trainer, bench: Bench, post: Post, data: Path
) -> None:
    knobs = {**KNOBS, "mode": mode}
    with Person(bench, lambda: bench.storage.post("resume", {})):
        run(data, "y", bench=bench, workers=workers, callbacks=[At(round7=post("pause"))], **knobs)
    saved, _ = still(bench)
    assert bench.states == [("running", ""), ("paused", "paused by a command"), ("running", "")]
    assert bench.done.cause == "all 6 epochs are done"
    ledger = bench.report["ledger"]
    assert ledger["batches"] == 6 * ledger["batches_of_an_epoch"]
    assert bench.rounds[-1].round > saved.round
    if mode in ("sync", "local"):
        assert same_bits(bench.w, run(data, "y", **knobs).w)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pause_at_the_end_of_the_steps_holds_the_finish_back(
    workers: int, run: Trainer, bench: Bench, data: Path
) -> None:
    knobs = {**KNOBS, "tolerance": 1e-6}
    plain = run(data, "y", **knobs)
    last = plain.steps[-1].round
    with Person(bench, lambda: bench.storage.post("resume", {})):
        pausing = At(**{f"round{last}": lambda r: r.send("pause")})
        run(data, "y", bench=bench, workers=workers, callbacks=[pausing], **knobs)
    saved, _ = still(bench)
    assert saved.round == last
    assert bench.rounds[-1].phase == "finish"
    assert same_bits(bench.w, plain.w)
    again = run(data, "y", resume=bench.checkpoints.load(last), **knobs)
    assert same_bits(again.w, plain.w)


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_stopped_run_has_the_model_of_that_moment(
    mode: str, paused: bool, run: Trainer, bench: Bench, post: Post, data: Path
) -> None:
    if paused:
        with Person(bench, lambda: bench.storage.post("stop", {})):
            run(data, "y", bench=bench, mode=mode, callbacks=[At(round7=post("pause"))], **ENDLESS)
        still(bench)
    else:
        run(data, "y", bench=bench, mode=mode, callbacks=[At(round7=post("stop"))], **ENDLESS)
    assert (bench.done.state, bench.done.cause) == ("stopped", "stopped by a command")
    assert bench.done.reason == Reason.STOPPED
    assert bench.states[-1] == ("stopping", "stopped by a command")
    at = done_at(bench, -1)
    assert 7 <= bench.report["rounds"] <= at + 1  # what was in hand
    reference = Reference(data, "y", NAMES)
    assert reference.value(bench.w) == pytest.approx(bench.rounds[-1].loss, rel=1e-9)
    assert reference.value(bench.w) < reference.value(np.zeros(6))
    assert same_bits(bench.checkpoints.load(bench.report["rounds"]).arrays["weights"], bench.w)


def test_a_stopped_run_can_be_resumed_to_the_same_end(run: Trainer, bench: Bench, post: Post, data: Path) -> None:
    whole = run(data, "y", **KNOBS)
    run(data, "y", bench=bench, callbacks=[At(round7=post("stop"))], **KNOBS)
    newest = bench.checkpoints.newest()
    assert newest is not None
    assert same_bits(run(data, "y", resume=newest, **KNOBS).w, whole.w)


def test_a_callback_stops_with_its_own_reason(run: Trainer, data: Path) -> None:
    found = run(data, "y", callbacks=[At(round5=lambda r: r.stop("enough is enough"))], **ENDLESS)
    assert (found.done.state, found.done.cause, found.report["rounds"]) == ("stopped", "enough is enough", 6), (
        "workers were at the next round when the callback was called"
    )
    assert found.done.reason == Reason.STOPPED_BY_CALLBACK


def test_a_checkpoint_on_request(run: Trainer, bench: Bench, post: Post, data: Path) -> None:
    weights: dict[int, Vector] = {}
    watch = Each(lambda r, record: weights.__setitem__(record.round, r.weights()))
    run(data, "y", bench=bench, callbacks=[At(round9=post("checkpoint")), watch], **KNOBS)
    at = done_at(bench)
    assert at >= 9
    assert same_bits(bench.checkpoints.load(at).arrays["weights"], weights[at])


# ------------------------------------------------------------------ refused


REFUSED = [
    ("explode", {}, "Expected one of the commands add_worker, checkpoint, "),
    ("set", {"learning_rate": "fast"}, "Expected learning_rate to be a number above 0, got 'fast'"),
    ("set", {"learning_rate": -1}, "number above 0, got -1"),
    ("set", {"learning_rate": None}, "number above 0, got None"),
    ("set", {"learning_rate": math.inf}, "number above 0, got inf"),
    ("set", {"alpha": 3.0}, "has no penalty"),
    ("set", {"staleness": 2}, "Only the steps of the modes ssp and async"),
    ("set", {"compression": "zip"}, "Expected compression to be one of none, topk, half, got 'zip'"),
    ("set", {"batch_size": 4}, "Expected one of learning_rate, alpha, staleness, compression to set, got 'batch_size'"),
    ("resume", {}, "not paused"),
    ("pause", {"seconds": 3}, "arguments that do not fit"),
    ("add_worker", {}, "one process"),
    ("remove_worker", {}, "one process"),
    ("kill_worker", {"rank": 0}, "one process"),
    ("hang_worker", {"rank": 0}, "one process"),
    ("slow_worker", {"rank": 5}, "Expected the number of a worker of this run (0), got 5"),
    ("slow_worker", {"rank": 0, "factor": 0.5}, "Expected factor to be a number of at least 1, got 0.5"),
]


@pytest.mark.parametrize(("name", "arguments", "words"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_cannot_be_done_is_refused_with_a_reason_and_changes_nothing(
    name: str, arguments: dict[str, Any], words: str, run: Trainer, bench: Bench, post: Post, data: Path
) -> None:
    knobs = {**KNOBS, "epochs": 2}
    run(data, "y", bench=bench, callbacks=[At(round3=post(name, **arguments))], **knobs)
    (command,) = settled(bench)
    assert words in str(command.outcome)
    (event,) = bench.events("command")
    assert words in event.text
    assert event.data["command"] == name
    assert event.data["outcome"] == command.outcome
    assert event.data["arguments"] == {key: str(v) if v == math.inf else v for key, v in arguments.items()}
    assert event.round == command.round
    assert same_bits(bench.w, run(data, "y", **knobs).w)


@pytest.mark.parametrize(("value", "words"), [
    ({"learning_rate": 0.1}, "take their step from the curvature"), ({"compression": "half"}, "not compressed"),
    ({"staleness": 1}, "Only the steps"),
])  # fmt: skip
def test_refused_in_the_finish(
    value: dict[str, Any], words: str, run: Trainer, bench: Bench, post: Post, data: Path
) -> None:
    run(data, "y", bench=bench, mode="ssp", callbacks=[At(round3=post("set", **value))],
        **{**KNOBS, "epochs": 0, "tolerance": 1e-6})  # fmt: skip
    assert words in str(settled(bench)[0].outcome)
    assert bench.report["converged"]


def test_a_pause_is_refused_twice_and_the_last_worker_stays(run: Trainer, bench: Bench, data: Path) -> None:
    def course(r: Conductor) -> Iterator[None]:
        for name, arguments in (
            ("remove_worker", {}),
            ("kill_worker", {"rank": "many"}),
            ("pause", {}),
            ("pause", {}),
            ("resume", {}),
        ):
            bench.storage.post(name, arguments)
        yield from wait_for(lambda: all(command.outcome for command in bench.storage.commands()))

    run(data, "y", bench=bench, workers=1, callbacks=[Script(course)], **ENDLESS)
    outcomes = [str(command.outcome) for command in settled(bench)]
    assert "last worker cannot be removed" in outcomes[0]
    assert "(0), got 'many'" in outcomes[1]
    assert outcomes[2:] == ["done", "The run is paused already.", "done"]
