"""Runs: one fit from config to report, in this process or in a detached one that outlives whoever started it.

`python -m runs DIRECTORY` is the detached process; how one is started and what its folder holds is in `run_store`.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from config import RunConfig, config_from
from coordinator import Coordinator, Progress, silent
from data_pipeline import Identity
from engines.base import Engine
from engines.inline import InlineEngine
from engines.processes import ProcessEngine
from errors import ConfigError, TrainingError
from fitting import Fit, Timings, fit_exact
from model_file import contents_of, save_model
from previews import preview
from profiling import inspect
from reports import report
from run_store import Run, new_run_id
from utils import home, write_atomically

SMALL_FILE = 48 << 20  # below this, one process is done before others have started


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers_for(config: RunConfig) -> int:
    """How many worker processes suit the file and the config; 0 for none, this process does it."""
    if not config.file:
        raise ConfigError("Expected a file to read, got none. Name a CSV or Parquet file.")
    size = Identity.of(Path(config.file).expanduser()).size
    if config.engine == "inline" or (config.engine == "auto" and size < SMALL_FILE):
        return 0
    return config.workers or cores()


def make_engine(workers: int) -> Engine:
    return ProcessEngine(workers, preload=["block_requests"]) if workers else InlineEngine()


@contextmanager
def coordinated(config: RunConfig, progress: Progress = silent) -> Iterator[Coordinator]:
    """A coordinator with an engine of its own, which is gone afterwards."""
    with make_engine(workers_for(config)) as engine:
        yield Coordinator(engine, home(), progress)


class Trained(NamedTuple):
    """A fit, the object that `train --json` prints, and what its model file holds."""

    fit: Fit
    report: dict[str, Any]
    contents: dict[str, Any]


def train_with(coordinator: Coordinator, config: RunConfig, run_id: str | None = None) -> Trained:
    """Fit and report; writes the model where the config says."""
    if not config.target:
        raise ConfigError("Expected a target, the column to predict; got none. Name it with --target.")
    started, timings = time.perf_counter(), Timings()
    with timings.stage("ingest"):
        dataset = coordinator.open(config)
    fit = fit_exact(coordinator, dataset, config, timings)
    said, contents = described(fit)
    if config.out:
        save_model(Path(config.out), contents)
    timings.seconds["total"] = time.perf_counter() - started
    return Trained(fit, {**said, "timings": timings.seconds, "run_id": run_id or new_run_id()}, contents)


def described(fit: Fit) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report of a fit and the contents of its model file."""
    said, prepared = report(fit), fit.prepared
    return said, contents_of(prepared.encoding, said, fit.config.as_dict(), prepared.dataset.manifest.content)


def train(config: RunConfig, progress: Progress = silent, run_id: str | None = None) -> Trained:
    """A fit with an engine of its own."""
    with coordinated(config, progress) as coordinator:
        return train_with(coordinator, config, run_id)


def look(config: RunConfig, progress: Progress = silent) -> dict[str, Any]:
    """What is in a file; the object that `inspect --json` prints."""
    with coordinated(config, progress) as coordinator:
        return inspect(coordinator, coordinator.open(config), config)


# ------------------------------------------------------------------ detached runs


def _throttled(write: Callable[[str, float], None]) -> Progress:
    last = 0.0

    def progress(stage: str, fraction: float) -> None:
        nonlocal last
        if time.monotonic() - last > 0.1 or fraction >= 1:
            last = time.monotonic()
            write(stage, fraction)

    return progress


def _work(directory: Path, config: RunConfig, progress: Progress) -> dict[str, Any]:
    """What the folder's job asks for."""
    if Run(directory).task == "inspect":
        found = look(config, progress)
        names = [column["name"] for column in found["columns"]]
        return {**found, "preview": preview(Path(config.file).expanduser(), found["dialect"], names)}
    trained = train(config, progress, directory.name)
    save_model(directory / "model.json", trained.contents)
    return trained.report


def run_detached(directory: Path) -> None:
    """The life of a run process: its last act is to write a result or an error, then the lock goes with it."""
    with (directory / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (directory / "started").touch()

        def write(stage: str, fraction: float) -> None:
            write_atomically(directory / "progress.json", json.dumps({"stage": stage, "fraction": fraction}).encode())

        try:
            config = config_from(json.loads((directory / "config.json").read_text()))
            result = _work(directory, config, _throttled(write))
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
