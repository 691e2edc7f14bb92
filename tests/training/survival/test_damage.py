"""Damaged checkpoints, full disks, locked stores and changed files: a run goes on, waits or says what is wrong."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from shoal.errors import Reason
from shoal.files.locks import lock_file
from shoal.runs import scheduling
from shoal.runs.commands import post, wait_settled
from shoal.runs.launch import Run, launch, resume
from support.chaos import EPOCHS, Yard, bits, events, kill_run, leftovers, log_texts, mapped, sync_run, workers_of
from support.gates.orders import Orders
from support.runs import SLOW, ended, paused, rounds, slots_taken, until

# ------------------------------------------------------------------ damage


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[random.Random(9).randrange(len(content))] ^= 4
    path.write_bytes(content)


def test_damaged_checkpoints_are_said_and_passed_over(yard: Yard, orders: Orders) -> None:
    orders.checkpoint("round-10", "round-20", "round-40")
    orders.hold("round-30", "round-50", "round-60")
    run = yard.run(checkpoint_seconds=3600, **orders.knobs)
    for harm, place, step in [(cut, "round-30", 10), (flip, "round-50", 10)]:
        orders.reached(run, place)
        kill_run(run)
        newest = max(run.checkpoints_path.glob("*.ckpt"))
        harm(newest)
        said = len(log_texts(run))
        orders.let_go(place)
        resume(run)
        until(lambda said=said: any("Resuming" in text for text in log_texts(run)[said:]) or not run.is_active)
        assert f"Resuming from the checkpoint of round {step}." in log_texts(run)[said:]
        warning = next(text for text in log_texts(run)[said:] if str(newest) in text)
        assert warning in log_texts(run, "warning")
        assert warning.endswith(f"Step {step} is used instead.")
    orders.reached(run, "round-60")
    kill_run(run)
    orders.let_go("round-60")
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
def test_a_full_disk_pauses_a_run_until_there_is_room(yard: Yard, orders: Orders, disk: Any) -> None:
    orders.hold("round-10")
    orders.checkpoint("round-20")
    with contextlib.ExitStack() as stack:
        with slots_taken(*range(4)):
            run = yard.run(**orders.knobs)
            fill = stack.enter_context(disk(run))
        with orders.held(run, "round-10"):
            fill(True)
        paused(run)
        assert run.cause.startswith("The disk is full: there is no room for the checkpoint")
        kept = sorted(path.name for path in run.checkpoints_path.glob("*.ckpt"))
        assert kept
        assert leftovers(run.checkpoints_path) == []
        fill(False)
        assert wait_settled(run, post(run, "resume"), SLOW).outcome == "done"
        assert ended(run) == "finished", run.error
        assert bits(run) == yard.steps_bits
        assert any("disk is full" in event.text for event in events(run, "warning"))


def test_a_run_goes_on_while_its_store_is_locked_and_its_records_arrive_afterwards(yard: Yard, orders: Orders) -> None:
    orders.hold("round-10", "end")
    run = yard.run(**orders.knobs)
    orders.reached(run, "round-10")
    with contextlib.closing(sqlite3.connect(run.metrics_path, timeout=SLOW, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        known = rounds(run)
        orders.let_go("round-10")
        orders.reached(run, "end")
        assert rounds(run) == known < yard.steps_bits["rounds"]
        other.execute("ROLLBACK")
    orders.let_go("end")
    assert ended(run) == "finished", run.error
    assert bits(run) == yard.steps_bits
    assert any("cannot be written at the moment; they are kept" in text for text in log_texts(run, "warning"))
    assert not events(run, "lost")
    assert run.result is not None
    assert [event.text for event in events(run)] == [event["text"] for event in run.result["events"]]
    assert rounds(run) == run.result["rounds"]


# ------------------------------------------------------------------ files that change


def test_a_changed_file_is_refused_until_it_is_put_back(yard: Yard, orders: Orders, tmp_path: Path) -> None:
    data, kept = tmp_path / "table.csv", yard.data.read_bytes()
    data.write_bytes(kept)
    orders.hold("round-10")
    run = launch(sync_run(data, epochs=EPOCHS, checkpoint_seconds=3600, **orders.knobs))
    orders.reached(run, "round-10")
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
    orders.let_go("round-10")
    orders.hold("round-20")
    resume(run)
    with orders.held(run, "round-20"):
        data.unlink()  # who trains does not need it any more
    assert ended(run) == "finished", run.error
    assert run.result is not None
    assert any("'table.csv' was changed or removed during the run" in text for text in run.result["warnings"])
    assert bits(run) == yard.steps_bits


def remove_shards(home: Path) -> None:
    for folder in (home / "cache").glob("shards-*"):
        shutil.rmtree(folder)


def flip_shards(home: Path) -> None:
    for path in (home / "cache").glob("shards-*/shard-*.bin"):
        flip(path)


@pytest.mark.parametrize("harm", [remove_shards, flip_shards])
def test_damaged_shards_are_made_again_and_the_run_goes_on_from_its_checkpoint(
    yard: Yard, orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None]
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("SHOAL_HOME", str(home))
    orders.hold("round-10")
    run = yard.run(checkpoint_seconds=3600, **orders.knobs)
    with orders.held(run, "round-10"):
        harm(home)
        workers_of(run)[0].process.kill()  # who comes in its place, or takes over its shards, does not find them whole
    assert ended(run) == "finished", run.error
    assert bits(run) == yard.steps_bits
    assert sum("was damaged and has been made again" in text for text in log_texts(run, "warning")) == 1
    assert any("Resuming from the checkpoint of round" in text for text in log_texts(run))
    assert not events(run, "error")


def test_a_cache_removed_in_a_run_is_made_again_to_score_the_model(
    yard: Yard, orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("SHOAL_HOME", str(home))
    orders.hold("round-250")
    run = yard.run(checkpoint_seconds=3600, **orders.knobs)
    with orders.held(run, "round-250"):
        assert len(set().union(*mapped(run).values())) == 16
        shutil.rmtree(home / "cache")  # those who have their shards mapped go on; the model is scored on a new copy
    assert ended(run) == "finished", run.error
    assert bits(run) == yard.steps_bits


def test_short_memory_changes_no_bit(yard: Yard, orders: Orders) -> None:
    used = psutil.virtual_memory()
    orders.pause("round-10")
    run = yard.run(max_memory=0.05, **orders.knobs)
    paused(run)
    if (used.total - used.available) / used.total > 0.06:  # nothing less can be asked for
        until(lambda: any("nothing is read ahead" in event.text for event in events(run, "warning")))
    assert wait_settled(run, post(run, "resume"), SLOW).outcome == "done"
    assert ended(run) == "finished", run.error
    assert bits(run) == yard.steps_bits


@pytest.mark.parametrize("which", ["metrics.sqlite", "metrics.sqlite*"])
def test_a_stop_arrives_though_the_records_were_removed(yard: Yard, orders: Orders, which: str) -> None:
    orders.pause("round-10")
    run = paused(yard.run(**orders.knobs))
    for path in run.directory.glob(which):
        path.unlink()
    assert wait_settled(run, post(run, "stop"), SLOW).outcome == "done"
    assert ended(run) == "stopped", run.error
    assert any("begun anew" in text for text in log_texts(run, "warning"))


@contextlib.contextmanager
def small_disk_of(run: Run) -> Iterator[Path]:
    """The run's folder on a file system of its own, with all that is in it so far."""
    files = {path.name: path.read_bytes() for path in run.directory.iterdir()}
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(run.directory)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        for name, content in files.items():
            (run.directory / name).write_bytes(content)
        yield run.directory / "fill"
    finally:
        subprocess.run(["umount", "-l", str(run.directory)], check=True)


def test_a_disk_that_is_full_at_the_very_end_is_the_cause_that_is_said(yard: Yard, orders: Orders) -> None:
    orders.hold("end")
    (yard.home / "queue").mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        with lock_file(yard.home / "queue" / scheduling.LOCK, SLOW) or pytest.fail("held by another"):
            run = yard.run(**orders.knobs)  # nobody starts it yet
            fill = stack.enter_context(small_disk_of(run))
        scheduling.keep_going()
        with orders.held(run, "end"), fill.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1024))
        assert ended(run) == "failed", run.cause
        assert run.standing.reason == Reason.OUT_OF_DISK
        assert "isk" in run.cause or "No space" in run.cause
        fill.unlink()
        assert ended(resume(run)) == "finished", run.error
        assert bits(run) == yard.steps_bits
        assert not (run.directory / "reserve").exists()
