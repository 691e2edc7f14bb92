"""Workers and runs that are killed and stopped: in mode sync the end is the same to the last bit. All signals are real."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from shoal.runs.commands import post, wait_settled
from shoal.runs.launch import Run, launch, resume
from shoal.steps.hash_ring import Ring
from support.chaos import (
    BATCH,
    EPOCHS,
    Kill,
    Worker,
    Yard,
    batches_of,
    bits,
    events,
    joined,
    kill_run,
    leftovers,
    mapped,
    orphans,
    recoveries,
    with_finish,
    workers_of,
)
from support.gates.orders import Orders
from support.runs import SLOW, commands, ended, paused, until

KILLS = 12  # four in each of three runs; `make soak` kills 1,000


def test_an_undisturbed_run_is_what_numpy_gives(yard: Yard) -> None:
    """Every batch once an epoch in the order of the seed: the reference of all others is no work of our own."""
    (folder,) = (yard.home / "cache").glob("shards-*")
    manifest = json.loads((folder / "manifest.json").read_text())
    width, shards = manifest["width"], []
    for shard, rows in enumerate(manifest["rows"]):
        values = np.fromfile(folder / f"shard-{shard:06d}.bin", manifest["dtype"])
        shards.append((values[: rows * width].reshape(rows, width), values[rows * width :]))
    result = yard.steps.result
    assert result is not None
    rate, w = result["resolved"]["learning_rate"], np.zeros(width)
    counts = [-(-len(y) // BATCH) for _, y in shards]
    for epoch in range(EPOCHS):
        orders = [np.random.default_rng((0, epoch, s)).permutation(count) for s, count in enumerate(counts)]
        for step in range(max(counts)):
            gradient = np.zeros(width)
            for (X, y), order in zip(shards, orders, strict=True):
                if step < len(order):
                    rows = slice(order[step] * BATCH, (order[step] + 1) * BATCH)
                    gradient += X[rows].T @ (X[rows] @ w - y[rows])
            w -= (
                rate * gradient / (BATCH * len(shards))
            )  # the last batches of an epoch, with fewer rows, count for less
    found = np.frombuffer(bytes.fromhex(yard.steps_bits["weights"]))
    np.testing.assert_allclose(found, w, rtol=1e-9)
    assert yard.steps_bits["rounds"] == EPOCHS * max(counts)


# ------------------------------------------------------------------ workers


def test_a_dozen_killed_workers_change_no_bit(yard: Yard, orders: Orders) -> None:
    """Each blow falls between two places that the run cannot pass before it has fallen, at some round or between two."""
    chance, workers = random.Random(20), itertools.cycle([1, 2, 3])
    seen, redone, took = 0, 0, list[float]()
    while seen < KILLS:
        places = [f"round-{number}" for number in itertools.accumulate(chance.randint(5, 30) for _ in range(5))]
        orders.hold(*places)
        run = yard.run(workers=next(workers), **orders.knobs)
        kills: list[Kill] = []
        for number, (place, following) in enumerate(itertools.pairwise(places[: KILLS - seen + 1])):
            orders.reached(run, place)
            if number % 2:  # a moment of the rounds that follow, or of the wait at their end
                orders.let_go(place)
                time.sleep(chance.uniform(0, 0.05))
                kills.append(kill(chance.choice(until(partial(unharmed, run, kills)))))
            else:  # its next tasks are on their way to it when it is dead
                if victims := unharmed(
                    run, kills
                ):  # none where the last blow fell here too: the run waits, hiring nobody
                    kills.append(kill(chance.choice(victims)))
                orders.let_go(place)
            orders.reached(run, following)
        orders.let_go_of_all()
        assert ended(run) == "finished", run.error
        assert len(kills) == len(events(run, "lost"))
        seen, redone, took = seen + len(kills), redone + check_losses(run, kills), took + recoveries(run, kills)
        assert bits(run) == yard.steps_bits
    assert redone > 0
    print(f"{seen} workers killed, {redone} tasks redone; back after {min(took):.2f} to {max(took):.2f} s")


def unharmed(run: Run, kills: list[Kill]) -> list[Worker]:
    """Who takes part in training and has not been hit: one that was may still be seen for a moment, and one that has only
    just been started is lost to nobody yet."""
    return [worker for worker in joined(run) if worker.process.pid not in {kill.pid for kill in kills}]


def kill(victim: Worker) -> Kill:
    victim.process.kill()
    return Kill(time.time(), victim.rank, victim.process.pid)


def check_losses(run: Run, kills: list[Kill]) -> int:
    """Each loss says why and costs a round at most, the ledger is right; how many tasks were done again."""
    assert run.result is not None
    assert list(batches_of(run.result)) == []
    lost = events(run, "lost")
    assert {event.data["signal"] for event in lost} <= {signal.SIGKILL}
    assert all(event.data["tasks_redone"] <= run.result["resolved"]["shards"] for event in lost)
    redone = sum(event.data["tasks_redone"] for event in lost)
    assert redone == run.result["ledger"]["redone"]
    came = re.findall(r"process (\d+)", "\n".join(event.text for event in events(run, "restarted", "joined")))
    assert len(came) == len(set(came))
    assert len(came) <= len(lost) + run.config["workers"]
    return redone


def test_a_stopped_worker_is_found_by_its_lease_and_replaced(yard: Yard, orders: Orders) -> None:
    orders.hold("round-10")
    run = yard.run(**orders.knobs)
    with orders.held(run, "round-10"):
        victim = joined(run)[0]  # one that has not come yet would not be missed
        assert str(run.directory) in victim.process.cmdline()  # a fork of the run, whose own thread was away for it
        victim.process.suspend()
    assert ended(run) == "finished", run.error
    (lost,) = (event for event in events(run, "lost") if event.rank == victim.rank)
    (back,) = (event for event in events(run, "restarted") if event.rank == victim.rank)
    assert "hung" in lost.text
    assert lost.data["tasks_redone"] > 0
    assert f"process {victim.process.pid}" not in back.text
    assert not victim.process.is_running()
    assert bits(run) == yard.steps_bits


def test_workers_that_come_and_go_change_no_bit_and_take_few_shards_along(yard: Yard, orders: Orders) -> None:
    """The run pauses for every change, and goes on for some rounds after it."""
    changes: list[tuple[str, dict[str, int], set[int]]] = [
        ("add_worker", {}, {1}), ("add_worker", {}, {2}), ("remove_worker", {"rank": 0}, {0}), ("remove_worker", {}, {2}),
    ]  # fmt: skip
    orders.pause(*(f"round-{20 * number}" for number in range(1, 2 + len(changes))))
    run = yard.run(workers=1, **orders.knobs)
    ranks, moved = {0}, list[tuple[int, int]]()
    paused(run)
    for name, arguments, change in changes:
        before, least = mapped(run), fewest_moves(ranks, ranks ^ change)
        assert wait_settled(run, post(run, name, arguments), SLOW).outcome == "done"
        ranks = ranks ^ change
        until(lambda ranks=ranks: {worker.rank for worker in joined(run)} >= ranks)
        assert wait_settled(run, post(run, "resume"), SLOW).outcome == "done"
        paused(run)
        until(lambda ranks=ranks: {worker.rank for worker in workers_of(run)} == ranks)
        moved.append((sum(len(now - before.get(rank, set())) for rank, now in mapped(run).items()), least))
    assert wait_settled(run, post(run, "resume"), SLOW).outcome == "done"
    assert ended(run) == "finished", run.error
    assert [event.rank for event in events(run, "left")] == [0, 2]
    assert not events(run, "lost")
    assert all(least <= count <= 1.5 * least for count, least in moved[:2]), moved
    assert all(count <= 1.5 * least for count, least in moved[2:]), moved  # some of them were at home there before
    assert bits(run) == yard.steps_bits


def fewest_moves(before: set[int], after: set[int]) -> int:
    """The shards that any even assignment has to move: those of who left, or the share of who came."""
    shards, old = 16, Ring(before).assign(16)
    gone = sum(len(old[rank]) for rank in before - after)
    return gone or shards // len(after)


# ------------------------------------------------------------------ the run process


def test_a_run_killed_at_any_moment_goes_on_to_the_same_bits(
    yard: Yard, orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot pass the place where it is held, so each blow comes in time, wherever before that place it falls."""
    home, chance = tmp_path / "home", random.Random(5)
    monkeypatch.setenv("SHOAL_HOME", str(home))  # without a cache: the file has to be read again
    orders.hold("start", "round-90", "round-150", "round-200", "pass-20")
    run = launch(with_finish(yard.data, checkpoint_seconds=0.1, **orders.knobs))

    def killed() -> None:
        pid = kill_run(run)
        assert run.state == "interrupted"
        assert "its process was stopped" in run.cause
        assert f"shoal resume {run.id}" in run.cause
        assert orphans(run, pid) == []
        assert not run.model_path.exists()

    until(lambda: run.state in ("preparing", "running"))
    time.sleep(chance.uniform(0, 0.3))  # it reads the file, or has come to the start
    killed()
    resume(run)
    until(run.checkpoints_path.exists)  # it is made by the first that is written
    killed()
    orders.let_go("start")
    resume(run)
    orders.reached(run, "round-90")
    joined(run)[-1].process.suspend()  # one that cannot hear of its parent's end
    killed()
    orders.let_go("round-90")
    resume(run)
    with orders.held(run, "round-150"):
        joined(run)[-1].process.suspend()
    time.sleep(chance.uniform(0, 0.3))  # it waits for the one that was stopped
    killed()
    orders.let_go("round-200")
    resume(run)
    with orders.held(run, "pass-20"):
        killed()
    resume(run)
    assert ended(run) == "finished", run.error
    assert bits(run) == yard.finish_bits
    # A file of a few bytes that was about to become state.json or progress.json may stay.
    assert [name for name in leftovers(home) if ".json-" not in name] == []
    assert {event.text.split(" of ")[0] for event in events(run, "started")} <= {
        "Training begins.",
        "Resuming from the checkpoint",
    }


