"""Least squares with an L1 term: guess the support, else walk the path to it, then solve on it exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.models import L1L2, Array
from shoal.solve.least_squares import EPS, LeastSquares, solve_lower, solve_upper, triangle
from shoal.solve.smooth import safe_inverse, triangular

GUESSES = 12  # rounds of amending a guessed support before the path is walked
STEPS = 10  # path steps per column before the walk is given up
REFRESH = 64  # support changes after which the bordered inverse is computed anew
SWEEPS = 2000  # of coordinate descent, the last resort


def solve_sparse(problem: LeastSquares, penalty: L1L2, start: Array | None) -> tuple[Array, bool, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    w = _settle(problem, penalty, np.zeros_like(problem.z) if start is None else np.sign(start))
    for jitter in (0.0, 1e-7):  # ties, if they ever trap the walk, are broken by slightly unequal weights
        if w is None:
            w = _settle(problem, penalty, _walk(problem, penalty, jitter))
    if w is None:
        approximate = _descend(problem, penalty)
        w = _settle(problem, penalty, np.sign(approximate))
        if w is None:
            w = approximate
            notes = ("The support could not be settled exactly; coordinate descent gave these weights.",)
    unique = penalty.l2 > 0 or _independent(problem, _at_bound(problem, penalty, w))
    if not unique:
        notes += ("Columns that depend on one another share the weight: other splits fit equally well.",)
    return w, unique, notes


def correlations(problem: LeastSquares, penalty: L1L2, w: Array) -> tuple[Array, Array]:
    """Xs'r/n - l2 w, at most l1 in size at the optimum; and how far rounding may move each of them."""
    reach = float(np.linalg.norm(problem.z) + problem.norms @ np.abs(w)) / problem.n
    rounding = 1e-13 * penalty.l1 + 16 * EPS * reach * problem.norms
    return -(problem.gradient(w) + penalty.l2 * w), rounding


def settled_along(problem: LeastSquares, l1: Array, l2: Array, W: Array) -> NDArray[np.bool_]:
    """Whether each row of W (m, p) meets the optimality conditions at its penalty, but for rounding."""
    correlation = (problem.z - W @ problem.R.T) @ problem.R / problem.n - l2[:, None] * W
    reach = (np.linalg.norm(problem.z) + np.abs(W) @ problem.norms) / problem.n
    rounding = 1e-13 * l1[:, None] + 16 * EPS * reach[:, None] * problem.norms
    off = np.where(W == 0, np.abs(correlation) - l1[:, None], np.abs(correlation - l1[:, None] * np.sign(W)))
    return np.asarray((off <= rounding).all(axis=1))


def _at_bound(problem: LeastSquares, penalty: L1L2, w: Array) -> NDArray[np.bool_]:
    correlation, rounding = correlations(problem, penalty, w)
    bound: NDArray[np.bool_] = (w != 0) | (np.abs(correlation) >= penalty.l1 * (1 - 1e-9) - rounding)
    return bound


def _independent(problem: LeastSquares, columns: NDArray[np.bool_]) -> bool:
    unit = triangle(problem.R[:, columns] / problem.norms[columns])
    return safe_inverse(unit, problem.floor) is not None


def _settle(problem: LeastSquares, penalty: L1L2, signs: Array | None) -> Array | None:
    """Solve on the support given by `signs` (p,) in -1, 0, 1; amend it where the optimality conditions are
    broken; repeat. None when the support holds dependent columns or does not come to rest."""
    for _ in range(GUESSES):
        w = None if signs is None else _solve_support(problem, penalty, signs)
        if w is None or signs is None:
            return None
        correlation, rounding = correlations(problem, penalty, w)
        wrong = np.sign(w) != signs
        late = (signs == 0) & (np.abs(correlation) > penalty.l1 + rounding)
        if not (wrong.any() or late.any()):
            return w
        signs = np.where(wrong, 0.0, np.where(late, np.sign(correlation), signs))
    return None


def _solve_support(problem: LeastSquares, penalty: L1L2, signs: Array) -> Array | None:
    """The w with (R'R + n l2) w = R'z - n l1 signs on the support and 0 off it."""
    support = signs != 0
    T, z = triangular(problem, penalty.l2, support)
    if (np.abs(np.diag(T)) <= 10 * problem.floor * np.sqrt((T**2).sum(axis=0))).any():
        return None
    w = np.zeros_like(problem.z)
    pull = solve_lower(T, problem.n * penalty.l1 * signs[support])
    w[support] = solve_upper(T, z - pull)
    return w


