"""Newton steps for several classes: one step moves the weights of all of them, from sums over rows.

    F(b, W) = (1/n) sum_i c_i loss(y_i, b + W xs_i) + penalty(W)       W (K, p), b (K,), xs: standardised columns

The same number added to all scores of a row changes nothing, so K - 1 directions of classes are all that rows tell of:
those that sum to 0, for which `contrasts` is a basis. Intercepts are always among them; weights are without an L1
part, where that is the answer of smallest norm, which is also the one with an L2 penalty. With an L1 part all K are
asked for, and the penalty decides. No row and no file is known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DataError
from shoal.lazy.classes import dataclass
from shoal.models import L1L2, TINY, Array, Certificate
from shoal.solve.least_squares import EPS, LeastSquares, Standardisation, factor
from shoal.solve.newton import FLAT, FLATTER, MOST_SWEEPS, ROUNDING, RUNNING, SETTLED, SHORTEST, SUFFICIENT
from shoal.solve.paths import solve

SEPARATED = 0.0  # margins above are those of classes that are told apart without an error


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Sums over rows at one point, with u = (1, x - centre) (q,) and the probabilities P_k of a row:

    value = sum loss;  slope = sum (P_k - [y = k]) u (K, q);  square = sum (P_k [k = l] - P_k P_l) u u' (K q, K q),
    class by class, or nothing where it was not asked for;  reach = the largest score of a row less its smallest;
    margin = the smallest score of the class that came less the largest of the others.
    """

    rows: float
    value: float
    slope: Array
    square: Array
    reach: float
    margin: float

    @classmethod
    def none(cls, shape: tuple[int, ...], curved: bool = True) -> ClassSums:
        """Of weights of that shape (K, p)."""
        classes, p = shape
        size = classes * (p + 1) if curved else 0
        return cls(0.0, 0.0, np.zeros((classes, p + 1)), np.zeros((size, size)), 0.0, np.inf)

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.value) and np.isfinite(self.slope).all() and np.isfinite(self.square).all())

    def merge(self, other: ClassSums) -> ClassSums:
        return ClassSums(
            self.rows + other.rows, self.value + other.value, self.slope + other.slope, self.square + other.square,
            max(self.reach, other.reach), min(self.margin, other.margin),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ClassPoint:
    """Weights of standardised columns W (K, p), and scores at their centre b (K,)."""

    W: Array
    b: Array

    @classmethod
    def zero(cls, classes: int, p: int) -> ClassPoint:
        return cls(np.zeros((classes, p)), np.zeros(classes))

    def towards(self, other: ClassPoint, share: float) -> ClassPoint:
        return ClassPoint(self.W + share * (other.W - self.W), self.b + share * (other.b - self.b))


def contrasts(classes: int) -> Array:
    """(K, K - 1): orthonormal columns that each sum to 0 (Helmert's)."""
    Q = np.zeros((classes, classes - 1))
    for c in range(classes - 1):
        Q[: c + 1, c], Q[c + 1, c] = 1.0, -(c + 1.0)
        Q[:, c] /= np.sqrt((c + 1.0) * (c + 2.0))
    return Q


@dataclass(frozen=True, eq=False)
class ClassSlope:
    """The sums of a point in the units of the weights: gradients of the mean loss by W (K, p) and by b (K,), and its
    curvature (directions x (p + 1))^2, in the directions of classes that the penalty asks about."""

    gradient: Array
    of_b: Array
    n: float
    along: Array  # (K, m): the directions of W that are moved
    H_bb: Array  # all of the sum, not of the mean; b in contrasts; empty where weights are too many for H
    H_bw: Array
    H_ww: Array

    def problem(self, w: Array, intercept: bool) -> LeastSquares:
        """Whose minimum is the next point, from the weights w (m p,) of this one."""
        m, p = self.along.shape[1], self.gradient.shape[1]
        g = self.n * (self.along.T @ self.gradient).ravel()
        S = self.H_ww
        if intercept:
            back = np.linalg.lstsq(self.H_bb, np.column_stack((self.H_bw, self._of_b)), rcond=None)[0]
            before = np.diag(S)
            S, g = S - self.H_bw.T @ back[:, :-1], g - self.H_bw.T @ back[:, -1]
            dead = np.diag(S) <= 64 * EPS * before
            S[dead], S[:, dead], g[dead] = 0.0, 0.0, 0.0
        S = (S + S.T) / 2
        R, z = factor(S.copy(), S @ w - g)
        units = Standardisation(np.zeros(m * p), np.ones(m * p), np.zeros(m * p, bool), 0.0, intercept)
        return LeastSquares(self.n, R, z, 0.0, units, float(z @ z), "moments")

    @property
    def _of_b(self) -> Array:
        return self.n * (contrasts(len(self.of_b)).T @ self.of_b)

    def b_after(self, at: ClassPoint, W: Array) -> Array:
        """The best intercepts for weights W, by the quadratic model."""
        Q = contrasts(len(at.b))
        moved = self._of_b + self.H_bw @ (self.along.T @ (W - at.W)).ravel()
        return np.asarray(at.b - Q @ np.linalg.lstsq(self.H_bb, moved, rcond=None)[0])


def class_slope(sums: ClassSums, centre: Array, units: Standardisation, penalty: L1L2) -> ClassSlope:
    """The quadratic model of the loss about a point; `centre` is what the sums were centred by."""
    return class_slope_in(sums, to_units(centre, units), penalty)


def to_units(centre: Array, units: Standardisation) -> Array:
    """A (q, q) of (1, xs) = A (1, x - centre)."""
    A = np.eye(len(centre) + 1)
    A[1:, 1:] /= units.scale
    A[1:, 0] = -(units.centre - centre) / units.scale
    if units.intercept:
        A[1:][units.constant] = 0.0
    return A


def curvature_of_classes(sums: ClassSums, centre: Array, units: Standardisation) -> Array:
    """H of the mean loss by all K p weights, class by class, then by the K intercepts, if there are any."""
    A, (K, q) = to_units(centre, units), sums.slope.shape
    square = (A @ sums.square.reshape(K, q, K, q).transpose(0, 2, 1, 3) @ A.T).transpose(0, 2, 1, 3) / sums.rows
    of_w, cross = square[:, 1:, :, 1:].reshape(K * (q - 1), -1), square[:, 1:, :, 0].reshape(-1, K)
    if not units.intercept:
        return np.asarray(of_w)
    return np.block([[of_w, cross], [cross.T, square[:, 0, :, 0]]])


def class_slope_in(sums: ClassSums, A: Array, penalty: L1L2) -> ClassSlope:
    """The same where the columns that are weighed are (1, xs) = A (1, x - centre)."""
    K, q = sums.slope.shape
    slope = sums.slope @ A.T
    Q = contrasts(K)
    along = np.eye(K) if penalty.l1 > 0 else Q
    first = slope[:, 1:] / sums.rows, slope[:, 0] / sums.rows, sums.rows, along
    if not sums.square.size:  # too many weights for it
        return ClassSlope(*first, *3 * [np.empty((0, 0))])
    square = A @ sums.square.reshape(K, q, K, q).transpose(0, 2, 1, 3) @ A.T

    def turned(left: Array, right: Array, rows: slice, columns: slice) -> Array:
        found = np.einsum("kc,klij,ld->cidj", left, square[:, :, rows, columns], right, optimize=True)
        return np.asarray(found.reshape(found.shape[0] * found.shape[1], -1))

    of_b, of_w = slice(0, 1), slice(1, len(A))
    return ClassSlope(*first, turned(Q, Q, of_b, of_b), turned(Q, along, of_b, of_w), turned(along, along, of_w, of_w))


@dataclass(frozen=True, eq=False)
class ClassOptimum:
    """Where the steps ended, and how many passes over rows that took."""

    point: ClassPoint
    sweeps: int
    unique: bool
    running: NDArray[np.bool_]  # columns whose weights would go on to infinity

    @property
    def separated(self) -> bool:
        return bool(self.running.any())


SumsAt = Callable[[ClassPoint], ClassSums]


def minimise_classes(
    sweep: SumsAt, centre: Array, units: Standardisation, spread: Array, penalty: L1L2, start: ClassPoint,
    settled: float = SETTLED,
) -> ClassOptimum:  # fmt: skip
    """The minimum of F from sums at points that it asks for; `spread` (p, p) is the covariance of the columns in the
    units of W: a step is small where it moves no score."""
    origin, point, aim = start, start, start
    bound, promised, share = np.inf, 0.0, 1.0
    best: ClassOptimum | None = None
    for sweeps in range(1, MOST_SWEEPS + 1):
        sums = sweep(point)
        value = sums.value / sums.rows + penalty.value(point.W.ravel())
        if not sums.is_finite or value > bound + SUFFICIENT * share * promised:
            share /= 2
            if best is None:
                break
            if share < SHORTEST or sweeps == MOST_SWEEPS:
                return replace(best, sweeps=sweeps)  # nothing is lower along this line but rounding
            point = origin.towards(aim, share)
            continue
        slope = class_slope(sums, centre, units, penalty)
        aim, unique = stepped(slope, units, penalty, point)
        d = aim.W - point.W
        linear = float((slope.gradient * d).sum() + slope.of_b @ (aim.b - point.b))
        promised = min(linear + penalty.value(aim.W.ravel()) - penalty.value(point.W.ravel()), 0.0)
        size = float(np.sqrt(max(np.einsum("kj,ji,ki->", d, spread, d), 0.0) + ((aim.b - point.b) ** 2).sum()))
        moves = np.abs(d).max(axis=0) * np.sqrt(np.diag(spread))
        # Along a way to infinity scores move as before while the loss has become flat; elsewhere both shrink together.
        curve = float(np.trace(slope.H_bb)) / sums.rows
        flat = abs(promised) < min(FLAT / sums.rows, FLATTER * curve * size**2)
        lost = penalty == L1L2() and (flat or SEPARATED < sums.margin < np.inf)
        running = moves > RUNNING * moves.max(initial=TINY) if lost else np.zeros(len(moves), bool)
        best = ClassOptimum(point, sweeps, unique, running)
        if running.any():
            return best
        if size <= settled * max(1.0, sums.reach) or sweeps == MOST_SWEEPS:
            return replace(best, point=aim)
        bound, share, origin, point = value + ROUNDING * abs(value), 1.0, point, aim
    raise DataError("No step from the start lowers the loss: its values leave the doubles. Scale the columns.")


def stepped(slope: ClassSlope, units: Standardisation, penalty: L1L2, at: ClassPoint) -> tuple[ClassPoint, bool]:
    """The minimum of the quadratic model about a point, and whether it is the only one."""
    K, p = at.W.shape
    w = (slope.along.T @ at.W).ravel()
    found = solve(slope.problem(w, units.intercept), penalty, w)
    W = slope.along @ found.w.reshape(-1, p)
    return ClassPoint(W, slope.b_after(at, W) if units.intercept else np.zeros(K)), found.unique


def certificate_of_classes(
    penalty: L1L2, point: ClassPoint, slope: ClassSlope, steepest: float, intercept: bool
) -> Certificate:
    """The largest distance of a derivative of F to 0, relative to the largest at W = 0; from the rows themselves."""
    value = penalty.optimality_gap(point.W.ravel(), slope.gradient.ravel())
    value = max(value, float(np.abs(slope.of_b).max(initial=0.0)) if intercept else 0.0)
    return Certificate("kkt", value, 0.0 if value == 0 else value / max(steepest, TINY), "data")


def class_covariance(slope: ClassSlope, intercept: bool) -> Array | None:
    """Of intercepts, then weights, in contrasts of classes, at an optimum without penalty: the inverse of the curvature
    (Fisher's information); None where columns depend on one another."""
    H = slope.H_ww if not intercept else np.block([[slope.H_bb, slope.H_bw], [slope.H_bw.T, slope.H_ww]])
    size = np.sqrt(np.diag(H))
    if not (size > 0).all():
        return None
    unit = H / size / size[:, None]
    if np.linalg.cond(unit) > 1 / (1e3 * EPS):
        return None
    return np.asarray(np.linalg.inv(unit) / size / size[:, None])


def class_errors(C: Array, along: Array, units: Standardisation) -> tuple[Array, Array]:
    """Standard errors of the raw coefficients (K, p) and intercepts (K,), whose sums over classes are 0, from a
    covariance as above."""
    p, m = len(units.scale), along.shape[1]
    lead = m if units.intercept else 0
    weights = C[lead:, lead:].reshape(m, p, m, p)
    variance = np.einsum("kc,cjdj,kd->kj", along, weights, along)
    of_coef = np.sqrt(np.maximum(variance, 0.0)) / units.scale
    if not units.intercept:
        return of_coef, np.zeros(len(along))
    # an intercept in the units of the file is b less what the centre of the columns adds
    a = -units.centre / units.scale
    both = C[:lead, lead:].reshape(m, m, p) @ a
    at_zero = C[:lead, :lead] + both + both.T + np.einsum("j,cjdi,i->cd", a, weights, a)
    return of_coef, np.sqrt(np.maximum(np.einsum("kc,cd,kd->k", along, at_zero, along), 0.0))
