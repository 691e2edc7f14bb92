"""Yes or no: y is 1 or 0, eta the logarithm of the odds."""

from __future__ import annotations

import math

import numpy as np

from shoal.losses.base import Pieces, RowLoss
from shoal.models import Array


class Logistic(RowLoss):
    """log(1 + e^eta) - y eta, with the mean p = 1 / (1 + e^-eta)."""

    name = "logistic"
    link = "logit"
    in_c = True
    dispersed = False
    target = "two"
    beside_sum = True
    mean_within = (0.0, 1.0)

    def at(self, y: Array, eta: Array) -> Pieces:
        small = np.exp(-np.abs(eta))  # never overflows
        share = 1 / (1 + small)
        p = np.where(eta >= 0, share, small * share)
        value = np.log1p(small) + np.maximum(eta, 0) - y * eta
        return Pieces(value, p - y, small * share * share)

    def mean(self, eta: Array) -> Array:
        small = np.exp(-np.abs(eta))
        return np.asarray(np.where(eta >= 0, 1, small) / (1 + small))

    def eta(self, mean: float) -> float:
        return math.log(mean) - math.log1p(-mean)

    def expected(self, eta: Array) -> Array:
        small = np.exp(-np.abs(eta))
        return np.asarray(small / (1 + small) ** 2)

    def deviance(self, y: Array, eta: Array, value: Array) -> Array:
        return np.asarray(2 * value)

    def likelihood(self, y: Array, value: Array) -> Array:
        return -value
