"""Exact answers from a `LeastSquares` problem: solve, refine, inference; reads no rows but in `polish`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import Array, Certificate, Penalty, RestsOn, certify
from moments import EPS, LeastSquares, solve_lower, solve_upper, triangle

GUESSES = 12  # rounds of amending a guessed support before the path is walked
STEPS = 10  # path steps per column before the walk is given up
REFRESH = 64  # support changes after which the bordered inverse is computed anew
SWEEPS = 2000  # of coordinate descent, the last resort


@dataclass(frozen=True, eq=False)
class Solution:
    """w (p,) minimises F in standardised columns; y = intercept + x'coef in the units of the file."""

    w: Array
    coef: Array
    intercept: float
    rank: int
    certificate: Certificate
    unique: bool
    notes: tuple[str, ...] = ()


def solve(problem: LeastSquares, penalty: Penalty, start: Array | None = None) -> Solution:
    """The minimum of F to machine precision; `start` (p,) is a guess of w that can only save time."""
    if penalty.l1 == 0:
        w, unique, notes = _solve_smooth(problem, penalty.l2)
    else:
        w, unique, notes = _solve_sparse(problem, penalty, start)
    dead = int((problem.norms == 0).sum())
    if dead:
        notes = (f"{dead} of the columns do not vary; their weights are 0.", *notes)
    return _solution(problem, penalty, w, unique, notes)


def _solution(problem: LeastSquares, penalty: Penalty, w: Array, unique: bool, notes: tuple[str, ...]) -> Solution:
    coef, intercept = problem.raw(w)
    certificate = _certify(problem, penalty, w, problem.gradient(w), problem.rss(w), problem.rests_on)
    return Solution(w, coef, intercept, problem.rank, certificate, unique, notes)


def _certify(
    problem: LeastSquares, penalty: Penalty, w: Array, gradient: Array, rss: float, rests_on: RestsOn
) -> Certificate:
    scales = {"y_scatter": problem.y_scatter, "zero_gradient": problem.zero_gradient}
    return certify(penalty, w, gradient, rss, problem.n, rests_on=rests_on, **scales)


# ---- without an L1 term: triangular, or the smallest norm


def _solve_smooth(problem: LeastSquares, l2: float) -> tuple[Array, bool, tuple[str, ...]]:
    live = problem.norms > 0
    T, z = _triangular(problem, l2, live)
    w = np.zeros_like(problem.z)
    w[live], deficient = _smallest_norm(T, z, problem.floor)
    return w, not deficient, (_dependence(problem),) if deficient else ()


def _dependence(problem: LeastSquares) -> str:
    known = "the data" if problem.rests_on == "data" else "moments, which take near dependence for full"
    return (
        f"The columns depend on one another (rank {problem.rank} of {int((problem.norms > 0).sum())}, "
        f"found from {known}). The answer with the smallest norm is given; single weights are not unique."
    )


def _triangular(problem: LeastSquares, l2: float, columns: NDArray[np.bool_]) -> tuple[Array, Array]:
    """T (k, k) upper triangular and t (k,) with ||z - R w||^2 + n l2 ||w||^2 = ||t - T w||^2 + constant."""
    if l2 == 0 and columns.all():
        return problem.R, problem.z
    rows = np.column_stack((problem.R[:, columns], problem.z))
    k = rows.shape[1] - 1
    if l2 > 0:  # a ridge is k more rows; squaring R instead would cost half the digits
        rows = np.vstack((rows, np.sqrt(problem.n * l2) * np.eye(k, k + 1)))
    T = triangle(rows)
    return T[:k, :k], T[:k, k]


def _unit(T: Array) -> tuple[Array, Array]:
    """T with columns of norm 1, and the norms: the units in which "nearly singular" has a meaning."""
    norms = np.sqrt((T**2).sum(axis=0))
    norms[norms == 0] = 1.0
    return T / norms, norms


