"""Workers that are killed, hang, are slow, added and removed while a run goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from shoal.engines.worker_process import Pulse
from shoal.errors import EngineError
from shoal.metrics import Event
from shoal.settings.values import config_from
from shoal.steps import policy
from shoal.tasks.train import _staffed
from shoal.training.conductor import Conductor
from support.tables import same_bits
from support.training import ENDLESS, KNOBS, At, Bench, Post, Script, Trainer, generated, wait_for


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
    assert lost.text == "Worker 1 is gone: killed by signal 9 (SIGKILL), on request."
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


def test_workers_whose_rounds_take_far_longer_than_their_lease_are_let_work(
    run: Trainer, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many batches of one row between two messages: the processor is busy all that time."""
    for name, value in [("SHORTEST_LEASE", 0.8), ("LEASE_ROUNDS", 0), ("FIRST_LEASE", 0.8)]:
        monkeypatch.setattr(policy, name, value)
    monkeypatch.setattr(Pulse, "COMPUTED", 0.01)  # a busy machine gives it little in so short a lease
    data = generated(tmp_path, rows=180_000)
    run(data, "y", bench=bench, workers=2, mode="local", local_steps=300_000, batch_size=1, epochs=1, tolerance=0)
    assert bench.rounds[0].seconds > 1.6, "a machine as fast as that needs more rows here"
    assert not bench.events("lost")


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
        yield from wait_for(lambda: len(rows_of(r)) == r.staffing.count == 1)
        yield

    script = Script(course)
    run(data, "y", bench=bench, workers=2, mode=mode, callbacks=[script], **ENDLESS)
    assert not checked(bench, script)
    assert bench.report["in_force"]["workers"] == 1
    newest = bench.checkpoints.newest()
    assert newest is not None
    config = config_from({**newest.meta["config"], "engine": "processes"})
    assert _staffed(config, newest).workers == 1  # as many as it had, where it is resumed
    assert _staffed(dataclasses.replace(config, engine="inline"), newest).workers == 2
    assert _staffed(config, None).workers == 2
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


@pytest.mark.parametrize("mode", ["sync", "local"])
def test_workers_that_come_and_go_change_no_bits(mode: str, run: Trainer, bench: Bench, data: Path) -> None:
    """With what compression keeps for later, which has to be found by whoever comes; without, there is less to lose."""
    knobs = {**KNOBS, "mode": mode, "compression": "topk", "epochs": 25}
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
