"""Arithmetic on one value x, written once as nested tuples: rows evaluate it here, exports write it in other languages.

    "x"                     the value of the column, or what stands in for a missing one
    1.5                     a number
    ("+", a, b)             also "-", "*" and "/"
    ("floor", a)            the largest whole number that is not above a
    ("log", a)              the natural logarithm; no value (NaN) where a is 0 or less
    ("sqrt", a)             the square root; no value where a is below 0
    ("sin", a)              the sine of an angle in radians
    ("if<", a, b, c, d)     c where a is below b, else d
    ("step:n@1/2", x, 1.5)  what a plug-in's step makes of x and numbers: see `plugin_steps`; no export has it

Which expressions there are is in `basis`, `dates` and `asked`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from shoal.data.shapes.plugin_steps import applied, operands
from shoal.models import Array
from shoal.settings.transforms import STEP

Expression = str | float | tuple[Any, ...]
X = "x"
ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
FUNCTIONS = {"floor": np.floor, "log": np.log, "sqrt": np.sqrt, "sin": np.sin}
OPERANDS = {**dict.fromkeys(ARITHMETIC, 2), **dict.fromkeys(FUNCTIONS, 1), "if<": 4}


def plus(a: Expression, b: Expression) -> Expression:
    return ("+", a, b)


def minus(a: Expression, b: Expression) -> Expression:
    return ("-", a, b)


def times(a: Expression, b: Expression) -> Expression:
    return ("*", a, b)


def over(a: Expression, b: Expression) -> Expression:
    return ("/", a, b)


def floor(a: Expression) -> Expression:
    return ("floor", a)


def below(a: Expression, limit: Expression, then: Expression, otherwise: Expression) -> Expression:
    return ("if<", a, limit, then, otherwise)


def steps(limits: list[float], values: list[Expression]) -> Expression:
    """values[i] where x lies below limits[i] and not below the limit before; the last one beyond all limits. Halved
    again and again, so that it is as deep as few questions find the place."""
    if not limits:
        return values[0]
    middle = len(limits) // 2
    left = steps(limits[:middle], values[: middle + 1])
    return below(X, limits[middle], left, steps(limits[middle + 1 :], values[middle + 1 :]))


def evaluate(expression: Expression, x: Array, known: dict[Expression, Array] | None = None) -> Array:
    """For each of several values; `known` keeps what was found, for other expressions of the same values."""
    found = {} if known is None else known
    with np.errstate(all="ignore"):
        return _value(expression, x, found)


def _value(expression: Expression, x: Array, known: dict[Expression, Array]) -> Array:
    if expression == X:
        return x
    if not isinstance(expression, tuple):
        return np.float64(expression)  # type: ignore[return-value]
    if expression in known:
        return known[expression]
    name, *rest = expression
    parts = [_value(part, x, known) for part in rest]
    found: Array
    if name in ARITHMETIC:
        found = ARITHMETIC[name](*parts)
    elif is_step(name):
        found = applied(name, parts[0], parts[1:])
    elif name == "if<":
        found = np.where(parts[0] < parts[1], parts[2], parts[3])
    else:
        found = FUNCTIONS[name](*parts)
        if name == "log":
            found = np.where(parts[0] > 0, found, np.nan)
    known[expression] = found
    return found


def as_text(expression: Expression) -> str:
    """As a model file has it: operands before what is done with them, `x 1.0 + log`, so that no bracket is needed."""
    if isinstance(expression, tuple):
        return " ".join((*map(as_text, expression[1:]), expression[0]))
    return X if expression == X else repr(float(expression))


def from_text(text: str) -> Expression:
    """An expression from a model file; ValueError for what is none."""
    waiting: list[Expression] = []
    for word in text.split():
        if (count := OPERANDS.get(word) or operands(word)) is None:
            waiting.append(X if word == X else float(word))
        elif count <= len(waiting):
            waiting[-count:] = [(word, *waiting[-count:])]
        else:
            raise ValueError(f"'{word}' has too few operands in '{text:.60}'")
    if len(waiting) != 1:
        raise ValueError(f"'{text:.60}' is no expression")
    return waiting[0]


def is_step(name: object) -> bool:
    """Whether an operation is a plug-in's."""
    return isinstance(name, str) and name.startswith(STEP)


def parts_of(expression: Expression) -> Iterator[Expression]:
    """It and all that it is made of."""
    yield expression
    if isinstance(expression, tuple):
        for part in expression[1:]:
            yield from parts_of(part)
