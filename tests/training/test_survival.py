"""What a gradient run survives: kills, hangs, damage, full disks, changed files. All processes and signals are real.

In mode sync the end has to be the same to the last bit, whatever happened on the way.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from shoal.runs.launch import Run, launch, post, resume, wait_settled
from shoal.steps.hash_ring import Ring
from support.chaos import (  # fmt: skip
    Kill,
    batches_of,
    bits,
    events,
    joined,
    kill_run,
    kill_workers,
    leftovers,
    log_texts,
    orphans,
    reach,
    recoveries,
    shared_memory,
    sync_run,
    with_finish,
    workers_of,
    write_table,
)
from support.runs import SLOW, ended, rounds, slots_taken, training, until

pytestmark = pytest.mark.alone  # they look at what processes do at a moment, so these need the cores
EPOCHS, BATCH = 20, 16
KILLS = 20


@dataclass(frozen=True)
class Yard:
    """Where the runs of this module live, and what they have to end with."""

    home: Path
    data: Path
    steps: Run  # an undisturbed run in one process
    steps_bits: dict[str, Any]
    finish_bits: dict[str, Any]

    def run(self, **knobs: Any) -> Run:
        return launch(sync_run(self.data, **{"epochs": EPOCHS, "checkpoint_seconds": 0.2, **knobs}))


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    folder = tmp_path_factory.mktemp("survival")
    data = write_table(folder / "table.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_HOME", str(folder / "home"))
        patch.setenv("SHOAL_SLOTS", "4")
        steps = launch(sync_run(data, engine="inline", epochs=EPOCHS))
        assert ended(steps) == "finished", steps.error
        finish = launch(with_finish(data, engine="inline"))
        assert ended(finish) == "finished", finish.error
        yield Yard(folder / "home", data, steps, bits(steps), bits(finish))


@pytest.fixture(autouse=True)
def _no_run_goes_on(yard: Yard) -> Iterator[None]:
    yield
    shutil.rmtree(Path(os.environ["SHOAL_HOME"]) / "queue", ignore_errors=True)
    for process in psutil.Process().children():
        if "shoal.processes.run" in process.cmdline():
            process.kill()
            process.wait(SLOW)


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


def mapped(run: Run) -> dict[int, set[str]]:
    """The shards that each worker has looked at so far, by the system's account."""
    found = {}
    for rank, process in workers_of(run):
        with contextlib.suppress(psutil.Error):
            paths = {Path(entry.path).name for entry in process.memory_maps()}
            if shards := {name for name in paths if name.startswith("shard-")}:
                found[rank] = shards
    return found


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


# ------------------------------------------------------------------ damage


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[random.Random(9).randrange(len(content))] ^= 4
    path.write_bytes(content)


def test_damaged_checkpoints_are_said_and_passed_over(yard: Yard) -> None:
    run = training(yard.run())
    for harm in (cut, flip):
        until(lambda: len(list(run.checkpoints_path.glob("*.ckpt"))) > 3)
        kill_run(run)
        before, newest = sorted(run.checkpoints_path.glob("*.ckpt"))[-2:]
        harm(newest)
        step, said = int(before.stem.removeprefix("step-")), len(log_texts(run))
        resume(run)
        until(lambda said=said: any("Going on" in text for text in log_texts(run)[said:]) or not run.is_active)
        assert f"Going on from the checkpoint of round {step}." in log_texts(run)[said:]
        warning = next(text for text in log_texts(run)[said:] if str(newest) in text)
        assert warning in log_texts(run, "warning")
        assert warning.endswith(f"Step {step} is used instead.")
    until(lambda: rounds(run) > step + 10)
    kill_run(run)
    files = list(run.checkpoints_path.rglob("*.ckpt"))
    for path in files:
        cut(path)
    resume(run)
    assert ended(run) == "finished", run.error
    assert log_texts(run).count("Training begins.") == 2  # nothing to go on from: it begins again, and says so
    assert sum("There is no other to use instead." in text for text in log_texts(run, "warning")) == len(files)
    assert bits(run) == yard.steps_bits


@contextlib.contextmanager
def tiny_disk(run: Run) -> Iterator[Callable[[bool], None]]:
    """The checkpoints on a file system of 128 KB, which is filled and emptied."""
    folder = run.checkpoints_path
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a tiny file system cannot be mounted here")

    def fill(full: bool) -> None:
        if not full:
            (folder / "fill").unlink()
            return
        with (folder / "fill").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1024))

    try:
        yield fill
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def small_files(run: Run) -> Iterator[Callable[[bool], None]]:
    """A limit for the size of all files that the run process writes: what is refused is as on a full disk."""
    if sys.platform != "linux":
        pytest.skip("only Linux sets limits of other processes")

    def limit(full: bool) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        psutil.Process(run.pid).rlimit(psutil.RLIMIT_FSIZE, (1000 if full else hard, hard))

    yield limit


