"""What tests of detached runs need: a home that is cleared of processes, a small table, and waiting for things to happen."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from shoal.home import runs_directory
from shoal.runs.commands import metrics_of
from shoal.runs.folder import new_run_id
from shoal.runs.launch import Run, list_runs
from shoal.search.folder import Search, start
from shoal.search.plan import SearchPlan
from shoal.search.space import chosen_space
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from support.records import read_log

SLOW = 60.0  # seconds; two cores may be busy with other things
ALONE = {"step_rule": "sgd", "schedule": "constant", "compression": "none", "batch_size": "64", "mode": "sync"}


@contextlib.contextmanager
def run_home(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own with one slot; whatever runs in it at the end is killed."""
    monkeypatch.setenv("SHOAL_HOME", str(path))
    monkeypatch.setenv("SHOAL_SLOTS", "1")
    yield path
    shutil.rmtree(path / "queue", ignore_errors=True)
    until(lambda: not [_killed(run) for run in list_runs() if run.is_alive])


def _killed(run: Run) -> None:
    if pid := run.pid:  # one that is starting has not said it yet
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def small_table(folder: Path) -> Path:
    """400 rows of a, b, c and y."""
    random = np.random.default_rng(1)
    X = random.normal(size=(400, 3)).round(4)
    y = (X @ [1.0, -2.0, 0.5] + 0.3 + 0.1 * random.normal(size=400)).round(4)
    path = folder / "table.csv"
    np.savetxt(path, np.column_stack([X, y]), "%.4f", ",", header="a,b,c,y", comments="")
    return path


def until(what: Callable[[], Any], seconds: float = SLOW) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)
    return found


def ended(run: Run) -> str:
    """The state in which a run ends."""
    until(lambda: not run.is_active and not run.is_alive, 3 * SLOW)
    return run.state


def short_run(data: Path, **knobs: Any) -> RunConfig:
    """One that stays as it is when it is killed."""
    plain = {"file": str(data), "target": "y", "solver": "gradient", "workers": 1, "epochs": 2, "retries": 0}
    return config_from({**plain, **knobs})


def endless_run(data: Path, **knobs: Any) -> RunConfig:
    """One that goes on until it is stopped, with a checkpoint every moment."""
    return short_run(data, **{"epochs": 1_000_000, "tolerance": 0, "checkpoint_seconds": 0.05, **knobs})


def training(run: Run) -> Run:
    """Wait until it has made some rounds."""
    until(lambda: (run.state == "running" and rounds(run) > 3) or not run.is_active)
    assert run.state == "running", run.error
    return run


def paused(run: Run) -> Run:
    until(lambda: run.state == "paused" or not run.is_active)
    assert run.state == "paused", run.error
    return run


def commands(run: Run) -> list[str]:
    """The names of all commands that the run was given."""
    with metrics_of(run) as storage:
        return [command.name for command in storage.commands()] if storage else []


def rounds(run: Run) -> int:
    with metrics_of(run) as storage:
        last = storage.last_round() if storage else None
    return last.round if last else 0


def descendants(run: Run) -> list[psutil.Process]:
    return psutil.Process(run.pid).children(recursive=True)


def all_gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=SLOW)[1]


@contextlib.contextmanager
def slots_taken(*numbers: int) -> Iterator[None]:
    """Slots in the hands of somebody else."""
    folder = Path(os.environ["SHOAL_HOME"]) / "queue"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        for number in numbers:
            fcntl.flock(held.enter_context((folder / f"slot-{number}").open("a")), fcntl.LOCK_EX)
        yield


def waiting(*runs: Run) -> None:
    for run in runs:
        assert run.state == "queued"
        assert "first in" in run.cause or "ahead" in run.cause
        assert run.pid is None


def began(run: Run) -> float:
    """When it left the queue."""
    return next(float(entry["at"]) for entry in read_log(run.directory) if entry["text"] == "preparing")


def made(**files: Any) -> Run:
    run = Run(runs_directory() / new_run_id())
    run.directory.mkdir(parents=True)
    config = RunConfig(file="/nowhere/t.csv", target="y", solver="gradient")
    for name, content in {"config": config.as_dict(), **files}.items():
        (run.directory / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    (run.directory / "started").touch()
    return run


def begun(data: Path, wishes: dict[str, Any], knobs: dict[str, Any] | None = None, **limits: Any) -> Search:
    """A search in one process a trial, so that a trial takes a second."""
    space, fixed = chosen_space({**ALONE, **wishes})
    config = config_from(
        {"file": str(data), "target": "y", "engine": "inline", "model": "ridge", "alpha": 1.0, **fixed, **(knobs or {})}
    )
    return start(config, SearchPlan(space, **{"trials": 10, "seconds": 20.0, **limits}))
