"""Scores of a model, from sums of residuals that merge over blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import Array
from moments import Moments, merge_all


@dataclass(frozen=True)
class Residuals:
    """Sums over rows: squares and sizes of the residuals r = y - prediction, and the moments of y."""

    squares: float
    sizes: float
    target: Moments

    @classmethod
    def of(cls, y: Array, residual: Array) -> Residuals:
        return cls(float(residual @ residual), float(np.abs(residual).sum()), Moments.of(y[:, None]))

    @classmethod
    def none(cls) -> Residuals:
        return cls(0.0, 0.0, Moments.empty(1))

    def merge(self, other: Residuals) -> Residuals:
        target = merge_all((self.target, other.target))
        return Residuals(self.squares + other.squares, self.sizes + other.sizes, target)

    @property
    def rows(self) -> int:
        return int(self.target.n)

    def scores(self, columns: int, intercept: bool) -> dict[str, Any]:
        """rows, R2, adjusted R2, RMSE and MAE; None where too few rows or a constant target leave no answer."""
        n = self.rows
        if n == 0:
            return {"rows": 0, "r2": None, "adjusted_r2": None, "rmse": None, "mae": None}
        total = float(self.target.scatter[0, 0])
        r2 = 1 - self.squares / total if total > 0 else None
        free = n - columns - int(intercept)
        adjusted = 1 - (1 - r2) * (n - int(intercept)) / free if r2 is not None and free > 0 else None
        return {
            "rows": n,
            "r2": r2,
            "adjusted_r2": adjusted,
            "rmse": math.sqrt(self.squares / n),
            "mae": self.sizes / n,
        }
