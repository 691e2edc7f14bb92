"""An alpha that nobody named, for any model: from sums for linear ones (`fitting.tuned`), else by sweeps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns, widest
from shoal.data.dataset import Dataset
from shoal.errors import DataError, ResourceError
from shoal.fitting.exact import check_bad_rows
from shoal.fitting.reports import finite
from shoal.fitting.tuned import FEWEST, FOLDS, WIDEST, AlphaChoice, cross_validated, usual_alpha
from shoal.fitting.tuned import with_alpha as with_linear_alpha
from shoal.results.tuned import BEST, CrossValidated
from shoal.settings.config import RunConfig
from shoal.settings.limits import MOST_CLASSES
from shoal.settings.strength import chooses_alpha
from shoal.settings.when import CLASSES, LOSSES

if TYPE_CHECKING:
    from shoal.whatif.penalty_choice import Tuned

MUCH = 20_000_000  # values of a table beyond which fewer folds and penalties are tried, since each takes a second
FEWER_FOLDS, FEWER_ALPHAS = (5, 2), 30
MUCH_PRODUCTS, MOST_PRODUCTS, FEWEST_ALPHAS = 5e7, 5e8, 10  # of a model of several classes, in one step of one fold


def with_alpha(coordinator: Coordinator, dataset: Dataset, config: RunConfig) -> AlphaChoice:
    """As it is where alpha is given or the model has no penalty to choose."""
    if config.model not in LOSSES or not chooses_alpha(config):
        return with_linear_alpha(coordinator, dataset, config)
    from shoal.tuning.choice import tune_loss  # here: most fits choose nothing
    from shoal.whatif.folds import FoldChoice, usual_way

    if dataset.rows < FEWEST:
        return usual_alpha(config, f"{dataset.rows} rows are too few to choose alpha by cross-validation")
    check_bad_rows(dataset, config)
    width = widest(choose_columns(dataset, config), config)
    if width > WIDEST:
        return usual_alpha(config, f"{width:,} columns are too many to choose alpha by cross-validation")
    if config.model == CLASSES:
        return _of_classes(coordinator, dataset, config, width)
    much = dataset.rows * width > MUCH
    for count in FEWER_FOLDS if much else FOLDS:
        try:
            choice = FoldChoice.parse(count, usual_way(config.test_every, config.model), config.seed)
            alphas = FEWER_ALPHAS if much else None
            found = tune_loss(coordinator, dataset, config, choice, config.l1_ratio, n_alphas=alphas)
            return AlphaChoice(replace(config, alpha=found.alpha(BEST)), kept_of(found, BEST))
        except ResourceError:
            continue
    return usual_alpha(config, "There is not enough memory to choose alpha by cross-validation")


def _of_classes(coordinator: Coordinator, dataset: Dataset, config: RunConfig, width: int) -> AlphaChoice:
    """By fewer folds and alphas where a step has much to sum: each pair of classes and columns, for every row."""
    from shoal.tuning.choice import tune_loss
    from shoal.whatif.folds import FoldChoice

    column = dataset.columns[config.target]
    classes = min(column.distinct or MOST_CLASSES, MOST_CLASSES)
    products = dataset.rows * (classes * (width + 1)) ** 2
    if products > MOST_PRODUCTS:
        return usual_alpha(config, "Rows, classes and columns are too many to choose alpha by cross-validation")
    much = products > MUCH_PRODUCTS
    choice = FoldChoice.parse(min(FEWER_FOLDS[0] if much else FOLDS[0], dataset.rows), "class", config.seed)
    try:
        found = tune_loss(
            coordinator, dataset, config, choice, config.l1_ratio, n_alphas=FEWEST_ALPHAS if much else None
        )
    except (ResourceError, DataError):
        return usual_alpha(config, "Classes are too rare, or too many, to choose alpha by cross-validation")
    return AlphaChoice(replace(config, alpha=found.alpha(BEST)), kept_of(found, BEST))


def kept_of(tuned: Tuned, which: str) -> CrossValidated:
    """What the model at `best` or `one_se` keeps of the tuning, whatever its loss."""
    from shoal.tuning.choice import TunedLoss

    if not isinstance(tuned, TunedLoss):
        return cross_validated(tuned, which)
    curve, place = tuned.curve, tuned.place(which)
    error, null = float(curve.mean[place]), tuned.nulls[0]
    return CrossValidated(
        tuned.choice.count, tuned.choice.text, which, se=finite(float(curve.standard_error[place])),
        alphas=len(curve.alphas), best=tuned.alpha("best"), one_se=tuned.alpha("one_se"), measure=tuned.measure,
        deviance=finite(error), explained=finite(1 - error / null) if null > 0 else None,
    )  # fmt: skip
