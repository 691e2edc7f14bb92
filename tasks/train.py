"""Runs: one fit from config to report, in this process; a gradient run with what its folder lends it.

The life of a detached process is in `processes.run`, which imports this module when its turn has come.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.coordinator import Coordinator
from shoal.data.files import Identity
from shoal.engines.base import Engine
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.errors import ConfigError, Remedy, Standing, StateError
from shoal.fitting.exact import Fit, fit_exact
from shoal.fitting.inspection import inspect
from shoal.fitting.model_file import model_output, save_model
from shoal.fitting.reports import Trained, described
from shoal.home import home
from shoal.metrics import Timings
from shoal.results.fit import FitReport
from shoal.results.model import model_bytes
from shoal.runs.folder import Run, new_run_id
from shoal.runs.slots import cores
from shoal.settings.config import RunConfig
from shoal.settings.limits import worker_count
from shoal.utils import Progress, silent

__all__ = ["cores"]


def workers_for(config: RunConfig) -> int:
    """How many worker processes suit the file and the config; 0 for none, this process does it."""
    config.ready(target=False)
    return worker_count(config, Identity.of(Path(config.file).expanduser()).size, cores())


def make_engine(workers: int, solver: str = "exact") -> Engine:
    if not workers:
        return InlineEngine()
    return ProcessEngine(
        workers, preload=["shoal.passes.blocks" if solver == "exact" else "shoal.passes.gradient_loop"]
    )


@contextmanager
def coordinated(config: RunConfig, progress: Progress = silent) -> Iterator[Coordinator]:
    """A coordinator with an engine of its own, which is gone afterwards."""
    with make_engine(workers_for(config), config.solver) as engine:
        yield Coordinator(engine, home(), progress)


def train_with(coordinator: Coordinator, config: RunConfig, run_id: str | None = None) -> Trained:
    """Fit and report; writes the model where the config says."""
    config.ready()
    if config.solver != "exact":
        raise ConfigError("Expected solver exact here, got gradient. Use shoal.fit on a file, or `shoal train`.")
    started, timings, output = time.perf_counter(), Timings(), model_output(config)

    def fitted() -> Fit:
        with timings.stage("ingest"):
            dataset = coordinator.open(config)
        return fit_exact(coordinator, dataset, config, timings)

    trained = described(coordinator.cache.mending(fitted))
    if output:
        output.write(model_bytes(trained.model))
    timings.seconds["total"] = time.perf_counter() - started
    return replace(trained, report=replace(trained.report, timings=timings.seconds, run_id=run_id or new_run_id()))


def train(config: RunConfig, progress: Progress = silent, run_id: str | None = None) -> Trained:
    """A fit with an engine of its own."""
    with coordinated(config, progress) as coordinator:
        return train_with(coordinator, config, run_id)


def look(config: RunConfig, progress: Progress = silent) -> dict[str, Any]:
    """What is in a file; the object that `inspect --json` prints."""
    with coordinated(config, progress) as coordinator:
        return coordinator.cache.mending(lambda: inspect(coordinator, coordinator.open(config), config))


def train_gradient_with(coordinator: Coordinator, config: RunConfig) -> Trained:
    """A gradient run in this process that leaves no folder behind."""
    from shoal.storage import open_storage
    from shoal.training.callbacks import callbacks_named
    from shoal.training.checkpoints import Checkpoints
    from shoal.training.conductor import Session
    from shoal.training.run import train_gradient

    def log(level: str, text: str) -> None:
        if level != "info":
            warnings.warn(text, stacklevel=2)

    output = model_output(config)
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder, open_storage("memory://") as storage:
        callbacks = callbacks_named(config.callbacks, lambda text: log("warning", text))
        session = Session(storage, Checkpoints(Path(folder)), callbacks, log, lambda standing: None)
        trained = train_gradient(coordinator, config, session, None, new_run_id())
    if output:
        output.write(model_bytes(trained.model))
    return trained


def train_in_folder(
    run: Run, config: RunConfig, progress: Progress, log: Callable[[str, str], None], state: Callable[[Standing], None]
) -> FitReport:
    """A gradient run from its newest checkpoint, if it has one, to its model file; what its result.json says."""
    # Imported here: an exact fit, which may take less time than this, needs none of it.
    from shoal.storage import open_storage
    from shoal.training.callbacks import callbacks_named
    from shoal.training.checkpoints import Checkpoints
    from shoal.training.conductor import Session
    from shoal.training.run import train_gradient

    def warn(text: str) -> None:
        log("warning", text)

    callbacks = callbacks_named(config.callbacks, warn)
    checkpoints = Checkpoints(run.checkpoints_path, config.keep_checkpoints, warn)
    with open_storage(run.metrics_url) as storage, coordinated(config, progress) as coordinator:
        session = Session(storage, checkpoints, callbacks, log, state)
        newest = checkpoints.newest()
        if newest is None and "forked_from" in run.job:
            way = Remedy.run("Fork it again", "fork", run.job["forked_from"]["run"])
            raise StateError("The checkpoint that this fork begins from is damaged or gone.", way)
        trained = train_gradient(coordinator, config, session, newest, run.id)
    save_model(run.model_path, trained.model)
    if output := model_output(config):
        output.write(model_bytes(trained.model))
    return trained.report
