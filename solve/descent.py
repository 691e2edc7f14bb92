"""Many penalised minima of a loss that go down together: all penalties of a path, in every fold, from shared sweeps.

    F(b, w) = (1/n) sum_i loss(y_i, b + xs_i'w) + penalty(w)                 for each fold and each penalty of its own

A step needs the gradient where a point is, which a sweep gives for all points at once, and a curvature, which may be
that of another point nearby: then steps are shorter lived, but lead to the same minimum, since the gradient says where
that is. Points that come down slowly get a curvature of their own, which makes them Newton steps. No row, no file and
no loss is known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.path_kernel import sparse_path
from shoal.lazy.classes import dataclass
from shoal.models import L1L2, TINY, Array
from shoal.solve.least_squares import EPS, LeastSquares, Standardisation, factor
from shoal.solve.paths import solve

FOUND = 1e-9  # the largest derivative, relative to that at w = 0, from which on a point is its minimum
SLOW = 0.2  # what is left of it after a step; where more is left, the next curvature is the point's own
FLOOR = 1e-6  # below which a Newton step that no longer halves it has met the rounding of the sums
ROUNDING = 1e-12  # of a mean over many rows: a value that is higher by less is as low
ASTRAY = 1e-2  # share at which a first step that came from elsewhere is given up
SHORTEST = 1e-8  # share of a step at which the search along it ends
LONGEST = 3.0  # spread of the scores that a first step may have: what is linear near 0 leads astray further out

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class FoldView:
    """How one fold sees sums over its training rows: (1, xs) = T (1, z) for rows z (q,), and what F it has of them."""

    T: Array  # (p + 1, q + 1)
    n: float
    intercept: bool
    l1: Array  # (m,): its penalties beside a mean
    l2: Array

    def scores(self, b: Array, W: Array) -> Array:
        """(q + 1, m): what turns (1, z) into scores, for points b (m,), W (m, p)."""
        return np.asarray(self.T.T @ np.vstack((b, W.T)))

    def gradient(self, slope: Array) -> tuple[Array, Array]:
        """Of b (k,) and of w (k, p), from sums of slopes (q + 1, k)."""
        own = self.T @ slope / self.n
        return (own[0] if self.intercept else np.zeros(own.shape[1])), own[1:].T


@dataclass(frozen=True, eq=False)
class Bowl:
    """A quadratic model of the mean loss: its curvature once b is at its best, H (p, p), and how b follows from w."""

    H: Array
    weight: float
    pull: Array  # (p,)
    intercept: bool
    shared: bool = False

    @classmethod
    def of(cls, square: Array, view: FoldView, shared: bool = False) -> Bowl:
        """From sums of curvatures times (1, z)(1, z)'."""
        own = view.T @ square @ view.T.T / view.n
        weight, pull, H = float(own[0, 0]), own[0, 1:], own[1:, 1:]
        if view.intercept:
            before = np.diag(H).copy()
            H = H - np.outer(pull, pull) / max(weight, TINY)
            dead = np.diag(H) <= 64 * EPS * before
            H[dead], H[:, dead] = 0.0, 0.0
        return cls((H + H.T) / 2, weight, pull, view.intercept, shared)

    @cached_property
    def axes(self) -> tuple[Array, Array]:
        found = np.linalg.eigh(self.H)
        return np.asarray(found[0]), np.asarray(found[1])

    def lowest(self, b: float, w: Array, of_b: float, g: Array, l1: float, l2: float) -> tuple[float, Array]:
        """The minimum of the model about (b, w) with the penalty as it is."""
        if self.intercept:
            g = g - self.pull * (of_b / max(self.weight, TINY))
        c = self.H @ w - g
        new = self._sparse(c, w, l1, l2) if l1 > 0 else self._smooth(c, l2)
        if not self.intercept:
            return 0.0, new
        return b - (float(self.pull @ (new - w)) + of_b) / max(self.weight, TINY), new

    def _sparse(self, c: Array, w: Array, l1: float, l2: float) -> Array:
        found, settled = sparse_path(self.H, c, np.array([l1]), np.array([l2]), w)
        return found[0] if settled else self._solved(c, w, L1L2(l1, l2))

    def _smooth(self, c: Array, l2: float) -> Array:
        if not self.shared and l2 > 1e-8 * float(np.diag(self.H).max(initial=0.0)):
            return np.asarray(np.linalg.solve(self.H + l2 * np.eye(len(c)), c))
        values, V = self.axes
        bent = values + l2
        kept = bent > 64 * EPS * max(float(values.max(initial=0.0)), TINY) * len(c)
        found = np.asarray(V[:, kept] @ ((V[:, kept].T @ c) / bent[kept]))
        return np.where(np.diag(self.H) == 0, 0.0, found)  # columns that do not vary: no rounding in their place

    def _solved(self, c: Array, w: Array, penalty: L1L2) -> Array:
        p = len(c)
        R, z = factor(self.H.copy(), c)
        units = Standardisation(np.zeros(p), np.ones(p), np.zeros(p, bool), 0.0, self.intercept)
        return solve(LeastSquares(1.0, R, z, 0.0, units, float(z @ z), "moments"), penalty, w).w


