"""Positive and skewed: y is greater than 0, eta the logarithm of its mean, and the spread grows with the mean."""

from __future__ import annotations

import math

import numpy as np

from shoal.losses.base import FAR_OFF, Pieces, RowLoss, Totals
from shoal.models import TINY, Array

LOWEST = -700.0  # e^-eta is a double down to here


class Gamma(RowLoss):
    """y e^-eta + eta, with the mean mu = e^eta: half the deviance of a gamma distribution, less what y alone says."""

    name = "gamma"
    link = "log"
    in_c = True
    dispersed = True
    target = "positive"
    spread_is = "deviance"

    def at(self, y: Array, eta: Array) -> Pieces:
        ratio = y * np.exp(-np.maximum(eta, LOWEST))
        return Pieces(ratio + eta, 1 - ratio, ratio)

    def mean(self, eta: Array) -> Array:
        return np.exp(np.minimum(eta, -LOWEST))

    def eta(self, mean: float) -> float:
        return math.log(mean)

    def expected(self, eta: Array) -> Array:
        return np.ones_like(eta)

    def deviance(self, y: Array, eta: Array, value: Array) -> Array:
        """2 ((y - mu) / mu - log(y / mu))."""
        return np.asarray(2 * (value - 1 - np.log(y)))

    def likelihood(self, y: Array, value: Array) -> Array:
        return -value

    def log_likelihood(self, sums: Totals, dispersion: float | None) -> float:
        """At the shape 1 / dispersion, as statsmodels has it."""
        if dispersion is None or dispersion <= 0:
            return math.nan
        shape = 1 / dispersion
        logs = sums.value - sums.n - sums.deviance / 2  # sum of log y
        return -shape * sums.value + (shape - 1) * logs + sums.n * (shape * math.log(shape) - math.lgamma(shape))

    def sizes(self, y: Array, mean: Array) -> Array:
        """Roots of the deviance: an interval of them is skewed as rows are, and its lower end is never 0."""
        ratio = y / mean
        return np.sqrt(np.maximum(2 * (ratio - 1 - np.log(ratio)), 0.0))

    def constant_step(self, slope: float, curvature: float, n: float, most: float = 1.0) -> float:
        """The mean of y / e^offset: there at once, where doubles hold it."""
        if not TINY < curvature < math.inf:
            return -FAR_OFF if curvature <= TINY else FAR_OFF
        return math.log(curvature / n)
