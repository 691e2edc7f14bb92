"""The data set in a small matrix: mergeable moments, and the p x p least-squares problem equal to all rows.

No penalty, no solver and no file lives here: rows come in as arrays, answers are found in `paths`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shoal.errors import OutOfMemory, Remedy
from shoal.lazy.classes import dataclass
from shoal.models import Array

CACHE_BYTES = 4 << 20  # one batch of centred rows stays in the cache between centring and Z'Z


@dataclass(frozen=True, eq=False)
class Moments:
    """n rows x_i in p columns:  mean = sum x_i / n (p,);  scatter = sum (x_i - mean)(x_i - mean)' (p, p)."""

    n: float
    mean: Array
    scatter: Array

    @classmethod
    def empty(cls, p: int) -> Moments:
        return cls(0.0, np.zeros(p), np.zeros((p, p)))

    @classmethod
    def of(cls, X: NDArray[Any]) -> Moments:
        """The moments of the rows of X (n, p), also of a strided view; a NaN spoils its own column only.

        Every batch is centred by its own mean, so columns far from zero lose no digits.
        """
        n, p = X.shape
        if n == 0:
            return cls.empty(p)
        step = min(n, max(p // 2, CACHE_BYTES // (8 * max(p, 1)), 32))
        buffer, ones = np.empty((step, p)), np.ones(step)
        starts = range(0, n, step)
        counts = np.array([min(step, n - start) for start in starts], dtype=np.float64)
        centres, shifts = np.empty((2, len(starts), p))
        scatter = np.zeros((p, p))
        with np.errstate(invalid="ignore", over="ignore"):
            for i, start in enumerate(starts):
                rows = X[start : start + step]
                m = len(rows)
                centres[i] = ones[:m] @ rows / m
                Z = np.subtract(rows, centres[i], out=buffer[:m])
                shifts[i] = ones[:m] @ Z / m  # what rounding left in the centre
                scatter += Z.T @ Z  # NumPy makes this a syrk: half the work, exactly symmetric
            scatter -= _square(shifts, counts)
            # Relative to the first centre: this difference is exact where the means themselves would round.
            return _pool(counts, centres[0], (centres - centres[0]) + shifts, scatter)

    @classmethod
    def weighted(cls, X: NDArray[Any], weights: Array) -> Moments:
        """The moments of rows that count as often as their weights (n,) say, all of them above 0; n is their sum."""
        n, p = X.shape
        if n == 0:
            return cls.empty(p)
        step = min(n, max(p // 2, CACHE_BYTES // (8 * max(p, 1)), 32))
        starts = range(0, n, step)
        counts, (centres, shifts) = np.empty(len(starts)), np.empty((2, len(starts), p))
        scatter = np.zeros((p, p))
        with np.errstate(invalid="ignore", over="ignore"):
            for i, start in enumerate(starts):
                rows, own = X[start : start + step], weights[start : start + step]
                counts[i] = own.sum()
                centres[i] = own @ rows / counts[i]
                Z = rows - centres[i]
                shifts[i] = own @ Z / counts[i]  # what rounding left in the centre
                Z *= np.sqrt(own)[:, None]
                scatter += Z.T @ Z
            scatter -= _square(shifts, counts)
            return _pool(counts, centres[0], (centres - centres[0]) + shifts, scatter)

    def merge(self, other: Moments) -> Moments:
        return merge_all((self, other))

    def take(self, columns: Sequence[int] | NDArray[Any]) -> Moments:
        index = np.asarray(columns, dtype=np.intp)
        return Moments(self.n, self.mean[index], self.scatter[np.ix_(index, index)])

    def map(self, A: Any, b: ArrayLike = 0.0) -> Moments:
        """The moments of A x + b. A is (q, p), dense or sparse, or (p,) for one factor a column.

        Take columns with a NaN out first: 0 * NaN is NaN.
        """
        if np.ndim(A) == 1:
            return Moments(self.n, A * self.mean + b, self.scatter * A[:, None] * A)
        scatter = A @ (A @ self.scatter).T
        return Moments(self.n, A @ self.mean + b, (scatter + scatter.T) / 2)


class Merger:
    """The moments of all rows of many parts, one part at a time (Chan et al.); their order fixes every bit.

    The scatter within parts is summed in place, and the means are pooled once, in `total`: a part costs one
    addition of (p, p), and what is kept of it is its mean.
    """

    def __init__(self) -> None:
        self._counts: list[float] = []
        self._means: list[Array] = []
        self._scatter: Array | None = None

    def add(self, part: Moments) -> None:
        if self._scatter is None:
            self._scatter = part.scatter.copy()
        else:
            self._scatter += part.scatter
        self._counts.append(part.n)
        self._means.append(part.mean)

    def __bool__(self) -> bool:
        return self._scatter is not None

    def total(self) -> Moments:
        if self._scatter is None:
            raise ValueError("expected at least one part, got none")
        counts, means = np.array(self._counts), np.array(self._means)
        first = means[int(np.argmax(counts > 0))]
        with np.errstate(invalid="ignore"):
            return _pool(counts, first, means - first, self._scatter.copy())


def merge_all(parts: Iterable[Moments]) -> Moments:
    """The moments of all rows of at least one part."""
    merger = Merger()
    for part in parts:
        merger.add(part)
    return merger.total()


def _pool(counts: Array, origin: Array, means: Array, within: Array) -> Moments:
    """One Moments from g groups of rows: counts (g,), means less the origin (g, p), and the scatter within
    groups, summed (p, p) and overwritten."""
    filled = counts > 0
    if not filled.any():
        return Moments.empty(len(within))
    counts, means, n = counts[filled], means[filled], float(counts.sum())
    with np.errstate(invalid="ignore", over="ignore"):
        mean = counts @ means / n  # equal means differ from the origin by exactly 0: constant stays constant
        if len(counts) > 1:
            within += _square(means - mean, counts)
    diagonal = np.einsum("jj->j", within)
    np.maximum(diagonal, 0, out=diagonal, where=diagonal < 0)
    return Moments(n, origin + mean, within)


def _square(rows: Array, weights: Array) -> Array:
    weighted = rows * np.sqrt(weights)[:, None]
    product: Array = weighted.T @ weighted
    return product


def mean_squares(moments: Moments, coef: Array, intercepts: Array) -> Array:
    """The mean of (y - b - x'w)^2 over the rows of moments of (x..., y), for each row of coef (m, p)."""
    V = np.column_stack((-coef, np.ones(len(coef))))
    within = np.einsum("ij,ij->i", V @ moments.scatter, V) / moments.n
    return np.asarray(np.maximum(within, 0.0) + (V @ moments.mean - intercepts) ** 2)


def residual_squares(moments: Moments, coef: Array, intercept: float) -> float:
    """The sum of (y - b - x'w)^2 over the rows of moments of (x..., y), for one w (p,); 0 without rows."""
    return float(moments.n * mean_squares(moments, coef[None], np.array([intercept]))[0]) if moments.n else 0.0


def by_residue(X: NDArray[Any], K: int) -> list[Moments]:
    """K cells; cell r holds the rows r, r + K, r + 2K, ... of X."""
    return [Moments.of(X[r::K]) for r in range(K)]


def rotate(cells: Sequence[Moments], offset: int) -> list[Moments]:
    """The cells of a block that starts at global row `offset`, relabelled from local to global rows."""
    K = len(cells)
    return [cells[(r - offset) % K] for r in range(K)]


FEWER = Remedy.say("Use fewer columns or more memory")
STEPS = Remedy.set("Use fewer columns, more memory, or gradient steps", "solver", "gradient")


def plan_cells(
    p: int, wanted: int, budget_bytes: int, solving: int = 0, least: int = 1, otherwise: Remedy = FEWER
) -> int:
    """The largest number of (p, p) cells, from `least` to `wanted`, that fits the memory budget beside the matrices
    that `solving` holds at a time; what does not fit is refused before any of it is allocated, with what would."""
    one = 8 * p * (p + 1)
    fitting = budget_bytes // max(one, 1) - solving
    if fitting < least:
        raise OutOfMemory(
            f"The exact solver needs {(solving + least) * one / 1e6:,.0f} MB for matrices of {p:,} x {p:,}, but only "
            f"{budget_bytes / 1e6:,.0f} MB may be used.",
            otherwise,
        )
    return max(1, min(wanted, fitting))