def test_a_run_killed_after_its_last_step_only_has_to_report(yard: Yard, orders: Orders) -> None:
    """Converged: a run that went on from there would end elsewhere."""
    knobs = {"epochs": 2, "tolerance": 1e-4, "checkpoint_seconds": 60}
    whole = yard.run(engine="inline", **knobs)
    assert ended(whole) == "finished", whole.error
    assert whole.cause == "converged"
    end = bits(whole)
    last = f"checkpoint-{end['rounds']}"
    orders.hold(last)
    run = yard.run(**knobs, **orders.knobs)
    with orders.held(run, last):
        kill_run(run)
    assert run.state == "interrupted"
    resume(run)
    assert ended(run) == "finished", run.error
    assert run.cause == "converged"
    assert bits(run) == end


def test_a_signal_ends_a_run_in_order(yard: Yard, orders: Orders) -> None:
    orders.hold("round-10")
    run = yard.run(**orders.knobs)
    with orders.held(run, "round-10"):
        pid = run.pid or 0
        os.kill(pid, signal.SIGTERM)
        until(lambda: commands(run) == ["stop"])
    assert ended(run) == "stopped", run.error
    assert run.cause == "stopped by a command"
    assert orphans(run, pid) == []
    assert run.model_path.exists()
    assert run.result is not None
    assert 0 < run.result["rounds"] < yard.steps_bits["rounds"]
    resume(run)
    assert ended(run) == "finished", run.error
    assert bits(run) == yard.steps_bits
