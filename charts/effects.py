"""The coefficients of a model, comparable and in order, for its chart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from shoal.lazy.classes import dataclass
from shoal.words import term_shown

MOST = 40  # that one can still read; tables have them all


@dataclass(frozen=True)
class Coefficient:
    """One design column's effect on the target, with its interval where the model gives one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


def effects(
    coefficients: Mapping[str, float],
    standardized: Mapping[str, float],
    intervals: Mapping[str, Mapping[str, Any]],
    per: str = "sd",
) -> list[Coefficient]:
    """The largest first; `per` is 'sd' (one standard deviation of the column, comparable) or 'unit' (its own)."""
    found = []
    for name, raw in coefficients.items():
        factor = _factor(raw, standardized[name]) if per == "sd" else 1.0
        ends = intervals.get(name) or {}
        value = standardized[name] if per == "sd" else raw
        found.append(
            Coefficient(term_shown(name), value, _scaled(ends.get("low"), factor), _scaled(ends.get("high"), factor))
        )
    return sorted(found, key=lambda c: -abs(c.value))


def _factor(raw: float, standardized: float) -> float | None:
    """The spread of the column; unknown where the coefficient is zero."""
    return standardized / raw if raw else None


def _scaled(end: float | None, factor: float | None) -> float | None:
    return None if end is None or factor is None or not math.isfinite(end) else end * factor


def not_zero(coefficients: list[Coefficient]) -> list[Coefficient]:
    """The largest of those that the model uses, and not more than one can read."""
    return [c for c in coefficients if c.value][:MOST]


def describe(coefficients: list[Coefficient], target: str) -> str:
    """The chart for those who do not see it."""
    bars = not_zero(coefficients)
    if not bars:
        return f"No column has an effect on {target}."
    parts = [f"{c.name} {'raises' if c.value > 0 else 'lowers'} it by {abs(c.value):.4g}" for c in bars[:5]]
    rest = f" and {len(bars) - 5} smaller ones" if len(bars) > 5 else ""
    return f"Chart of {len(bars)} coefficients for {target}, largest first: {', '.join(parts)}{rest}."
