"""Which shapes of a column are asked for: checked against what the column holds, named, and as expressions. The terms
that they become are in `data.terms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from shoal.data.notation.dates import has_times
from shoal.data.shapes import basis, dates
from shoal.data.shapes.expression import Expression, X, evaluate, minus
from shoal.data.shapes.plugin_steps import operation, step_named
from shoal.errors import ConfigError, DataError
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.settings.transforms import DATES, PLAIN, ColumnPart
from shoal.words import date_text

FUNCTIONS: dict[str, Expression] = {"log": ("log", X), "log1p": ("log", ("+", 1.0, X)), "sqrt": ("sqrt", X)}
LEAST = {"log": "above 0", "log1p": "above -1", "sqrt": "of at least 0"}
PARTS: dict[str, tuple[Expression, dict[float, str]]] = {
    "month": (dates.month, {float(i): str(i) for i in range(1, 13)}),
    "weekday": (dates.weekday, {float(i): name for i, name in enumerate(dates.WEEKDAYS)}),
    "hour": (dates.hour, {float(i): str(i) for i in range(24)}),
}


Borders = Mapping[tuple[str, ColumnPart], Sequence[float]]  # the quantiles that a part of a column asks for


class ColumnFacts(Protocol):
    """What is known of a column."""

    @property
    def name(self) -> str: ...
    @property
    def minimum(self) -> float | None: ...
    @property
    def maximum(self) -> float | None: ...
    @property
    def is_number(self) -> bool: ...
    @property
    def is_date(self) -> bool: ...
    @property
    def written(self) -> str: ...


@dataclass(frozen=True)
class ColumnShape:
    """An expression of a column's value, or, with `equals`, 1 where it has that value, else 0.

    Shapes of one `group`, such as month(sold), are the levels of a column that the file does not have.
    """

    name: str
    expression: Expression
    equals: float | None = None
    group: str = ""
    level: str = ""

    def of(self, x: Array, known: dict[Expression, Array] | None = None) -> Array:
        found = np.broadcast_to(evaluate(self.expression, x, known), x.shape)
        return found if self.equals is None else (found == self.equals).astype(float)


def check_parts(column: ColumnFacts, parts: Sequence[ColumnPart]) -> None:
    """Refuse what this column cannot be used as."""
    for part in parts:
        if not column.is_number:
            raise _wrong(
                f"Expected a column of numbers or dates to use as {part}, got '{column.name}', which holds text."
            )
        if part.step:
            step_named(part.step)
        if part.how in DATES and not column.is_date:
            raise _wrong(f"Expected a column of dates to use as {part}, got '{column.name}', which holds numbers.")
        if part.how in FUNCTIONS and column.is_date:
            raise _wrong(f"Expected a column of numbers to use as {part}, got '{column.name}', which holds dates.")
        if part.how == "hour" and not has_times(column.written):
            raise _wrong(f"Expected times of day in '{column.name}' to use as hour, got dates alone.")
        if part.how in FUNCTIONS and column.minimum is not None and not _defined(part.how, column.minimum):
            raise DataError(
                f"Expected values {LEAST[part.how]} in '{column.name}' to use as {part}, got {column.minimum:g} as the "
                f"smallest. {_instead(part.how, column.minimum)}",
            )


def _defined(how: str, value: float) -> bool:
    return bool(np.isfinite(evaluate(FUNCTIONS[how], np.array([value])))[0])


def _instead(how: str, smallest: float) -> str:
    fitting = [other for other in ("log1p", "sqrt") if other != how and _defined(other, smallest)]
    return f"Use {' or '.join([*fitting, 'spline(5)', 'bins(5)'])}, or leave the rows out of the file."


def check_fill(column: ColumnFacts, parts: Sequence[ColumnPart], fill: float) -> None:
    """Refuse a constant in place of missing values that has no such shape."""
    for part in parts:
        if part.how in FUNCTIONS and not _defined(part.how, fill):
            raise ConfigError(
                f"Expected fill to be {LEAST[part.how]}, since '{column.name}' has missing values and is used as "
                f"{part}; got {fill:g}. Choose another fill, or another impute.", knobs=["fill", "transform"],
            )  # fmt: skip


def levels_of(part: ColumnPart) -> list[str] | None:
    """The levels of a group of shapes; None where the rows decide."""
    return None if part.how == "bins" else [*PARTS[part.how][1].values()] if part.how in PARTS else []


def quantiles_for(part: ColumnPart) -> list[float]:
    """The shares of the training rows that are to lie below its borders; none for a shape without borders."""
    if part.step:
        return [*step_named(part.step).quantiles]
    if part.how == "bins":
        return [i / part.number for i in range(1, part.number)]
    return [i / (part.number - 1) for i in range(part.number)] if part.how == "spline" else []


def placeholders(column: ColumnFacts, part: ColumnPart) -> list[float]:
    """Borders at equal distances, which give as many shapes as any do; for sizes, not for fits."""
    low, high = column.minimum or 0.0, column.maximum or 0.0
    return [low + (high - low) * share for share in quantiles_for(part)]


def shapes_of(column: ColumnFacts, part: ColumnPart, borders: Borders) -> Iterator[ColumnShape]:
    name = part.of(column.name)
    if part.how in FUNCTIONS:
        yield ColumnShape(name, FUNCTIONS[part.how])
    elif part.step:
        at = [float(border) for border in borders.get((column.name, part), ())]
        yield ColumnShape(name, (operation(part.step, at), X, *at))
    elif part.how == "trend":
        yield ColumnShape(name, minus(X, float(np.floor(column.minimum or 0.0))))
    elif part.how == "year":
        yield ColumnShape(name, dates.year)
    elif part.how == "day_of_year":
        yield ColumnShape(f"sin({name})", dates.sine)
        yield ColumnShape(f"cos({name})", dates.cosine)
    elif part.how in PARTS:
        expression, levels = PARTS[part.how]
        for value, level in levels.items():
            yield ColumnShape(f"{name}={level}", expression, value, name, level)
    elif part.how == "bins":
        yield from _bins(column, name, _apart(borders[column.name, part]))
    elif part.how != PLAIN:
        yield from _splines(name, _apart(borders[column.name, part]))


def _apart(borders: Sequence[float]) -> list[float]:
    """Each once: where many rows have the same value, several quantiles fall together."""
    return sorted({float(border) for border in borders})


def _bins(column: ColumnFacts, name: str, borders: list[float]) -> Iterator[ColumnShape]:
    inside = [border for border in borders if column.minimum is None or border > column.minimum]
    number = basis.bin_number(inside)
    said = _told(column, inside)
    labels = [f"{a}..{b}" for a, b in pairwise(said)]
    labels = [f"below {said[0]}", *labels, f"from {said[-1]}"] if said else []
    for value, label in enumerate(labels):
        yield ColumnShape(f"{name}={label}", number, float(value), name, label)


def _told(column: ColumnFacts, borders: list[float]) -> list[str]:
    """With as few digits as tell them apart."""
    if column.is_date:
        days = [date_text(border, has_times(column.written)) for border in borders]
        if len(set(days)) == len(days):
            return days
    ways = ([f"{border:.{digits}g}" for border in borders] for digits in (4, 6, 9))
    return next((way for way in ways if len(set(way)) == len(way)), [repr(border) for border in borders])


def _splines(name: str, knots: list[float]) -> Iterator[ColumnShape]:
    if len(knots) < 2:
        return
    for place, expression in enumerate(basis.splines(knots), 1):
        yield ColumnShape(f"{name}[{place}]", expression)


def _wrong(message: str) -> ConfigError:
    return ConfigError(f"{message} Take it out of transform.", knobs=["transform"])