class _Support:
    """The inverse of H (p, p) on a growing and shrinking set of k columns, kept by bordering in k^2 steps."""

    def __init__(self, H: Array) -> None:
        p = len(H)
        self.H, self.k, self.changes = H, 0, 0
        self._columns, self._rows, self._inverse = (
            np.empty(p, dtype=np.intp),
            np.empty((p, p)),
            np.empty((p, p)),
        )

    @property
    def columns(self) -> NDArray[np.intp]:
        return self._columns[: self.k]

    def solve(self, b: Array) -> Array:
        solved: Array = self._inverse[: self.k, : self.k] @ b
        return solved

    def spread(self, b: Array) -> Array:
        """H[:, columns] @ b, from rows kept side by side."""
        product: Array = b @ self._rows[: self.k]
        return product

    def add(self, j: int) -> bool:
        """False, and nothing done, when column j depends on those that are in."""
        k, M = self.k, self._inverse
        g = self.solve(self.H[j, self.columns])
        left = self.H[j, j] - self.H[j, self.columns] @ g
        if left <= 1e-11 * self.H[j, j]:
            return False
        M[:k, :k] += np.outer(g / left, g)
        M[k, :k] = M[:k, k] = -g / left
        M[k, k] = 1 / left
        self._columns[k], self._rows[k] = j, self.H[j]
        self.k += 1
        self._count()
        return True

    def drop(self, i: int) -> None:
        """Take out the i-th of `columns`; the last one takes its place."""
        last, M = self.k - 1, self._inverse
        for array in (M, M.T, self._rows, self._columns):
            array[[i, last]] = array[[last, i]]
        m = M[:last, last].copy()
        M[:last, :last] -= np.outer(m / M[last, last], m)
        self.k = last
        self._count()

    def _count(self) -> None:
        self.changes += 1
        if self.changes % REFRESH == 0:
            self._inverse[: self.k, : self.k] = np.linalg.inv(self.H[np.ix_(self.columns, self.columns)])


def _walk(problem: LeastSquares, penalty: L1L2, jitter: float) -> Array | None:
    """The signs at l1 by homotopy: follow the minimum from w = 0 at the largest l1 down (LARS with drops).

    On a piece of the path w = a - t b on the support and the correlations off it are u + t v, both recomputed
    from H, so no error builds up; t falls to where the next correlation reaches its bound or a weight 0.
    """
    p, n = len(problem.z), problem.n
    H = problem.gram / n + penalty.l2 * np.eye(p)
    c = problem.R.T @ problem.z / n
    weight = 1 + jitter * np.random.default_rng(0).random(p)
    support, signs = _Support(H), np.zeros(p)
    barred = problem.norms == 0  # depends on the support; cannot change that until the support shrinks
    t = np.inf
    for _ in range(STEPS * p + 100):
        A = support.columns
        a, b = support.solve(c[A]), support.solve(weight[A] * signs[A])
        u, v = c - support.spread(a), support.spread(b)
        leave = _leaving(a, b, signs[A], t)
        enter, sign = _entering(u, v, weight, barred | (signs != 0), t)
        i, j = (int(leave.argmax()) if len(A) else -1), int(enter.argmax())
        t = max(leave[i] if len(A) else -np.inf, enter[j])
        if t <= penalty.l1:
            return signs
        if len(A) and leave[i] >= enter[j]:
            signs[A[i]] = 0
            support.drop(i)
            barred = problem.norms == 0
        elif support.add(j):
            signs[j] = sign[j]
        else:
            barred[j] = True
    return None


def _leaving(a: Array, b: Array, signs: Array, t: float) -> Array:
    """The t at which each weight a - t b reaches 0 as t falls; -inf for those that grow."""
    shrinking = signs * b < 0
    return np.where(shrinking, np.minimum(a / np.where(shrinking, b, 1), t), -np.inf)


def _entering(u: Array, v: Array, weight: Array, shut: NDArray[np.bool_], t: float) -> tuple[Array, Array]:
    """The t at which each |u + t v| reaches t * weight as t falls, and on which side; -inf for never."""
    times = []
    for sign in (1.0, -1.0):
        closing = weight - sign * v
        open_ = ~shut & (closing > 1e-10 * (weight + np.abs(v)))
        times.append(np.where(open_, np.minimum(sign * u / np.where(open_, closing, 1), t), -np.inf))
    upper, lower = times
    return np.maximum(upper, lower), np.where(upper >= lower, 1.0, -1.0)


def _descend(problem: LeastSquares, penalty: L1L2) -> Array:
    """Cyclic coordinate descent on the Gram matrix; slow and approximate, but it never fails."""
    H = problem.gram / problem.n + penalty.l2 * np.eye(len(problem.z))
    w, left = np.zeros_like(problem.z), problem.R.T @ problem.z / problem.n
    live = np.flatnonzero(problem.norms > 0)
    for _ in range(SWEEPS):
        before = w.copy()
        for j in live:
            pull = left[j] + H[j, j] * w[j]
            moved = np.sign(pull) * max(abs(pull) - penalty.l1, 0) / H[j, j]
            if moved != w[j]:
                left -= H[j] * (moved - w[j])
                w[j] = moved
        if np.abs(w - before).max(initial=0.0) <= EPS * np.abs(w).max(initial=0.0):
            break
    return w
