"""The p x p least-squares problem that is equal to all rows, from moments or from the rows themselves (TSQR).

No penalty and no solver lives here: answers are found in `paths`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.lazy.classes import dataclass
from shoal.models import Array, RestsOn
from shoal.solve.moments import Moments

EPS = float(np.finfo(np.float64).eps)
CONSTANT = 8 * EPS  # a column whose spread is under this share of its mean varies by rounding only
ENOUGH_DIGITS = 10.0


def triangle(Z: NDArray[Any]) -> Array:
    """R (q, q), upper triangular, with R'R = Z'Z for the rows Z (n, q); its condition is Z's, not squared."""
    if len(Z) > Z.shape[1]:
        Z = Z[Z.any(axis=1)]  # triangles of fewer rows than columns end in rows of zeros, which say nothing
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
        return cls.of_spread(moments.n, moments.mean, np.diag(moments.scatter), intercept, standardize)

    @classmethod
    def of_spread(cls, n: float, mean: Array, squares: Array, intercept: bool, standardize: bool) -> Standardisation:
        """From the means of the columns (X..., y) and their sums of squares about them."""
        centre, spread = mean[:-1], np.sqrt(np.maximum(squares[:-1], 0.0) / (n or 1.0))  # rounding
        constant = spread <= CONSTANT * np.abs(centre)
        scale = np.where(constant, 1.0, spread) if standardize else np.ones_like(centre)
        if intercept:
            return cls(centre.copy(), scale, constant, float(mean[-1]), True)
        return cls(np.zeros_like(centre), scale, constant, 0.0, False)

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

    def raw(self, w: Array) -> tuple[Array, float]:
        """Weights and intercept in the units of the file."""
        coef = w / self.scale
        return coef, (self.y_mean - float(self.centre @ coef) if self.intercept else 0.0)

    def raw_along(self, W: Array) -> tuple[Array, Array]:
        """The same for each row of W (m, p): weights (m, p) and intercepts (m,)."""
        coef = W / self.scale
        return coef, self.y_mean - coef @ self.centre if self.intercept else np.zeros(len(W))


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The p x p data set equal to all n rows:  ||y - b - Xs w||^2 = ||z - R w||^2 + rest  for every w (p,).

    Xs = (X - centre)/scale (n, p) in `units`;  R (p, p) upper triangular;  z (p,);  rest is what no w can remove;
    y_scatter = ||y - y_mean||^2.  A constant column is a column of zeros in R (with an intercept).
    `nonnegative`: only weights of 0 or more are allowed.
    """

    n: float
    R: Array
    z: Array
    rest: float
    units: Standardisation
    y_scatter: float
    rests_on: RestsOn
    nonnegative: bool = False

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
        R, z = factor(square[:-1, :-1], square[:-1, -1])
        total = float(square[-1, -1])
        rest = max(total - float(z @ z), 0.0)
        return cls(moments.n, R / units.scale, z, rest, units, total, "moments")

    @classmethod
    def from_triangle(cls, T: Array, units: Standardisation, n: float) -> LeastSquares:
        """From the triangle T (q, q) of all rows of `units.apply(X, y)`.

        The column of ones takes up what rounding left in the centre, and its row tells how much that was.
        """
        lead = int(units.intercept)
        if lead:
            offset = T[0, 1:] / T[0, 0]
            centre, y_mean = units.centre + units.scale * offset[:-1], units.y_mean + float(offset[-1])
            units = replace(units, centre=centre, y_mean=y_mean)
        R, column = T[lead:-1, lead:-1], T[lead:, -1]
        z, total = column[:-1], float(column @ column)
        rest = float(column[-1] ** 2)
        return cls(n, R, z, rest, units, total, "data")

    @property
    def width(self) -> int:
        return len(self.z)

    def rss(self, w: Array) -> float:
        residual = self.z - self.R @ w
        return float(residual @ residual) + self.rest

    def gradient(self, w: Array) -> Array:
        """-Xs'r / n."""
        gradient: Array = self.R.T @ (self.R @ w - self.z) / self.n
        return gradient

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
        far = np.abs((self.units.centre / self.units.scale)[live] / self.norms[live]).max(initial=0.0)
        return EPS * (10 * len(self.z) + float(np.sqrt(self.n)) * (1 + float(far)))

    @cached_property
    def singular_values(self) -> Array:
        """Of the non-constant columns, each scaled to norm 1; largest first."""
        live, filled = self.norms > 0, self.R.any(axis=1)
        found = np.linalg.svd(self.R[np.ix_(filled, live)] / self.norms[live], compute_uv=False)
        return np.pad(found, (0, int(live.sum()) - len(found)))

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


def factor(gram: Array, cross: Array) -> tuple[Array, Array]:
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
