"""A model as one Python file without dependencies: tables of literals, and a function that adds up what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal.exports.base import (
    HIGHEST,
    ColumnValues,
    FactorColumn,
    LinearForm,
    ShapedColumn,
    TextColumn,
    class_forms,
    linear_form,
)
from shoal.exports.shapes import in_python
from shoal.fitting.model_file import SavedModel
from shoal.models import Array
from shoal.results.outcome import Outcome

# Names and levels appear as literals made by repr, never as code or in comments.
TEMPLATE = '''"""Predictions of a {kind} model{what}, written by `shoal export`; needs nothing but Python.

>>> predict({{"column": 1.5, "other": "level"}})  # all columns of NUMBERS and LEVELS, by name

Missing is None, NaN or an empty text. Dates are {dates} since 1970-01-01 UTC. A level that is not in LEVELS adds
0, or what None stands for there. Columns that add nothing to a prediction are left out.
"""

import math

TARGET = {target}
{yes}INTERCEPT = {intercept}

NUMBERS = {{  # column: (coefficient, value that stands in for a missing one, what a missing one adds besides)
{numbers}}}

LEVELS = {{  # column: what each level adds; "__missing__" is no value
{levels}}}
{shapes}{products}

def predict(row):
    """The prediction for one row, a mapping from column names to values."""
    parts = [INTERCEPT]
    for name, (coefficient, fill, if_missing) in NUMBERS.items():
        value = number(row[name])
        parts += [coefficient * value] if math.isfinite(value) else [coefficient * fill, if_missing]
    for name, levels in LEVELS.items():
        parts.append(levels.get(level(row[name]), levels.get(None, 0.0)))
{bent}{multiplied}    return {mean}


def number(value):
    return math.nan if value is None or value == "" else float(value)


def level(value):
    return "__missing__" if value is None or value == "" or value != value else str(value)
'''


CLASSES = '''"""Predictions of a {kind} model: probabilities of CLASSES. Written by `shoal export`; needs only Python.

>>> predict({{"column": 1.5, "other": "level"}})  # all columns of NUMBERS and LEVELS, by name

Missing is None, NaN or an empty text. Dates are {dates} since 1970-01-01 UTC. A level that is not among those of a
column adds 0, or what None stands for there. Columns that add nothing to a score are left out of it.
"""

import math

TARGET = {target}
CLASSES = {classes}

SCORES = [  # of each class: intercept; numbers, with coefficient, value for a missing one, what a missing one adds
    # besides; what each level adds, "__missing__" is no value; shapes of columns; products of two columns
{scores}]


def predict(row):
    """The probability of each class for one row, a mapping from column names to values; the likeliest has most."""
    scores = [score(row, *tables) for tables in SCORES]
    if any(math.isnan(one) for one in scores):
        return dict.fromkeys(CLASSES, math.nan)
    powers = [math.exp(one - max(scores)) for one in scores]
    return {{name: power / math.fsum(powers) for name, power in zip(CLASSES, powers)}}


def score(row, intercept, numbers, levels, shapes, products):
    parts = [intercept]
    for name, (coefficient, fill, if_missing) in numbers.items():
        value = number(row[name])
        parts += [coefficient * value] if math.isfinite(value) else [coefficient * fill, if_missing]
    for name, known in levels.items():
        parts.append(known.get(level(row[name]), known.get(None, 0.0)))
    for name, table in shapes:
        parts.append(side(row, name, table))
    for left, right in products:
        parts.append(side(row, *left) * side(row, *right))
    return math.fsum(parts)


def number(value):
    return math.nan if value is None or value == "" else float(value)


def level(value):
    return "__missing__" if value is None or value == "" or value != value else str(value)
'''
MEANS = {  # a probability, or a mean, of the score that the parts add up to
    "identity": "math.fsum(parts)",
    "logit": f"1 / (1 + math.exp(min(-math.fsum(parts), {HIGHEST})))",
    "log": f"math.exp(min(math.fsum(parts), {HIGHEST}))",
}
PRODUCTS = """
PRODUCTS = [  # what one column gives times what another does: (coefficient, stands in for a missing one), or levels
{parts}]
"""
SHAPES = """
SHAPES = [  # column, (coefficient or values, stands in for a missing one, what a value is before that)
{parts}]
"""
BENT = """\
    for name, table in SHAPES:
        parts.append(side(row, name, table))
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
    coefficient, fill, *shape = table
    value = number(row[name])
    value = value if math.isfinite(value) else fill
    if shape:
        value = shape[0](value)
    return coefficient.get(value, 0.0) if isinstance(coefficient, dict) else coefficient * value
