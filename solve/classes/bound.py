"""Steps for very many weights of classes: a bound of the curvature in place of it, so that a pass over the rows sums
slopes alone.

Whatever the probabilities of K classes are, the curvature of a row's loss is at most half the identity of the classes
(Böhning 1992), so X'X / 2 bounds that of every class by itself, and a step is K small problems of p columns with one
and the same matrix. Without an L1 part that matrix is where L-BFGS (Nocedal 1980) begins, which learns from its last
steps how much flatter F is; or it begins with a curvature of all pairs of classes and columns that is near at hand.
With one, steps are accelerated (Beck and Teboulle 2009) and begin anew where they overshoot (O'Donoghue and Candès
2015). Both end where the largest derivative is small beside that at the start.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np

from shoal.kernels.path_kernel import sparse_path
from shoal.models import L1L2, TINY, Array
from shoal.solve.classes.newton import (
    ClassOptimum,
    ClassPoint,
    ClassSlope,
    ClassSums,
    certificate_of_classes,
    class_slope,
)
from shoal.solve.least_squares import EPS, Standardisation
from shoal.solve.moments import Moments
from shoal.solve.newton import ROUNDING, SUFFICIENT

FOUND = 1e-9  # the largest derivative, relative to that at the start
MOST = 3000  # passes
BOUND = 0.5
REMEMBERED = 30  # steps of L-BFGS
SHORTEST = 1e-6  # share of a step at which the search along it ends


class ClassMetric(Protocol):
    """What steps begin with in place of the curvature of F."""

    @property
    def penalty(self) -> L1L2: ...

    @property
    def intercept(self) -> bool: ...

    def solved(self, slope: Array) -> Array:
        """What has that slope (K, p + 1), the intercepts last."""
        ...


class CurvedMetric:
    """The curvature of the mean loss at a point near by, with an L2 penalty that may change from time to time."""

    def __init__(self, sums: ClassSums, T: Array, intercept: bool) -> None:
        """In the units of (1, xs) = T (1, x - centre)."""
        (K, q), n = sums.slope.shape, sums.rows
        square = (T @ sums.square.reshape(K, q, K, q).transpose(0, 2, 1, 3) @ T.T).transpose(0, 2, 1, 3) / n
        size = K * (len(T) - 1)
        S = square[:, 1:, :, 1:].reshape(size, size)
        self.penalty, self.intercept = L1L2(), intercept
        self.cross = square[:, 0, :, 1:].reshape(K, size) * float(intercept)
        self.of_b = np.linalg.pinv(square[:, 0, :, 0]) * float(intercept)  # but for what all classes have alike
        self.values, self.V = np.linalg.eigh(S - self.cross.T @ self.of_b @ self.cross)

    def beside(self, penalty: L1L2) -> CurvedMetric:
        found = copy.copy(self)
        found.penalty = penalty
        return found

    def solved(self, slope: Array) -> Array:
        bent = np.maximum(self.values, 0.0) + self.penalty.l2
        kept = bent > 64 * EPS * max(float(self.values.max(initial=0.0)), TINY) * len(bent)
        back = self.of_b @ slope[:, -1]
        of_w = self.V[:, kept].T @ (slope[:, :-1].ravel() - self.cross.T @ back) / bent[kept]
        w = self.V[:, kept] @ of_w
        return np.column_stack((w.reshape(len(slope), -1), back - self.of_b @ (self.cross @ w)))


class ClassBowl:
    """The bound of one class: X'X / 2n in the units of the weights, with the free intercept beside it."""

    def __init__(self, moments: Moments, units: Standardisation, penalty: L1L2, most: float) -> None:
        H = moments.scatter[:-1, :-1] / moments.n
        if not units.intercept:
            H = H + np.outer(moments.mean[:-1], moments.mean[:-1])
        self.most = BOUND * most
        H = self.most * H / units.scale / units.scale[:, None]
        if units.intercept:
            H[units.constant], H[:, units.constant] = 0.0, 0.0
        self.H, self.penalty, self.intercept = H, penalty, units.intercept
        self.values, self.V = np.linalg.eigh(H)

    def solved(self, slope: Array) -> Array:
        """What the bound of F, l2 included, has that slope: (K, p + 1), the intercepts last."""
        bent = self.values + self.penalty.l2
        kept = bent > 64 * EPS * max(float(self.values.max(initial=0.0)), TINY) * len(bent)
        of_w = (slope[:, :-1] @ self.V[:, kept]) / bent[kept] @ self.V[:, kept].T
        return np.column_stack((of_w, slope[:, -1] / self.most if self.intercept else np.zeros(len(slope))))

    def step(self, at: ClassPoint, gradient: Array, of_b: Array) -> ClassPoint:
        """The minimum of the bound about a point; columns are centred, so that intercepts go by themselves."""
        b = at.b - of_b / self.most if self.intercept else at.b
        C = at.W @ self.H - gradient
        if self.penalty.l1 == 0:
            bent = self.values + self.penalty.l2
            kept = bent > 64 * EPS * max(float(self.values.max(initial=0.0)), TINY) * len(bent)
            return ClassPoint((C @ self.V[:, kept]) / bent[kept] @ self.V[:, kept].T, b)
        pair = np.array([self.penalty.l1]), np.array([self.penalty.l2])
        return ClassPoint(np.array([sparse_path(self.H, c, *pair, w)[0][0] for c, w in zip(C, at.W, strict=True)]), b)


