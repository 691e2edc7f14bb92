"""One row's prediction by a model file, and what each column adds to it; whole files are predicted in `prediction`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from design import MISSING_LEVEL, Encoding, Indicator, Number
from model_file import SavedModel
from models import Array

Value = float | str | None
Row = Mapping[str, Value]


@dataclass(frozen=True)
class Part:
    """What one column of the file adds: to the intercept, and against a typical row."""

    column: str
    value: Value
    adds: float
    against_typical: float
    filled: bool = False  # no value was given; the model's usual one stands in
    unseen: bool = False  # a name that the model was not trained with; it counts as none


@dataclass(frozen=True)
class Explained:
    """A prediction and the sum that it is: `intercept` + all `adds`, or `typical` + all `against_typical`."""

    prediction: float
    intercept: float
    typical: float
    parts: tuple[Part, ...]


def typical_row(encoding: Encoding) -> dict[str, Value]:
    """What stands in for missing numbers, and the first name of each text column that is one."""
    row: dict[str, Value] = {t.column: t.fill for t in encoding.terms if isinstance(t, Number)}
    for column, levels in encoding.known.items():
        row[column] = next((level for level in levels if level != MISSING_LEVEL), None)
    return row


def encode(encoding: Encoding, row: Row) -> Array:
    """The design row, as the encoder of data sets makes it: a missing number becomes its fill, a missing name the
    level for that, and a name that is not known sets no term."""
    values = []
    for term in encoding.terms:
        given = row.get(term.column)
        if isinstance(term, Number):
            values.append(term.fill if given is None else float(given))
        elif isinstance(term, Indicator):
            values.append(float(given is None))
        else:
            values.append(float((MISSING_LEVEL if given is None else given) == term.level))
    return np.array(values, np.float64)


def explain(model: SavedModel, row: Row) -> Explained:
    encoding = model.encoding
    x, usual = encode(encoding, row), encode(encoding, typical_row(encoding))
    adds, against = x * model.coef, (x - usual) * model.coef
    columns = list(dict.fromkeys([*encoding.columns, *encoding.known]))
    owner = np.array([term.column for term in encoding.terms], object)
    parts = tuple(
        Part(
            column,
            row.get(column),
            float(adds[owner == column].sum()),
            float(against[owner == column].sum()),
            filled=row.get(column) is None and column not in encoding.known,
            unseen=column in encoding.known and (row.get(column) or MISSING_LEVEL) not in encoding.known[column],
        )
        for column in columns
    )
    return Explained(
        float(x @ model.coef + model.intercept), model.intercept, float(usual @ model.coef + model.intercept), parts
    )
