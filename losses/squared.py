"""Least squares as a loss among the others; linear models themselves are fitted from moments and never ask it."""

from __future__ import annotations

import math

import numpy as np

from shoal.losses.base import IdentityLink, Pieces
from shoal.models import Array


class Squared(IdentityLink):
    """(y - eta)^2 / 2."""

    name = "squared"

    def at(self, y: Array, eta: Array) -> Pieces:
        residual = eta - y
        return Pieces(residual**2 / 2, residual, np.ones_like(eta))

    def likelihood(self, y: Array, value: Array) -> Array:
        return np.asarray(-value - math.log(2 * math.pi) / 2)