'''
FUNCTIONS = """\
import math


def log(x):
    return math.log(x) if x > 0 else math.nan


def sqrt(x):
    return math.sqrt(x) if x >= 0 else math.nan


def floor(x):
    return float(math.floor(x))


sin = math.sin
"""


class PythonFunction:
    packages: tuple[str, ...] = ()
    runtime = "the file executed by Python"
    use = "Import the file and call predict(row) with a mapping from column names to values."

    def write(self, model: SavedModel, out: Path) -> None:
        text = class_source(class_forms(model), model.outcome) if model.outcome and model.several else None
        out.write_bytes((text or source(linear_form(model))).encode())

    def run(self, path: Path, model: SavedModel, rows: ColumnValues) -> Array:
        namespace: dict[str, Any] = {"__name__": "exported"}
        exec(compile(path.read_bytes(), str(path), "exec"), namespace)
        names = list(rows)
        each = zip(*rows.values(), strict=True)
        found = [namespace["predict"](dict(zip(names, row, strict=True))) for row in each]
        return np.array([list(one.values()) for one in found] if model.several else found)


def source(form: LinearForm) -> str:
    numbers = (
        f"    {c.name!a}: ({c.coefficient!r}, {c.fill!r}, {c.if_missing!r}),\n" for c in form.numbers if c.matters
    )
    parts = "".join(f"    ({_side(part.left)}, {_side(part.right)}),\n" for part in form.products)
    shapes = "".join(f"    {_side(shape)},\n" for shape in form.shapes)
    text = TEMPLATE.format(
        shapes=SHAPES.format(parts=shapes) if form.shapes else "",
        bent=BENT if form.shapes else "",
        products=PRODUCTS.format(parts=parts) if form.products else "",
        multiplied=MULTIPLIED if form.products else "",
        mean=MEANS[form.link],
        kind="".join(c for c in form.kind if c.isalnum() or c == " "),
        what=", the probability of YES" if form.classes else "",
        yes=f"YES = {form.classes[1]!a}\n" if form.classes else "",
        target=ascii(form.target),
        dates=form.dates,
        intercept=repr(form.intercept),
        numbers="".join(numbers),
        levels="".join(f"    {c.name!a}: {_levels(c)},\n" for c in form.texts if c.matters),
    )
    if form.shapes or any(isinstance(side, ShapedColumn) for part in form.products for side in (part.left, part.right)):
        text = text.replace("import math\n", FUNCTIONS, 1)
    return text + SIDE if form.products or form.shapes else text


def class_source(forms: Sequence[LinearForm], outcome: Outcome) -> str:
    """The same for several classes, with tables of each."""
    form, scores = forms[0], []
    for one in forms:
        numbers = {c.name: (c.coefficient, c.fill, c.if_missing) for c in one.numbers if c.matters}
        levels = "".join(f"{c.name!a}: {_levels(c)}, " for c in one.texts if c.matters)
        products = "".join(f"({_side(part.left)}, {_side(part.right)}), " for part in one.products)
        shapes = "".join(f"{_side(shape)}, " for shape in one.shapes)
        scores.append(f"    ({one.intercept!r}, {numbers!a},\n     {{{levels}}}, [{shapes}], [{products}]),\n")
    text = CLASSES.format(
        kind="".join(c for c in form.kind if c.isalnum() or c == " "), dates=form.dates, target=ascii(form.target),
        classes=ascii(list(outcome.labels)), scores="".join(scores),
    )  # fmt: skip
    return text.replace("import math\n", FUNCTIONS, 1) + SIDE


def _side(column: FactorColumn) -> str:
    if isinstance(column, TextColumn):
        return f"({column.name!a}, {_table(column.levels.items())})"
    if isinstance(column, ShapedColumn):
        given = _table(column.levels.items()) if column.levels else repr(column.coefficient)
        fill = "math.nan" if math.isnan(column.fill) else repr(column.fill)  # an offset has no value that stands in
        return f"({column.name!a}, ({given}, {fill}, lambda x: {in_python(column.expression)}))"
    return f"({column.name!a}, ({column.coefficient!r}, {column.fill!r}))"


def _levels(column: TextColumn) -> str:
    return _table([*column.levels.items(), *([(None, column.other)] if column.other else [])])


def _table(levels: Any) -> str:
    return "{" + ", ".join(f"{level!a}: {coefficient!r}" for level, coefficient in levels) + "}"


FORMAT = PythonFunction()
