"""The penalty of a model of sparse rows, chosen by cross-validation: `shoal tune`, and an alpha that nobody named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from shoal.coordinator import Coordinator
from shoal.errors import ConfigError, ResourceError
from shoal.fitting.tuned import FEWEST, FOLDS, AlphaChoice, usual_alpha
from shoal.metrics import Timings
from shoal.results.tuned import BEST
from shoal.settings.config import RunConfig
from shoal.settings.limits import USUAL_POINTS
from shoal.settings.strength import chooses_alpha
from shoal.settings.when import MODELS
from shoal.solve.paths import Path
from shoal.solve.rows.along import follow_wide
from shoal.sparse.fit import LOGISTIC
from shoal.sparse.folds import sparse_cells
from shoal.sparse.table import open_table
from shoal.tuning.alpha import kept_of
from shoal.whatif.folds import FoldChoice, usual_way
from shoal.whatif.penalty_choice import Tuned, checked_alphas, grid_for
from shoal.whatif.rows_choice import Onlooker, tune_rows, unseen

MUCH, MOST = 200_000, 5_000_000  # values from which on fewer folds and penalties are tried, and from which on none
FEWER_FOLDS, FEWER_ALPHAS = (5, 2), 30


def tune_sparse(
    coordinator: Coordinator, config: RunConfig, choice: FoldChoice, l1_ratio: float | Sequence[float],
    alphas: Iterable[float] | None, n_alphas: int | None, timings: Timings, seen: Onlooker = unseen,
) -> Tuned:  # fmt: skip
    """The whole path in every fold, from the values that are there."""
    if config.model == LOGISTIC:
        from shoal.sparse.outcome_choice import tune_sparse_outcome  # here: linear models need none of it

        return tune_sparse_outcome(coordinator, config, choice, l1_ratio, alphas, n_alphas, timings, seen)
    with timings.stage("ingest"):
        open_table(coordinator, config)
    with timings.stage("sums"):
        table, cells = sparse_cells(coordinator, config, choice)
    note = (
        f"Sparse rows: {table.values:,} values; {len(cells.there):,} columns have one in the training rows, and those "
        "with a weight somewhere on the path are named."
    )
    with timings.stage("tune"):
        return tune_rows(
            cells, config.model, l1_ratio, alphas, n_alphas, (note,), coordinator.progress, seen
        )  # fmt: skip


def path_of_sparse(
    coordinator: Coordinator, config: RunConfig, ratio: float, alphas: Iterable[float] | None, n_alphas: int | None
) -> tuple[list[str], Path]:
    """Of all training rows, without folds: the columns with a weight somewhere, and the path in these."""
    _check_linear(config)
    _, cells = sparse_cells(coordinator, config, FoldChoice(2, usual_way(config.test_every), seed=config.seed))
    given, _ = checked_alphas(config.model, alphas, n_alphas)
    cells.planned("ridge", len(given) if given is not None else n_alphas or USUAL_POINTS, 1)
    whole = cells.fold(None)
    grid = grid_for(whole.rows, config.model, ratio, n_alphas) if given is None else given
    path = follow_wide(whole.rows, config.model, grid, ratio)
    names, columns = whole.named(np.asarray((path.W != 0).any(axis=0)))
    return names, replace(path, W=path.W[:, columns], coef=path.coef[:, columns])


def _check_linear(config: RunConfig) -> None:
    if config.model not in MODELS:
        raise ConfigError(
            f"Paths of penalties of sparse rows are for linear models, got {config.model}. Fit it with some alphas of "
            "your own, and compare their scores on test rows.", knobs=["model"],
        )  # fmt: skip


def with_alpha(coordinator: Coordinator, config: RunConfig) -> AlphaChoice:
    """As it is where alpha is given or the model has no penalty."""
    if not chooses_alpha(config):
        return AlphaChoice(config)
    table = open_table(coordinator, config)
    if table.rows < FEWEST:
        return usual_alpha(config, f"{table.rows} rows are too few to choose alpha by cross-validation")
    if table.values > MOST:
        return usual_alpha(config, f"{table.values:,} values are too many to choose alpha by cross-validation")
    much = table.values > MUCH
    for count in FEWER_FOLDS if much else FOLDS:
        choice = FoldChoice.parse(count, usual_way(config.test_every, config.model), config.seed)
        try:
            found = tune_sparse(
                coordinator, config, choice, config.l1_ratio, None, FEWER_ALPHAS if much else None, Timings()
            )
        except ResourceError:
            continue
        return AlphaChoice(replace(config, alpha=found.alpha(BEST)), kept_of(found, BEST))
    return usual_alpha(config, "There is not enough memory to choose alpha by cross-validation")
