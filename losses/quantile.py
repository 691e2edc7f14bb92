"""A quantile of numbers: the line below which that share of the rows lies, whatever their spread does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from shoal.losses.base import IdentityLink, Pieces
from shoal.losses.huber import Huber
from shoal.models import Array, Bools

ROUNDING = 1e-10  # of sizes: the line goes through some rows, and sums of products are not exact


class Quantile(IdentityLink):
    """The pinball loss: q r above the line, (q - 1) r below it, r = y - eta.

    It has a corner where the line goes through a row, and no curvature: fits go down along `Smooth` and end at a corner
    of the sum, see `solve.pinball`.
    """

    name = "quantile"
    scores = ("loss_explained", "pinball", "below", "mae")

    def __init__(self, quantile: float = 0.5) -> None:
        self.quantile = float(quantile)
        self.constant_at = self.quantile

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"quantile": self.quantile}

    def at(self, y: Array, eta: Array) -> Pieces:
        r = y - eta
        slope = np.where(r < 0, 1 - self.quantile, -self.quantile)
        return Pieces(-slope * r, slope, np.zeros_like(eta))

    def likelihood(self, y: Array, value: Array) -> Array:
        """There is none: the loss is no distribution's."""
        return np.full_like(value, np.nan)

    def pearson(self, y: Array, mean: Array) -> Array:
        """Rows on the line, but for rounding, or below it, whose share is to be the quantile."""
        return np.asarray(is_below(y, mean), np.float64)


def is_below(y: Array, eta: Array) -> Bools:
    """Whether rows are below a line, or on it, but for rounding."""
    return np.asarray(y - eta <= ROUNDING * (np.abs(y) + np.abs(eta)))


class QuantileDensity(Quantile):
    """The same with a curvature: the density of the rows at the line, by Epanechnikov's kernel about each of them
    (Powell 1991). What slopes do on average where the line moves, whatever the spread of each row."""

    def __init__(self, quantile: float, bandwidth: float) -> None:
        super().__init__(quantile)
        self.bandwidth = bandwidth

    def at(self, y: Array, eta: Array) -> Pieces:
        value = super().at(y, eta).value
        slope = np.where(is_below(y, eta), 1 - self.quantile, -self.quantile)  # of rows on the line by no rounding
        u = (y - eta) / self.bandwidth
        return Pieces(value, slope, np.where(np.abs(u) <= 1, 0.75 * (1 - u**2), 0.0) / self.bandwidth)


class Smooth(Huber):
    """The pinball loss with its corner rounded over |r| <= width / 2: a Huber loss that is tilted by (1/2 - q)."""

    def __init__(self, quantile: float, width: float) -> None:
        super().__init__(0.5, width)
        self.tilt = 0.5 - quantile

    def along_scale(self, y: Array, eta: Array) -> None:
        """Its width is given, not found."""

    def scaled(self, scale: float) -> Smooth:
        return Smooth(0.5 - self.tilt, scale)

    def at(self, y: Array, eta: Array) -> Pieces:
        value, slope, curvature = super().at(y, eta)
        return Pieces(value - self.tilt * (y - eta), slope + self.tilt, curvature)
