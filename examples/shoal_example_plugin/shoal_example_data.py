"""Plug-ins about data: two validation rules, a metric, a column step; pyproject.toml gives them their names."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shoal.data.shapes.plugin_steps import ColumnStep
from shoal.errors import DataError
from shoal.fitting.own_metrics import Metric
from shoal.fitting.rules import CheckedTable, Remark, ValidationRule
from shoal.models import Array


class TimeForward(ValidationRule):
    """Dates do not go back from one row to the next."""

    def check(self, table: CheckedTable) -> Iterator[Remark]:
        for column in table.columns:
            if column.type == "datetime" and (back := self._steps_back(table, column.name)):
                yield Remark(f"'{column.name}' goes back in {back:,} rows.", (column.name,), "Sort the file by it")

    def _steps_back(self, table: CheckedTable, name: str) -> int:
        last, back = -np.inf, 0
        for days in table.values(name):
            seen = np.append(last, days[~np.isnan(days)])
            back, last = back + int((np.diff(seen) < 0).sum()), seen[-1]
        return back


class PositiveTarget(ValidationRule):
    """Refuses to predict amounts of which some are below 0."""

    def check(self, table: CheckedTable) -> Iterator[Remark]:
        low = table.column(table.target).minimum if table.target else None
        if low is not None and low < 0:
            raise DataError(f"Expected amounts of at least 0 in '{table.target}', got {low:g}.")
        yield from ()


class WithinTenPercent(Metric):
    """The share of rows whose prediction is at most a tenth of the target off."""

    better = "higher"

    def sums(self, y: Array, predicted: Array, weight: Array) -> Array:
        near = np.abs(predicted - y) <= 0.1 * np.abs(y)
        return np.array([weight @ near, weight.sum()])

    def value(self, sums: Array) -> float:
        return float(sums[0] / sums[1])


class Winsorise(ColumnStep):
    """Values beyond the 2nd and the 98th percentile of the training rows count as these."""

    version = "1"
    quantiles = (0.02, 0.98)

    def apply(self, x: Array, at: tuple[float, ...]) -> Array:
        return np.clip(x, *at)
