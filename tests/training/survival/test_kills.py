"""Workers and runs that are killed and stopped: in mode sync the end is the same to the last bit. All signals are real."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from shoal.runs.launch import Run, launch, post, resume, wait_settled
from shoal.steps.hash_ring import Ring
from support.chaos import (
    BATCH,
    EPOCHS,
    Kill,
    Yard,
    batches_of,
    bits,
    events,
    joined,
    kill_run,
    kill_workers,
    leftovers,
    mapped,
    orphans,
    reach,
    recoveries,
    shared_memory,
    with_finish,
    workers_of,
)
from support.runs import SLOW, ended, rounds, training, until

pytestmark = pytest.mark.alone  # they look at what processes do at a moment, so these need the cores

KILLS = 20


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


def test_twenty_killed_workers_change_no_bit(yard: Yard) -> None:
    chance, workers = random.Random(20), itertools.cycle([1, 2, 3])
    seen, redone, took = 0, 0, list[float]()
    while seen < KILLS:
        run = yard.run(workers=next(workers))
        kills = kill_workers(run, chance, min(7, KILLS - seen))
        assert ended(run) == "finished", run.error
        lost = events(run, "lost")
        assert len(kills) - 3 <= len(lost) <= len(kills)  # a last blow may have come when all the work was done
        seen, redone, took = seen + len(lost), redone + check_losses(run, kills), took + recoveries(run, kills)
        assert bits(run) == yard.steps_bits
    assert redone > 0
    print(f"{seen} workers killed, {redone} tasks redone; back after {min(took):.2f} to {max(took):.2f} s")


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


def test_a_stopped_worker_is_found_by_its_lease_and_replaced(yard: Yard) -> None:
    run = training(yard.run())
    victim = workers_of(run)[0]
    victim.process.suspend()
    assert ended(run) == "finished", run.error
    (lost,) = events(run, "lost")
    (back,) = events(run, "restarted")
    assert (lost.rank, back.rank) == (victim.rank, victim.rank)
    assert "hung" in lost.text
    assert lost.data["tasks_redone"] > 0
    assert f"process {victim.process.pid}" not in back.text
    assert not victim.process.is_running()
    assert bits(run) == yard.steps_bits


def test_workers_that_come_and_go_change_no_bit_and_take_few_shards_along(yard: Yard) -> None:
    run = training(yard.run(workers=1, epochs=2 * EPOCHS))
    ranks, moved = {0}, list[tuple[int, int]]()
    for name, arguments, change in [
        ("add_worker", {}, {1}), ("add_worker", {}, {2}), ("remove_worker", {"rank": 0}, {0}), ("remove_worker", {}, {2}),
    ]:  # fmt: skip
        before, least = mapped(run), fewest_moves(ranks, ranks ^ change)
        assert wait_settled(run, post(run, name, arguments), SLOW).outcome == "done"
        ranks = ranks ^ change
        until(lambda ranks=ranks: {worker.rank for worker in workers_of(run)} == ranks)
        done = rounds(run)
        until(lambda ranks=ranks, done=done: set(mapped(run)) == ranks and rounds(run) > done + 2)
        moved.append((sum(len(now - before.get(rank, set())) for rank, now in mapped(run).items()), least))
    assert run.state == "running", "it ended before all had come and gone"
    assert ended(run) == "finished", run.error
    assert [event.rank for event in events(run, "left")] == [0, 2]
    assert not events(run, "lost")
    assert all(least <= count <= 1.5 * least for count, least in moved[:2]), moved
    assert all(count <= 1.5 * least for count, least in moved[2:]), moved  # some of them were at home there before
    alone = yard.run(engine="inline", epochs=2 * EPOCHS)
    assert ended(alone) == "finished"
    assert bits(run) == bits(alone)


def fewest_moves(before: set[int], after: set[int]) -> int:
    """The shards that any even assignment has to move: those of who left, or the share of who came."""
    shards, old = 16, Ring(before).assign(16)
    gone = sum(len(old[rank]) for rank in before - after)
    return gone or shards // len(after)


# ------------------------------------------------------------------ the run process


def test_a_run_killed_at_any_moment_goes_on_to_the_same_bits(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, memory, chance = tmp_path / "home", shared_memory(), random.Random(5)
    monkeypatch.setenv("SHOAL_HOME", str(home))  # without a cache: the file has to be read again
    run = launch(with_finish(yard.data, checkpoint_seconds=0.1))
    for moment in ("preparing", "first checkpoint", "training", "training", "finish"):
        assert reach(run, moment), f"it ended before: {run.cause}"
        time.sleep(0 if moment == "first checkpoint" else chance.uniform(0, 0.3))
        if moment == "training":
            until(lambda: joined(run))
            joined(run)[-1].process.suspend()  # one that cannot hear of its parent's end
        pid = kill_run(run)
        assert run.state == "interrupted"
        assert "its process was stopped" in run.cause
        assert f"shoal resume {run.id}" in run.cause
        assert orphans(run, pid) == []
        assert not run.model_path.exists()
        resume(run)
    assert ended(run) == "finished", run.error
    assert bits(run) == yard.finish_bits
    # A file of a few bytes that was about to become state.json or progress.json may stay.
    assert [name for name in leftovers(home) if ".json-" not in name] == []
    assert shared_memory() <= memory
    assert {event.text.split(" of ")[0] for event in events(run, "started")} <= {
        "Training begins.",
        "Going on from the checkpoint",
    }


def test_a_run_killed_after_its_last_step_only_has_to_report(yard: Yard) -> None:
    """Converged: a run that went on from there would end elsewhere."""
    knobs = {"epochs": 2, "tolerance": 1e-4, "checkpoint_seconds": 60}
    whole = yard.run(engine="inline", **knobs)
    assert ended(whole) == "finished", whole.error
    assert whole.cause == "converged"
    end = bits(whole)
    run = yard.run(**knobs)
    last = run.checkpoints_path / f"step-{end['rounds']:012d}.ckpt"
    while not last.exists():
        assert run.is_active
    kill_run(run)
    if run.state == "interrupted":  # else it was faster
        resume(run)
    assert ended(run) == "finished", run.error
    assert run.cause == "converged"
    assert bits(run) == end


def test_a_signal_ends_a_run_in_order(yard: Yard) -> None:
    run = training(yard.run())
    pid = run.pid or 0
    os.kill(pid, signal.SIGTERM)
    assert ended(run) == "stopped", run.error
    assert run.cause == "stopped by a command"
    assert orphans(run, pid) == []
    assert run.model_path.exists()
    assert run.result is not None
    assert 0 < run.result["rounds"] < yard.steps_bits["rounds"]
    resume(run)
    assert ended(run) == "finished", run.error
    assert bits(run) == yard.steps_bits
