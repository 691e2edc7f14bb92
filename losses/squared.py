"""Least squares as a loss among the others; linear models themselves are fitted from moments and never ask it."""

from __future__ import annotations

import math

import numpy as np

from shoal.losses.base import Pieces, RowLoss
from shoal.models import Array


class Squared(RowLoss):
    """(y - eta)^2 / 2."""

    name = "squared"
    link = "identity"
    dispersed = True
    target = "number"
    mean_within = (-math.inf, math.inf)

    def at(self, y: Array, eta: Array) -> Pieces:
        residual = eta - y
        return Pieces(residual**2 / 2, residual, np.ones_like(eta))

    def mean(self, eta: Array) -> Array:
        return eta

    def eta(self, mean: float) -> float:
        return mean

    def expected(self, eta: Array) -> Array:
        return np.ones_like(eta)

    def deviance(self, y: Array, eta: Array, value: Array) -> Array:
        return np.asarray(2 * value)

    def likelihood(self, y: Array, value: Array) -> Array:
        return np.asarray(-value - math.log(2 * math.pi) / 2)
