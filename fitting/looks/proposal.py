"""Which model the values of a column to predict speak for, in one sentence each; a person decides.

The rules go by the values alone, but for the last question to positive numbers, in this order:

    two values, text or numbers                      yes or no: logistic
    3 to 50 texts                                    classes: multinomial; more: texts, which are not predicted
    dates                                            linear, in days
    whole numbers from 0 or 1 on, next to each other at their lower end, whose largest is rare, that spread about
    as much as counts do, and that trail off above   counts: poisson
    a handful of whole numbers otherwise             a rating or grade: linear, and said so
    above 0, skewed, and much less so as logarithms  gamma, which multiplies; or lognormal, which does so by logarithms;
                                                     but linear where columns of numbers add up to them
    anything else                                    linear
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.coordinator import Coordinator
from shoal.data.dataset import Column, Dataset
from shoal.data.splits import Split
from shoal.data.terms import MISSING_LEVEL
from shoal.fitting.guidance.lines import is_straight
from shoal.fitting.guidance.shape import CentralSums, TargetShape, shape_of
from shoal.fitting.targets import look_at, value_names
from shoal.passes.losses import TargetSeen
from shoal.results.target import TargetKind, TargetLook
from shoal.settings.config import RunConfig
from shoal.settings.limits import MOST_CLASSES
from shoal.settings.when import CLASSES as MANY
from shoal.settings.when import LOGARITHMS
from shoal.words import listed, number

FEW = 12  # different whole numbers up to which they may be a rating
NEXT = 4  # of the smallest different values of counts that follow each other
COMMON = 0.04  # share of rows with the largest value, from which on it is the end of a scale, not a rare count
NARROW = 0.6  # variance over mean, both from the smallest value on, below which numbers are too alike for counts
LARGE, TRAILS = 20, 0.5  # counts up to more than this trail off above: their skewness


def look_for(coordinator: Coordinator, dataset: Dataset, config: RunConfig) -> TargetLook:
    """What the target is, from two passes over that column."""
    split = Split(config.test_every, config.test_fraction, config.seed)
    seen = look_at(coordinator, dataset, config.target, split)
    column = dataset.columns[config.target]
    shape = (
        shape_of(coordinator, dataset, config.target) if column.is_number else TargetShape(CentralSums(), CentralSums())
    )
    return proposed(column, seen, shape, lambda: is_straight(dataset, config))


def proposed(
    column: Column, seen: TargetSeen, shape: TargetShape, is_sum: Callable[[], bool] = lambda: False
) -> TargetLook:
    """`is_sum` says whether a line through the other columns suits positive numbers with a long tail."""
    name = f"'{column.name}'"
    if len(seen.values) == 1 and not seen.more:
        return TargetLook(TargetKind.CONSTANT, "", f"{name} has one and the same value in all rows.")
    if len(seen.values) == 2 and not seen.more:
        first, second = value_names(column, seen)
        return TargetLook(TargetKind.YES_NO, "logistic", f"{name} has two values, {first} and {second}: yes or no.")
    if not column.is_number:
        return _texts(column, seen)
    low, high = column.minimum or 0.0, column.maximum or 0.0
    if column.is_date:
        return TargetLook(TargetKind.DATE, "linear", f"{name} has dates: predicted as days, told as dates.")
    reach = f"{name} has whole numbers from {low:g} to {high:g}"
    if _is_count(seen, shape.values, low, high):
        return TargetLook(TargetKind.COUNTS, "poisson", f"{reach} with a mean of {shape.values.mean:.3g}: counts.")
    if seen.whole and not seen.more and len(seen.values) <= FEW:
        said = f"{reach}, {len(seen.values)} different ones: a rating or grade? A linear model takes steps as equal."
        return TargetLook(TargetKind.FEW_VALUES, "linear", said)
    if low > 0 and shape.has_long_tail:
        said = f"{name} has positive numbers with a long tail, {number(shape.values.mean)} on average and at most "
        if is_sum():
            why = f"{said}{number(high)}, but columns add up to them: a line explains them far better than their logs."
            return TargetLook(TargetKind.SKEWED, "linear", why)
        why = f"{said}{number(high)}: a gamma model lets columns multiply them, a lognormal one does so by logarithms."
        return TargetLook(TargetKind.SKEWED, "gamma", why, (LOGARITHMS,))
    return TargetLook(TargetKind.NUMBER, "linear", f"{name} has numbers from {low:g} to {high:g}.")


def _texts(column: Column, seen: TargetSeen) -> TargetLook:
    names = [level for level in value_names(column, seen) if level != MISSING_LEVEL]
    count = len(column.levels)
    shown = listed([f"'{level}'" for level in names], 3)
    if count > MOST_CLASSES or column.more_levels:
        said = f"'{column.name}' has {count:,} or more different texts, such as {shown}, which no model here predicts."
        return TargetLook(TargetKind.TEXTS, "", said)
    return TargetLook(TargetKind.CLASSES, MANY, f"'{column.name}' has {count} classes, {shown}.")


def _is_count(seen: TargetSeen, values: CentralSums, low: float, high: float) -> bool:
    first = seen.values[:NEXT]
    if not (seen.whole and low in (0.0, 1.0) and len(first) >= 3 and first[-1] - first[0] == len(first) - 1):
        return False
    if seen.more and float(seen.rows.max()) <= 1:
        return False  # each comes once: numbers of rows
    if not seen.more and len(seen.values) <= FEW and seen.rows[-1] > COMMON * seen.rows.sum():
        return False
    if values.variance < NARROW * (values.mean - low):
        return False
    return high <= LARGE or values.skewness > TRAILS
