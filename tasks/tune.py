"""The steps of `shoal tune`, from a config to an answer: read, sum the folds, choose. How is in `whatif`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns
from shoal.data.dataset import Dataset
from shoal.errors import ConfigError
from shoal.fitting.exact import bad_row_notes
from shoal.fitting.reports import Trained, finite
from shoal.fitting.summing import sum_cells, wide_cells
from shoal.fitting.tuned import cross_validated
from shoal.lazy.classes import dataclass
from shoal.metrics import Timings
from shoal.results.tuned import CrossValidated
from shoal.settings.config import RunConfig
from shoal.settings.meaning import understood
from shoal.settings.when import LOSSES, penalised_as
from shoal.sparse.table import is_sparse
from shoal.tasks.train import coordinated, suited_to_rows, train_with
from shoal.utils import Progress, silent
from shoal.whatif.cells import CellMoments
from shoal.whatif.folds import FoldChoice, usual_way
from shoal.whatif.penalty_choice import Tuned, checked_alphas, checked_ratios, tune
from shoal.whatif.rows_choice import CurveSoFar, Onlooker, tune_rows, unseen
from shoal.whatif.wide_choice import WideCells
from shoal.words import per_day

DRAWN = 200  # columns of which a page has the whole course
OFTEN = 0.3  # seconds between two notes of what there is
USUAL_RATIO = RunConfig.l1_ratio


@dataclass(frozen=True)
class TuningRequest:
    """Which penalties to try, and on which folds; fold_by "": by row, or by hash beside test rows; mixing ratios are
    said for an elastic net only."""

    folds: int = 10
    fold_by: str = ""
    l1_ratio: float | Sequence[float] | None = None
    alphas: Sequence[float] | None = None
    n_alphas: int | None = None

    @property
    def ratios(self) -> float | Sequence[float]:
        return USUAL_RATIO if self.l1_ratio is None else self.l1_ratio

    def choice(self, config: RunConfig) -> FoldChoice:
        way = self.fold_by or usual_way(config.test_every, config.model)
        return FoldChoice.parse(self.folds, way, config.seed)

    def check(self, config: RunConfig) -> None:
        """Before a file is read for it."""
        config.ready()
        self.choice(config)
        if self.l1_ratio is not None:
            understood(config, {"l1_ratio"})
        kind = penalised_as(config.model, config.shrink)
        checked_ratios(kind, self.ratios)
        checked_alphas(kind, self.alphas, self.n_alphas)


def tune_with(
    coordinator: Coordinator, config: RunConfig, request: TuningRequest, timings: Timings, seen: Onlooker = unseen
) -> Tuned:
    """A file that was read before is not read again; rows are looked at once, after that nothing depends on them.
    `seen` is told what there is of the curve while it is worked out, where that takes a while."""
    config = suited_to_rows(config)
    request.check(config)
    if is_sparse(config):
        return coordinator.cache.mending(lambda: _tuned_sparse(coordinator, config, request, timings, seen))
    if config.model in LOSSES:
        return coordinator.cache.mending(lambda: _tuned_loss(coordinator, config, request, timings))

    def read() -> tuple[Dataset, CellMoments | WideCells]:
        with timings.stage("ingest"):
            dataset = coordinator.open(config)
        with timings.stage("sums"):
            return dataset, summed(coordinator, dataset, config, request.choice(config))

    dataset, cells = coordinator.cache.mending(read)
    with timings.stage("tune"):
        return tuned_from(cells, dataset, config, request, coordinator.progress, seen)


def _tuned_sparse(
    coordinator: Coordinator, config: RunConfig, request: TuningRequest, timings: Timings, seen: Onlooker
) -> Tuned:
    from shoal.sparse.choice import tune_sparse

    asked = request.ratios, request.alphas, request.n_alphas
    return tune_sparse(coordinator, _plain(config), request.choice(config), *asked, timings, seen)


def _tuned_loss(coordinator: Coordinator, config: RunConfig, request: TuningRequest, timings: Timings) -> Tuned:
    """By sweeps over the rows, which all folds and penalties share."""
    with timings.stage("ingest"):
        dataset = coordinator.open(config)
    with timings.stage("tune"):
        return loss_tuned(coordinator, dataset, config, request)


def loss_tuned(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, request: TuningRequest, with_folds: bool = True
) -> Tuned:
    from shoal.tuning.choice import tune_loss  # here: linear models need none of it

    choice = request.choice(config) if with_folds else None
    asked = request.ratios, request.alphas, request.n_alphas
    tuned = tune_loss(coordinator, dataset, _plain(config), choice, *asked)
    dates = per_day(choose_columns(dataset, config).dates)
    return dataclasses.replace(tuned, notes=(*tuned.notes, dates)) if dates else tuned


def summed(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice
) -> CellMoments | WideCells:
    if choice.count > dataset.rows:
        raise ConfigError(
            f"Expected at most as many folds as rows, got {choice.count:,} folds of {dataset.rows:,} rows. "
            "5 or 10 are usual."
        )
    plain = _plain(config)
    return wide_cells(coordinator, dataset, plain, choice) or sum_cells(coordinator, dataset, plain, choice)


def _plain(config: RunConfig) -> RunConfig:
    return dataclasses.replace(config, solver="exact")


def tuned_from(
    cells: CellMoments | WideCells, dataset: Dataset, config: RunConfig, request: TuningRequest,
    progress: Progress = silent, seen: Onlooker = unseen,
) -> Tuned:  # fmt: skip
    columns = choose_columns(dataset, config)
    notes = [*dataset.notes, *bad_row_notes(dataset), *columns.notes, *cells.said]
    notes += filter(None, [per_day(columns.dates)])
    asked = config.model, request.ratios, request.alphas, request.n_alphas
    if isinstance(cells, WideCells):
        return tune_rows(cells, *asked, notes, progress, seen)
    return tune(cells, *asked, notes)


def tuned_answer(config: RunConfig, request: TuningRequest, progress: Progress) -> dict[str, Any]:
    """What `shoal tune --json` says, but for the times."""
    with coordinated(config, progress) as coordinator:
        tuned = tune_with(coordinator, config, request, Timings())
    found: dict[str, Any] = finite({"target": suited_to_rows(config).target, **tuned.as_dict()})
    return found


def whole_curve(
    config: RunConfig, request: TuningRequest, progress: Progress, seen: Onlooker = unseen
) -> dict[str, Any]:
    """What a page draws of a tuning: all that `shoal tune --json` says, and the coefficients at every point; of very
    many columns those with the largest weights."""
    with coordinated(config, progress) as coordinator:
        tuned = tune_with(coordinator, config, request, Timings(), seen)
    path, said = tuned.path, tuned.as_dict()
    largest = np.argsort(-np.abs(path.W).max(axis=0, initial=0.0), kind="stable")[:DRAWN]
    columns = np.sort(largest)
    if len(columns) < len(tuned.names):
        said |= {"coefficients": {}, "coefficients_standardized": {}}
    along = {
        "names": [tuned.names[i] for i in columns], "weights": path.W[:, columns].tolist(),
        "coef": path.coef[:, columns].tolist(), "measure": tuned.measure,
        "variance": float(tuned.target.scatter[0, 0] / tuned.target.n) if tuned.target.n else 0.0,
    }  # fmt: skip
    found: dict[str, Any] = finite({"columns": len(tuned.names), **said, **along})
    return found


class SoFar:
    """Tells somebody what there is of a curve as plain values, at most every few tenths of a second."""

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self.tell, self.last, self.known = tell, 0.0, 1

    def __call__(self, so_far: CurveSoFar) -> None:
        now = time.monotonic()
        if now - self.last < OFTEN or so_far.known < self.known:  # what was shown once is not taken back
            return
        self.last, self.known, curve = now, so_far.known, so_far.curve
        assert curve is not None
        self.tell(finite({
            **curve.as_dict(), "best": float(curve.alphas[curve.best]), "points": len(so_far.alphas),
            "all_alphas": [float(so_far.alphas[0]), float(so_far.alphas[-1])], "folds": len(curve.errors),
            "folds_in_all": len(so_far.errors),
        }))  # fmt: skip


# ------------------------------------------------------------------ the model that was chosen


def train_tuned(coordinator: Coordinator, config: RunConfig, tuned: Tuned, which: str, timings: Timings) -> Trained:
    """The model at `best` or `one_se`, fitted to all training rows and written where the config says."""
    chosen = dataclasses.replace(_plain(config), alpha=tuned.alpha(which), l1_ratio=tuned.path.l1_ratio)
    if penalised_as(config.model, config.shrink) == "linear":
        chosen = _plain(config)
    with timings.stage("train"):
        return train_with(coordinator, chosen, tuned=_kept_of(tuned, which))


def _kept_of(tuned: Tuned, which: str) -> CrossValidated:
    if tuned.path.model not in LOSSES:
        return cross_validated(tuned, which)
    from shoal.tuning.alpha import kept_of

    return kept_of(tuned, which)
