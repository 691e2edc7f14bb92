"""Newton steps for a loss of rows with a penalty: each is the least-squares problem that weighted sums of rows give.

    F(b, w) = (1/n) sum_i loss(y_i, b + xs_i'w) + penalty(w)          xs: standardised columns, b is never penalised

At a point, slopes g and curvatures h of the rows make a quadratic model of F, whose minimum the solvers of `paths` find
with the penalty as it is; so weights that a lasso leaves out are exact zeros here as well. Sums come in from a pass
over the rows; no row, no file and no loss is known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DataError
from shoal.lazy.classes import dataclass
from shoal.models import L1L2, TINY, Array, Certificate
from shoal.solve.least_squares import EPS, LeastSquares, Standardisation, factor
from shoal.solve.moments import Moments
from shoal.solve.paths import solve

SUFFICIENT = 1e-4  # share of the promised decrease that a step has to keep (Armijo)
SETTLED = 1e-6  # a step this small, relative to the scores, is the last: the next would be its square
FLAT = 1e-8  # promised decrease of the summed loss below which a step that still moves scores leads to infinity
FLATTER = 1e-6  # share of the mean curvature that is left along it
RUNNING = 0.05  # share of the largest move of a score from which on a column is named as one that runs away
NEAR = 3e-3  # a step this small, in scores, leaves the curvature as it was, as far as the next one is concerned
CONTRACTS = 0.1  # how much smaller steps have to become along a curvature of another point, or it is summed again
LEFT = 3e-9  # of scores: what a large table may leave to the pass that the certificate is from
SHORTEST = 1e-10  # share of a step at which the search along it ends
ROUNDING = 1e-12  # of a mean over many rows: a value that is higher by less is as low
MOST_SWEEPS = 100
LEAST_SCALE = 1e-9  # share of the spread of y below which residuals are rounding
SHRINKS = 0.1  # share of a scale that a step leaves of it at least
DIGITS = 1e-8  # of the largest score, below which a scale is no unit for the size of steps


class ScaleSums(NamedTuple):
    """Sums over rows of what a loss with a scale s of its own does along it: slope = sum d loss / ds, square = sum of
    the second derivative, cross (p + 1,) = sum u d2 loss / ds d eta, with u as in `Curvature`."""

    slope: float
    square: float
    cross: Array

    def merge(self, other: ScaleSums | None) -> ScaleSums:
        if other is None:
            return self
        return ScaleSums(self.slope + other.slope, self.square + other.square, self.cross + other.cross)


@dataclass(frozen=True, eq=False)
class Curvature:
    """Sums over rows at one point, in raw columns less a centre: with u = (1, x - centre) and loss (value, g, h),

    value = sum loss;  slope = sum g u (p + 1,);  square = sum h u u' (p + 1, p + 1), or (0, 0) where it was not asked
    for;  reach = max |eta|;
    margin = the smallest (2 y - 1) eta, above 0 where a yes/no target is told apart without an error.
    """

    rows: float
    value: float
    slope: Array
    square: Array
    reach: float
    margin: float
    of_scale: ScaleSums | None = None

    @classmethod
    def none(cls, p: int, squares: bool = True) -> Curvature:
        q = (p + 1) * squares
        return cls(0.0, 0.0, np.zeros(p + 1), np.zeros((q, q)), 0.0, np.inf)

    @property
    def is_finite(self) -> bool:
        """Not so where a step went so far that exponentials left the doubles."""
        return bool(np.isfinite(self.value) and np.isfinite(self.slope).all() and np.isfinite(self.square).all())

    def merge(self, other: Curvature) -> Curvature:
        return Curvature(
            self.rows + other.rows, self.value + other.value, self.slope + other.slope, self.square + other.square,
            max(self.reach, other.reach), min(self.margin, other.margin),
            self.of_scale.merge(other.of_scale) if self.of_scale else other.of_scale,
        )  # fmt: skip


@dataclass
class ConstantSearch:
    """The way to the best constant beside offsets, however far off: the slope of a sum of losses rises with it, so that
    it lies between the last one where that was below 0 and the last one where it was above."""

    low: float = -np.inf
    high: float = np.inf
    most: float = 1.0  # how far one step goes; twice as far the next time

    def step(self, at: float, slope: float, wanted: Callable[[float], float]) -> float:
        """From `at`, where the sum has that slope; `wanted`: the step of the loss, given how far it may go."""
        if slope > 0:
            self.high = at
        elif slope < 0:
            self.low = at
        step = wanted(self.most)
        self.most *= 2 if abs(step) >= self.most else 1
        if self.low < at + step < self.high or not np.isfinite(self.high - self.low):
            return step
        return (self.low + self.high) / 2 - at


class Scale(NamedTuple):
    """The scale of residuals, in the unit of y, of a loss that has one; it is free above `least`, and fixed there."""

    value: float
    least: float

    @property
    def is_free(self) -> bool:
        return self.value > self.least


@dataclass(frozen=True, eq=False)
class NewtonPoint:
    """Weights of standardised columns w (p,) and the score b at their centre; and the scale of a loss that has one."""

    w: Array
    b: float
    scale: Scale | None = None

    def towards(self, other: NewtonPoint, share: float) -> NewtonPoint:
        scale = self.scale
        if scale is not None and other.scale is not None:
            scale = scale._replace(value=scale.value + share * (other.scale.value - scale.value))
        return NewtonPoint(self.w + share * (other.w - self.w), self.b + share * (other.b - self.b), scale)


@dataclass(frozen=True, eq=False)
class Slope:
    """The sums of a point in the units of the weights: gradient (p,) and that of b, of the mean loss; the small problem
    whose minimum is the next point, and how b follows from its w."""

    gradient: Array
    of_b: float
    problem: LeastSquares
    weight: float  # sum h
    pull: Array  # sum h xs (p,)
    along_b: float  # slope by b, of the sum; where a scale is free, what is left of it once that has followed
    scale: ScaleSums | None = None  # in the units of the weights, where one is free

    @property
    def of_scale(self) -> float:
        return self.scale.slope / self.problem.n if self.scale else 0.0


def slope_at(sums: Curvature, centre: Array, units: Standardisation, at: NewtonPoint) -> Slope:
    """The quadratic model of the loss about a point, as the least-squares problem of its w alone.

    `centre` is what the sums were centred by; the units' own centre is reached by a linear map. b is eliminated:
    whatever w is, the best b follows from it.
    """
    shift = (units.centre - centre) / units.scale
    n, p = sums.rows, len(at.w)
    A = np.eye(p + 1)
    A[1:, 1:] /= units.scale
    A[1:, 0] = -shift
    slope, square = A @ sums.slope, A @ sums.square @ A.T
    if units.intercept:
        slope[1:][units.constant], square[1:][units.constant], square[:, 1:][:, units.constant] = 0.0, 0.0, 0.0
    gradient, of_b = slope[1:] / n, float(slope[0]) / n
    scale = _free_scale(sums, A, at, units)
    if scale is not None:  # the best scale follows from w and b, and is eliminated before b
        slope = slope - scale.cross * (scale.slope / scale.square)
        square = square - np.outer(scale.cross, scale.cross) / scale.square
    weight, pull = float(square[0, 0]), square[0, 1:]
    S, g = square[1:, 1:], slope[1:]
    if units.intercept:
        S = S - np.outer(pull, pull) / max(weight, TINY)
        g = g - pull * slope[0] / max(weight, TINY)
        diagonal = np.einsum("jj->j", S)
        diagonal[diagonal <= 64 * EPS * np.diag(square)[1:]] = 0.0
        dead = diagonal == 0
        S[dead], S[:, dead], g[dead] = 0.0, 0.0, 0.0
    S = (S + S.T) / 2
    R, z = factor(S.copy(), S @ at.w - g)
    # Centred where the weighted rows are: what the floor of rank and the error of the intercept rest on.
    middle = units.centre + units.scale * pull / max(weight, TINY) if units.intercept else units.centre
    own = replace(units, centre=middle, y_mean=0.0)
    problem = LeastSquares(n, R, z, 0.0, own, float(z @ z), "moments")
    return Slope(gradient, of_b, problem, weight, pull, float(slope[0]), scale)


def _free_scale(sums: Curvature, A: Array, at: NewtonPoint, units: Standardisation) -> ScaleSums | None:
    """The sums along a scale that is not held where it is. Where it alone would go very far, since rows near the line
    have no residuals to speak of, it goes some of the way by itself, and w and b as if it stayed."""
    own = sums.of_scale
    if own is None or at.scale is None or (not at.scale.is_free and own.slope >= 0):
        return None
    cross = A @ own.cross
    if units.intercept:
        cross[1:][units.constant] = 0.0
    else:
        cross[0] = 0.0
    most = at.scale.value * ((1 - SHRINKS) if own.slope > 0 else (1 / SHRINKS - 1))
    if abs(own.slope) >= most * own.square:
        return ScaleSums(own.slope, max(abs(own.slope) / most, TINY), np.zeros_like(cross))
    return ScaleSums(own.slope, own.square, cross)


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where the steps ended: the point, what its last small problem said, and how many passes over rows it took."""

    point: NewtonPoint
    slope: Slope
    sweeps: int
    unique: bool
    notes: tuple[str, ...]
    running: NDArray[np.bool_]  # columns whose weights would go on to infinity
    reach: float
    square: Array  # of `Curvature`, as it was last summed

    @property
    def separated(self) -> bool:
        return bool(self.running.any())


