"""What a network of layers expects of rows, in NumPy and double precision: prediction needs no PyTorch; no training."""

from __future__ import annotations

import numpy as np

from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.losses.multinomial import Multinomial
from shoal.models import Array


@dataclass(frozen=True, eq=False)
class NetworkMean:
    """Rows in the units of the file, standardised; then layer by layer h -> max(0, W h + b), the last one as it is.

    Its one output is a score in units of the target's spread, from the target's mean on; of yes and no the logarithm of
    the odds, whose `loss` knows the mean.
    """

    centre: Array  # (p,)
    scale: Array  # (p,)
    weights: tuple[Array, ...]  # each (out, in), as PyTorch has them
    biases: tuple[Array, ...]
    target_centre: float
    target_scale: float
    loss: RowLoss | None = None

    def scores(self, X: Array) -> Array:
        """(n,) of design rows X (n, p); NaN where a row has one."""
        hidden = (X - self.centre) / self.scale
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.maximum(hidden @ W.T + b, 0.0)
        out = (hidden @ self.weights[-1].T + self.biases[-1])[:, 0]
        return np.asarray(self.target_centre + self.target_scale * out)

    def sizes(self, X: Array) -> Array:
        """What each score would be if nothing cancelled: rounding is a share of it."""
        hidden = (np.abs(X) + np.abs(self.centre)) / self.scale
        for W, b in zip(self.weights, self.biases, strict=True):
            hidden = hidden @ np.abs(W).T + np.abs(b)
        return np.asarray(abs(self.target_centre) + self.target_scale * hidden[:, 0])

    def expected(self, X: Array) -> Array:
        scores = self.scores(X)
        return scores if self.loss is None else self.loss.mean(scores)


RowMean = RowLoss | Multinomial | NetworkMean  # what is predicted of rows beside a linear score


def expected(X: Array, coef: Array, intercept: float | Array, mean: RowMean | None) -> Array:
    """The prediction for design rows X (n, p): of a network by its layers, which leave coefficients alone."""
    if isinstance(mean, NetworkMean):
        return mean.expected(X)
    scores: Array = X @ coef.T + intercept
    return scores if mean is None else np.asarray(mean.mean(scores), np.float64)
