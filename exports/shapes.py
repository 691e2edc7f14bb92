"""Shapes of columns in the languages of exports that are text: an expression as Python and as SQL."""

from __future__ import annotations

from collections.abc import Callable

from shoal.data.shapes.expression import ARITHMETIC, Expression, X


def in_python(expression: Expression) -> str:
    """An expression of x and the functions log, sqrt, floor and sin."""
    if not isinstance(expression, tuple):
        return X if expression == X else repr(expression)
    name, *rest = expression
    parts = [in_python(part) for part in rest]
    if name in ARITHMETIC:
        return f"({parts[0]} {name} {parts[1]})"
    if name == "if<":
        return f"({parts[2]} if {parts[0]} < {parts[1]} else {parts[3]})"
    return f"{name}({parts[0]})"


def in_sql(expression: Expression, value: str, number: Callable[[float], str]) -> str:
    """An expression in which `value` is x; NULL where it has no value."""
    if not isinstance(expression, tuple):
        return value if expression == X else number(float(expression))
    name, *rest = expression
    parts = [in_sql(part, value, number) for part in rest]
    if name in ARITHMETIC:
        return f"({parts[0]} {name} {parts[1]})"
    if name == "if<":
        return f"CASE WHEN {parts[0]} < {parts[1]} THEN {parts[2]} ELSE {parts[3]} END"
    if name == "log":
        return f"CASE WHEN {parts[0]} > 0e0 THEN LN({parts[0]}) END"
    if name == "sqrt":
        return f"CASE WHEN {parts[0]} >= 0e0 THEN SQRT({parts[0]}) END"
    return f"{name.upper()}({parts[0]})"