CurvatureAt = Callable[[NewtonPoint], Curvature]


def minimise(
    sweep: CurvatureAt, centre: Array, units: Standardisation, spread: Array, penalty: L1L2, start: NewtonPoint,
    worst: float | None = None, settled: float = SETTLED, slopes: CurvatureAt | None = None, about: Array | None = None,
) -> Optimum:  # fmt: skip
    """The minimum of F from sums at points that it asks for.

    `spread` (p, p) is the covariance of the columns in the units of w: a step is small where it moves no score.
    `worst` is F at w = 0, which the first point must not pass: a start may be a step too long. `slopes` gives sums
    without squares, for less: once steps are small, they go on along the curvature that is known. `about`: what the
    squares are about at the start, as a sample has them, for the first step; the next one is along those of all rows.
    """
    origin, point, aim = NewtonPoint(np.zeros_like(start.w), start.b, start.scale), start, start
    bound, promised, share = _about(worst), 0.0, 1.0
    best: Optimum | None = None
    before, near, known = np.inf, about is not None, about
    for sweeps in range(1, MOST_SWEEPS + 1):
        if stale := near and slopes is not None and known is not None:
            sums = replace(slopes(point), square=known)
        else:
            sums = sweep(point)
        value = sums.value / sums.rows + penalty.value(point.w)
        if not sums.is_finite or (bound is not None and value > bound + SUFFICIENT * share * promised):
            share, near = share / (2 if sums.is_finite else 8), False
            if best is not None and (share < SHORTEST or sweeps == MOST_SWEEPS):
                return replace(best, sweeps=sweeps)  # nothing is lower along this line but rounding
            point, bound = origin.towards(aim, share), bound if share >= SHORTEST else None
            continue
        slope = slope_at(sums, centre, units, point)
        found = solve(slope.problem, penalty, point.w)
        aim = _next(slope, units, point, found.w)
        d, promised = aim.w - point.w, _promise(slope, penalty, point, aim)
        size, scale = float(np.sqrt(max(float(d @ spread @ d), 0.0) + (aim.b - point.b) ** 2)), _unit(point, sums)
        # Along a way to infinity scores move as before while the loss has become flat; elsewhere both shrink together.
        flat = abs(promised) < min(FLAT / sums.rows, FLATTER * slope.weight / sums.rows * size**2)
        lost = penalty == L1L2() and point.scale is None and (flat or 0 < sums.margin < np.inf)
        rate = min(size / before, 1.0) if before < np.inf else 1.0
        left = size * rate ** (1 if stale else 2)  # after this step
        near = size <= NEAR and not lost and not (stale and (best is None or size > CONTRACTS * before))
        moves = np.abs(d) * np.sqrt(np.diag(spread))
        running = moves > RUNNING * moves.max(initial=TINY) if lost and not stale else np.zeros(len(moves), bool)
        known = sums.square
        best = Optimum(point, slope, sweeps, found.unique, found.notes, running, sums.reach, known)
        if running.any():
            return best
        enough = (size <= settled * scale and not stale) or (slopes is not None and left <= LEFT)
        if (enough and not (stale and lost) and known is not about) or sweeps == MOST_SWEEPS:
            return replace(best, point=aim)
        bound, share, origin, point, before = _about(value), 1.0, point, aim, size
    raise DataError("No step from the start lowers the loss: its values leave the doubles. Scale the columns.")


