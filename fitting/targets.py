"""What a target is: which values it has, and which of two is the yes; which model suits it is in `looks`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from shoal.coordinator import Coordinator
from shoal.data.dataset import Column, Dataset
from shoal.data.encoding import Encoding
from shoal.data.notation.spelling import in_one_spelling, spelled_alike
from shoal.data.notation.yes_words import value_name, yes_among
from shoal.data.splits import Split
from shoal.errors import ConfigError, DataError, Remedy
from shoal.losses.base import RowLoss
from shoal.passes.losses import LookAtTarget, TargetSeen
from shoal.results.findings import (
    CLASSES_ADVICE,
    TEXT_ADVICE,
    TWO_TEXTS_ADVICE,
    YES_OR_NO,
    Finding,
    FindingKind,
    Routine,
    routine,
)
from shoal.settings.config import RunConfig
from shoal.settings.limits import MOST_CLASSES
from shoal.settings.when import CLASSES
from shoal.solve.moments import Moments
from shoal.words import list_text, listed, no_such_column, number, plural

FEW_ROWS = 10  # training rows of the rarer value for each column, below which it is said that they are few


class TwoValues(NamedTuple):
    """The values of a yes/no target: no, then yes; as they are called, and training rows that have each.

    `yes` is the value that counts as 1, None where the column has just 0 and 1 and is taken as it is.
    """

    names: tuple[str, str]
    rows: tuple[int, int]
    yes: str | float | None


def look_at(
    coordinator: Coordinator, dataset: Dataset, target: str, split: Split, weights: str = "", repeats: bool = False
) -> TargetSeen:
    """One pass over the target alone, and over the weights of rows where they have some."""
    if target not in dataset.columns:
        raise ConfigError(no_such_column(target, list(dataset.columns)))
    seen: TargetSeen | None = None
    place, how = str(dataset.directory), (target, split, weights, repeats)
    requests = [LookAtTarget(place, block, *how) for block in dataset.blocks]
    for part in coordinator.swept("looking at the target", requests):
        seen = part if seen is None else seen.merge(part)
    if seen is None or not len(seen.values):
        raise DataError(f"The target '{target}' has no value in any row. Choose another column.")
    return seen


def value_names(column: Column, seen: TargetSeen) -> list[str]:
    """The values as a person would write them."""
    if not column.is_number:
        return [column.levels[int(place)] for place in seen.values]
    return [value_name(value) for value in seen.values]


def two_values(dataset: Dataset, config: RunConfig, seen: TargetSeen) -> TwoValues:
    """Which of the two is the yes; refused unless there are two, each in some training row."""
    column = dataset.columns[config.target]
    names = value_names(column, seen)
    if len(names) != 2 or seen.more:
        raise _not_two(column, names, seen.more)
    alike = config.target in config.one_spelling
    wanted = in_one_spelling(config.positive) if alike else config.positive
    at = _yes_of(names, wanted, column.is_number)
    order = (1 - at, at)
    no, yes = (int(seen.train[i]) for i in order)
    for name, rows in ((names[1 - at], no), (names[at], yes)):
        if not rows:
            raise DataError(
                f"Expected training rows of both values of '{config.target}', got none with '{name}'. "
                "Keep fewer or other rows for testing, or choose another target."
            )
    value: str | float | None = float(seen.values[at]) if column.is_number else names[at]
    plain = column.is_number and seen.values.tolist() == [0.0, 1.0] and at == 1
    return TwoValues((names[1 - at], names[at]), (no, yes), None if plain else value)


def _not_two(column: Column, names: list[str], more: bool) -> DataError | ConfigError:
    target = column.name
    if len(names) == 1 and column.missing:
        return DataError(
            f"Expected two values of the target '{target}', such as yes and no, got '{names[0]}' or none: a blank is "
            f"no value to predict. If it means no, write a word for it into the {plural(column.missing, 'row')} "
            "without one."
        )
    if len(names) == 1:
        return DataError(
            f"Expected two values of the target '{target}', such as yes and no, got one in all rows: '{names[0]}'. "
            "There is nothing to tell apart. Choose another target or other rows."
        )
    many, twice = f"more than {len(names) - 1}" if more else str(len(names)), spelled_twice(names)
    return ConfigError(
        f"Expected two values of the target '{target}', such as yes and no, got {many}: {listed(names[:5])}."
        f"{' ' if twice else ''}{twice}",
        *([Remedy.set("If they are one, read them so", "one_spelling", list_text([target]))] if twice else []),
        *([] if more else [Remedy.set("For 3 to 50 classes, fit them", "model", CLASSES)]),
        knobs=["target", "model"],
    )


def spelled_twice(names: Sequence[str]) -> str:
    """A sentence on values that are one but for capitals and blanks; empty where there are none."""
    groups = [" and ".join(f"'{name}'" for name in group) for group in spelled_alike(names)]
    return f"Only capitals or blanks tell these apart: {listed(groups, 3)}." if groups else ""


def _yes_of(names: list[str], wanted: str, numbers: bool) -> int:
    """The one that is asked for; else the likely one."""
    if wanted:
        if wanted not in names:
            near = [name for name in names if in_one_spelling(name) == in_one_spelling(wanted)]
            raise ConfigError(
                f"Expected positive to be one of the target's two values, {names[0]} or {names[1]}, got '{wanted}'.",
                Remedy.set("Write it as the file does", "positive", near[0]) if len(near) == 1
                else Remedy.choose("Name one of these two", "positive"),
                knobs=["positive"],
            )  # fmt: skip
        return names.index(wanted)
    return yes_among(names, numbers)


def check_numbers(column: Column | None, loss: RowLoss) -> None:
    """Refuse text as target of a model of counts or of positive numbers."""
    if column is not None and not column.is_number and loss.target != "two":
        raise ConfigError(
            f"Expected a column of numbers as target of a {loss.name} model, got '{column.name}' with text. "
            "Choose another one.",
            knobs=["target", "model"],
        )


def check_range(column: Column, loss: RowLoss, seen: TargetSeen) -> None:
    """Refuse a target that a model of counts or of positive numbers cannot have."""
    name, low = column.name, column.minimum or 0.0
    if loss.target == "counts" and low < 0:
        raise DataError(f"Expected counts of 0 or more in '{name}', got {low:g}. Choose another model or target.")
    if loss.target == "counts" and not (seen.values * seen.train).any() and not seen.more:
        raise DataError(
            f"All counts in '{name}' are 0 in the training rows: there is nothing to learn. Choose another."
        )
    if loss.target == "positive" and low <= 0:
        raise DataError(
            f"Expected numbers greater than 0 in '{name}' for a {loss.name} model, got {low:g} as the smallest: it has "
            "no logarithm. For counts with zeros take poisson, else a linear model."
        )


def check_varies(loss: RowLoss, moments: Moments) -> None:
    """Refuse a target that is one and the same in all training rows."""
    low, high = loss.mean_within
    if not low < float(moments.mean[-1]) < high or not moments.scatter[-1, -1] > 0:
        raise DataError("All training rows that are left have one and the same target. Choose other rows.")


def check_offset(dataset: Dataset, config: RunConfig) -> None:
    """Refuse a column that cannot be an offset."""
    if not config.offset:
        return
    column = dataset.columns[config.offset]
    log = config.offset_as == "exposure"
    if log and config.model == "logistic":
        raise ConfigError(
            "Expected an offset that is added as it is beside a logistic model, got an exposure, which is for counts "
            "and positive numbers.",
            Remedy.set("Add it as it is", "offset_as", "added"), knobs=["offset", "offset_as"],
        )  # fmt: skip
    if not column.is_number or column.is_date:
        raise ConfigError(
            f"Expected numbers in '{column.name}' as offset, got {'dates' if column.is_date else 'text'}. "
            "Choose another column.", knobs=["offset"],
        )  # fmt: skip
    if log and (column.minimum or 0.0) <= 0:
        raise DataError(
            f"Expected an exposure greater than 0 in '{column.name}', got {column.minimum or 0.0:g} as the smallest. "
            "Correct the file, or give its logarithm as an offset that is added as it is."
        )


def offset_notes(encoding: Encoding) -> list[str]:
    offset = encoding.offset
    if offset is None:
        return []
    what = f"The logarithm of '{offset.column}'" if offset.log else f"'{offset.column}'"
    return [
        f"{what} is added to the score of every row as it is (offset), and rows without it are left out; predictions "
        "need that column."
    ]


def few_rows_note(values: TwoValues, columns: int) -> list[str]:
    """That the rarer value is too rare for so many columns."""
    rows, name = min(zip(values.rows, values.names, strict=True))
    if rows >= FEW_ROWS * columns:
        return []
    return [
        f"Only {rows:,} training rows are '{name}', for {columns} weights: fewer than {FEW_ROWS} for each, so "
        "coefficients are uncertain and probabilities too extreme. Fewer columns or a penalty (shrink) would help."
    ]


def value_notes(values: TwoValues, balanced: bool) -> list[str]:
    """Which value probabilities are of, and what balanced classes do to them."""
    said = [f"Probabilities are those of '{values.names[1]}'; '{values.names[0]}' is the other value."]
    if balanced:
        said.append(
            "Both values count as much in the fit, whatever their rows (class_weight balanced), so probabilities "
            "are those of a table with as many of either; scores count rows as they are."
        )
    return list(routine(said))


def dependent_note(condition: float) -> str:
    return (
        f"The columns nearly depend on one another (condition number {condition:.0e}): single coefficients are "
        "sensitive to the last digits of the data; predictions are not. A penalty or fewer columns would help."
    )


def separated_note(values: TwoValues | None, running: list[str]) -> str:
    """That columns tell rows apart without an error, and which of them run away."""
    what = (
        f"tell '{values.names[1]}' from '{values.names[0]}' without an error in some or all rows"
        if values
        else "single out rows whose expected value goes to 0"
    )
    return (
        f"The columns {what}, so there is no finite optimum: coefficients grow without end ({listed(running)}), and "
        "those given are where that was seen. Predictions are usable; standard errors are not."
    )


def smeared_note(intercept: float, shift: float) -> str:
    """What an intercept has in it that a fit of logarithms has not."""
    return Routine(
        f"Predictions are means, not medians: e^(fitted logarithm) times {number(math.exp(shift))}, the mean of what "
        f"rows are of it (Duan's smearing). The intercept has that in it; that of the logarithms is "
        f"{number(intercept - shift)}."
    )


def about_text_target(column: Column) -> Finding:
    """A column of texts was chosen to be predicted."""
    shown = listed([f"'{level}'" for level in column.levels], 3)
    if len(column.levels) == 2 and not column.more_levels:
        said = f"'{column.name}' holds two texts, {shown}: yes or no, not a number."
        return Finding(FindingKind.TEXT_TARGET, (column.name,), said, TWO_TEXTS_ADVICE, *YES_OR_NO)
    if len(column.levels) <= MOST_CLASSES and not column.more_levels:
        said = f"'{column.name}' holds {len(column.levels)} texts, {shown}: classes, not numbers."
        return Finding(FindingKind.TEXT_TARGET, (column.name,), said, CLASSES_ADVICE, "model", (CLASSES,))
    return Finding(
        FindingKind.TEXT_TARGET, (column.name,),
        f"'{column.name}' holds {column.distinct} different texts, such as {shown}: only numbers, or up to "
        f"{MOST_CLASSES} texts, can be predicted.", TEXT_ADVICE,
    )  # fmt: skip


def about_empty_target(name: str) -> Finding:
    return Finding(
        FindingKind.EMPTY_TARGET, (name,), f"'{name}' has no value in any row.", "Choose another column to predict"
    )
