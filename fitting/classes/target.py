"""The classes of a target: which values it has, in which order, and what is said where they do not suit."""

from __future__ import annotations

from typing import NamedTuple

from shoal.data.dataset import Dataset
from shoal.errors import ConfigError, DataError, Remedy
from shoal.fitting.targets import spelled_twice, value_names
from shoal.passes.losses import TargetSeen
from shoal.results.findings import routine
from shoal.settings.config import RunConfig
from shoal.settings.limits import MOST_CLASSES
from shoal.words import listed

FEW_ROWS = 10  # training rows of a class for each column, below which it is said that they are few


class Classes(NamedTuple):
    """The values of a target in order, as they are called and as the file has them; training rows that have each."""

    names: tuple[str, ...]
    values: tuple[str | float, ...]
    rows: tuple[int, ...]


def classes_of_target(dataset: Dataset, config: RunConfig, seen: TargetSeen) -> Classes:
    """Numbers by size, texts by alphabet; refused unless there are 3 to 50, each in some training row."""
    column = dataset.columns[config.target]
    names = value_names(column, seen)
    if len(names) < 3:
        said = (
            f"Expected 3 to {MOST_CLASSES} classes in the target '{config.target}', got {len(names)}: {listed(names)}."
        )
        if len(names) == 1:
            raise DataError(f"{said} There is nothing to tell apart. Choose another target or other rows.")
        raise ConfigError(said, Remedy.set("Two values are yes or no", "model", "logistic"), knobs=["target", "model"])
    if seen.more or len(names) > MOST_CLASSES:
        raise ConfigError(
            f"Expected 3 to {MOST_CLASSES} classes in the target '{config.target}', got more: {listed(names[:5])} and "
            "others. Group its values, or choose another target"
            + (" or a model of numbers." if column.is_number else "."),
            knobs=["target", "model"],
        )
    order = range(len(names)) if column.is_number else sorted(range(len(names)), key=names.__getitem__)
    values: list[str | float] = [float(seen.values[i]) if column.is_number else names[i] for i in order]
    rows = [int(seen.train[i]) for i in order]
    if none := [names[i] for i, count in zip(order, rows, strict=True) if not count]:
        raise DataError(
            f"Expected training rows of every class of '{config.target}', got none with {listed(none)}. "
            "Keep fewer or other rows for testing, or leave the rows of so rare a class out."
        )
    return Classes(tuple(names[i] for i in order), tuple(values), tuple(rows))


def class_notes(classes: Classes, balanced: bool, columns: int, shrunk: bool) -> list[str]:
    """What balanced classes do, and which of them are too rare for so many columns."""
    twice = spelled_twice(classes.names)
    said: list[str] = [twice] if twice else []
    if balanced:
        alike = (
            "All classes count as much in the fit, whatever their rows (class_weight balanced), so probabilities are "
            "those of a table with as many of each; scores count rows as they are."
        )
        said += routine([alike])
    rows, name = min(zip(classes.rows, classes.names, strict=True))
    if not shrunk and rows < FEW_ROWS * columns:
        said.append(
            f"Only {rows:,} training rows are '{name}', for {columns} weights: fewer than {FEW_ROWS} for each, so "
            "coefficients are uncertain and probabilities too extreme. Fewer columns or a penalty (shrink) would help."
        )
    return said


def no_optimum_note(running: list[str]) -> str:
    return (
        "The columns tell some class from the others without an error in some or all rows, so there is no finite "
        f"optimum: coefficients grow without end ({listed(running)}), and those given are where that was seen. "
        "Predictions are usable; standard errors are not."
    )
