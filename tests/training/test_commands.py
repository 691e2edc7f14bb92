"""Commands to a run that goes on: what they do is read from the rounds that come after, not from what they say."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from shoal.engines.base import Engine
from shoal.errors import EngineError
from shoal.metrics import Event, Round
from shoal.steps import policy
from shoal.storage.base import Command
from shoal.training import conductor, recorder
from shoal.training.conductor import Conductor
from support.runs import until
from support.tables import same_bits
from support.training import MODES, At, Bench, Each, Reference, Script, Trainer, Vector, generated, opened

NAMES = [f"x{i}" for i in range(6)]
KNOBS: dict[str, Any] = {"batch_size": 8, "local_steps": 2, "shards": 7, "tolerance": 0, "epochs": 6}
ENDLESS: dict[str, Any] = {**KNOBS, "epochs": 1_000_000, "max_seconds": 60}  # that is never reached
Post = Callable[..., Callable[[Conductor], Any]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def data(place: Path) -> Path:
    return generated(place)


@pytest.fixture(autouse=True)
def _home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(place / "home"))
    monkeypatch.setattr(recorder, "BUDGET", math.inf)  # every round is put on record
    monkeypatch.setattr(conductor, "COMMANDS", 0.0)  # commands are looked for at every opportunity


@pytest.fixture
def run(tmp_path: Path) -> Trainer:
    return Trainer(tmp_path)


@pytest.fixture
def bench(run: Trainer) -> Bench:
    return run.bench()


@pytest.fixture
def post(bench: Bench) -> Post:
    """Leaves a command in the store, as another process would; the run looks at once, before it can come to its end."""

    def posting(name: str, **arguments: Any) -> Callable[[Conductor], Any]:
        def act(r: Conductor) -> None:
            bench.storage.post(name, arguments)
            r.take_commands()

        return act

    return posting


@pytest.fixture(scope="module")
def three() -> Iterator[Engine]:
    """Workers for tests that leave them as they are."""
    with opened(3) as engine:
        yield engine


def settled(bench: Bench) -> list[Command]:
    commands = bench.storage.commands()
    assert all(command.outcome is not None and command.round is not None for command in commands)
    return commands


def done_at(bench: Bench, number: int = 0) -> int:
    """The round after which a command was done."""
    command = settled(bench)[number]
    assert command.outcome == "done"
    assert command.round is not None
    return command.round


def split(bench: Bench, at: int) -> tuple[list[Round], list[Round]]:
    before, after = [r for r in bench.rounds if r.round <= at], [r for r in bench.rounds if r.round > at]
    assert before
    assert after
    return before, after


# ------------------------------------------------------------------ knobs


@pytest.mark.parametrize("mode", ["sync", "ssp", "async"])
def test_a_learning_rate_moves_the_weights_from_the_next_round_on(
    mode: str, run: Trainer, bench: Bench, post: Post, data: Path
) -> None:
    weights: list[Vector] = [np.zeros(6)]
    watch = Each(lambda r, _: weights.append(r.weights()))
    orders = At(round9=post("set", learning_rate=0.003), round20=post("set", learning_rate="auto"))
    equal = {**KNOBS, "shards": 5, "partition": "contiguous", "batch_size": 16}  # 400 rows: no short batches
    run(data, "y", bench=bench, mode=mode, callbacks=[orders, watch], **equal)
    first, second = done_at(bench), done_at(bench, 1)
    automatic = bench.report["resolved"]["learning_rate"]
    assert automatic != pytest.approx(0.003)
    for record, old, new in zip(bench.rounds, weights, weights[1:], strict=False):
        expected = 0.003 if first < record.round <= second else automatic
        assert record.learning_rate == pytest.approx(expected)
        assert np.linalg.norm(new - old) == pytest.approx(expected * record.gradient_norm, rel=1e-9)


def test_a_learning_rate_reaches_the_steps_of_mode_local(run: Trainer, bench: Bench, post: Post, data: Path) -> None:
    weights: list[Vector] = [np.zeros(6)]
    watch = Each(lambda r, _: weights.append(r.weights()))
    run(data, "y", bench=bench, mode="local", callbacks=[At(round6=post("set", learning_rate=1e-12)), watch], **KNOBS)
    moved = [float(np.linalg.norm(b - a)) for a, b in itertools.pairwise(weights)]
    at = done_at(bench)
    assert max(moved[at + 1 :]) < 1e-9 < min(moved[:at])


@pytest.mark.parametrize("mode", MODES)
def test_another_alpha_is_another_optimum(mode: str, run: Trainer, bench: Bench, post: Post, data: Path) -> None:
    weights: dict[int, Vector] = {}
    watch = Each(lambda r, record: weights.__setitem__(record.round, r.weights()))
    knobs = {**KNOBS, "tolerance": 1e-6, "model": "lasso", "alpha": 0.05, "mode": mode}
    run(data, "y", bench=bench, callbacks=[At(round8=post("set", alpha=2.5)), watch], **knobs)
    old, new = (Reference(data, "y", NAMES, model="lasso", alpha=alpha) for alpha in (0.05, 2.5))
    before, after = split(bench, done_at(bench))
    for reference, records in ((old, before), (new, after)):
        for record in records:
            w = weights[record.round]
            assert record.alpha == reference.alpha
            assert record.loss == pytest.approx(reference.value(w), rel=1e-9)
            assert record.distance == pytest.approx(reference.distance(w), abs=1e-9)
    assert new.distance_of(bench.report) <= 1e-6 < old.distance_of(bench.report)
    assert {name for name, w in bench.report["coefficients"].items() if w} == new.kept != old.kept
    assert (bench.report["alpha"], bench.report["converged"]) == (2.5, True)
    assert bench.done.contents["config"]["alpha"] == 2.5


def test_alpha_may_change_in_the_finish_too(run: Trainer, bench: Bench, post: Post, data: Path) -> None:
    knobs = {**KNOBS, "tolerance": 1e-6, "model": "ridge", "alpha": 1.0, "epochs": 0}
    run(data, "y", bench=bench, callbacks=[At(round4=post("set", alpha=500.0))], **knobs)
    assert Reference(data, "y", NAMES, model="ridge", alpha=500.0).distance_of(bench.report) <= 1e-6
    assert bench.report["converged"]


def test_resumed_runs_keep_what_was_set(run: Trainer, bench: Bench, post: Post, data: Path) -> None:
    knobs = {**KNOBS, "model": "ridge", "compression": "half"}
    orders = At(round5=post("set", learning_rate=0.004, alpha=50.0, compression="topk"), round12=post("checkpoint"))
    run(data, "y", bench=bench, callbacks=[orders], **knobs)
    at = done_at(bench, 1)
    again = run(data, "y", resume=bench.checkpoints.load(at), **knobs)
    assert same_bits(again.w, bench.w)
    assert {(r.learning_rate, r.alpha, r.bytes_sent) for r in again.rounds} == {
        (r.learning_rate, r.alpha, r.bytes_sent) for r in bench.rounds if r.round > at
    }
    assert again.report["alpha"] == 50.0


def test_a_bound_of_staleness_holds_from_then_on(run: Trainer, bench: Bench, data: Path, three: Engine) -> None:
    def course(r: Conductor) -> Iterator[None]:
        while len(r.server.workers) < 3 or not any(record.staleness > 1 for record in seen):
            yield
        for bound in (1, 0):
            bench.storage.post("set", {"staleness": bound})
            yield from wait_for(lambda: all(command.outcome for command in bench.storage.commands()))
            for _ in range(60):
                yield

    seen: list[Round] = []
    watch = Each(lambda _, record: seen.append(record))
    run(data, "y", bench=bench, engine=three, mode="async", callbacks=[watch, Script(course)], **ENDLESS)
    one, none = done_at(bench), done_at(bench, 1)
    in_hand = 3  # updates that were on their way
    assert max(r.staleness for r in bench.rounds if r.round <= one) > 1
    assert max(r.staleness for r in bench.rounds if one + in_hand < r.round <= none) <= 1
    assert max(r.staleness for r in bench.rounds if none + in_hand < r.round) == 0
    assert bench.rounds[-1].round > none + in_hand + 40


def test_ssp_never_exceeds_its_bound(run: Trainer, data: Path, three: Engine) -> None:
    found = run(data, "y", engine=three, mode="ssp", staleness=1, **{**KNOBS, "epochs": 12})
    assert max(record.staleness for record in found.rounds) <= 1


@pytest.mark.parametrize("mode", MODES)
def test_compression_changes_the_bytes(mode: str, run: Trainer, bench: Bench, post: Post, data: Path) -> None:
    orders = At(
        round5=post("set", compression="topk"), round11=post("set", compression="half"),
        round17=post("set", compression="none"),
    )  # fmt: skip
    run(data, "y", bench=bench, mode=mode, callbacks=[orders], **{**KNOBS, "tolerance": 1e-6})
    topk, half, none = (done_at(bench, i) for i in range(3))
    sizes = {"none": 48, "topk": 8 + 8, "half": 8 + 12}  # of 6 values
    edges = [(0, topk, "none"), (topk + 1, half, "topk"), (half + 1, none, "half"), (none + 1, 10**9, "none")]
    for first, last, name in edges:  # one round was given out before
        between = [r for r in bench.rounds if first < r.round <= last]
        assert between
        assert {r.bytes_sent / r.bytes_raw for r in between} == {sizes[name] / 48}
    assert Reference(data, "y", NAMES).distance_of(bench.report) <= 1e-6


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
    ("slow_worker", {"rank": 5}, "Expected the number of a worker that is here (0), got 5"),
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


# ------------------------------------------------------------------ workers come and go


def wait_for(what: Callable[[], Any]) -> Iterator[None]:
    while not what():
        yield


def rows_of(r: Conductor) -> dict[int, int]:
    return {rank: worker.rows for rank, worker in r.server.workers.items()}


def checked(bench: Bench, script: Script) -> list[Event]:
    """The script came to its end, and every batch of every whole epoch counted once."""
    assert script.ended, "\n".join(text for _, text in bench.log)
    assert bench.done.cause == "the script is at its end"
    ledger = bench.report["ledger"]
    assert ledger["batches"] >= ledger["epochs"] * ledger["batches_of_an_epoch"]
    return bench.events("lost")


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_killed_worker_is_replaced_and_its_work_is_done_by_others(
    mode: str, run: Trainer, bench: Bench, data: Path
) -> None:
    pids: list[int] = []

    def course(r: Conductor) -> Iterator[None]:
        yield from wait_for(lambda: rows_of(r).get(1))
        pids.append(r.server.workers[1].pid)
        r.send("slow_worker", rank=1, factor=500)  # so that it is at work when the blow comes
        yield from (None for _ in range(3))
        bench.storage.post("kill_worker", {"rank": 1})
        yield from wait_for(lambda: rows_of(r).get(1) and r.server.workers[1].pid != pids[0])
        pids.append(r.server.workers[1].pid)
        assert psutil.pid_exists(pids[1])

    script = Script(course)
    run(data, "y", bench=bench, workers=2, mode=mode, callbacks=[script], **ENDLESS)
    (lost,) = checked(bench, script)
    assert (lost.rank, lost.data["signal"]) == (1, 9)
    assert "signal 9" in lost.text
    assert lost.data["tasks_redone"] == bench.report["ledger"]["redone"] > 0
    (back,) = bench.events("restarted")
    assert back.rank == 1
    assert str(pids[1]) in back.text
    workers = [record.workers for record in bench.rounds if record.round > lost.round]
    assert workers[-1] == 2
    assert bench.events("started", "joined", "lost", "restarted")[-1] == back


@pytest.mark.parametrize("mode", ["sync", "ssp"])
def test_a_hung_worker_is_found_and_replaced(
    mode: str, run: Trainer, bench: Bench, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "SHORTEST_LEASE", 0.5)
    pids: list[int] = []

    def course(r: Conductor) -> Iterator[None]:
        yield from wait_for(lambda: rows_of(r).get(0) and rows_of(r).get(1))
        pids.append(r.server.workers[0].pid)
        bench.storage.post("hang_worker", {"rank": 0})
        yield from wait_for(lambda: rows_of(r).get(0) and r.server.workers[0].pid != pids[0])

    script = Script(course)
    run(data, "y", bench=bench, workers=2, mode=mode, callbacks=[script], **ENDLESS)
    lost = next(event for event in checked(bench, script) if event.rank == 0)
    assert "it hung: no answer within" in lost.text
    assert lost.data["tasks_redone"] > 0
    assert not psutil.pid_exists(pids[0])
    assert 0 in [event.rank for event in bench.events("restarted")]


def test_a_slow_worker_falls_behind(run: Trainer, bench: Bench, data: Path) -> None:
    done: list[dict[int, int]] = []

    def course(r: Conductor) -> Iterator[None]:
        yield from wait_for(lambda: len(rows_of(r)) == 2 and all(rows_of(r).values()))
        bench.storage.post("slow_worker", {"rank": 1, "factor": 300})
        yield from (None for _ in range(5))
        done.append(rows_of(r))
        yield from (None for _ in range(300))
        done.append(rows_of(r))

    script = Script(course)
    run(data, "y", bench=bench, workers=2, mode="async", callbacks=[script], **ENDLESS)
    assert not checked(bench, script)
    quick, slow = (done[1][rank] - done[0][rank] for rank in (0, 1))
    assert slow < quick / 3


@pytest.mark.parametrize("mode", ["sync", "ssp"])
def test_workers_are_added_and_removed(mode: str, run: Trainer, bench: Bench, data: Path) -> None:
    processes: list[psutil.Process] = []

    def course(r: Conductor) -> Iterator[None]:
        yield from wait_for(lambda: len(rows_of(r)) == 2)
        bench.storage.post("add_worker", {})
        yield from wait_for(lambda: rows_of(r).get(2))
        yield
        processes.append(psutil.Process(r.server.workers[0].pid))
        bench.storage.post("remove_worker", {"rank": 0})
        yield from wait_for(lambda: 0 not in rows_of(r))
        bench.storage.post("remove_worker", {})  # the one with the highest number
        yield from wait_for(lambda: len(rows_of(r)) == 1)
        yield

    script = Script(course)
    run(data, "y", bench=bench, workers=2, mode=mode, callbacks=[script], **ENDLESS)
    assert not checked(bench, script)
    assert not processes[0].is_running()
    assert [event.rank for event in bench.events("left")] == [0, 2]
    counts = [record.workers for record in bench.rounds]
    changes = [b for a, b in zip([0, *counts], counts, strict=False) if a != b]
    assert changes[-4:] == [2, 3, 2, 1]


def test_who_is_to_leave_leaves_though_a_phase_ends_meanwhile(run: Trainer, bench: Bench, data: Path) -> None:
    """Told in the last round of the steps: the finish begins with those that stay."""
    knobs = {**KNOBS, "tolerance": 1e-6}
    plain = run(data, "y", **knobs)
    last = plain.steps[-1].round

    def leave(r: Conductor) -> None:
        assert len(r.server.workers) == 2
        r.send("remove_worker", rank=1)

    run(data, "y", bench=bench, workers=2, callbacks=[At(**{f"round{last}": leave})], **knobs)
    assert bench.events("command")[0].data["outcome"] == "done"
    assert [event.rank for event in bench.events("left")] == [1]
    assert bench.rounds[-1].workers == 1
    assert same_bits(bench.w, plain.w)


@pytest.mark.parametrize("compression", ["none", "topk"])
@pytest.mark.parametrize("mode", ["sync", "local"])
def test_workers_that_come_and_go_change_no_bits(
    mode: str, compression: str, run: Trainer, bench: Bench, data: Path
) -> None:
    knobs = {**KNOBS, "mode": mode, "compression": compression, "epochs": 25}
    plain = run(data, "y", **knobs)

    def course(r: Conductor) -> Iterator[None]:
        yield from wait_for(lambda: len(rows_of(r)) == 3)
        for name, arguments in (
            ("add_worker", {}), ("slow_worker", {"rank": 2, "factor": 3}), ("kill_worker", {"rank": 1}),
            ("remove_worker", {"rank": 2}), ("kill_worker", {"rank": 0}),  # nobody may be left: it waits for others
        ):  # fmt: skip
            bench.storage.post(name, arguments)
            yield from (None for _ in range(4))

    script = Script(course, stop=False)
    run(data, "y", bench=bench, workers=3, callbacks=[script], **knobs)
    assert script.ended
    assert same_bits(bench.w, plain.w)
    assert [(r.round, r.loss) for r in bench.rounds] == [(r.round, r.loss) for r in plain.rounds]
    assert sorted(event.rank for event in bench.events("lost")) == [0, 1]
    assert [event.rank for event in bench.events("left")] == [2]


@pytest.mark.parametrize("mode", ["ssp", "async"])
def test_with_lost_workers_every_batch_counts_once(
    mode: str, run: Trainer, bench: Bench, post: Post, data: Path
) -> None:
    orders = At(
        round50=post("kill_worker", rank=1), round55=post("kill_worker", rank=0), round60=post("kill_worker", rank=2)
    )
    knobs = {**KNOBS, "mode": mode, "epochs": 10}
    run(data, "y", bench=bench, workers=3, callbacks=[orders], **knobs)
    ledger = bench.report["ledger"]
    assert ledger["batches"] == 10 * ledger["batches_of_an_epoch"] == bench.report["rounds"]
    rounds = [r.round for r in bench.rounds]  # two updates that were applied together make one record
    assert rounds == sorted(set(rounds))
    assert rounds[-1] == ledger["batches"]
    assert bench.events("lost")


@pytest.mark.parametrize("choice", ["fewer", "stop"])
def test_a_loss_is_answered_as_the_config_says(choice: str, run: Trainer, bench: Bench, data: Path) -> None:
    def course(r: Conductor) -> Iterator[None]:
        yield from wait_for(lambda: len(rows_of(r)) == 2)
        bench.storage.post("kill_worker", {"rank": 1})
        yield from wait_for(lambda: len(rows_of(r)) == 1)
        yield from (None for _ in range(10))

    knobs = {**ENDLESS, "on_worker_loss": choice}
    script = Script(course)
    if choice == "stop":
        with pytest.raises(EngineError, match=r"Worker 1 was lost \(killed by signal 9.*Resume the run"):
            run(data, "y", bench=bench, workers=2, callbacks=[script], **knobs)
        assert bench.events("error")
        assert bench.checkpoints.newest() is not None
        return
    run(data, "y", bench=bench, workers=2, callbacks=[script], **knobs)
    assert len(checked(bench, script)) == 1
    assert not bench.events("restarted")
    assert bench.rounds[-1].workers == 1
