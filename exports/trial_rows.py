"""The rows that an export is proven on, made from nothing but the model file: all levels, gaps, extremes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from shoal.data.shapes.expression import Expression, X, parts_of
from shoal.data.terms import MISSING_LEVEL, Level, Offset, Product, Shaped
from shoal.exports.base import ColumnValues
from shoal.fitting.model_file import SavedModel
from shoal.models import Array, Bools

COUNT = 1000
GAPS = 8  # one in so many numbers is missing
EXTREMES = 5  # one in so many rows has a number that is far from all that was seen


def trial_rows(model: SavedModel, seed: int = 0) -> tuple[ColumnValues, Bools]:
    """The rows, and which of them have ordinary values only; the same for the same model.

    Every text column has each of its levels, no value, and a level that the model does not know; two of them have all
    combinations with a coefficient; every column of numbers has gaps, negative values, zeros, and up to 1e12 spreads
    from its centre, or, of dates in parts, 3,000 years from it. The first rows are corners: no value in any column,
    then all numbers 0.
    """
    together = _levels_together(model)
    count = max(COUNT, 2 + max((len(levels) for levels in model.encoding.known.values()), default=0)) + len(together)
    random = np.random.default_rng(seed)
    extreme = np.arange(count) % EXTREMES == EXTREMES - 1
    numbers = _numbers(model, random, extreme)
    rows: dict[str, list[float | str | None]] = {
        name: [None if math.isnan(value) else value for value in column.tolist()] for name, column in numbers.items()
    }
    for name in model.texts:
        rows[name] = _texts(model.encoding.known.get(name, ()), count, random)
        rows[name][0] = None
    for place, pair in enumerate(together, count - len(together)):
        for factor in pair:
            rows[factor.column][place] = None if factor.level == MISSING_LEVEL else factor.level
    return rows, ~extreme


def _levels_together(model: SavedModel) -> list[tuple[Level, Level]]:
    """The levels of two columns that have a coefficient of their own together: chance would leave some out."""
    products = [term.factors for term in model.encoding.terms if isinstance(term, Product)]
    return [(a, b) for a, b in products if isinstance(a, Level) and isinstance(b, Level)]


def unseen_level(known: Sequence[str]) -> str:
    text = "a level that no row had"
    while text in known:
        text += "'"
    return text


def rows_with_gaps(rows: ColumnValues) -> int:
    return sum(None in row for row in zip(*rows.values(), strict=True))


def rows_with_unseen(rows: ColumnValues, known: Mapping[str, Sequence[str]]) -> int:
    texts = [(rows[name], {*levels, None}) for name, levels in known.items()]
    count = len(next(iter(rows.values()), ()))
    return sum(any(values[i] not in levels for values, levels in texts) for i in range(count))


def _texts(known: Sequence[str], count: int, random: np.random.Generator) -> list[float | str | None]:
    choices = [*known, None, unseen_level(known)]
    order = random.permutation(count - 1) % len(choices)  # the first row is a corner
    return [None, *(choices[i] for i in order)]


def _numbers(model: SavedModel, random: np.random.Generator, extreme: Bools) -> dict[str, Array]:
    count, names = len(extreme), model.numbers
    fills, shapes = model.encoding.fills, _shapes(model)
    found: dict[str, Array] = {}
    for place, name in enumerate(names):
        centre, spread = fills.get(name, 0.0), _spread(model, name, fills.get(name, 0.0))
        values: Array = centre + 2 * spread * random.standard_normal(count)
        found[name] = values = _where_it_bends(values, shapes.get(name, []), random)
        values[random.random(count) < 1 / GAPS] = np.nan
        values[0], values[1] = np.nan, 0.0
        # One column at a time, so that it is alone in deciding the prediction.
        alone = np.flatnonzero(extreme)[place :: len(names)]
        sign = random.choice([-1.0, 1.0], len(alone))
        if _is_calendar(shapes.get(name, [])):  # there is no date that far from today
            values[alone] = centre + sign * 10.0 ** random.uniform(3, 6, len(alone))
            continue
        values[alone] = centre + sign * spread * 10.0 ** random.uniform(3, 12, len(alone))
    return found


def _shapes(model: SavedModel) -> dict[str, list[Expression]]:
    """The expressions of each column."""
    found: dict[str, list[Expression]] = {}
    for term in model.encoding.terms:
        for factor in term.factors if isinstance(term, Product) else (term,):
            if isinstance(factor, Shaped):
                found.setdefault(factor.column, []).append(factor.shape.expression)
            elif isinstance(factor, Offset):
                found.setdefault(factor.column, []).append(("log", X) if factor.log else X)
    return found


def _is_calendar(expressions: list[Expression]) -> bool:
    return any(part[0] == "floor" for one in expressions for part in parts_of(one) if isinstance(part, tuple))


def _where_it_bends(values: Array, expressions: list[Expression], random: np.random.Generator) -> Array:
    """The borders of bins and splines themselves, and values between and near them, in place of most; few negative
    ones where a logarithm or a root is taken, of which nothing is to be seen."""
    parts = [part for expression in expressions for part in parts_of(expression) if isinstance(part, tuple)]
    borders = sorted({part[2] for part in parts if part[0] == "if<" and part[1] == X})
    if borders:
        near = random.choice(borders, len(values))
        width = borders[-1] - borders[0]
        inside = borders[0] - width / 4 + 1.5 * width * random.random(len(values))
        values = np.choose(random.integers(0, 4, len(values)), (near, inside, inside, values))
    if any(part[0] in ("log", "sqrt") for part in parts):
        values = np.where(random.random(len(values)) < 7 / 8, np.abs(values), values)
    return values


def _spread(model: SavedModel, name: str, centre: float) -> float:
    """The column's spread: what its coefficient grew by when it was standardised; else a guess."""
    coefficient = model.report.coefficients.get(name)
    standardized = model.report.coefficients_standardized.get(name)
    found = abs(standardized / coefficient) if coefficient and standardized else 0.0
    return found if 0 < found < math.inf else max(1.0, abs(centre))
