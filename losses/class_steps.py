"""Several classes as gradient steps see them: log loss of rows, and its gradient by the weights of every class.

    F(W, b) = 1/n sum_i c_i (log sum_k e^eta_ik - eta_iy)  +  penalty(W)          eta_ik = b_k + xs_i'W_k

The flat vector has W class by class, then b, which is free. No data and no rule of how long a step is belongs here.
"""

from __future__ import annotations

import numpy as np

from shoal.lazy.classes import dataclass
from shoal.losses.multinomial import Multinomial
from shoal.losses.steps import FreeLast, RowExtras, RowKnown, RowsSeen
from shoal.models import Array, Penalty, Values, chunk_rows, proximal_step

HALF = 0.5  # the largest curvature of a row's loss by its scores, whatever its probabilities are (Böhning 1992)


@dataclass(frozen=True)
class ClassModel:
    """Log loss of K classes and a penalty, for gradient steps; y is the place of a row's class."""

    classes: int
    own: Penalty  # of the weights of columns
    intercept: bool
    beside: RowExtras

    @property
    def penalty(self) -> Penalty:
        return FreeLast(self.own, self.classes) if self.intercept else self.own

    def gradient(self, X: Values, y: Values, w: Array) -> tuple[Array, float]:
        """sum_i c_i (P_ik - [y_i = k]) u_i, by W and then by b, and sum_i c_i loss_i of a batch.

        Products with X in its precision within a chunk, all else in float64.
        """
        (rows, width), K = X.shape, self.classes
        gradient, total = np.zeros(len(w)), 0.0
        step = chunk_rows(X)
        for start in range(0, rows, step):
            chunk = X[start : start + step]
            known, eta = self.scored(chunk, y[start : start + step], w)
            came = known.y.astype(np.intp)
            value, off = Multinomial().at(came, eta)
            off[np.arange(len(came)), came] -= 1
            if known.weight is not None:
                value, off = value * known.weight, off * known.weight[:, None]
            gradient[: K * width] += np.dot(off.T.astype(X.dtype), chunk).ravel()
            if self.intercept:
                gradient[K * width :] += off.sum(axis=0)
            total += float(value.sum())
        return gradient, total

    def scored(self, X: Values, y: Values, w: Array) -> tuple[RowKnown, Array]:
        """What is known of rows, and their scores eta (n, K)."""
        K, width = self.classes, X.shape[1]
        eta = np.dot(X, w[: K * width].reshape(K, width).astype(X.dtype).T).astype(np.float64)
        return self.beside.of(y), eta + w[K * width :] if self.intercept else eta

    def update(self, w: Array, direction: Array, step: float | Array, shrink: float | Array | None = None) -> Array:
        return proximal_step(w, direction, step, self.penalty.prox, shrink)

    # ---------------------------------------------------------------- before and beside the steps

    def seen(self, X: Values, y: Values, w: Array) -> RowsSeen:
        """Of a shard, before a run begins."""
        gradient, value = self.gradient(X, y, w)
        row, step = 0.0, chunk_rows(X)
        for start in range(0, len(X), step):
            chunk, known = X[start : start + step], self.beside.of(y[start : start + step])
            norms = np.einsum("ij,ij->i", chunk, chunk, dtype=np.float64) + float(self.intercept)
            norms = norms if known.weight is None else norms * known.weight
            row = max(row, HALF * float(norms.max(initial=0.0)))
        return RowsSeen(gradient, value, HALF, row)

    def deviance(self, X: Values, y: Values, w: Array) -> float:
        """Half of it, summed over rows that are not trained on."""
        return self.gradient(X, y, w)[1]
