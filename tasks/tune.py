"""The steps of `shoal tune`, from a config to an answer: read, sum the folds, choose. How is in `whatif`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns
from shoal.data.dataset import Dataset
from shoal.errors import ConfigError
from shoal.fitting.exact import bad_row_notes
from shoal.fitting.summing import sum_cells
from shoal.metrics import Timings
from shoal.settings.config import RunConfig
from shoal.whatif.cells import CellMoments
from shoal.whatif.folds import FoldChoice
from shoal.whatif.penalty_choice import Tuned, checked_alphas, checked_ratios, tune


@dataclass(frozen=True)
class TuningRequest:
    """Which penalties to try, and on which folds."""

    folds: int = 10
    fold_by: str = "row"
    l1_ratio: float | Sequence[float] = 0.5
    alphas: Sequence[float] | None = None
    n_alphas: int | None = None

    def choice(self, config: RunConfig) -> FoldChoice:
        return FoldChoice.parse(self.folds, self.fold_by, config.seed)

    def check(self, config: RunConfig) -> None:
        """Before a file is read for it."""
        config.ready()
        self.choice(config)
        checked_ratios(config.model, self.l1_ratio)
        checked_alphas(config.model, self.alphas, self.n_alphas)


def tune_with(coordinator: Coordinator, config: RunConfig, request: TuningRequest, timings: Timings) -> Tuned:
    """A file that was read before is not read again; rows are looked at once, after that nothing depends on them."""
    request.check(config)

    def read() -> tuple[Dataset, CellMoments]:
        with timings.stage("ingest"):
            dataset = coordinator.open(config)
        with timings.stage("sums"):
            return dataset, summed(coordinator, dataset, config, request.choice(config))

    dataset, cells = coordinator.cache.mending(read)
    with timings.stage("tune"):
        return tuned_from(cells, dataset, config, request)


def summed(coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice) -> CellMoments:
    if choice.count > dataset.rows:
        raise ConfigError(
            f"Expected at most as many folds as rows, got {choice.count:,} folds of {dataset.rows:,} rows. "
            "5 or 10 are usual."
        )
    return sum_cells(coordinator, dataset, _plain(config), choice)


def _plain(config: RunConfig) -> RunConfig:
    return dataclasses.replace(config, solver="exact")


def tuned_from(cells: CellMoments, dataset: Dataset, config: RunConfig, request: TuningRequest) -> Tuned:
    notes = (*dataset.notes, *bad_row_notes(dataset), *choose_columns(dataset, config).notes)
    return tune(cells, config.model, request.l1_ratio, request.alphas, request.n_alphas, notes)