@dataclass(eq=False)
class Descent:
    """The points of one fold on their way down: where each is, where it is tried next, and how far it still has to go.

    `bowls` (m,) are the curvatures that points share.
    """

    view: FoldView
    b: Array  # (m,), the best so far, as W (m, p) and value (m,); all at the best constant, W = 0
    W: Array
    value: Array
    gradient: Array  # (p,) of the mean loss there
    bowls: list[Bowl]
    found: float = FOUND
    newton: bool = False  # whether every point is to have a curvature of its own
    gap: Array = field(init=False)  # (m,): the largest derivative at the best, relative to that at w = 0
    open: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        m = len(self.b)
        self.steepest = float(np.abs(self.gradient).max(initial=0.0))
        away = np.maximum(np.abs(self.gradient)[None] - self.view.l1[:, None], 0.0).max(axis=1, initial=0.0)
        self.gap = away / max(self.steepest, TINY)
        self.open = self.gap > self.found
        self.tried_b, self.tried_W = self.b.copy(), self.W.copy()
        self._share, self._own = np.ones(m), np.full(m, self.newton)
        self._moved: set[int] = set()  # points that are no longer where they began, or have begun anew from there
        self._first = self.bowls[0]

    def start(self, b: Array, W: Array) -> None:
        """Where points are tried first."""
        self.tried_b, self.tried_W = b.copy(), W.copy()

    @property
    def asked(self) -> Places:
        """The points that are tried in the next sweep."""
        return np.flatnonzero(self.open)

    def wants_own(self, most: int) -> Places:
        """Those of them whose curvature is asked for: the ones that are furthest away, where not all can be had."""
        own = np.flatnonzero(self.open & self._own)
        furthest = own[np.argsort(-np.minimum(self.gap[own], 1e300), kind="stable")[:most]]
        return np.sort(furthest)

    def take(self, asked: Places, value: Array, slope: Array, squares: Mapping[int, Array]) -> NDArray[np.bool_]:
        """What a sweep said of the points asked for: sums of the loss (k,), of slopes (q + 1, k), and of curvatures of
        some. Tells which of them were taken (k,)."""
        of_b, gradient = self.view.gradient(slope)
        taken = np.zeros(len(asked), bool)
        for k, i in enumerate(asked.tolist()):
            w, penalty = self.tried_W[i], L1L2(float(self.view.l1[i]), float(self.view.l2[i]))
            total = float(value[k]) / self.view.n + penalty.value(w)
            finite = np.isfinite(total) and bool(np.isfinite(slope[:, k]).all())
            if not finite or total > self.value[i] + ROUNDING * abs(self.value[i]):
                self._shorter(i, 2.0 if finite else 8.0)
                continue
            taken[k] = True
            square = squares.get(i)
            if square is not None and np.isfinite(square).all():
                self.bowls[i] = Bowl.of(square, self.view)
            self._accept(i, total, float(of_b[k]), gradient[k], penalty, square is not None)
        return taken

    def _accept(self, i: int, total: float, of_b: float, gradient: Array, penalty: L1L2, newton: bool) -> None:
        b, w = float(self.tried_b[i]), self.tried_W[i].copy()
        gap = max(penalty.optimality_gap(w, gradient), abs(of_b)) / max(self.steepest, TINY)
        before, self.gap[i] = float(self.gap[i]), gap
        self.b[i], self.W[i], self.value[i] = b, w, min(total, float(self.value[i]))
        if gap <= self.found or (newton and gap < FLOOR and gap > before / 2):
            self.open[i] = False
            return
        self._own[i] = self.newton or self._own[i] or (i in self._moved and gap > SLOW * before)
        self._moved.add(i)
        self._share[i] = 1.0
        self.tried_b[i], self.tried_W[i] = self.bowls[i].lowest(b, w, of_b, gradient, penalty.l1, penalty.l2)

    def _shorter(self, i: int, times: float) -> None:
        """Half the way from the best point to where it was tried."""
        self._share[i] /= times
        self._own[i] = True
        if self._share[i] < ASTRAY and i not in self._moved:
            self._anew(i)
            return
        self.tried_b[i] = self.b[i] + (self.tried_b[i] - self.b[i]) / times
        self.tried_W[i] = self.W[i] + (self.tried_W[i] - self.W[i]) / times
        if self._share[i] < SHORTEST:
            self.open[i] = False  # nothing is lower along this line but rounding

    def _anew(self, i: int) -> None:
        """A step from where all began: where another point led to may lie on no way down."""
        self._moved.add(i)
        self._share[i] = 1.0
        pair = float(self.view.l1[i]), float(self.view.l2[i])
        self.tried_b[i], self.tried_W[i] = self._first.lowest(float(self.b[i]), self.W[i], 0.0, self.gradient, *pair)


def first_steps(view: FoldView, bowl: Bowl, b: float, gradient: Array, spread: Array) -> tuple[Array, Array]:
    """b (m,), W (m, p): from the best constant, along one curvature, for every penalty; no longer than scores that are
    a few units apart. `spread` (p, p): the covariance of the columns."""
    zero = np.zeros(len(gradient))
    W = np.array([bowl.lowest(b, zero, 0.0, gradient, *pair)[1] for pair in zip(view.l1, view.l2, strict=True)])
    moved = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", W, spread, W), 0.0))
    return np.full(len(W), b), W * np.minimum(1.0, LONGEST / np.maximum(moved, LONGEST))[:, None]


def nearest(count: int, anchors: Places) -> Places:
    """The place among `anchors` of the nearest one, for each of `count` points."""
    return np.asarray(np.abs(np.arange(count)[:, None] - anchors[None]).argmin(axis=1))


def anchors_of(count: int, most: int) -> Places:
    """Some of `count` points, both ends among them."""
    return np.unique(np.round(np.linspace(0, count - 1, min(count, most))).astype(np.intp))
