"""Two quantile lines beside a model of numbers, calibrated by the test rows: intervals that follow the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.splits import Split
from shoal.fitting.losses.rows import LossRows, prepared_for
from shoal.fitting.reports import Trained, named_values, noted
from shoal.fitting.robust.quantile import corner_of
from shoal.losses.quantile import Quantile
from shoal.metrics import Timings
from shoal.models import L1L2
from shoal.passes.quantiles import SeeOutside
from shoal.results.fit import BandLine
from shoal.settings.config import RunConfig
from shoal.settings.when import has_bands
from shoal.solve.conformal import OutsideLines, bands_at, rank_of
from shoal.solve.least_squares import Standardisation


def with_bands(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, trained: Trained, timings: Timings
) -> Trained:
    """The same with two quantile lines, where the config has a level for them."""
    if not config.bands or not has_bands(config.as_dict()):
        return trained
    split = Split(config.test_every, config.test_fraction, config.seed)
    tail = (1 - config.bands) / 2
    with timings.stage("bands"):
        own = replace(config, model="quantile", quantile=tail, shrink="none")
        prepared, moments, _ = prepared_for(coordinator, dataset, own, split, Quantile(tail))
        units = Standardisation.of(moments, config.intercept, config.standardize)
        found, exact = [], True
        for level in (tail, 1 - tail):
            rows = LossRows(coordinator, prepared, units, Quantile(level))
            corner = corner_of(rows, moments, level, L1L2())
            found.append(rows.raw(corner.point))
            exact &= corner.exact
        coef, intercept = np.array([line[0] for line in found]), np.array([line[1] for line in found])
        where = str(dataset.directory)
        requests = [
            SeeOutside(where, block, prepared.encoding, split, coef, intercept) for block in dataset.blocks
        ]  # fmt: skip
        seen = OutsideLines.together(list(coordinator.swept("rows beside two lines", requests)))
    low, high = (BandLine(float(b), named_values(prepared.encoding.names, w)) for w, b in found)
    bands = bands_at(config.bands, (low, high), seen, prepared.repeats)
    if bands is None:
        return noted(trained, (_too_few(config.bands, len(seen.outside)),))
    said = replace(trained.report, bands=bands)
    kept = replace(trained.model, report=replace(trained.model.report, bands=bands))
    made = replace(trained, report=said, model=kept)
    return made if exact else noted(made, (NOT_EXACT,))


NOT_EXACT = (
    "More rows lie at the lines of the intervals than memory has room for, so these are near the best ones, not at "
    "them. The test rows make up for that: intervals hold as often, and may be a little wider."
)


def _too_few(level: float, rows: int) -> str:
    least = next(count for count in range(rows, 10_000) if rank_of(count, level) <= count)
    return (
        f"Intervals of {100 * level:g} % that follow the rows need at least {least} test rows, got {rows}: there are "
        "none. Keep more rows for testing (--test-every 5), or set bands to a lower level."
    )
