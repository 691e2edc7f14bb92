"""All training rows of a table as an operator in standardised units: what is asked of them, and rows that are dense.

Those of which most values are 0 are in `sparse`; what is made of either in `wide`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.solve.least_squares import LeastSquares, Standardisation, triangle


class RowsAtHand(Protocol):
    """X (m, p) and y (m,) in `units`, centred where there is an intercept, with rows times the roots of their weights.

    n is the sum of the weights, or m.
    """

    @property
    def y(self) -> Array: ...
    @property
    def units(self) -> Standardisation: ...
    @property
    def n(self) -> float: ...
    @property
    def width(self) -> int: ...
    @property
    def norms(self) -> Array:
        """Of the columns (p,); 0 means constant."""

    @property
    def slopes(self) -> Array:
        """X'y / n (p,): the correlations where all weights are 0."""

    @property
    def y_scatter(self) -> float: ...
    @property
    def zero_gradient(self) -> float: ...
    @property
    def is_narrow(self) -> bool:
        """Whether the problem of all columns at once is the quick way."""

    @property
    def has_few_rows(self) -> bool:
        """Whether a matrix of rows x rows is."""

    def part(self, columns: NDArray[np.intp], roughly: bool = False) -> LeastSquares:
        """The problem of these columns alone; `roughly` where a few digits are enough."""

    def descended(self, l1: float, l2: float) -> Array | None:
        """Weights near the minimum at these penalties, where there is a quick way to them; None where not."""

    def entangled(self, columns: NDArray[np.intp]) -> NDArray[np.intp]:
        """Those of the columns that may depend on one another; of the others it is plain that they do not."""

    def times(self, w: Array) -> Array:
        """X w (m,)."""

    def against(self, r: Array) -> Array:
        """X'r (p,)."""

    def inner(self) -> Array:
        """X X' (m, m)."""

    def residual(self, w: Array) -> Array:
        """y - X w (m,)."""


@dataclass(frozen=True, eq=False)
class WideRows:
    """All training rows, standardised: X (n, p) and y (n,), centred where there is an intercept."""

    X: Array
    y: Array
    units: Standardisation

    @classmethod
    def of(cls, X: Array, y: Array, units: Standardisation) -> WideRows:
        """From rows in `units`; what rounding left in the centre is taken out, which changes X and y in place."""
        if units.intercept:
            offset, y_offset = X.mean(axis=0), float(y.mean())
            X -= offset
            y -= y_offset
            X[:, units.constant] = 0.0  # rounding noise is no signal
            centre = units.centre + np.where(units.constant, 0.0, units.scale * offset)
            units = replace(units, centre=centre, y_mean=units.y_mean + y_offset)
        return cls(X, y, units)

    @property
    def n(self) -> int:
        return len(self.y)

    @property
    def width(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def norms(self) -> Array:
        """Of the columns; 0 means constant."""
        norms: Array = np.sqrt(np.einsum("ij,ij->j", self.X, self.X))
        return norms

    @cached_property
    def slopes(self) -> Array:
        """X'y / n: the correlations where all weights are 0."""
        slopes: Array = self.against(self.y) / self.n
        return slopes

    @property
    def y_scatter(self) -> float:
        return float(self.y @ self.y)

    @property
    def zero_gradient(self) -> float:
        return float(np.abs(self.slopes).max(initial=0.0))

    @property
    def is_narrow(self) -> bool:
        return False

    @property
    def has_few_rows(self) -> bool:
        return True

    def part(self, columns: NDArray[np.intp], roughly: bool = False) -> LeastSquares:
        """The problem of these columns alone, by QR."""
        k, units = len(columns), self.units
        T = triangle(np.column_stack((self.X[:, columns], self.y)))
        chosen = replace(
            units, centre=units.centre[columns], scale=units.scale[columns], constant=units.constant[columns]
        )
        return LeastSquares(self.n, T[:k, :k], T[:k, k], float(T[k, k] ** 2), chosen, self.y_scatter, "data")

    def descended(self, l1: float, l2: float) -> Array | None:
        return None

    def entangled(self, columns: NDArray[np.intp]) -> NDArray[np.intp]:
        return columns

    def times(self, w: Array) -> Array:
        fitted: Array = self.X @ w
        return fitted

    def against(self, r: Array) -> Array:
        product: Array = r @ self.X
        return product

    def inner(self) -> Array:
        product: Array = self.X @ self.X.T
        return product

    def residual(self, w: Array) -> Array:
        used = np.flatnonzero(w)
        left: Array = self.y - self.X[:, used] @ w[used]
        return left
