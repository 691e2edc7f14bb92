"""Steps for very many weights of classes: a bound of the curvature in place of it, so that a pass over the rows sums
slopes alone.

Whatever the probabilities of K classes are, the curvature of a row's loss is at most half the identity of the classes
(Böhning 1992), so X'X / 2 bounds that of every class by itself, and a step is K small problems of p columns with one
and the same matrix. Steps are accelerated (Beck and Teboulle 2009) and begin anew where they overshoot (O'Donoghue and
Candès 2015); they end where the largest derivative is small beside that at the start.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoal.kernels.path_kernel import sparse_path
from shoal.models import L1L2, TINY, Array
from shoal.solve.classes.newton import ClassOptimum, ClassPoint, ClassSums, certificate_of_classes, class_slope
from shoal.solve.least_squares import EPS, Standardisation
from shoal.solve.moments import Moments

FOUND = 1e-9  # the largest derivative, relative to that at the start
MOST = 3000  # passes
BOUND = 0.5


class _Bowl:
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
    bowl, point, before, momentum = _Bowl(moments, units, penalty, most), start, start, 1.0
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
