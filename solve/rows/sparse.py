"""All training rows where most values are 0: products with the stored values alone, centring and scaling in between.

The standardised X = (A - 1 centre') / scale has no zeros left, so it is never made.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ResourceError
from shoal.kernels.columns_kernel import SparseDescent
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.solve.least_squares import LeastSquares, Standardisation, factor, needs_data, stack, triangle
from shoal.solve.rows.independence import entangled

FEW, FEW_ROWS = 1000, 2000  # columns, or rows, of which a square matrix is the quick way
CANCELLED = 1e-6  # of a sum of squares is left by centring: so many digits are gone with the rest
FALL, NEAR, SETTLED = 0.3, 1e-3, 1e-14  # of penalties on the way; moves that end the descent there, and at its end
PASSES, TOUCHED = 300, 200_000_000  # over all values that a descent may take, or values that cost half a second
MOST_VALUES = 2**31 - 1  # that it can count
PIECE = 1 << 20  # values that are filled in with zeros at a time


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A (m, p) by columns (scipy's csc) and y (m,) centred; X = root (A - 1 offset') inverse, root of the weights.

    Columns that have no zeros are stored about their mean, so that those far from zero lose no digits.
    """

    A: Any
    y: Array
    root: Array
    offset: Array
    inverse: Array  # 1 / scale, 0 for a column that is constant beside an intercept
    squares: Array  # of the columns of root (A - 1 offset')
    units: Standardisation
    n: float
    most: int  # columns that one problem may have

    @classmethod
    def of(
        cls, X: Any, y: Array, intercept: bool, standardize: bool, weights: Array | None = None, most: int = 10_000
    ) -> SparseRows:
        """From a sparse matrix of scipy, which stays as it is; rows count as their weights (m,) say."""
        A = X.tocsc(copy=True).astype(np.float64, copy=False)
        A.sum_duplicates()
        weight = np.ones(A.shape[0]) if weights is None else weights
        n = float(weight.sum())
        mean, counts = A.T @ weight / n, np.diff(A.indptr)
        about = _squares_about(A, mean, weight, n)
        y_mean = float(weight @ y / n)
        scatter = float(weight @ (y - y_mean) ** 2)
        units = Standardisation.of_spread(n, np.append(mean, y_mean), np.append(about, scatter), intercept, standardize)
        shift = np.where((counts == A.shape[0]) & intercept, mean, 0.0)
        A.data -= np.repeat(shift, counts)
        inverse = 1 / units.scale
        inverse[units.constant & intercept] = 0.0
        squares = about if intercept else about + n * mean**2
        root = np.sqrt(weight)
        return cls(A, root * (y - units.y_mean), root, units.centre - shift, inverse, squares, units, n, most)

    @property
    def width(self) -> int:
        return int(self.A.shape[1])

    @cached_property
    def norms(self) -> Array:
        norms: Array = np.sqrt(self.squares) * self.inverse
        return norms

    @cached_property
    def slopes(self) -> Array:
        return self.against(self.y) / self.n

    @property
    def y_scatter(self) -> float:
        return float(self.y @ self.y)

    @property
    def zero_gradient(self) -> float:
        return float(np.abs(self.slopes).max(initial=0.0))

    @property
    def is_narrow(self) -> bool:
        return self.width <= FEW

    @property
    def has_few_rows(self) -> bool:
        return len(self.y) <= FEW_ROWS

    def times(self, w: Array) -> Array:
        used = np.flatnonzero(w)
        v = (w * self.inverse)[used]
        A = self.A if 4 * len(used) > self.width else self.A[:, used]
        if A is self.A:
            used, v = np.arange(self.width), w * self.inverse
        fitted: Array = self.root * (A @ v - float(self.offset[used] @ v))
        return fitted

    def against(self, r: Array) -> Array:
        counted = self.root * r
        product: Array = (self.A.T @ counted - self.offset * float(counted.sum())) * self.inverse
        return product

    def residual(self, w: Array) -> Array:
        return self.y - self.times(w)

    def inner(self) -> Array:
        """X X' = root (A S A' - u 1' - 1 u' + s) root' with S = inverse^2, u = A S offset, s = offset' S offset."""
        S = self.inverse**2
        product = (self.A.multiply(S) @ self.A.T).toarray()
        u = self.A @ (S * self.offset)
        product += float(self.offset @ (S * self.offset)) - u - u[:, None]
        return np.asarray(self.root * product * self.root[:, None])

    def part(self, columns: NDArray[np.intp], roughly: bool = False) -> LeastSquares:
        """From sums of squares and products, or from the rows, a piece at a time, where these keep too few digits."""
        k, units = len(columns), self.units
        if k > self.most:
            raise ResourceError(
                f"Expected at most {self.most:,} columns in the model, for whose sums there is memory, got {k:,}. "
                "Choose a larger alpha, or a ridge model, which takes any number."
            )
        chosen = replace(
            units, centre=units.centre[columns], scale=units.scale[columns], constant=units.constant[columns]
        )
        B = self.A[:, columns]
        B.data *= self.root[B.indices]
        offset, inverse = self.offset[columns], self.inverse[columns]
        whole = (B.T @ B).toarray()
        square = whole - self.n * np.outer(offset, offset)
        coarse = (np.diag(square) < CANCELLED * np.diag(whole))[inverse > 0].any()
        square *= inverse * inverse[:, None]
        R, z = factor(square, self.slopes[columns] * self.n)
        rest = max(self.y_scatter - float(z @ z), 0.0)
        problem = LeastSquares(self.n, R, z, rest, chosen, self.y_scatter, "moments")
        if roughly or not (coarse or needs_data(problem)):
            return problem
        T = self._triangle(B.tocsr(), offset, inverse)
        return LeastSquares(self.n, T[:k, :k], T[:k, k], float(T[k, k] ** 2), chosen, self.y_scatter, "data")

    def descended(self, l1: float, l2: float) -> Array | None:
        """Weights near the minimum at these penalties, by coordinate descent; None where that takes long."""
        descent = self.descent()
        if descent is None:
            return None
        ways = (self.zero_gradient * FALL**k for k in range(1, 100))
        stations = [(one, l2, NEAR) for one in itertools.takewhile(lambda one: one > l1, ways)]
        left = self.patience
        for station in [*stations, (l1, l2, SETTLED)]:
            after = descent.to(*station, left)
            if after is None:
                return None
            left = after
        return descent.w

    def entangled(self, columns: NDArray[np.intp]) -> NDArray[np.intp]:
        norms = np.sqrt(self.squares[columns] / self.n)
        left = entangled(self.A[:, columns], self.root > 0, norms, self.units.intercept)
        return np.asarray(columns[left])

    def descent(self) -> SparseDescent | None:
        """Coordinate descent that begins at 0."""
        if len(self.A.data) > MOST_VALUES:
            return None
        curvature = self.norms**2 / self.n
        return SparseDescent(
            self.A, self.root**2, self.offset, self.inverse, curvature, self.n, self.root * self.y
        )  # fmt: skip

    @property
    def patience(self) -> int:
        """Values that a descent may touch before another way is taken."""
        return max(PASSES * self.stored, TOUCHED)

    @property
    def stored(self) -> int:
        """Values that one pass over all columns touches."""
        return len(self.A.data) + self.width

    def _triangle(self, B: Any, offset: Array, inverse: Array) -> Array:
        """Of the rows (X, y) in some columns, B by rows with their weights in it."""
        width = len(offset) + 1
        step = max(4 * width, PIECE // width)
        total: Array = np.zeros((width, width))
        for start in range(0, len(self.y), step):
            piece = slice(start, start + step)
            X = (B[piece].toarray() - np.outer(self.root[piece], offset)) * inverse
            total = stack(total, triangle(np.column_stack((X, self.y[piece]))))
        return total


def _squares_about(A: Any, mean: Array, weight: Array, n: float) -> Array:
    """Sums of squares about the mean: those of stored values, and of zeros by their number."""
    plain = bool((weight == 1).all())
    stored = A.__class__(((A.data - np.repeat(mean, np.diff(A.indptr))) ** 2, A.indices, A.indptr), A.shape)
    squares: Array = stored.T @ weight
    if plain:
        held: Array = np.diff(A.indptr)
    else:
        stored.data = np.ones_like(A.data)
        held = stored.T @ weight
    squares += np.maximum(n - held, 0.0) * mean**2
    return squares
