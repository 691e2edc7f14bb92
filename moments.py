"""The data set in a small matrix: mergeable moments, and the p x p least-squares problem equal to all rows.

No penalty, no solver and no file lives here: rows come in as arrays, answers are found in `paths`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errors import ResourceError
from models import Array, RestsOn

EPS = float(np.finfo(np.float64).eps)
CACHE_BYTES = 1 << 20  # one batch of centred rows stays in the L2 cache between centring and Z'Z
CONSTANT = 8 * EPS  # a column whose spread is under this share of its mean varies by rounding only
ENOUGH_DIGITS = 10.0


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
        step = min(n, max(32, CACHE_BYTES // (8 * max(p, 1))))
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


def merge_all(parts: Iterable[Moments]) -> Moments:
    """The moments of all rows of at least one part (Chan et al.); the order of the parts fixes every bit."""
    counts: list[float] = []
    means: list[Array] = []
    scatter: Array | None = None
    for part in parts:
        scatter = part.scatter.copy() if scatter is None else np.add(scatter, part.scatter, out=scatter)
        counts.append(part.n)
        means.append(part.mean)
    if scatter is None:
        raise ValueError("merge_all needs at least one part")
    first = next((mean for n, mean in zip(counts, means, strict=True) if n > 0), means[0])
    with np.errstate(invalid="ignore"):
        return _pool(np.array(counts), first, np.array(means) - first, scatter)


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


def by_residue(X: NDArray[Any], K: int) -> list[Moments]:
    """K cells; cell r holds the rows r, r + K, r + 2K, ... of X."""
    return [Moments.of(X[r::K]) for r in range(K)]


def rotate(cells: Sequence[Moments], offset: int) -> list[Moments]:
    """The cells of a block that starts at global row `offset`, relabelled from local to global rows."""
    K = len(cells)
    return [cells[(r - offset) % K] for r in range(K)]


def plan_cells(p: int, wanted: int, budget_bytes: int) -> int:
    """The largest number of (p, p) cells, at most `wanted`, that fits the memory budget."""
    one = 8 * p * (p + 1)
    fitting = budget_bytes // max(one, 1)
    if fitting < 1:
        raise ResourceError(
            f"The exact solver needs {one / 1e6:.0f} MB for its {p} x {p} matrix, but only "
            f"{budget_bytes / 1e6:.0f} MB may be used. Use `--solver gradient`, fewer columns or more memory."
        )
    return max(1, min(wanted, fitting))


def triangle(Z: NDArray[Any]) -> Array:
    """R (q, q), upper triangular, with R'R = Z'Z for the rows Z (n, q); its condition is Z's, not squared."""
    R: Array = np.asarray(np.linalg.qr(Z, mode="r"))
    missing = Z.shape[1] - len(R)
    return np.pad(R, ((0, missing), (0, 0))) if missing else R


def stack(upper: Array, lower: Array) -> Array:
    """The triangle of two sets of rows from their triangles: one step of TSQR."""
    return triangle(np.vstack((upper, lower)))


def solve_upper(R: Array, b: Array) -> Array:
    """R^-1 b. LU finds nothing to eliminate in a triangle, so this is plain back substitution."""
    return np.linalg.solve(R, b)


def solve_lower(R: Array, b: Array) -> Array:
    """R'^-1 b for upper triangular R; reversing rows and columns makes R' upper triangular."""
    return np.linalg.solve(R.T[::-1, ::-1], b[::-1])[::-1]


