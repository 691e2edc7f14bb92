"""How each fold sees the rows of a table: its own fills, levels and units as one linear map of the columns, which are
read once for all folds; no rows, no losses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shoal.lazy.classes import dataclass
from shoal.models import Array, Bools
from shoal.solve.descent import FoldView
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments


@dataclass(frozen=True, eq=False)
class FoldDesign:
    """One fold, or all training rows: columns x = A z, their units, and moments of (x..., y) over its training rows."""

    names: tuple[str, ...]
    keys: tuple[object, ...]  # what its columns are, so that those of another fold are found among them
    A: Array | None  # (p, q); None: x = z[columns]
    columns: npt.NDArray[np.intp]
    moments: Moments
    units: Standardisation
    trains: Bools  # (cells + 1,)
    tests: Bools
    test_n: float  # what its test rows count for
    class_weight: tuple[float, float] | None = None

    @property
    def n(self) -> float:
        return self.moments.n

    @property
    def mean(self) -> float:
        """Of the target."""
        return float(self.moments.mean[-1])

    @property
    def spread(self) -> Array:
        """The covariance of its columns in their units (p, p)."""
        found = self.moments.scatter[:-1, :-1] / self.n / np.outer(self.units.scale, self.units.scale)
        found[self.units.constant], found[:, self.units.constant] = 0.0, 0.0
        return np.asarray(found)

    def map(self, centre: Array) -> Array:
        """T (p + 1, q + 1) with (1, xs) = T (1, z - centre)."""
        p, q = len(self.columns), len(centre)
        A = np.zeros((p, q)) if self.A is None else self.A
        if self.A is None:
            A[np.arange(p), self.columns] = 1.0
        T = np.zeros((p + 1, q + 1))
        T[0, 0] = 1.0
        T[1:, 0] = (A @ centre - self.units.centre) / self.units.scale
        T[1:, 1:] = A / self.units.scale[:, None]
        if self.units.intercept:
            T[1:][self.units.constant] = 0.0
        return T

    def view(self, centre: Array, l1: Array, l2: Array) -> FoldView:
        return FoldView(self.map(centre), self.n, self.units.intercept, l1, l2)

    def raw(self, b: Array, W: Array) -> tuple[Array, Array]:
        """Coefficients (m, p) and intercepts (m,) in the units of the file."""
        coef = W / self.units.scale
        return coef, b - coef @ self.units.centre if self.units.intercept else np.zeros(len(b))

    def translated(self, other: FoldDesign, b: Array, W: Array) -> tuple[Array, Array]:
        """Points of another design in the units of this one; columns that are not in both are left out."""
        coef, intercepts = other.raw(b, W)
        places = {key: i for i, key in enumerate(other.keys)}
        found = np.array([places.get(key, -1) for key in self.keys], np.intp)
        own = np.where(found >= 0, coef[:, found], 0.0)
        own[:, self.units.constant] = 0.0
        if not self.units.intercept:
            return np.zeros(len(b)), own * self.units.scale
        return intercepts + own @ self.units.centre, own * self.units.scale


def common_centre(designs: Sequence[FoldDesign], mean: Array, far: float) -> Array:
    """What is taken off the columns that are read, so that sums lose no digits; 0 where all lie near it."""
    whole = designs[-1]
    away = float(np.abs(whole.units.centre / whole.units.scale).max(initial=0.0))
    return mean if away > far else np.zeros_like(mean)
