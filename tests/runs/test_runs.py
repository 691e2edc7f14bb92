"""Detached runs: truthful states, orderly and disorderly ends, resume, fork, commands. All processes are real."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from shoal.errors import ConfigError, Standing, StateError
from shoal.files.locks import is_held, own_lock
from shoal.runs import tickets
from shoal.runs.commands import metrics_of, post, wait_settled
from shoal.runs.folder import new_run_id, write_state
from shoal.runs.launch import find_run, fork, launch, resolve, resume
from shoal.settings.config import RunConfig
from shoal.utils import RunLog
from support.records import read_log
from support.runs import (  # fmt: skip
    SLOW,
    all_gone,
    descendants,
    ended,
    endless_run,
    made,
    rounds,
    run_home,
    short_run,
    slots_taken,
    small_table,
    training,
    until,
    waiting,
)
from support.tables import mounted, shoal

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_table(tmp_path)


# ------------------------------------------------------------------ states by folder


@pytest.mark.parametrize(("files", "state", "words"), [
    ({"result": {"model": "linear"}}, "finished", "complete"),
    ({"result": {"state": "stopped", "cause": "A person stopped it."}}, "stopped", "A person stopped it."),
    ({"error": {"message": "Expected x, got y."}}, "failed", "Expected x, got y."),
    ({"error": {"message": "Expected x.", "remedies": [{"kind": "run", "advice": "See them", "name": "runs",
                                                        "arguments": []}]}}, "failed", "Expected x. See them: shoal runs."),
    ({"error": "{torn"}, "failed", "cannot be read"),
    ({"state": {"state": "running", "cause": ""}}, "interrupted", "its process was stopped"),
    ({"state": {"state": "queued", "cause": ""}}, "interrupted", "its process was stopped"),
    ({"state": {"state": "stopped", "cause": "In the queue."}}, "stopped", "In the queue."),
    ({"state": "[]"}, "interrupted", "resume"),
    ({}, "interrupted", "its process was stopped"),
])  # fmt: skip
def test_states_without_a_process(files: dict[str, Any], state: str, words: str) -> None:
    run = made(**files)
    assert (run.state, run.is_active, run.pid) == (state, False, None)
    assert words in run.cause
    assert (run.error is None) == (run.result is not None)


@pytest.mark.parametrize("state", ["queued", "preparing", "running", "paused", "stopping"])
def test_states_of_a_live_process_are_its_own_words(state: str) -> None:
    run = made()
    with own_lock(run.directory) as mine:
        assert mine
        assert (run.state, run.pid) == ("running", os.getpid())
        write_state(run.directory, Standing(state, "because"))
        assert (run.state, run.cause, run.is_active) == (state, "because", True)
        with own_lock(run.directory, wait=0) as twice:
            assert not twice
    assert run.state == "interrupted"


def test_names_are_in_order_and_found_by_their_beginning() -> None:
    names = [new_run_id() for _ in range(200)]
    assert names == sorted(names)
    with pytest.raises(StateError, match="no runs yet"):
        resolve("last")
    first, second = made(), made()
    assert first.id < second.id
    assert resolve("last") == second
    assert resolve(first.id) == first
    assert resolve(second.id[:-1]) == second
    with pytest.raises(StateError, match="2 begin with '20'"):
        resolve("20")
    for name in ("19990101", "", "../x"):
        with pytest.raises(StateError, match="Expected the name of a run"):
            resolve(name)


def test_the_log_is_for_programs_and_for_people(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("a stray print that was cut o")
    (tmp_path / "log.jsonl").write_text('{"at": 1, "le')
    with RunLog(tmp_path) as log:
        log("info", "reading caf\udce9.csv")
        log.warning("slow")
        try:
            raise ValueError("the inner reason")
        except ValueError as error:
            log.error("Expected a, got b.", error)
    entries = list(read_log(tmp_path))
    assert [entry["level"] for entry in entries] == ["info", "warning", "error"]
    assert entries[0]["text"] == "reading caf\udce9.csv"
    assert entries[2]["text"].splitlines()[0] == "Expected a, got b."
    assert "the inner reason" in entries[2]["text"]
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert lines[1].endswith(" reading caf\\udce9.csv")
    assert lines[2].endswith(" warning: slow")
    assert lines[3].endswith(" error: Expected a, got b.")
    assert all(line.startswith("    ") for line in lines[4:])
    time.strptime(lines[1][:19], "%Y-%m-%d %H:%M:%S")


# ------------------------------------------------------------------ hostile conditions


def test_a_second_process_leaves_the_first_alone(data: Path) -> None:
    run = training(launch(endless_run(data)))
    pid = run.pid
    second = subprocess.run([sys.executable, "-m", "shoal.processes.run", str(run.directory)], cwd=ROOT, timeout=SLOW)
    assert (second.returncode, run.pid, run.state) == (0, pid, "running")


def test_a_damaged_config_is_said(data: Path) -> None:
    with slots_taken(0):
        run = launch(short_run(data))
        (run.directory / "config.json").write_text('{"file": "x')
    assert ended(run) == "failed"
    assert "damaged" in run.cause
    with pytest.raises(StateError, match="damaged"):
        resume(run)
    assert find_run(run.id) == run


def test_a_full_disk_at_launch_leaves_nothing(data: Path, home: Path) -> None:
    code = f"""
        import resource, sys
        from shoal.cli import app as cli
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        sys.exit(cli.main(["train", {str(data)!r}, "--target", "y", "--solver", "gradient"]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=SLOW)
    assert done.returncode == 1
    assert done.stderr.startswith("shoal: The disk is full")
    assert done.stderr.count("\n") == 1
    assert list((home / "runs").iterdir()) == []
    assert tickets.tickets() == []


def test_an_exact_fit_is_stopped_by_a_signal_and_done_again(tmp_path: Path) -> None:
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)  # nobody writes into it: an exact fit that never gets anywhere would do as well
    run = launch(RunConfig(file=str(path), target="y"))
    assert ended(run) == "failed"
    path.unlink()
    path.write_text("a,y\n" + "".join(f"{i},{2 * i + 1}\n" for i in range(30)))
    resume(run)
    assert ended(run) == "finished", run.error
    assert run.result is not None
    assert run.result["coefficients"]["a"] == pytest.approx(2)
    with pytest.raises(StateError, match="finished"):
        resume(run)
    with pytest.raises(StateError, match="takes no commands"):
        post(run, "stop")
    with pytest.raises(StateError, match="exact fit"):
        fork(run)