def _inverse(unit: Array, floor: float) -> Array | None:
    """unit^-1, or None where the condition number may reach 1/floor."""
    try:
        inverse = np.linalg.inv(unit)
    except np.linalg.LinAlgError:
        return None
    safe = float(np.linalg.norm(unit)) * float(np.linalg.norm(inverse)) * floor < 1
    return inverse if safe else None


def _smallest_norm(T: Array, z: Array, floor: float) -> tuple[Array, bool]:
    """argmin ||z - T w||, of smallest norm where it is not unique, and whether it is not."""
    unit, norms = _unit(T)
    if _inverse(unit, floor) is not None:
        return solve_upper(unit, z) / norms, False
    U, s, Vt = np.linalg.svd(unit)
    r = int((s > floor * s.max(initial=0.0)).sum())
    w = Vt[:r].T @ ((U.T @ z)[:r] / s[:r]) / norms
    if r == len(s):
        return w, False
    N = np.linalg.qr(Vt[r:].T / norms[:, None])[0]  # what can be added to w without any effect
    return w - N @ (N.T @ w), True


# ---- with an L1 term: guess the support, else walk the path to it, then solve on it exactly


def _solve_sparse(problem: LeastSquares, penalty: Penalty, start: Array | None) -> tuple[Array, bool, tuple[str, ...]]:
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


def _correlation(problem: LeastSquares, penalty: Penalty, w: Array) -> tuple[Array, Array]:
    """Xs'r/n - l2 w, at most l1 in size at the optimum; and how far rounding may move each of them."""
    reach = float(np.linalg.norm(problem.z) + problem.norms @ np.abs(w)) / problem.n
    rounding = 1e-13 * penalty.l1 + 16 * EPS * reach * problem.norms
    return -(problem.gradient(w) + penalty.l2 * w), rounding


def _at_bound(problem: LeastSquares, penalty: Penalty, w: Array) -> NDArray[np.bool_]:
    correlation, rounding = _correlation(problem, penalty, w)
    bound: NDArray[np.bool_] = (w != 0) | (np.abs(correlation) >= penalty.l1 * (1 - 1e-9) - rounding)
    return bound


def _independent(problem: LeastSquares, columns: NDArray[np.bool_]) -> bool:
    unit = triangle(problem.R[:, columns] / problem.norms[columns])
    return _inverse(unit, problem.floor) is not None


def _settle(problem: LeastSquares, penalty: Penalty, signs: Array | None) -> Array | None:
    """Solve on the support given by `signs` (p,) in -1, 0, 1; amend it where the optimality conditions are
    broken; repeat. None when the support holds dependent columns or does not come to rest."""
    for _ in range(GUESSES):
        w = None if signs is None else _solve_support(problem, penalty, signs)
        if w is None or signs is None:
            return None
        correlation, rounding = _correlation(problem, penalty, w)
        wrong = np.sign(w) != signs
        late = (signs == 0) & (np.abs(correlation) > penalty.l1 + rounding)
        if not (wrong.any() or late.any()):
            return w
        signs = np.where(wrong, 0.0, np.where(late, np.sign(correlation), signs))
    return None


def _solve_support(problem: LeastSquares, penalty: Penalty, signs: Array) -> Array | None:
    """The w with (R'R + n l2) w = R'z - n l1 signs on the support and 0 off it."""
    support = signs != 0
    T, z = _triangular(problem, penalty.l2, support)
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


def _walk(problem: LeastSquares, penalty: Penalty, jitter: float) -> Array | None:
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


def _descend(problem: LeastSquares, penalty: Penalty) -> Array:
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


# ---- better than the moments: corrections from the rows themselves


