"""Counts: y is 0, 1, 2, ..., eta the logarithm of the expected count."""

from __future__ import annotations

import math

import numpy as np

from shoal.losses.base import FAR_OFF, Pieces, RowLoss
from shoal.models import TINY, Array

LOST = 1e-12  # share of the sum of means below which the counts in it are rounding
HIGHEST = 700.0  # e^eta is a double up to here; a step that goes beyond is too long, and its value says so


class Poisson(RowLoss):
    """e^eta - y eta, with the mean mu = e^eta."""

    name = "poisson"
    link = "log"
    in_c = True
    dispersed = False
    target = "counts"
    spread_is = "root"

    def at(self, y: Array, eta: Array) -> Pieces:
        mu = self.mean(eta)
        return Pieces(mu - y * eta, mu - y, mu)

    def mean(self, eta: Array) -> Array:
        return np.exp(np.minimum(eta, HIGHEST))

    def eta(self, mean: float) -> float:
        return math.log(mean)

    def expected(self, eta: Array) -> Array:
        return self.mean(eta)

    def deviance(self, y: Array, eta: Array, value: Array) -> Array:
        """2 (y log(y / mu) - (y - mu)), in terms that are exact where y is near mu."""
        mu = self.mean(eta)
        log = np.zeros_like(mu)
        np.log(y, out=log, where=y > 0)
        return np.asarray(2 * (np.where(y > 0, y * (log - eta), 0.0) - (y - mu)))

    def likelihood(self, y: Array, value: Array) -> Array:
        return np.asarray(-value - log_factorial(y))

    def sizes(self, y: Array, mean: Array) -> Array:
        return np.abs(y - mean) / np.sqrt(mean)

    def constant_step(self, slope: float, curvature: float, n: float, most: float = 1.0) -> float:
        """sum y / sum mean: there at once, unless one of them is lost beside the other."""
        if not TINY < curvature < math.inf:
            return FAR_OFF if curvature <= TINY else -FAR_OFF
        return math.log(max((curvature - slope) / curvature, LOST))


def log_factorial(y: Array) -> Array:
    """log(y!) = log gamma(y + 1), by Stirling's series where it is exact to rounding, else from a product."""
    shift = np.maximum(0, 16 - np.floor(y))  # z = y + shift + 1 is 17 or more
    z = y + shift + 1
    inverse = 1 / z
    series = inverse * (1 / 12 - inverse**2 * (1 / 360 - inverse**2 * (1 / 1260 - inverse**2 / 1680)))
    found = (z - 0.5) * np.log(z) - z + 0.5 * math.log(2 * math.pi) + series
    for k in range(1, 17):
        found -= np.where(shift >= k, np.log(np.maximum(y + k, 1e-300)), 0.0)
    return np.asarray(found)
