"""Positive and skewed, by logarithms: least squares of log y, with predictions of y itself, not of its logarithm.

e^(expected log y) is about the median of y, which is below the mean where rows spread: predictions that are transformed
back that way are too low. So the score is that of the logarithm plus a shift, the logarithm of the mean of y / e^fitted
over the training rows (Duan 1983, the smearing estimate). It asks for no normal residuals, as s^2 / 2 would, and holds
beside a penalty, where s^2 has no number of free rows to rest on. With the shift in it, the prediction is e^eta.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from shoal.losses.base import Pieces, RowLoss, Totals
from shoal.models import Array

HIGHEST = 700.0  # e^eta is a double up to here


class Lognormal(RowLoss):
    """(log y + shift - eta)^2 / 2. `constant_shift` is that of the model that knows nothing but one number."""

    name = "lognormal"
    link = "log"
    dispersed = True
    target = "positive"
    spread_is = "factor"
    scores = ("log_r2", "log_rmse", "rmse", "mae")
    smears = True
    mean_is_constant = False

    def __init__(self, shift: float = 0.0, constant_shift: float = 0.0) -> None:
        self.shift, self.constant_shift = float(shift), float(constant_shift)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"shift": self.shift, "constant_shift": self.constant_shift}

    def shifted(self, shift: float, constant_shift: float) -> Lognormal:
        return Lognormal(shift, constant_shift)

    @property
    def origin(self) -> float:
        return self.shift

    @property
    def of_constant(self) -> Lognormal:
        return Lognormal(self.constant_shift, self.constant_shift)

    def at(self, y: Array, eta: Array) -> Pieces:
        residual = eta - self.shift - np.log(y)
        return Pieces(residual**2 / 2, residual, np.ones_like(residual))

    def mean(self, eta: Array) -> Array:
        return np.exp(np.minimum(eta, HIGHEST))

    def eta(self, mean: float) -> float:
        return math.log(mean)

    def expected(self, eta: Array) -> Array:
        return np.ones_like(eta)

    def deviance(self, y: Array, eta: Array, value: Array) -> Array:
        return np.asarray(2 * value)

    def likelihood(self, y: Array, value: Array) -> Array:
        """Of y, not of its logarithm, so that it stands beside that of a gamma model."""
        return np.asarray(-value - np.log(y) - math.log(2 * math.pi) / 2)

    def log_likelihood(self, sums: Totals, dispersion: float | None) -> float:
        """At the variance that makes it largest, the mean square, as R's `logLik` of a linear model has it."""
        if not sums.deviance > 0:
            return math.nan
        logs = -sums.likelihood - sums.value - sums.n * math.log(2 * math.pi) / 2  # sum of log y
        return -sums.n / 2 * (math.log(2 * math.pi * sums.deviance / sums.n) + 1) - logs

    def pearson(self, y: Array, mean: Array) -> Array:
        return np.asarray(self.sizes(y, mean) ** 2)

    def sizes(self, y: Array, mean: Array) -> Array:
        """|log y - fitted|: rows spread evenly there, about the median of y."""
        return np.abs(np.log(y) - np.log(mean) + self.shift)

    def interval(self, mean: Array, width: float, by: str = "", /) -> tuple[Array, Array]:
        """So many times less and more than the median."""
        middle = mean * math.exp(-self.shift)
        return middle * math.exp(-width), middle * math.exp(width)

    def noise(self, mean: float, variance: float, deviance: float) -> float:
        return deviance

    def constant_step(self, slope: float, curvature: float, n: float, most: float = 1.0) -> float:
        """The mean of log y less offsets: there at once."""
        return -slope / curvature
