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
from typing import TYPE_CHECKING

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.engines.base import Engine
from shoal.errors import ConfigError, Remedy, Standing, StateError
from shoal.fitting.model_file import model_output, save_model
from shoal.fitting.own_metrics import check_metrics, with_metrics
from shoal.fitting.reports import Trained, described, noted
from shoal.fitting.rules import checked, with_findings
from shoal.fitting.tuned import AlphaChoice, with_tuning
from shoal.fitting.wide import fit_table
from shoal.home import home, new_run_id
from shoal.kernels.threads import one_thread
from shoal.metrics import Timings
from shoal.results.answers.table import TableLook
from shoal.results.findings import Routine
from shoal.results.fit import FitReport
from shoal.results.model import model_bytes
from shoal.results.tuned import CrossValidated
from shoal.runs.slots import cores
from shoal.settings.config import RunConfig
from shoal.settings.limits import check_sparse, keeps_sparse
from shoal.settings.when import BY_TARGET, CLASSES, LOSSES, NETWORK
from shoal.sparse.table import is_sparse
from shoal.tasks.workers import make_engine, workers_for
from shoal.tuning.alpha import with_alpha
from shoal.utils import Progress, silent, write_atomically

if TYPE_CHECKING:
    from shoal.runs.folder import Run
    from shoal.training.checkpoints import Snapshot

__all__ = ["cores"]


@contextmanager
def coordinated(
    config: RunConfig, progress: Progress = silent, hired: Engine | None = None, kept_in: Path | None = None,
) -> Iterator[Coordinator]:  # fmt: skip
    """A coordinator with an engine of its own, or the one that was `hired` for it, which is gone afterwards; data sets
    are kept in SHOAL_HOME, or `kept_in` another folder."""
    with hired or make_engine(config) as engine:
        engine.on_wait = lambda why: progress(why, 0.0)
        yield Coordinator(engine, kept_in or home(), progress)


def train_with(
    coordinator: Coordinator, config: RunConfig, run_id: str | None = None, tuned: CrossValidated | None = None
) -> Trained:
    """Fit and report; writes the model where the config says. `tuned` is how its penalty was chosen."""
    config = suited_to_rows(config)
    _check_exact(config)
    started, timings, output = time.perf_counter(), Timings(), model_output(config)
    fitted = _fitted_sparse if is_sparse(config) else _fitted
    trained, chosen = coordinator.cache.mending(lambda: fitted(coordinator, config, timings))
    if found := tuned or chosen.found:
        trained = with_tuning(trained, found)
    if output:
        output.write(model_bytes(trained.model))
    timings.seconds["total"] = time.perf_counter() - started
    return replace(trained, report=replace(trained.report, timings=timings.seconds, run_id=run_id or new_run_id()))


def _check_exact(config: RunConfig) -> None:
    """What needs no look at the rows is refused before they are read."""
    config.ready()
    if not is_sparse(config):
        check_sparse(config)
    if config.model == NETWORK and config.solver == "exact":
        raise ConfigError(
            f"Expected solver gradient beside model {NETWORK}, got exact: a network has no exact answer.",
            Remedy.set("Train it by steps", "solver", "gradient"), knobs=["model", "solver"],
        )  # fmt: skip
    if config.solver != "exact":
        raise ConfigError("Expected solver exact here, got gradient. Use shoal.fit on a file, or `shoal train`.")
    check_metrics(config)


def _fitted(coordinator: Coordinator, config: RunConfig, timings: Timings) -> tuple[Trained, AlphaChoice]:
    """From a table of cells: read, its model and penalty chosen where they are left open, fitted, scored."""
    with timings.stage("ingest"):
        dataset = coordinator.open(config)
        found = checked(dataset, config)
    said = []
    if config.model == BY_TARGET:
        config, why = by_target(coordinator, dataset, config)
        check_metrics(config)
        said.append(why)
    with timings.stage("tune"):
        chosen = with_alpha(coordinator, dataset, config)
    made = with_findings(exactly(coordinator, dataset, chosen.config, timings), found)
    if config.bands:
        from shoal.fitting.robust.bands import with_bands  # here: other fits need none of it

        made = with_bands(coordinator, dataset, chosen.config, made, timings)
    with timings.stage("score"):
        made = with_metrics(coordinator, dataset, chosen.config, made)
    return noted(made, (*said, *chosen.notes)), chosen