def minimise_bounded(
    sweep: Callable[[ClassPoint], ClassSums], centre: Array, units: Standardisation, moments: Moments, penalty: L1L2,
    start: ClassPoint, most: float = 1.0,
) -> ClassOptimum:  # fmt: skip
    """The minimum of F from slopes at points that it asks for; `most` is what a row counts for at most beside what it
    counts for in the moments."""
    bowl = ClassBowl(moments, units, penalty, most)
    if penalty.l1 == 0:
        return remembering(sweep, partial(class_slope, centre=centre, units=units, penalty=penalty), bowl, start)
    point, before, momentum = start, start, 1.0
    steepest, lowest, best = 0.0, np.inf, start
    sweeps = 0
    while sweeps < MOST:
        sweeps += 1
        sums = sweep(point)
        slope = class_slope(sums, centre, units, penalty)
        value = sums.value / sums.rows + penalty.value(point.W.ravel())
        steepest = steepest or float(np.abs(slope.gradient).max(initial=0.0))
        found = certificate_of_classes(penalty, point, slope, steepest, units.intercept)
        if value <= lowest:
            lowest, best = value, point
        if found.relative < FOUND:
            break
        aim = bowl.step(point, slope.gradient, slope.of_b)
        moved = float(((point.W - aim.W) * (aim.W - before.W)).sum() + (point.b - aim.b) @ (aim.b - before.b))
        following = 1.0 if moved > 0 else (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = 0.0 if moved > 0 else (momentum - 1) / following
        point, before, momentum = before.towards(aim, 1 + ahead) if ahead else aim, aim, following
    return ClassOptimum(best, sweeps, True, np.zeros(len(units.scale), bool))


def remembering(
    sweep: Callable[[ClassPoint], ClassSums], slope_of: Callable[[ClassSums], ClassSlope], bowl: ClassMetric,
    start: ClassPoint, steepest: float = 0.0,
) -> ClassOptimum:  # fmt: skip
    """L-BFGS from the bound on, or from a curvature; a step that does not lower F by a share of what its slope promises
    is cut. `steepest`: the derivative that others are small beside; 0: the largest at the start."""
    penalty, memory = bowl.penalty, _Memory(bowl)
    at, share = np.column_stack((start.W, start.b)), 1.0
    best: tuple[float, Array, Array] | None = None  # F, where, and its slope there
    way, down, sweeps, nearest = np.zeros_like(at), 0.0, 0, (np.inf, start)
    while sweeps < MOST:
        sweeps += 1
        point = ClassPoint(at[:, :-1], at[:, -1])
        sums = sweep(point)
        of_loss = slope_of(sums)
        value = sums.value / sums.rows + penalty.value(point.W.ravel())
        steepest = steepest or float(np.abs(of_loss.gradient).max(initial=0.0))
        left = certificate_of_classes(penalty, point, of_loss, steepest, bowl.intercept).relative
        nearest = min(nearest, (left, point), key=lambda pair: pair[0])
        if left < FOUND:
            break
        if best is not None and not value <= best[0] + SUFFICIENT * share * down + ROUNDING * abs(best[0]):
            share /= 4
            if share < SHORTEST:
                if not memory.steps:
                    break  # nothing is lower along the bound itself but rounding
                memory.steps.clear()
                way, share = -bowl.solved(best[2]), 1.0
                down = float((way * best[2]).sum())
            at = best[1] + share * way
            continue
        of_b = of_loss.of_b if bowl.intercept else np.zeros(len(point.b))
        slope = np.column_stack((of_loss.gradient + penalty.l2 * point.W, of_b))
        if best is not None:
            memory.add(at - best[1], slope - best[2])
        best, way, share = (value, at, slope), -memory.solved(slope), 1.0
        down = float((way * slope).sum())
        at = at + way
    return ClassOptimum(nearest[1], sweeps, True, np.zeros(at.shape[1] - 1, bool))


class _Memory:
    """The last steps and how the slope changed along them, which make a matrix out of the bound that is nearer to the
    curvature."""

    def __init__(self, bowl: ClassMetric) -> None:
        self.bowl = bowl
        self.steps: list[tuple[Array, Array, float]] = []

    def add(self, step: Array, change: Array) -> None:
        along = float((step * change).sum())
        if along > EPS * float(np.sqrt((step**2).sum() * (change**2).sum())):
            self.steps = [*self.steps[1 - REMEMBERED :], (step, change, along)]

    def solved(self, slope: Array) -> Array:
        """What has that slope (K, p + 1), by the two loops of Nocedal."""
        rest, shares = slope, []
        for step, change, along in reversed(self.steps):
            shares.append(float((step * rest).sum()) / along)
            rest = rest - shares[-1] * change
        found = self.bowl.solved(rest)
        if self.steps:
            _, change, along = self.steps[-1]
            found = found * (along / max(float((change * self.bowl.solved(change)).sum()), TINY))
        for (step, change, along), share in zip(self.steps, reversed(shares), strict=True):
            found = found + (share - float((change * found).sum()) / along) * step
        return found