def refine(problem: LeastSquares, penalty: Penalty, solution: Solution, gradient: Array) -> Solution:
    """One correction of solution.w from gradient = Xs'r (p,), summed over the rows themselves at solution.w.

    A Newton step with R'R for Xs'Xs (the corrected semi-normal equations), on the support where l1 > 0. The
    certificate still rests on the problem; `with_certificate` replaces it after one more pass over the rows.
    """
    w = solution.w
    support = problem.norms > 0 if penalty.l1 == 0 else w != 0
    pull = gradient - problem.n * (penalty.l2 * w + penalty.l1 * np.sign(w))
    T, _ = _triangular(problem, penalty.l2, support)
    step = np.zeros_like(w)
    step[support], _ = _smallest_norm(T, _transposed(T, pull[support], problem.floor), problem.floor)
    if penalty.l1 > 0 and not _holds(problem, penalty, w, step, gradient):
        target = problem.R @ w + _transposed(problem.R, gradient, problem.floor)
        w = solve(replace(problem, z=target), penalty, w).w
    else:
        w = w + step
    return _solution(problem, penalty, w, solution.unique, solution.notes)


def _transposed(T: Array, b: Array, floor: float) -> Array:
    """T'^-1 b, of smallest norm where T is singular."""
    unit, norms = _unit(T)
    if _inverse(unit, floor) is not None:
        return solve_lower(unit, b / norms)
    return np.linalg.lstsq(unit.T, b / norms, rcond=floor)[0]


def _holds(problem: LeastSquares, penalty: Penalty, w: Array, step: Array, gradient: Array) -> bool:
    """Whether w + step keeps every sign and no other column reaches its bound."""
    after = (gradient - problem.gram @ step) / problem.n
    _, rounding = _correlation(problem, penalty, w)
    inside = np.abs(after[w == 0]) <= penalty.l1 * (1 + 1e-9) + rounding[w == 0]
    return bool((np.sign(w + step) == np.sign(w)).all() and inside.all())


def with_certificate(
    problem: LeastSquares, penalty: Penalty, solution: Solution, gradient: Array, rss: float
) -> Solution:
    """The same answer with a certificate from the rows: gradient = Xs'r (p,) and rss = r'r at solution.w."""
    certificate = _certify(problem, penalty, solution.w, -gradient / problem.n, rss, "data")
    return replace(solution, certificate=certificate)


def polish(X: NDArray[Any], y: NDArray[Any], problem: LeastSquares, solution: Solution, rounds: int = 8) -> Solution:
    """A unique unpenalised answer to nearly all 16 digits, given all rows X (n, p), y (n,) at once.

    Björck's refinement of r + Z w = y, Z'r = 0: residuals in extended precision (where the machine has it),
    corrections by QR in double; each round gains 16 - log10(cond) digits, and r need not be small.
    Takes 16 bytes a value: for data of one block.
    """
    live = problem.norms > 0
    if not solution.unique:
        return solution
    Z = ((X - problem.centre.astype(np.longdouble)) / problem.scale)[:, live]
    w = solution.w[live].astype(np.longdouble)
    if problem.intercept:
        Z, w = np.column_stack((np.ones(len(Z), np.longdouble), Z)), np.append(np.longdouble(0), w)
    target = y - np.longdouble(problem.y_mean)
    Q, T = np.linalg.qr(Z.astype(np.float64))
    r, last = target - Z @ w, np.inf
    for _ in range(rounds):
        f = (target - r - Z @ w).astype(np.float64)
        d = Q.T @ f + solve_lower(T, (Z.T @ r).astype(np.float64))
        step = solve_upper(T, d)
        size = float(np.linalg.norm(step))
        if not size < last / 2:
            break
        w, r, last = w + step, r + (f - Q @ d), size
    return _polished(problem, solution, Z, w, r, live)


def _polished(problem: LeastSquares, solution: Solution, Z: Any, w: Any, r: Any, live: NDArray[np.bool_]) -> Solution:
    """Back to double only at the very end: the intercept is a difference of large numbers."""
    lead = int(problem.intercept)
    full, gradient = np.zeros((2, len(live)), np.longdouble)
    full[live], gradient[live] = w[lead:], (Z.T @ r)[lead:]
    coef = full / problem.scale
    offset = problem.y_mean + w[0] - problem.centre @ coef if lead else 0.0
    better = replace(solution, w=full.astype(np.float64), coef=coef.astype(np.float64), intercept=float(offset))
    return with_certificate(problem, Penalty(), better, gradient.astype(np.float64), float(r @ r))