def _fitted_sparse(coordinator: Coordinator, config: RunConfig, timings: Timings) -> tuple[Trained, AlphaChoice]:
    """From a file of sparse rows."""
    from shoal.sparse.choice import with_alpha as with_sparse_alpha  # here: tables of cells need none of it
    from shoal.sparse.fit import fit_sparse
    from shoal.sparse.outcomes import fit_sparse_outcome
    from shoal.sparse.own_metrics import with_sparse_metrics

    check_metrics(config)
    with timings.stage("tune"):
        chosen = with_sparse_alpha(coordinator, config)
    fit = fit_sparse_outcome if config.model in LOSSES else fit_sparse
    made = fit(coordinator, chosen.config, timings)
    with timings.stage("score"):
        made = with_sparse_metrics(coordinator, chosen.config, made)
    return noted(made, chosen.notes), chosen


def suited_to_rows(config: RunConfig) -> RunConfig:
    """The config with the target that its file leaves no choice about; what its rows have no way for is refused."""
    if not is_sparse(config):
        return config
    from shoal.sparse.fit import suited  # here: tables of cells need none of it

    return suited(config)


def exactly(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> Trained:
    """From sums, or by Newton steps where the loss is another one; from sparse rows where levels may be very many."""
    if keeps_sparse(config):
        from shoal.sparse.texts.cells import fit_cells  # here: other fits need none of it

        return fit_cells(coordinator, dataset, config, timings)
    if config.model not in LOSSES:
        return described(fit_table(coordinator, dataset, config, timings))
    with one_thread:  # as workers have: two for steps this small wait for each other on cores that others use
        return _by_steps(coordinator, dataset, config, timings)


def _by_steps(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> Trained:
    if config.model == CLASSES:
        from shoal.fitting.classes.fit import fit_classes
        from shoal.fitting.classes.report import described_classes

        return described_classes(fit_classes(coordinator, dataset, config, timings))
    from shoal.fitting.losses.fit import fit_loss  # here: linear models need none of it
    from shoal.fitting.losses.report import described_loss
    from shoal.fitting.robust.quantile import fit_quantile

    fit = fit_quantile if config.model == "quantile" else fit_loss
    return described_loss(fit(coordinator, dataset, config, timings))


def by_target(coordinator: Coordinator, dataset: Dataset, config: RunConfig) -> tuple[RunConfig, str]:
    """The same with the model that suits the values of the target, and why it does."""
    from shoal.fitting.looks.proposal import look_for

    found = look_for(coordinator, dataset, config)
    if not found.model:
        raise ConfigError(f"{found.why} Choose another target.", knobs=["target", "model"])
    why = f"The model was chosen by the target: {found.why} So it is {found.model}."
    return replace(config, model=found.model), Routine(why)


def train(
    config: RunConfig, progress: Progress = silent, run_id: str | None = None, tuned: CrossValidated | None = None,
    hired: Engine | None = None,
) -> Trained:  # fmt: skip
    """A fit with an engine of its own, or the one that was `hired` for it."""
    with coordinated(config, progress, hired) as coordinator:
        return train_with(coordinator, config, run_id, tuned)


def look(config: RunConfig, progress: Progress = silent) -> TableLook:
    """What is in a file."""
    with coordinated(config, progress) as coordinator:
        return coordinator.cache.mending(lambda: looked(coordinator, config))


def looked(coordinator: Coordinator, config: RunConfig) -> TableLook:
    """What is in a table, and what the target is taken for; None where there is none, or nothing in it."""
    if is_sparse(config):
        from shoal.sparse.inspection import looked_at_sparse  # here: tables of cells need none of it

        return looked_at_sparse(coordinator, config)
    from shoal.fitting.inspection import inspect  # here: a fit needs none of it
    from shoal.fitting.looks.proposal import look_for

    dataset = coordinator.open(config)
    found, column, target = inspect(coordinator, dataset, config), dataset.columns.get(config.target), None
    if column is not None and column.missing < dataset.rows - dataset.manifest.bad_count:
        target = look_for(coordinator, dataset, config)
    return replace(found, target=target)


def train_gradient_with(coordinator: Coordinator, config: RunConfig) -> Trained:
    """A gradient run in this process that leaves no folder behind."""
    from shoal.storage import open_storage
    from shoal.training.advisers import Advisers
    from shoal.training.callbacks import callbacks_named
    from shoal.training.checkpoints import Checkpoints
    from shoal.training.run import train_gradient
    from shoal.training.session import Session

    def log(level: str, text: str) -> None:
        if level != "info":
            warnings.warn(text, stacklevel=2)

    output = model_output(config)
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder, open_storage("memory://") as storage:

        def warn(text: str) -> None:
            log("warning", text)

        callbacks, advisers = callbacks_named(config.callbacks, warn), Advisers(config, warn)
        checkpoints = Checkpoints(Path(folder), config.keep_checkpoints, kept=advisers.kept)
        session = Session(storage, checkpoints, callbacks, log, lambda standing: None, advisers=advisers)
        trained = train_gradient(coordinator, config, session, None, new_run_id())
    if output:
        output.write(model_bytes(trained.model))
    return trained


def _staffed(config: RunConfig, newest: Snapshot | None) -> RunConfig:
    """With as many workers as the run had at its checkpoint: people add and remove some while it goes on."""
    count = newest.meta.get("workers") if newest else None
    return replace(config, workers=count) if count and workers_for(config) else config


def train_in_folder(
    run: Run, config: RunConfig, progress: Progress, log: Callable[[str, str], None], state: Callable[[Standing], None],
    again: str = "", fence: int | None = None,
) -> FitReport:  # fmt: skip
    """A gradient run from its newest checkpoint, if it has one, to its model file; what its result.json says.

    `again` says why, where nobody asked for it to go on; `fence` is what a run host of a team holds it with.
    """
    # Imported here: an exact fit, which may take less time than this, needs none of it.
    from shoal.runs import made_files
    from shoal.storage import place
    from shoal.training.advisers import Advisers
    from shoal.training.callbacks import callbacks_named
    from shoal.training.checkpoints import Checkpoints
    from shoal.training.run import train_gradient
    from shoal.training.session import Session

    def warn(text: str) -> None:
        log("warning", text)

    callbacks, advisers = callbacks_named(config.callbacks, warn), Advisers(config, warn)
    checkpoints = Checkpoints(run.checkpoints_path, config.keep_checkpoints, warn, run.owner, advisers.kept)

    def attempt(again: str) -> Trained:
        newest = checkpoints.newest()
        with (
            place.open_for_run(run.directory, run.owner, fence=fence) as storage,
            coordinated(_staffed(config, newest), progress) as coordinator,
        ):
            session = Session(storage, checkpoints, callbacks, log, state, again, advisers)
            if newest is None and "forked_from" in run.job:
                way = Remedy.run("Fork it again", "fork", run.job["forked_from"]["run"])
                raise StateError("The checkpoint that this fork begins from is damaged or gone.", way)
            return train_gradient(coordinator, config, session, newest, run.id)

    trained = advisers.persist(attempt, again, checkpoints)
    for name, content in trained.files.items():
        write_atomically(run.directory / name, content)
    if not trained.files:
        save_model(run.model_path, trained.model)
    made_files.seal(run.directory, trained.files or [made_files.MODEL])
    if output := model_output(config):
        output.write(model_bytes(trained.model))
    return trained.report