def test_a_run_whose_cluster_is_gone_goes_on_elsewhere(data: Path) -> None:
    nowhere = dataclasses.replace(short_run(data), engine="ray", cluster="127.0.0.1:1")
    run = launch(nowhere)
    assert ended(run) == "failed"
    assert "Nobody answers at 127.0.0.1:1" in run.cause
    done = shoal("resume", run.id, "--engine", "inline")
    assert done.code == 0, done.err
    assert ended(run) == "finished", run.error
    assert (run.config["engine"], run.config["cluster"]) == ("inline", "")
    with pytest.raises(StateError, match="is finished"):
        resume(run, {"cluster": "127.0.0.1:1"})


# ------------------------------------------------------------------ training, for real


def test_a_run_is_paused_steered_stopped_and_resumed(data: Path) -> None:
    run = training(launch(endless_run(data)))
    until(lambda: run.progress[0].startswith("epoch "))
    assert wait_settled(run, post(run, "pause"), SLOW).outcome == "done"
    until(lambda: run.state == "paused")
    until(lambda: run.progress[0] == "paused")
    resume(run)
    until(lambda: run.state == "running")
    settled = wait_settled(run, post(run, "set", {"learning_rate": 0.001}), SLOW)
    assert settled.outcome == "done"
    assert settled.round is not None
    refused = wait_settled(run, post(run, "fly", {}), SLOW)
    assert refused.outcome not in (None, "done")
    with pytest.raises(StateError, match="running"):
        resume(run)
    workers = descendants(run)
    os.kill(run.pid or 0, signal.SIGTERM)
    assert ended(run) == "stopped", run.error
    assert run.cause
    assert run.result is not None
    assert run.model_path.exists()
    assert all_gone(workers)
    done, text = rounds(run), data.read_text()
    data.write_text(text + "1,2,3,4\n")
    resume(run)
    assert ended(run) == "failed"
    assert "is not what it was when the checkpoint was taken" in run.cause
    data.write_text(text)
    resume(run)
    until(lambda: rounds(run) > done)
    assert run.state == "running"
    post(run, "stop")
    assert ended(run) == "stopped"
    with pytest.raises(StateError, match="takes no commands"):
        post(run, "pause")


def test_a_killed_run_is_interrupted_frees_its_slot_and_goes_on_from_its_checkpoint(data: Path) -> None:
    run = training(launch(endless_run(data)))
    until(lambda: list(run.checkpoints_path.glob("*.ckpt")))
    workers = descendants(run)
    assert workers
    assert is_held(Path(os.environ["SHOAL_HOME"]) / "queue" / "slot-0")
    os.kill(run.pid or 0, signal.SIGSTOP)
    unseen = post(run, "stop")  # must not stop the one who goes on
    os.kill(run.pid or 0, signal.SIGKILL)
    until(lambda: not run.is_alive)
    done = rounds(run)
    assert wait_settled(run, unseen).outcome == "The run ended before it saw this command."
    assert run.state == "interrupted"
    assert f"shoal resume {run.id}" in run.cause
    assert all_gone(workers)
    assert not is_held(Path(os.environ["SHOAL_HOME"]) / "queue" / "slot-0")
    resume(run)
    until(lambda: rounds(run) > done or not run.is_active)
    with metrics_of(run) as storage:
        assert storage is not None
        numbers = [record.round for record in storage.rounds()]
    assert numbers == sorted(set(numbers))
    assert numbers[0] < done < numbers[-1]
    post(run, "stop")
    assert ended(run) == "stopped"