# ---- what the numbers of a linear model are worth


@dataclass(frozen=True, eq=False)
class Estimates:
    """Values with their standard error, t = value / std_error, two-sided p-value and confidence interval."""

    value: Array
    std_error: Array
    t: Array
    p_value: Array
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class Inference:
    """Of a linear model in the units of the file: coef (p,), intercept (1,) or None; NaN if undefined."""

    coef: Estimates
    intercept: Estimates | None
    confidence: float
    residual_sd: float
    residual_df: float
    f: float
    f_p_value: float
    r2: float
    adjusted_r2: float


def inference(problem: LeastSquares, solution: Solution, confidence: float = 0.95) -> Inference:
    """Standard errors from R^-1, never from an inverted Gram matrix; for unpenalised models only."""
    from scipy.special import fdtrc

    rank, rss = solution.rank, problem.rss(solution.w)
    df = problem.n - rank - problem.intercept
    fitted = problem.R @ solution.w
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.float64(rss) / df if df > 0 else np.float64("nan")
        f = np.float64(fitted @ fitted) / rank / variance if rank else np.float64("nan")
        r2 = 1 - np.float64(rss) / problem.y_scatter
        adjusted = 1 - (1 - r2) * (problem.n - problem.intercept) / df if df > 0 else np.float64("nan")
    leverage, at_mean = _leverages(problem)
    sd = float(np.sqrt(variance))
    coef = _estimates(solution.coef, sd * leverage / problem.scale, df, confidence)
    intercept = None
    if problem.intercept:
        intercept = _estimates(np.array([solution.intercept]), np.array([sd * at_mean]), df, confidence)
    p_value = float(fdtrc(rank, df, f)) if np.isfinite(f) else (0.0 if f > 0 else float("nan"))
    return Inference(coef, intercept, confidence, sd, df, float(f), p_value, float(r2), float(adjusted))


def _leverages(problem: LeastSquares) -> tuple[Array, float]:
    """Standard errors for a residual SD of 1: of w (p,) and of the intercept; NaN where not determined."""
    live = problem.norms > 0
    T, _ = _triangular(problem, 0.0, live)
    unit, norms = _unit(T)
    centre = (problem.centre / problem.scale)[live] / norms
    inverse, free = _inverse(unit, problem.floor), np.zeros((0, len(norms)))
    if inverse is None:
        U, s, Vt = np.linalg.svd(unit)
        r = int((s > problem.floor * s.max(initial=0.0)).sum())
        inverse, free = Vt[:r].T / s[:r] @ U.T[:r], Vt[r:]
    leverage = np.full(len(live), np.nan)
    determined = np.sqrt((free**2).sum(axis=0)) < 1e-8
    leverage[live] = np.where(determined, np.sqrt((inverse**2).sum(axis=1)) / norms, np.nan)
    fixed = np.linalg.norm(free @ centre) <= 1e-8 * np.linalg.norm(centre)
    return leverage, float(np.sqrt(1 / problem.n + ((centre @ inverse) ** 2).sum())) if fixed else float("nan")


def _estimates(value: Array, std_error: Array, df: float, confidence: float) -> Estimates:
    from scipy.special import stdtr, stdtrit

    with np.errstate(divide="ignore", invalid="ignore"):
        t = value / std_error
    tail: Any = stdtr(df, -np.abs(t)) if df > 0 else np.full_like(t, np.nan)
    half = std_error * (stdtrit(df, (1 + confidence) / 2) if df > 0 else np.nan)
    return Estimates(value, std_error, t, 2 * tail, value - half, value + half)
