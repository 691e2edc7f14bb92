"""Scores of a model, from sums of residuals that merge over blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import Array


@dataclass(frozen=True)
class Residuals:
    """Sums over rows: squares and sizes of the residuals r = y - prediction; mean and scatter of y."""

    rows: int
    squares: float
    sizes: float
    mean: float
    scatter: float

    @classmethod
    def of(cls, y: Array, residual: Array) -> Residuals:
        if not len(y):
            return cls.none()
        mean = float(y.mean())
        away = y - mean
        return cls(len(y), float(residual @ residual), float(np.abs(residual).sum()), mean, float(away @ away))

    @classmethod
    def none(cls) -> Residuals:
        return cls(0, 0.0, 0.0, 0.0, 0.0)

    def merge(self, other: Residuals) -> Residuals:
        rows = self.rows + other.rows
        if not rows:
            return self
        apart = other.mean - self.mean
        return Residuals(
            rows,
            self.squares + other.squares,
            self.sizes + other.sizes,
            self.mean + apart * other.rows / rows,
            self.scatter + other.scatter + apart**2 * self.rows * other.rows / rows,
        )

    def scores(self, columns: int, intercept: bool) -> dict[str, Any]:
        """rows, R2, adjusted R2, RMSE and MAE; None where too few rows or a constant target leave no answer."""
        n = self.rows
        if n == 0:
            return {"rows": 0, "r2": None, "adjusted_r2": None, "rmse": None, "mae": None}
        r2 = 1 - self.squares / self.scatter if self.scatter > 0 else None
        free = n - columns - int(intercept)
        adjusted = 1 - (1 - r2) * (n - int(intercept)) / free if r2 is not None and free > 0 else None
        return {
            "rows": n,
            "r2": r2,
            "adjusted_r2": adjusted,
            "rmse": math.sqrt(self.squares / n),
            "mae": self.sizes / n,
        }
