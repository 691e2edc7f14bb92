"""One exact fit of a table with thousands of columns, or more of them than rows: from its rows, never from moments."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns, widest
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.fitting.exact import (
    Fit,
    Prepared,
    check_bad_rows,
    check_rows,
    design_for,
    fit_exact,
    notes_before,
    rows_dropped,
)
from shoal.fitting.guidance.findings import findings_of
from shoal.fitting.guidance.known import Known
from shoal.fitting.guidance.leaks import AgainstTarget
from shoal.fitting.guidance.profile import known_profile
from shoal.metrics import Timings
from shoal.models import penalty_for
from shoal.passes.quantiles import base_for
from shoal.passes.spreads import SpreadPool, Spreads, SumSpreads, TakeStandardised
from shoal.settings.config import RunConfig
from shoal.settings.limits import takes_rows
from shoal.settings.strength import strength
from shoal.solve.least_squares import Standardisation
from shoal.solve.rows.dense import WideRows
from shoal.solve.rows.wide import solve_wide
from shoal.utils import available_memory


def fit_table(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> Fit:
    """By whichever way is the quicker one for a table of this shape."""
    check_bad_rows(dataset, config)
    way = fit_wide if is_wide(dataset, config) else fit_exact
    return way(coordinator, dataset, config, timings)


def is_wide(dataset: Dataset, config: RunConfig) -> bool:
    """Whether rows are the quicker way to an exact answer."""
    return takes_rows(config, dataset.rows, widest(choose_columns(dataset, config), config), available_memory())


def fit_wide(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> Fit:
    """All rows in this process; errors of single coefficients, which need fewer columns than rows, are not given."""
    with timings.stage("rows"):
        prepared, found, rows = _rows(coordinator, dataset, config)
    with timings.stage("solve"):
        solution = solve_wide(rows, penalty_for(config.model, strength(config), config.l1_ratio, rows.n))
    with timings.stage("score"):
        sums = coordinator.score(
            dataset, prepared.encoding, prepared.split, solution.coef, solution.intercept,
            rows.units.centre, rows.units.scale,
        )  # fmt: skip
    against = AgainstTarget(
        found.n, found.mean, found.scatter[:-1], rows.slopes * rows.n * rows.units.scale, rows.y_scatter
    )
    known = Known(dataset, config, prepared.encoding, against, None, known_profile(dataset))
    prepared = replace(prepared, findings=findings_of(known))
    used = sums.train.rows + sums.test.rows
    dropped, notes = rows_dropped(prepared, config, used), (*prepared.notes, *solution.notes)
    return Fit(config, prepared, solution, sums, None, dropped, notes, math.nan)


def prepare_wide(coordinator: Coordinator, dataset: Dataset, config: RunConfig) -> tuple[Prepared, Spreads]:
    """The columns of a model, and their means and spreads over the training rows."""
    check_bad_rows(dataset, config)
    split = Split(config.test_every, config.test_fraction, config.seed)
    choice = choose_columns(dataset, config)
    base = base_for(coordinator.swept, dataset, config, split, choice)
    found = spreads(coordinator, dataset, base, split)
    check_rows(found.n, config)
    encoding, notes = design_for(coordinator, dataset, config, choice, base, found.mean, found.n, split)
    if encoding.terms != base.terms:
        found = spreads(coordinator, dataset, encoding, split)
    said = notes_before(dataset, None, choice, notes)
    return Prepared(dataset, split, encoding, said), found


def spreads(coordinator: Coordinator, dataset: Dataset, encoding: Encoding, split: Split) -> Spreads:
    """Means and scatter of (terms..., target) over the training rows, for tables too wide for their moments."""
    pool = SpreadPool(len(encoding.terms) + 1)
    requests = [SumSpreads(str(dataset.directory), block, encoding, split) for block in dataset.blocks]
    for part in coordinator.swept("measuring", requests):
        pool.add(part)
    return pool.total()


def wide_problem(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig
) -> tuple[Encoding, WideRows, tuple[str, ...]]:
    """The training rows in a model's design, and what is said of them."""
    prepared, _, rows = _rows(coordinator, dataset, config)
    return prepared.encoding, rows, prepared.notes


def _rows(coordinator: Coordinator, dataset: Dataset, config: RunConfig) -> tuple[Prepared, Spreads, WideRows]:
    prepared, found = prepare_wide(coordinator, dataset, config)
    units = found.units(config.intercept, config.standardize)
    return prepared, found, _taken(coordinator, prepared, units, int(found.n))


def _taken(coordinator: Coordinator, prepared: Prepared, units: Standardisation, rows: int) -> WideRows:
    dataset = prepared.dataset
    requests = [
        TakeStandardised(str(dataset.directory), block, prepared.encoding, prepared.split, units)
        for block in dataset.blocks
    ]
    X, y = np.empty((rows, len(prepared.encoding.terms))), np.empty(rows)
    filled = 0
    for part, target in coordinator.swept("taking rows", requests):  # one copy of all rows, and one block more
        X[filled : filled + len(part)], y[filled : filled + len(part)] = part, target
        filled += len(part)
    return WideRows.of(X, y, units)
