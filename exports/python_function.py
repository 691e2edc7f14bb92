"""A model as one Python file without dependencies: tables of literals, and a function that adds up what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from shoal.exports.base import ColumnValues, FactorColumn, LinearForm, TextColumn, linear_form
from shoal.fitting.model_file import SavedModel
from shoal.models import Array

# Names and levels appear as literals made by repr, never as code or in comments.
TEMPLATE = '''"""Predictions of a linear model, written by `shoal export`; needs nothing but Python.

>>> predict({{"column": 1.5, "other": "level"}})  # all columns of NUMBERS and LEVELS, by name

Missing is None, NaN or an empty text. Dates are seconds since 1970-01-01 UTC. A level that is not in LEVELS adds 0.
Columns that add nothing to a prediction are left out.
"""

import math

TARGET = {target}
INTERCEPT = {intercept}

NUMBERS = {{  # column: (coefficient, value that stands in for a missing one, what a missing one adds besides)
{numbers}}}

LEVELS = {{  # column: what each level adds; "__missing__" is no value
{levels}}}
{products}

def predict(row):
    """The prediction for one row, a mapping from column names to values."""
    parts = [INTERCEPT]
    for name, (coefficient, fill, if_missing) in NUMBERS.items():
        value = number(row[name])
        parts += [coefficient * value] if math.isfinite(value) else [coefficient * fill, if_missing]
    for name, levels in LEVELS.items():
        parts.append(levels.get(level(row[name]), 0.0))
{multiplied}    return math.fsum(parts)


def number(value):
    return math.nan if value is None or value == "" else float(value)


def level(value):
    return "__missing__" if value is None or value == "" or value != value else str(value)
'''


PRODUCTS = """
PRODUCTS = [  # what one column gives times what another does: (coefficient, stands in for a missing one), or levels
{parts}]
"""
MULTIPLIED = """\
    for left, right in PRODUCTS:
        parts.append(side(row, *left) * side(row, *right))
"""
SIDE = '''

def side(row, name, table):
    """What a column gives to a product."""
    if isinstance(table, dict):
        return table.get(level(row[name]), 0.0)
    coefficient, fill = table
    value = number(row[name])
    return coefficient * (value if math.isfinite(value) else fill)
'''


class PythonFunction:
    packages: tuple[str, ...] = ()
    runtime = "the file executed by Python"
    use = "Import the file and call predict(row) with a mapping from column names to values."

    def write(self, model: SavedModel, out: Path) -> None:
        out.write_bytes(source(linear_form(model)).encode())

    def run(self, path: Path, model: SavedModel, rows: ColumnValues) -> Array:
        namespace: dict[str, Any] = {"__name__": "exported"}
        exec(compile(path.read_bytes(), str(path), "exec"), namespace)
        names = list(rows)
        each = zip(*rows.values(), strict=True)
        return np.array([namespace["predict"](dict(zip(names, row, strict=True))) for row in each])


def source(form: LinearForm) -> str:
    numbers = (
        f"    {c.name!a}: ({c.coefficient!r}, {c.fill!r}, {c.if_missing!r}),\n" for c in form.numbers if c.matters
    )
    parts = "".join(f"    ({_side(part.left)}, {_side(part.right)}),\n" for part in form.products)
    text = TEMPLATE.format(
        products=PRODUCTS.format(parts=parts) if form.products else "",
        multiplied=MULTIPLIED if form.products else "",
        target=ascii(form.target),
        intercept=repr(form.intercept),
        numbers="".join(numbers),
        levels="".join(f"    {c.name!a}: {_table(c.levels.items())},\n" for c in form.texts if c.matters),
    )
    return text + SIDE if form.products else text


def _side(column: FactorColumn) -> str:
    if isinstance(column, TextColumn):
        return f"({column.name!a}, {_table(column.levels.items())})"
    return f"({column.name!a}, ({column.coefficient!r}, {column.fill!r}))"


def _table(levels: Any) -> str:
    return "{" + ", ".join(f"{level!a}: {coefficient!r}" for level, coefficient in levels) + "}"


FORMAT = PythonFunction()