def _unit(point: NewtonPoint, sums: Curvature) -> float:
    """What a step is small beside: the scale of residuals where there is one, else scores, which have no unit."""
    return max(1.0, sums.reach) if point.scale is None else max(point.scale.value, DIGITS * sums.reach)


def _about(value: float | None) -> float | None:
    """A bound that a value which is the same but for rounding does not pass."""
    return None if value is None else value + ROUNDING * abs(value)


def newton_step(slope: Slope, units: Standardisation, penalty: L1L2, at: NewtonPoint) -> NewtonPoint:
    """The minimum of the quadratic model about a point: one more step from sums that are at hand."""
    return _next(slope, units, at, solve(slope.problem, penalty, at.w).w)


def start_from(moments: Moments, units: Standardisation, penalty: L1L2, steepness: float, curve: float) -> NewtonPoint:
    """The first Newton step from w = 0 and the best constant, which needs no pass over the rows: there the slope of a
    row is steepness * (mean - y) and its curvature is `curve`, so moments of (X..., y) are all that it asks for."""
    p = len(units.scale)
    slope = np.append(0.0, -steepness * moments.scatter[:-1, -1])
    square = np.zeros((p + 1, p + 1))
    square[0, 0], square[1:, 1:] = curve * moments.n, curve * moments.scatter[:-1, :-1]
    sums = Curvature(moments.n, 0.0, slope, square, 0.0, np.inf)
    zero = NewtonPoint(np.zeros(p), 0.0)
    return newton_step(slope_at(sums, units.centre, units, zero), units, penalty, zero)