def test_a_fork_goes_on_from_a_checkpoint_with_other_settings(data: Path) -> None:
    run = training(launch(endless_run(data)))
    until(lambda: len(list(run.checkpoints_path.glob("*.ckpt"))) > 1)
    for change in ({"target": "a"}, {"shards": 3}, {"step_rule": "adam"}, {"solver": "exact"}, {"no_knob": 1}):
        with pytest.raises(ConfigError):
            fork(run, None, change)
    with pytest.raises(StateError, match="Choose one of the others"):
        fork(run, 7_777_777)
    other = fork(run, None, {"model": "ridge", "alpha": "30", "epochs": 1, "tolerance": "1e-10", "mode": "ssp"})
    origin = other.job["forked_from"]
    assert origin["run"] == run.id
    assert [int(path.stem.split("-")[1]) for path in other.checkpoints_path.glob("*.ckpt")] == [origin["step"]]
    changed = {name for name, value in other.config.items() if run.config[name] != value}
    assert changed == {"model", "alpha", "epochs", "tolerance", "mode"}
    waiting(other)
    post(run, "stop")
    assert ended(run) == "stopped"
    assert ended(other) == "finished", other.error
    assert run.config["alpha"] != 30
    rows = np.loadtxt(data, delimiter=",", skiprows=1)
    X, y = rows[:, :3] - rows[:, :3].mean(0), rows[:, 3] - rows[:, 3].mean()
    spread = X.std(0)
    w = np.linalg.solve(X.T @ X / np.outer(spread, spread) + 30 * np.eye(3), X.T @ y / spread) / spread
    assert other.result is not None
    np.testing.assert_allclose([other.result["coefficients"][name] for name in "abc"], w, rtol=1e-4)
    with metrics_of(other) as storage:
        assert storage is not None
        assert storage.rounds()[0].round >= origin["step"]


def test_a_run_whose_file_is_gone_fails_and_can_be_resumed_when_it_is_back(data: Path) -> None:
    with slots_taken(0):
        run = launch(short_run(data, engine="inline"))
        waiting(run)
        kept = data.rename(data.with_name("elsewhere.csv"))
    assert ended(run) == "failed"
    assert f"Expected a file at '{data}'" in run.cause
    entry = list(read_log(run.directory))[-1]
    assert entry["level"] == "error"
    assert entry["text"].splitlines()[0] == run.cause
    assert "Traceback" not in run.cause
    kept.rename(data)
    resume(run)
    assert ended(run) == "finished", run.error


def test_a_run_whose_folder_is_removed_ends_and_does_not_make_it_anew(data: Path, home: Path) -> None:
    run = training(launch(endless_run(data)))
    processes = [psutil.Process(run.pid), *descendants(run)]
    until(
        lambda: shutil.rmtree(run.directory, ignore_errors=True) or not run.directory.exists()
    )  # it may write meanwhile
    assert all_gone(processes)
    assert not run.directory.exists()
    assert run.state == "interrupted"
    assert not is_held(home / "queue" / "slot-0")


def test_a_locked_store_is_said(data: Path) -> None:
    run = training(launch(endless_run(data)))
    with contextlib.closing(sqlite3.connect(run.metrics_path, timeout=SLOW)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateError, match=r"locked|another process|busy"):
            post(run, "checkpoint")
        other.rollback()
    assert run.state == "running"


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "tiny", megabytes=4) as folder:
        yield folder


def test_a_run_on_a_full_disk_can_be_stopped_and_resumed(
    data: Path, tiny_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tiny_disk))
    run = training(launch(endless_run(data)))
    workers = descendants(run)
    with (tiny_disk / "fill").open("wb", buffering=0) as fill, contextlib.suppress(OSError):
        while True:
            fill.write(bytes(4096))
    until(lambda: any("full" in entry["text"] for entry in read_log(run.directory)) or run.state == "paused")
    assert run.is_alive  # a full disk is no reason to die
    post(run, "stop")
    assert ended(run) in ("stopped", "interrupted")
    assert all_gone(workers)
    (tiny_disk / "fill").unlink()
    done = rounds(run)
    training(resume(run))
    until(lambda: rounds(run) > done)
    post(run, "stop")
    assert ended(run) == "stopped"
