"""The exact minimum of a pinball loss, whose corners no Newton step finds: rows near the line decide where it goes.

    F(b, w) = (1/n) sum_i c_i rho(y_i - b - xs_i'w) + l1 |w|_1 + l2/2 |w|^2,     rho(r) = q r above 0, (q - 1) r below

About a point, a row far from the line keeps its side, so that its loss is linear in (b, w); the few near ones are a
small linear (l2 > 0: quadratic) program, solved by an interior-point method and then at its corner. If no far row has
changed its side there, the point is the minimum of F itself; else those rows join the near ones. No file and no pass is
known here: rows come in by the two calls of `PinballRows`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.lazy.classes import dataclass
from shoal.models import L1L2, TINY, Array, Certificate
from shoal.solve.least_squares import Standardisation
from shoal.solve.newton import CurvatureAt, NewtonPoint, Scale, minimise

MOST_WIDTHS, NARROWER = 20, 4.0
FEWER = 0.8  # share of the near rows that two narrower widths leave at most, where narrowing helps
ROUGH = 0.05  # share of the width that the last step along a rounded loss goes
MOST_ROUNDS = 30  # of rows that join
MOST_STEPS = 200  # of the interior-point method, which takes 10 to 70
CLOSED = 1e-13  # gap, relative to the loss of the near rows, at which it ends
CENTRED = 0.3  # share of the mean size of residuals that is added to all of them at the start
BACK = 0.9995  # share of the way to the border that a step goes
HELD = 1e-9  # weight of the square of the way from the start, which keeps what no near row decides where it was
INSIDE = 1e-6  # share of its range that a multiplier is from both ends where the line goes through its row
EQUAL = 1e-12  # of the loss: a corner that is higher by less is as low


class Near(NamedTuple):
    """Rows near a line: X (k, p) in raw columns less a centre, residuals (k,) there, what each counts for (k,), and
    which they are (k,)."""

    X: Array
    residual: Array
    weight: Array
    row: NDArray[np.int64]

    def take(self, chosen: NDArray[np.bool_]) -> Near:
        return Near(self.X[chosen], self.residual[chosen], self.weight[chosen], self.row[chosen])

    @classmethod
    def none(cls, p: int) -> Near:
        return cls(np.zeros((0, p)), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))

    @classmethod
    def together(cls, parts: list[Near]) -> Near:
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class Sides:
    """Over all rows at one line: the near ones; of the others sum c g u (p + 1,) with g = q above and q - 1 below."""

    near: Near
    beyond: Array

    @classmethod
    def together(cls, parts: list[Sides]) -> Sides:
        beyond = np.asarray(sum((part.beyond for part in parts[1:]), parts[0].beyond))
        return cls(Near.together([part.near for part in parts]), beyond)


class PinballRows(Protocol):
    """Passes over the rows of a table or of arrays."""

    def sides(self, point: NewtonPoint, width: float) -> Sides:
        """Rows with |residual| <= width, and the sums of the others."""
        ...

    def changed(self, point: NewtonPoint, width: float, to: NewtonPoint) -> Near:
        """Rows that are not near the first line, and on another side of the second one; residuals from the first."""
        ...


@dataclass(frozen=True, eq=False)
class Corner:
    """Where it ended, proven by multipliers: `gap` of the mean loss, 0 at a minimum, and derivatives left over."""

    point: NewtonPoint
    gap: float
    gradient: Array  # of the mean loss by w, with the multipliers of near rows as their slopes
    of_b: float
    through: int  # independent rows that the line goes through with a multiplier inside its range
    rounds: int
    exact: bool  # no row has changed its side

    def certificate(self, penalty: L1L2, loss: float, zero_gradient: float) -> Certificate:
        """The gap relative to the loss, or what is left of derivatives relative to those at w = 0, if that is more."""
        kkt = max(penalty.optimality_gap(self.point.w, self.gradient), abs(self.of_b)) / max(zero_gradient, TINY)
        gap = max(self.gap, 0.0)
        return Certificate("duality_gap", gap, max(gap / max(loss, TINY) if gap else 0.0, kkt), "data")


def approach(
    sweep: CurvatureAt, centre: Array, units: Standardisation, spread: Array, penalty: L1L2, start: NewtonPoint,
    rows: float, enough: int,
) -> tuple[NewtonPoint, float, int]:  # fmt: skip
    """A point and a width within which about `enough` of the rows lie, from Newton steps along losses whose corner is
    rounded over less and less; with no pass at all where all rows are few enough. Sums are of the rounded loss at the
    scale of the point."""
    if rows <= enough or start.scale is None:
        return start, np.inf, 0
    width, sweeps, shares = 2 * start.scale.value, 0, [np.inf, np.inf]
    for _ in range(MOST_WIDTHS):
        point = NewtonPoint(start.w, start.b, Scale(width, width))
        found = minimise(sweep, centre, units, spread, penalty, point, settled=ROUGH)
        start, sweeps = found.point, sweeps + found.sweeps
        shares.append(found.slope.weight * width / found.slope.problem.n)
        if shares[-1] * rows <= enough / 2 or shares[-1] > FEWER * shares[-3]:  # or as many lie at the line itself
            break
        width /= NARROWER
    return start, width, sweeps


def to_corner(
    rows: PinballRows, quantile: float, n: float, centre: Array, units: Standardisation, penalty: L1L2,
    start: NewtonPoint, width: float, most: int,
) -> Corner:  # fmt: skip
    """The minimum of F from a point near it; `most`: near rows that memory has room for."""
    return CornerSearch(rows, quantile, n, centre, units, start, width, most).lowest(penalty)


class CornerSearch:
    """The rows near one line, from which the minima beside several penalties are found: those of a path are not far
    from each other, so that few rows join from one to the next."""

    def __init__(
        self, rows: PinballRows, quantile: float, n: float, centre: Array, units: Standardisation,
        start: NewtonPoint, width: float, most: int, narrowed: float = np.inf,
    ) -> None:  # fmt: skip
        """`narrowed`: near rows beyond which the width is made smaller, with no other pass."""
        self.rows, self.quantile, self.n, self.centre, self.units = rows, quantile, n, centre, units
        self.most = most
        found = rows.sides(start, width)
        near, beyond = found.near, found.beyond
        if np.isinf(width) and units.intercept and len(near.residual):  # all: begin where as many as asked are below
            moved = _quantile(near, quantile)
            start = replace(start, b=start.b + moved)
            near = near._replace(residual=near.residual - moved)
        elif not np.isinf(width) and len(near.residual) > narrowed:
            sizes = np.abs(near.residual)
            width = float(np.partition(sizes, int(narrowed))[int(narrowed)])
            far = near.take(sizes > width)
            near, beyond = near.take(sizes <= width), beyond + _slopes(far, quantile) @ _with_one(far.X)
        self.start, self.width, self.near = start, width, near
        self.beyond = _standard(beyond, centre, units)

    def lowest(self, penalty: L1L2) -> Corner:
        corner: Corner | None = None
        for rounds in range(1, MOST_ROUNDS + 1):
            about = self.n, self.centre, self.units, penalty, self.start, rounds
            corner = _minimum(self.near, self.beyond, self.quantile, *about)
            more = self.rows.changed(self.start, self.width, corner.point)
            more = more.take(~np.isin(more.row, self.near.row))
            if not len(more.residual):
                return corner
            if len(self.near.residual) + len(more.residual) > self.most:
                break
            self.beyond = self.beyond - _slopes(more, self.quantile) @ _columns(more.X, self.centre, self.units)
            self.near = Near.together([self.near, more])
        assert corner is not None
        return replace(corner, exact=False)


def _slopes(rows: Near, quantile: float) -> Array:
    return np.asarray(rows.weight * np.where(rows.residual < 0, quantile - 1, quantile))


def _with_one(X: Array) -> Array:
    return np.column_stack((np.ones(len(X)), X))


def _quantile(near: Near, share: float) -> float:
    order = np.argsort(near.residual, kind="stable")
    below = np.cumsum(near.weight[order])
    place = int(np.searchsorted(below, share * below[-1]))
    return float(near.residual[order[min(place, len(order) - 1)]])


def _columns(X: Array, centre: Array, units: Standardisation) -> Array:
    """(1, xs) of rows; the first column is 0 without an intercept."""
    U = np.empty((len(X), X.shape[1] + 1))
    U[:, 0] = float(units.intercept)
    U[:, 1:] = (X + (centre - units.centre)) / units.scale
    if units.intercept:
        U[:, 1:][:, units.constant] = 0.0
    return U


def _standard(sums: Array, centre: Array, units: Standardisation) -> Array:
    """Sums of g u in the units of w."""
    found = np.append(sums[0], (sums[1:] + sums[0] * (centre - units.centre)) / units.scale)
    if units.intercept:
        found[1:][units.constant] = 0.0
    else:
        found[0] = 0.0
    return found


def _minimum(
    near: Near, beyond: Array, quantile: float, n: float, centre: Array, units: Standardisation, penalty: L1L2,
    start: NewtonPoint, rounds: int,
) -> Corner:  # fmt: skip
    """The small program about the start, in units of the residuals; an L1 penalty is one more row for each weight."""
    U = _columns(near.X, centre, units)
    p = U.shape[1] - 1
    unit = max(float(np.abs(near.residual).max(initial=0.0)), float(np.abs(start.w).max(initial=0.0)) * 1e-6, TINY)
    X, r, c, q = U, near.residual / unit, near.weight, np.full(len(U), quantile)
    if penalty.l1:
        X = np.vstack((U, np.eye(p + 1)[1:]))
        r, c = np.append(r, -start.w / unit), np.append(c, np.full(p, 2 * n * penalty.l1))
        q = np.append(q, np.full(p, 0.5))
    D = np.append(0.0, np.full(p, n * penalty.l2 * unit))
    linear = -beyond + np.append(0.0, n * penalty.l2 * start.w)
    program = Program(X, r, c, q, linear, D)
    step, a = program.corner(*program.interior())
    w, b = start.w + unit * step[1:], start.b + unit * float(step[0])
    if penalty.l1:  # a weight whose row the line goes through is 0, not nearly so
        w = np.where(_is_inside(a, c)[len(U) :] & (np.abs(w) <= 1e-9 * unit), 0.0, w)
    slopes = c * (q - 1) + a
    of_rows = slopes[: len(U)] @ U + beyond
    left = program.residual(step)
    gap = unit * float((c * _pinball(left, q) - slopes * left).sum()) / n
    met = X[_is_inside(a, c)]
    through = int(np.linalg.matrix_rank(met)) if len(met) else 0
    return Corner(NewtonPoint(w, b), gap, -of_rows[1:] / n, -float(of_rows[0]) / n, through, rounds, exact=True)


def _pinball(r: Array, q: Array) -> Array:
    return np.asarray(np.where(r < 0, q - 1, q) * r)


def _is_inside(a: Array, c: Array) -> NDArray[np.bool_]:
    return np.asarray(np.minimum(a, c - a) > INSIDE * c)


class _State(NamedTuple):
    """A point of the interior-point method: step d (k,), multipliers a and t = c - a, sizes above and below."""

    d: Array
    a: Array
    t: Array
    v: Array
    s: Array


class Program:
    """min_d  sum c rho_q(r - X d) + linear'd + d'D d / 2.

    With r - X d = v - s, v and s >= 0, and multipliers a in [0, c]:  D d + linear' = X'a,  a s = 0,  (c - a) v = 0.
    """

    def __init__(self, X: Array, r: Array, c: Array, q: Array, linear: Array, D: Array) -> None:
        self.X, self.r, self.c, self.q, self.D = X, r, c, q, D
        self.linear = linear
        self.own = linear + X.T @ (c * (1 - q))  # beside sum c max(r - X d, 0)

    def residual(self, d: Array) -> Array:
        return self.r - self.X @ d

    def value(self, d: Array) -> float:
        loss = float((self.c * _pinball(self.residual(d), self.q)).sum())
        return loss + float(self.linear @ d) + float(d @ (self.D * d)) / 2

    def interior(self) -> tuple[Array, Array]:
        """Mehrotra's predictor and corrector; (d, a)."""
        c = self.c
        held = self.D + HELD * max(float(c.sum()), TINY)  # of the square of d: no direction is without end
        at = self._centred(max(float(np.abs(self.r).mean()) if len(self.r) else 1.0, 1e-3) * CENTRED)
        scale = max(float((c * np.abs(self.r)).sum()), TINY)
        for _ in range(MOST_STEPS):
            t = at.t
            gap = float(at.a @ at.s + t @ at.v)
            short = self.own + held * at.d - self.X.T @ at.a
            if gap <= CLOSED * scale and float(np.abs(short).max(initial=0.0)) <= 1e-10 * max(float(c.sum()), TINY):
                break
            theta = at.v / t + at.s / at.a
            XtQ = self.X.T / theta
            system = XtQ @ self.X
            system[np.diag_indices_from(system)] += held + TINY
            first = self._towards(at, t, theta, XtQ, system, short, at.a * at.s, t * at.v)
            if first is None:
                break
            long = min(_longest(at.a, t, first.a), _longest(at.v, at.s, None, first.v, first.s), 1.0)
            ahead = float((at.a + long * first.a) @ (at.s + long * first.s))
            ahead += float((t - long * first.a) @ (at.v + long * first.v))
            mu = gap / max(2 * len(c), 1) * (max(ahead, 0.0) / max(gap, TINY)) ** 3
            bent = long**2 * first.a  # as far as the first step could go
            below, above = at.a * at.s + bent * first.s - mu, t * at.v - bent * first.v - mu
            second = self._towards(at, t, theta, XtQ, system, short, below, above)
            if second is None:
                break
            dual = min(1.0, BACK * _longest(at.a, t, second.a))
            primal = min(1.0, BACK * _longest(at.v, at.s, None, second.v, second.s))
            if float(self.D.max(initial=0.0)) > 0:
                dual = primal = min(dual, primal)  # d is in both where there is a square of it
            shares = (primal, dual, dual, primal, primal)
            at = _State(*(now + share * step for now, share, step in zip(at, shares, second, strict=True)))
        return at.d, at.a

    def _centred(self, m: float) -> _State:
        """Where a s = (c - a) v = m c and v - s = r of every row."""
        half = self.r / 2
        root = np.hypot(half, m)
        v, s = root + half + m, root - half + m
        return _State(np.zeros(len(self.D)), self.c * m / s, self.c * m / v, v, s)

    def _towards(
        self, at: _State, t: Array, theta: Array, XtQ: Array, system: Array, short: Array, below: Array, above: Array
    ) -> _State | None:
        """The Newton step to a s = a s - below, t v = t v - above; None where nothing is left but rounding."""
        off = self.residual(at.d) - at.v + at.s
        xi = off + above / t - below / at.a
        try:
            d = np.linalg.solve(system, XtQ @ xi - short)
        except np.linalg.LinAlgError:
            return None
        a = (xi - self.X @ d) / theta
        v, s = (-above + at.v * a) / t, (-below - at.s * a) / at.a
        return _State(d, a, -a, v, s) if all(np.isfinite(part).all() for part in (d, a, v, s)) else None

    def corner(self, d: Array, a: Array) -> tuple[Array, Array]:
        """The same at the corner itself: rows whose multiplier is inside its range are met exactly, all others have it
        at an end; (d, a) as they were where that is no better."""
        inside = _is_inside(a, self.c)
        k, m = len(d), int(inside.sum())
        if not 0 < m <= 4 * k:
            return d, a
        ends = np.where(inside, 0.0, np.where(2 * a > self.c, self.c, 0.0))
        A = self.X[inside]
        system = np.zeros((k + m, k + m))
        system[np.arange(k), np.arange(k)] = self.D
        system[:k, k:], system[k:, :k] = -A.T, A
        wanted = np.concatenate((self.X.T @ ends - self.own, self.r[inside]))
        found = np.linalg.lstsq(system, wanted - system @ np.concatenate((d, a[inside])), rcond=1e-13)[0]
        exact, multipliers = d + found[:k], a[inside] + found[k:]
        slack = 1e-9 * self.c[inside]
        if (multipliers < -slack).any() or (multipliers > self.c[inside] + slack).any():
            return d, a
        now = self.value(d)
        if not self.value(exact) <= now + EQUAL * (abs(now) + float((self.c * np.abs(self.r)).sum())):
            return d, a
        ends[inside] = np.clip(multipliers, 0.0, self.c[inside])
        return exact, ends


def _longest(x: Array, y: Array, dx: Array | None, *both: Array) -> float:
    """How far x and y stay above 0 along their steps; y goes the other way where one step is that of both."""
    steps = both if dx is None else (dx, -dx)
    longest = np.inf
    for value, step in zip((x, y), steps, strict=True):
        down = step < 0
        if down.any():
            longest = min(longest, float((-value[down] / step[down]).min()))
    return longest