def spread_in(units: Standardisation, moments: Moments) -> Array:
    """The covariance of the columns in the units of w (p, p)."""
    spread = moments.scatter[:-1, :-1] / moments.n / np.outer(units.scale, units.scale)
    spread[units.constant], spread[:, units.constant] = 0.0, 0.0
    return np.asarray(spread)


def start_with_scale(moments: Moments, units: Standardisation, penalty: L1L2) -> NewtonPoint:
    """Least squares with the penalty beside them as it is at the scale of y itself, and the scale of what is left;
    without an intercept, where moments do not know the slope at 0, w = 0. Nothing is smaller than digits of y."""
    squares = float(moments.scatter[-1, -1]) / moments.n
    size = squares if units.intercept else squares + float(moments.mean[-1]) ** 2
    least = LEAST_SCALE * (float(np.sqrt(size)) or abs(float(moments.mean[-1])) or 1.0)
    start = NewtonPoint(np.zeros(len(units.scale)), units.y_mean)
    if units.intercept and size > 0:
        w = start_from(moments, units, penalty, np.sqrt(1 / size), np.sqrt(1 / size)).w
        raw = w / units.scale
        left = squares - float(raw @ (2 * moments.scatter[:-1, -1] - moments.scatter[:-1, :-1] @ raw)) / moments.n
        start, size = replace(start, w=w), max(left, 0.0)
    return replace(start, scale=Scale(max(float(np.sqrt(size)), least), least))


def _next(slope: Slope, units: Standardisation, at: NewtonPoint, w: Array) -> NewtonPoint:
    b = at.b
    if units.intercept:
        b -= (float(slope.pull @ (w - at.w)) + slope.along_b) / max(slope.weight, TINY)
    if slope.scale is None or at.scale is None:
        return NewtonPoint(w, b, at.scale)
    own = slope.scale
    moved = (own.slope + float(own.cross[1:] @ (w - at.w)) + float(own.cross[0]) * (b - at.b)) / own.square
    value = at.scale.value
    found = at.scale._replace(value=value - moved)
    share = min(1.0, (1 - SHRINKS) * value / moved) if moved > 0 else 1.0
    aim = at.towards(NewtonPoint(w, b, found), share)
    return replace(aim, scale=found._replace(value=max(aim.scale.value, found.least))) if aim.scale else aim


def _promise(slope: Slope, penalty: L1L2, at: NewtonPoint, to: NewtonPoint) -> float:
    """How much lower F would be if the loss were linear."""
    linear = float(slope.gradient @ (to.w - at.w)) + slope.of_b * (to.b - at.b)
    if at.scale is not None and to.scale is not None:
        linear += slope.of_scale * (to.scale.value - at.scale.value)
    return min(linear + penalty.value(to.w) - penalty.value(at.w), 0.0)


def certificate_of_slope(
    penalty: L1L2, point: NewtonPoint, gradient: Array, of_b: float, zero_gradient: float, of_scale: float = 0.0
) -> Certificate:
    """The largest distance of a derivative of F to 0, relative to the largest at w = 0; from the rows themselves."""
    value = max(penalty.optimality_gap(point.w, gradient), abs(of_b), abs(of_scale))
    return Certificate("kkt", value, 0.0 if value == 0 else value / max(zero_gradient, TINY), "data")