@pytest.mark.parametrize("disk", [tiny_disk, small_files])
def test_a_full_disk_pauses_a_run_until_there_is_room(yard: Yard, disk: Any) -> None:
    with contextlib.ExitStack() as stack:
        with slots_taken(*range(4)):
            run = yard.run()
            fill = stack.enter_context(disk(run))
        training(run)
        fill(True)
        until(lambda: run.state == "paused" or not run.is_active)
        assert run.state == "paused", run.error
        assert run.cause.startswith("The disk is full: there is no room for the checkpoint")
        kept = sorted(path.name for path in run.checkpoints_path.glob("*.ckpt"))
        assert kept
        assert leftovers(run.checkpoints_path) == []
        fill(False)
        assert wait_settled(run, post(run, "resume"), SLOW).outcome == "done"
        assert ended(run) == "finished", run.error
        assert bits(run) == yard.steps_bits
        assert any("disk is full" in event.text for event in events(run, "warning"))


def test_a_run_goes_on_while_its_store_is_locked_and_its_records_arrive_afterwards(yard: Yard) -> None:
    run = training(yard.run())
    with contextlib.closing(sqlite3.connect(run.metrics_path, timeout=SLOW, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        known = rounds(run)
        until(lambda: any(text.startswith("The run is finished") for text in log_texts(run)) or not run.is_active)
        time.sleep(0.5)
        assert rounds(run) == known < yard.steps_bits["rounds"]
        other.execute("ROLLBACK")
    assert ended(run) == "finished", run.error
    assert bits(run) == yard.steps_bits
    assert any("cannot be written at the moment and wait" in text for text in log_texts(run, "warning"))
    assert not events(run, "lost")
    assert run.result is not None
    assert [event.text for event in events(run)] == [event["text"] for event in run.result["events"]]
    assert rounds(run) == run.result["rounds"]


# ------------------------------------------------------------------ files that change


def test_a_changed_file_is_refused_until_it_is_put_back(yard: Yard, tmp_path: Path) -> None:
    data, kept = tmp_path / "table.csv", yard.data.read_bytes()
    data.write_bytes(kept)
    run = training(launch(sync_run(data, epochs=EPOCHS, checkpoint_seconds=0.2)))
    kill_run(run)
    for change, words in [
        (kept + b"1,2,3,4,5,6,7,8,9,10,11\n", "'table.csv' is not what it was when the checkpoint was taken"),
        (kept.replace(b"x3,x4", b"x4,x3", 1), "'table.csv' is not what it was when the checkpoint was taken"),
        (None, "Expected a file at"),
    ]:
        data.write_bytes(change) if change else data.unlink()
        resume(run)
        assert ended(run) == "failed"
        assert words in run.cause
        assert "Traceback" not in run.cause
    data.write_bytes(kept)
    training(resume(run))
    data.unlink()  # who trains does not need it any more
    assert ended(run) == "finished", run.error
    assert run.result is not None
    assert any("'table.csv' was changed or removed during the run" in text for text in run.result["warnings"])
    assert bits(run) == yard.steps_bits


def test_a_removed_cache_is_a_plain_failure_and_made_anew(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("SHOAL_HOME", str(home))
    run = training(yard.run())
    for folder in (home / "cache").glob("shards-*"):
        shutil.rmtree(folder)
    workers_of(run)[0].process.kill()  # who comes in its place, or takes over its shards, does not find them
    assert ended(run) == "failed"
    assert re.search(r"The cached training rows in '.*' cannot be used: No such file", run.cause)
    resume(run)
    until(lambda: len(set().union(*mapped(run).values())) == 16)
    shutil.rmtree(home / "cache")  # those who have their shards mapped go on; the model cannot be scored
    assert ended(run) == "failed"
    assert "The cached copy of 'table.csv' was removed or damaged" in run.cause
    for text in (run.cause, *(event.text for event in events(run))):
        assert "Traceback" not in text
    done = rounds(run)
    resume(run)
    assert ended(run) == "finished", run.error
    assert rounds(run) == done
    assert bits(run) == yard.steps_bits


def test_short_memory_changes_no_bit(yard: Yard) -> None:
    used = psutil.virtual_memory()
    run = yard.run(max_memory=0.05)
    assert ended(run) == "finished", run.error
    assert bits(run) == yard.steps_bits
    if (used.total - used.available) / used.total > 0.06:  # nothing less can be asked for
        assert any("nothing is read ahead" in event.text for event in events(run, "warning"))
