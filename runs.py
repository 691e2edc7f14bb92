"""Runs: one fit from config to report, in this process or in a detached one that outlives whoever started it.

`python -m runs DIRECTORY` is the detached process. Its folder is where everyone meets: config.json, progress.json,
result.json or error.json, log.txt, and a lock that the kernel holds for as long as the run is alive.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config import RunConfig, config_from
from coordinator import Coordinator, Progress, silent
from data_pipeline import Identity
from engines.base import Engine
from engines.inline import InlineEngine
from engines.processes import ProcessEngine
from errors import ConfigError, TrainingError
from fitting import Timings, fit_exact
from model_file import contents_of, save_model
from profiling import inspect
from reports import report
from utils import THREAD_LIMITS, home, write_atomically

SMALL_FILE = 48 << 20  # below this, one process is done before others have started


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_engine(config: RunConfig) -> Engine:
    """The engine that the config names, or for `auto` the one that suits the size of the file."""
    workers = config.workers or cores()
    size = Identity.of(Path(config.file).expanduser()).size
    if config.engine == "inline" or (config.engine == "auto" and size < SMALL_FILE):
        return InlineEngine()
    return ProcessEngine(workers)


@contextmanager
def coordinated(config: RunConfig, progress: Progress = silent) -> Iterator[Coordinator]:
    """A coordinator with an engine of its own, which is gone afterwards."""
    if not config.file:
        raise ConfigError("Expected a file to read, got none. Name a CSV or Parquet file.")
    with make_engine(config) as engine:
        yield Coordinator(engine, home(), progress)


def new_run_id() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def train(config: RunConfig, progress: Progress = silent, run_id: str | None = None) -> dict[str, Any]:
    """Fit and report; the object that `train --json` prints. Writes the model where the config says."""
    if not config.target:
        raise ConfigError("Expected a target, the column to predict; got none. Name it with --target.")
    started = time.perf_counter()
    timings = Timings()
    with coordinated(config, progress) as coordinator:
        with timings.stage("ingest"):
            dataset = coordinator.open(config)
        fit = fit_exact(coordinator, dataset, config, timings)
        result = report(fit)
    contents = contents_of(fit.encoding, result, config.as_dict(), fit.content)
    if config.out:
        save_model(Path(config.out), contents)
    timings.seconds["total"] = time.perf_counter() - started
    return {**result, "timings": timings.seconds, "run_id": run_id or new_run_id(), "contents": contents}


def look(config: RunConfig, progress: Progress = silent) -> dict[str, Any]:
    """What is in a file; the object that `inspect --json` prints."""
    with coordinated(config, progress) as coordinator:
        return inspect(coordinator, coordinator.open(config), config)


# ------------------------------------------------------------------ detached runs


@dataclass(frozen=True)
class Run:
    """A run by its folder; everything about it is read from there."""

    directory: Path

    @property
    def id(self) -> str:
        return self.directory.name

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            value: dict[str, Any] = json.loads((self.directory / name).read_text())
        except (OSError, ValueError):
            return None
        return value

    @property
    def config(self) -> dict[str, Any]:
        return self._read("config.json") or {}

    @property
    def result(self) -> dict[str, Any] | None:
        return self._read("result.json")

    @property
    def progress(self) -> tuple[str, float]:
        found = self._read("progress.json") or {"stage": "starting", "fraction": 0.0}
        return found["stage"], found["fraction"]

    @property
    def error(self) -> str | None:
        if self.state == "interrupted":
            return "The run ended before it was finished: its process was stopped. Start it again."
        found = self._read("error.json")
        return found["message"] if found else None

    @property
    def state(self) -> str:
        """preparing, running, finished, failed, or interrupted: the process is gone and left no result."""
        if (self.directory / "result.json").exists():
            return "finished"
        if (self.directory / "error.json").exists():
            return "failed"
        if not (self.directory / "started").exists():
            age = time.time() - self.directory.stat().st_mtime
            return "preparing" if age < 30 else "interrupted"
        return "running" if self._is_locked() else self._settled()

    def _settled(self) -> str:
        """The process may have ended between two looks: its last word counts."""
        for name, state in (("result.json", "finished"), ("error.json", "failed")):
            if (self.directory / name).exists():
                return state
        return "interrupted"

    def _is_locked(self) -> bool:
        with (self.directory / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
            return False


def runs_directory() -> Path:
    return home() / "runs"


def launch(config: RunConfig) -> Run:
    """Start a run in a process of its own session; it goes on when its starter is gone."""
    directory = runs_directory() / new_run_id()
    directory.mkdir(parents=True)
    write_atomically(directory / "config.json", json.dumps(config.as_dict()).encode())
    with (directory / "log.txt").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "runs", str(directory)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, close_fds=True,
            cwd=Path(__file__).parent, env={**os.environ, **THREAD_LIMITS},
        )  # fmt: skip
    return Run(directory)


def find_run(run_id: str) -> Run | None:
    directory = runs_directory() / Path(run_id).name
    return Run(directory) if (directory / "config.json").exists() else None


def _throttled(write: Callable[[str, float], None]) -> Progress:
    last = 0.0

    def progress(stage: str, fraction: float) -> None:
        nonlocal last
        if time.monotonic() - last > 0.1 or fraction >= 1:
            last = time.monotonic()
            write(stage, fraction)

    return progress


def run_detached(directory: Path) -> None:
    """The life of a run process: its last act is to write a result or an error, then the lock goes with it."""
    with (directory / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (directory / "started").touch()

        def write(stage: str, fraction: float) -> None:
            write_atomically(directory / "progress.json", json.dumps({"stage": stage, "fraction": fraction}).encode())

        try:
            config = config_from(json.loads((directory / "config.json").read_text()))
            result = train(config, _throttled(write), directory.name)
            save_model(directory / "model.json", result.pop("contents"))
            write_atomically(directory / "result.json", json.dumps(result).encode())
        except Exception as error:  # noqa: BLE001 - whatever it was, the folder must say so
            traceback.print_exc()
            message = (
                str(error)
                if isinstance(error, TrainingError)
                else (f"The run failed for an unforeseen reason ({type(error).__name__}). Its log has the details.")
            )
            write_atomically(directory / "error.json", json.dumps({"message": message}).encode())


if __name__ == "__main__":
    run_detached(Path(sys.argv[1]))
