"""Numbers with some that are far off: squares near the line, sizes beyond, so that no row pulls without bound."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from shoal.losses.base import AlongScale, IdentityLink, Pieces
from shoal.models import Array

TAIL = 0.01  # share of r's own weight in iteratively weighted squares that a far row keeps in steps


class Huber(IdentityLink):
    """s/2 + z r - s z^2/2,  r = y - eta,  z = r/s cut to [-epsilon, epsilon]: r^2/(2s) near 0, epsilon |r| far off.

    The scale s (sigma) is found together with the line, as scikit-learn's HuberRegressor does: the sum is convex in
    both. It is half of what that minimises, so that `alpha` beside the sum means the same.
    """

    name = "huber"
    beside_sum = True
    scores = ("loss_explained", "huber_loss", "mae", "rmse")
    has_scale = True
    constant_at = 0.5

    def __init__(self, epsilon: float = 1.35, sigma: float = 1.0) -> None:
        self.epsilon, self.sigma = float(epsilon), float(sigma)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"epsilon": self.epsilon, "sigma": self.sigma}

    def scaled(self, scale: float) -> Huber:
        return Huber(self.epsilon, scale)

    def _cut(self, r: Array) -> Array:
        return np.asarray(np.clip(r / self.sigma, -self.epsilon, self.epsilon))

    def at(self, y: Array, eta: Array) -> Pieces:
        r = y - eta
        z = self._cut(r)
        value = self.sigma / 2 + z * r - self.sigma * z**2 / 2
        return Pieces(value, -z, np.where(np.abs(r) <= self.epsilon * self.sigma, 1 / self.sigma, 0.0))

    def steps(self, y: Array, eta: Array) -> Pieces:
        """Rows far off keep a little curvature, so that columns that only they have can move."""
        value, slope, near = self.at(y, eta)
        far = TAIL * self.epsilon / np.maximum(np.abs(y - eta), self.epsilon * self.sigma)
        return Pieces(value, slope, np.where(near > 0, near, far))

    def along_scale(self, y: Array, eta: Array) -> AlongScale | None:
        r = y - eta
        z = self._cut(r)
        near = np.where(np.abs(r) <= self.epsilon * self.sigma, z, 0.0)
        return AlongScale((1 - z**2) / 2, near**2 / self.sigma, near / self.sigma)

    def deviance(self, y: Array, eta: Array, value: Array) -> Array:
        """Twice the loss, less its scale: 0 where the line goes through y."""
        return np.asarray(2 * value - self.sigma)

    def likelihood(self, y: Array, value: Array) -> Array:
        """There is none: the loss is no distribution's."""
        return np.full_like(value, np.nan)

    def dispersion(self, pearson: float, curvature: float, n: float, free: float) -> float:
        """Huber's variance of a coefficient, but for (X'X)^-1: K^2 s^2 (sum z^2 / free) / m^2 with the share m of near
        rows and K = 1 + (n - free) / n (1 - m) / m, as statsmodels' RLM has it (H1)."""
        m = curvature * self.sigma / n
        if m <= 0:
            return math.nan
        more = 1 + (n - free) / n * (1 - m) / m
        return (more * self.sigma / m) ** 2 * pearson / free

    def pearson(self, y: Array, mean: Array) -> Array:
        """z^2, see `dispersion`."""
        return np.asarray(self._cut(y - mean) ** 2)
