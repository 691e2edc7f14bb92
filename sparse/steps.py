"""Squared loss of sparse rows in gradient steps: gradients by the coordinates that a batch touches, and steps of one
worker's own. Penalties are the server's: a prox moves every coordinate, which no worker has to tell it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.kernels.rows_kernel import CentredRows, dot
from shoal.lazy.classes import dataclass
from shoal.models import Array, LinearModel, P, TouchedSums, Values


@dataclass(frozen=True)
class SparseLinearModel(LinearModel[P]):
    """As `LinearModel`, of rows X = A - 1 centre'."""

    @staticmethod
    def gradient(X: Any, y: Values, w: Array) -> tuple[Array, float]:
        residual = X.times(w) - y
        return X.against(residual), dot(residual, residual)

    @staticmethod
    def touched(X: CentredRows, y: Values, w: Array) -> tuple[TouchedSums, float]:
        residual = X.times(w) - y
        return X.touched(residual), dot(residual, residual)

    @staticmethod
    def walk(w: Array, centre: Array) -> SquaredWalk:
        return SquaredWalk(w, centre)


class SquaredWalk:
    """Weights v + along centre, of which v changes where a batch has values and `along` is one number.

    A step goes by -rate (A'r - centre sum(r)), so nothing is done about coordinates that no row of the batch touches.
    """

    def __init__(self, w: Array, centre: Array) -> None:
        self._w, self._v, self._centre = w, w.copy(), centre
        self._along, self._inner, self._square = 0.0, dot(centre, w), dot(centre, centre)
        self._met = np.zeros(len(w), bool)

    def step(self, X: CentredRows, y: Values, rate: float) -> float:
        shift = self._inner + self._along * self._square  # centre'(v + along centre)
        residual = X.stored_times(self._v) - shift - y
        if self._along:
            residual += self._along * X.stored_times(self._centre)
        sums = X.touched(residual)
        moves = -rate * sums.values
        self._v[sums.places] += moves
        self._inner += dot(self._centre[sums.places], moves)
        self._along -= rate * sums.along
        self._met[sums.places] = True
        return dot(residual, residual)

    def moved(self) -> TouchedSums:
        places = np.flatnonzero(self._met).astype(np.int32)
        return TouchedSums(places, self._v[places] - self._w[places], self._along)
