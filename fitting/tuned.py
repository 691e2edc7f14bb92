"""An alpha that nobody named, chosen by cross-validation before the fit, and a fit with what is kept of such a choice.

How folds are summed is in `summing`, how one chooses in `whatif`; both are loaded only where something is chosen.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns, widest
from shoal.data.dataset import Dataset
from shoal.errors import ResourceError
from shoal.fitting.exact import Fit, Reduced, check_bad_rows
from shoal.fitting.reports import Trained, finite
from shoal.fitting.wide import is_wide
from shoal.lazy.classes import dataclass
from shoal.results.tuned import BEST, CrossValidated, FormulaInterval, FormulaIntervals
from shoal.settings.config import RunConfig
from shoal.settings.limits import WIDEST_CELLS
from shoal.settings.strength import USUAL, chooses_alpha, strength
from shoal.settings.when import is_penalised
from shoal.solve.intervals import Intervals, intervals_for

if TYPE_CHECKING:
    from shoal.whatif.penalty_choice import Tuned

FOLDS = (10, 5, 2)  # fewer where memory does not hold the sums of more
WIDEST = 1000  # columns beyond which folds take minutes
FEWEST = 10  # rows below which folds say nothing
MOST = 1000  # coefficients up to which intervals are worked out: beyond, it takes longer than the fit


@dataclass(frozen=True)
class AlphaChoice:
    """A config with an alpha, how that was chosen, and a note where it could not be."""

    config: RunConfig
    found: CrossValidated | None = None
    notes: tuple[str, ...] = ()


def with_alpha(coordinator: Coordinator, dataset: Dataset, config: RunConfig) -> AlphaChoice:
    """As it is where alpha is given; where the model has no penalty of ours to choose, with the usual one."""
    if config.alpha is not None:
        return AlphaChoice(config)
    if not chooses_alpha(config):
        penalised = is_penalised(config.as_dict())
        why = "Alpha of this penalty is not chosen by cross-validation, so far"
        return usual_alpha(config, why) if penalised else AlphaChoice(replace(config, alpha=USUAL))
    if dataset.rows < FEWEST:
        return usual_alpha(config, f"{dataset.rows} rows are too few to choose alpha by cross-validation")
    check_bad_rows(dataset, config)
    width = widest(choose_columns(dataset, config), config)
    quick = width <= WIDEST or (is_wide(dataset, config) and dataset.rows * width <= WIDEST_CELLS)
    if not quick:
        return usual_alpha(config, f"{width:,} columns are too many to choose alpha by cross-validation")
    for count in FOLDS:
        try:
            return _chosen(coordinator, dataset, config, count)
        except ResourceError:
            continue
    return usual_alpha(config, "There is not enough memory to choose alpha by cross-validation")


def _chosen(coordinator: Coordinator, dataset: Dataset, config: RunConfig, count: int) -> AlphaChoice:
    from shoal.fitting.summing import sum_cells, wide_cells
    from shoal.whatif.folds import FoldChoice, usual_way
    from shoal.whatif.penalty_choice import tune
    from shoal.whatif.rows_choice import tune_rows

    choice = FoldChoice.parse(count, usual_way(config.test_every), config.seed)
    exact = replace(config, solver="exact")
    wide = wide_cells(coordinator, dataset, exact, choice)
    if wide is not None:
        found = tune_rows(wide, config.model, config.l1_ratio, progress=coordinator.progress)
    else:
        found = tune(sum_cells(coordinator, dataset, exact, choice), config.model, config.l1_ratio)
    return AlphaChoice(replace(config, alpha=found.alpha(BEST)), cross_validated(found, BEST))


def usual_alpha(config: RunConfig, why: str) -> AlphaChoice:
    """The one that is taken where none is chosen, and why."""
    return AlphaChoice(replace(config, alpha=USUAL), notes=(f"{why}; it is {USUAL:g}.",))


# ------------------------------------------------------------------ what is kept of it


def cross_validated(tuned: Tuned, which: str) -> CrossValidated:
    """What the model at `best` or `one_se` keeps of the tuning."""
    curve, place = tuned.curve, tuned.place(which)
    mse, variance = float(curve.mean[place]), float(tuned.target.scatter[0, 0] / tuned.target.n)
    return CrossValidated(
        tuned.choice.count, tuned.choice.text, which, finite(mse), finite(float(curve.standard_error[place])),
        finite(math.sqrt(mse)), finite(1 - mse / variance) if variance > 0 else None, len(curve.alphas),
        tuned.alpha("best"), tuned.alpha("one_se"),
    )  # fmt: skip


def with_tuning(trained: Trained, found: CrossValidated) -> Trained:
    """The same, whose report and model file also say how its penalty was chosen and how sure its coefficients are."""
    report = replace(trained.report, cross_validation=found, intervals=_intervals(trained.fit) if trained.fit else ())
    return replace(trained, report=report, model=replace(trained.model, report=replace(report, timings={}, run_id="")))


def _intervals(fit: Fit) -> tuple[FormulaIntervals, ...]:
    """By formula; a linear model has them in its report already."""
    names, prepared, config = fit.prepared.encoding.names, fit.prepared, fit.config
    if config.model == "linear" or config.nonnegative or len(names) > MOST or not isinstance(prepared, Reduced):
        return ()
    found = intervals_for(prepared.problem, config.model, strength(config), config.l1_ratio, config.confidence)
    return tuple(_plain(one, names) for one in found)


def _plain(found: Intervals, names: list[str]) -> FormulaIntervals:
    rows = zip(names, found.estimate.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
    ends = {name: FormulaInterval(*finite(values)) for name, *values in rows}
    return FormulaIntervals(found.kind, found.confidence, found.meaning, ends)
