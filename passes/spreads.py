"""What is asked of tables that are too wide for their moments: means and spreads of columns, and the rows themselves;
blocks are added in order."""

from __future__ import annotations

import numpy as np

from shoal.data_pipeline import design_rows
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.passes.blocks import BlockRequest
from shoal.solve.least_squares import Standardisation
from shoal.worker import Worker


@dataclass(frozen=True, eq=False)
class Spreads:
    """n rows in p + 1 columns (terms..., target): mean (p + 1,), and scatter = sum (x - mean)^2 of each column."""

    n: float
    mean: Array
    scatter: Array

    def units(self, intercept: bool, standardize: bool) -> Standardisation:
        """As from moments, which wide tables have no room for."""
        return Standardisation.of_spread(self.n, self.mean, self.scatter, intercept, standardize)


class SpreadPool:
    """Spreads of many parts, one at a time (Chan et al.); their order fixes every bit."""

    def __init__(self, width: int) -> None:
        self._n = 0.0
        # Means are kept relative to the first one: columns far from zero lose no digits as parts come in.
        self._origin: Array = np.zeros(width)
        self._shift: Array = np.zeros(width)
        self._scatter: Array = np.zeros(width)

    def add(self, part: Spreads) -> None:
        if not part.n:
            return
        if not self._n:
            self._origin = part.mean
        n = self._n + part.n
        away = (part.mean - self._origin) - self._shift
        self._shift = self._shift + away * (part.n / n)
        self._scatter = self._scatter + part.scatter + away**2 * (self._n * part.n / n)
        self._n = n

    def total(self) -> Spreads:
        return Spreads(self._n, self._origin + self._shift, self._scatter)


@dataclass(frozen=True)
class SumSpreads(BlockRequest):
    """Spreads of (terms..., target) over the training rows of a block."""

    def answer(self, worker: Worker) -> Spreads:
        pool = SpreadPool(len(self.encoding.terms) + 1)
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            train = ~self.split.is_test(chunk.row)
            if train.any() and chunk.weight is not None:
                rows, weight = np.column_stack((chunk.X[train], chunk.y[train])), chunk.weight[train]
                pool.add(Spreads(float(weight.sum()), *_weighted_spread(rows, weight)))
            elif train.any():
                X = chunk.X if train.all() else chunk.X[train]
                parts = [_spread(X), _spread(chunk.y[train][:, None])]
                mean, scatter = (np.concatenate(values) for values in zip(*parts, strict=True))
                pool.add(Spreads(float(len(X)), mean, scatter))
        return pool.total()


def _spread(X: Array) -> tuple[Array, Array]:
    """Mean and scatter of the columns of X, which has rows."""
    centre = X.mean(axis=0)
    Z = X - centre
    shift = Z.mean(axis=0)  # what rounding left in the centre
    scatter = np.einsum("ij,ij->j", Z, Z) - len(X) * shift**2
    return centre + shift, np.maximum(scatter, 0.0)


def _weighted_spread(X: Array, weight: Array) -> tuple[Array, Array]:
    """The same for rows that count as often as their weights say."""
    total = weight.sum()
    centre = weight @ X / total
    Z = X - centre
    shift = weight @ Z / total
    return centre + shift, np.maximum(weight @ Z**2 - total * shift**2, 0.0)


@dataclass(frozen=True)
class TakeStandardised(BlockRequest):
    """The training rows themselves, standardised: X (n, terms) and y (n,)."""

    units: Standardisation

    def answer(self, worker: Worker) -> tuple[Array, Array]:
        X: list[Array] = [np.zeros((0, len(self.encoding.terms)))]
        y: list[Array] = [np.zeros(0)]
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            train = ~self.split.is_test(chunk.row)
            rows = chunk.X[train] - self.units.centre
            rows /= self.units.scale
            X.append(rows)
            y.append(chunk.y[train] - self.units.y_mean)
        return np.concatenate(X), np.concatenate(y)