@dataclass(frozen=True, eq=False)
class Standardisation:
    """x -> (x - centre) / scale  and  y -> y - y_mean, where centre = 0 and y_mean = 0 without an intercept.

    scale is the population standard deviation, or 1 for a `constant` column and where none is asked for.
    """

    centre: Array
    scale: Array
    constant: NDArray[np.bool_]
    y_mean: float
    intercept: bool

    @classmethod
    def of(cls, moments: Moments, intercept: bool, standardize: bool) -> Standardisation:
        """From moments of the columns (X..., y)."""
        mean, spread = moments.mean[:-1], np.sqrt(np.diag(moments.scatter)[:-1] / max(moments.n, 1))
        constant = spread <= CONSTANT * np.abs(mean)
        scale = np.where(constant, 1.0, spread) if standardize else np.ones_like(mean)
        if intercept:
            return cls(mean.copy(), scale, constant, float(moments.mean[-1]), True)
        return cls(np.zeros_like(mean), scale, constant, 0.0, False)

    def apply(self, X: NDArray[Any], y: NDArray[Any]) -> Array:
        """Rows for `triangle`: [1, (X - centre)/scale, y - y_mean], or [X/scale, y] without an intercept."""
        lead = int(self.intercept)
        Z = np.ones((len(X), lead + X.shape[1] + 1))
        inner = Z[:, lead:-1]
        np.subtract(X, self.centre, out=inner)
        inner /= self.scale
        if self.intercept:
            inner[:, self.constant] = 0.0  # rounding noise is no signal
        np.subtract(y, self.y_mean, out=Z[:, -1])
        return Z


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The p x p data set equal to all n rows:  ||y - b - Xs w||^2 = ||z - R w||^2 + rest  for every w (p,).

    Xs = (X - centre)/scale (n, p);  R (p, p) upper triangular;  z (p,);  rest is what no w can remove;
    y_scatter = ||y - y_mean||^2.  A constant column is a column of zeros in R (with an intercept).
    """

    n: float
    R: Array
    z: Array
    rest: float
    centre: Array
    scale: Array
    y_mean: float
    y_scatter: float
    intercept: bool
    rests_on: RestsOn

    @classmethod
    def from_moments(cls, moments: Moments, intercept: bool, standardize: bool) -> LeastSquares:
        """From the moments of the columns (X..., y); squares the condition number, see `needs_data`."""
        units = Standardisation.of(moments, intercept, standardize)
        square = moments.scatter.copy()
        if intercept:
            square[:-1][units.constant] = 0.0
            square[:, :-1][:, units.constant] = 0.0
        else:
            square += moments.n * np.outer(moments.mean, moments.mean)
        R, z = _factor(square[:-1, :-1], square[:-1, -1])
        total = float(square[-1, -1])
        rest = max(total - float(z @ z), 0.0)
        centre, scale = units.centre, units.scale
        return cls(moments.n, R / scale, z, rest, centre, scale, units.y_mean, total, intercept, "moments")

    @classmethod
    def from_triangle(cls, T: Array, units: Standardisation, n: float) -> LeastSquares:
        """From the triangle T (q, q) of all rows of `units.apply(X, y)`.

        The column of ones takes up what rounding left in the centre, and its row tells how much that was.
        """
        centre, y_mean, lead = units.centre, units.y_mean, int(units.intercept)
        if lead:
            offset = T[0, 1:] / T[0, 0]
            centre, y_mean = centre + units.scale * offset[:-1], y_mean + float(offset[-1])
        R, column = T[lead:-1, lead:-1], T[lead:, -1]
        z, total = column[:-1], float(column @ column)
        rest = float(column[-1] ** 2)
        return cls(n, R, z, rest, centre, units.scale, y_mean, total, units.intercept, "data")

    def rss(self, w: Array) -> float:
        residual = self.z - self.R @ w
        return float(residual @ residual) + self.rest

    def gradient(self, w: Array) -> Array:
        """-Xs'r / n."""
        gradient: Array = self.R.T @ (self.R @ w - self.z) / self.n
        return gradient

    def raw(self, w: Array) -> tuple[Array, float]:
        """Weights and intercept in the units of the file."""
        coef = w / self.scale
        return coef, (self.y_mean - float(self.centre @ coef) if self.intercept else 0.0)

    @cached_property
    def zero_gradient(self) -> float:
        """max |Xs'y| / n: the scale that gradients are judged by."""
        return float(np.abs(self.gradient(np.zeros_like(self.z))).max(initial=0.0))

    @cached_property
    def gram(self) -> Array:
        product: Array = self.R.T @ self.R
        return product

    @cached_property
    def norms(self) -> Array:
        """Column norms of R; 0 means constant."""
        norms: Array = np.sqrt((self.R**2).sum(axis=0))
        return norms

    @cached_property
    def floor(self) -> float:
        """Singular values under this share of the largest are rounding: of the arithmetic, or of the numbers
        in the file, which hold about eps * |centre| each while the column spreads by norm / sqrt(n)."""
        live = self.norms > 0
        far = np.abs((self.centre / self.scale)[live] / self.norms[live]).max(initial=0.0)
        return EPS * (10 * len(self.z) + float(np.sqrt(self.n)) * (1 + float(far)))

    @cached_property
    def singular_values(self) -> Array:
        """Of the non-constant columns, each scaled to norm 1; largest first."""
        live = self.norms > 0
        return np.linalg.svd(self.R[:, live] / self.norms[live], compute_uv=False)

    @property
    def rank(self) -> int:
        s = self.singular_values
        return int((s > self.floor * s.max(initial=0.0)).sum())

    def condition(self, l2: float = 0.0) -> float:
        """Of the columns scaled to norm 1 with a ridge l2 added; inf where they depend on one another."""
        s = self.singular_values
        if len(s) == 0:
            return 1.0
        lift = self.n * l2 / float(self.norms.max()) ** 2
        smallest = s[-1] if self.rank == len(s) else 0.0
        low, high = smallest**2 + lift, s[0] ** 2 + lift
        return float(np.sqrt(high / low)) if low > 0 else float("inf")


def digits(problem: LeastSquares, l2: float = 0.0) -> float:
    """About how many digits of the weights survive: moments square the condition number, rows do not."""
    power = 2 if problem.rests_on == "moments" else 1
    return max(0.0, 16 - power * float(np.log10(problem.condition(l2))))


def needs_data(problem: LeastSquares, l2: float = 0.0) -> bool:
    """Whether moments are too coarse, so that R should come from the rows (`triangle`, `stack`)."""
    return problem.rests_on == "moments" and digits(problem, l2) < ENOUGH_DIGITS


def _factor(gram: Array, cross: Array) -> tuple[Array, Array]:
    """R, z with R'R = gram (p, p) and R'z = cross (p,); directions that are rounding noise become zero."""
    size = np.sqrt(np.diag(gram))
    dead = size == 0
    size[dead] = 1.0
    unit, cross = gram / size / size[:, None], cross / size
    unit[dead, dead] = 1.0
    floor = EPS * (10 * len(size) + 100)
    R = _cholesky(unit, floor)
    z = solve_lower(R, cross) if R is not None else None
    if R is None or z is None:
        R, z = _spectral(unit, cross, floor)
    R = R * size
    R[:, dead] = 0.0
    return R, z


def _cholesky(unit: Array, floor: float) -> Array | None:
    try:
        R: Array = np.linalg.cholesky(unit).T
    except np.linalg.LinAlgError:
        return None
    return R if (np.diag(R) ** 2).min(initial=1.0) > floor else None


def _spectral(unit: Array, cross: Array, floor: float) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(unit)
    kept = values > floor * values.max()
    root = np.sqrt(np.where(kept, values, 0))
    z = np.where(kept, vectors.T @ cross, 0) / np.where(kept, root, 1)
    # Reversed, so that the zero directions end in the last rows of the triangle.
    T = triangle(np.column_stack((root[:, None] * vectors.T, z))[::-1])
    return T[:-1, :-1], T[:-1, -1]
