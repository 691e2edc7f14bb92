"""Least squares without an L1 term: triangular systems, a quick ridge, the smallest norm where columns depend."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.models import L1L2, TINY, Array
from shoal.solve.least_squares import EPS, LeastSquares, solve_lower, solve_upper, triangle

MOST_SETS = 3  # times the columns: sets of free weights that are tried
CORRECTIONS = 8  # of a ridge solution; each must gain two digits, the last is smaller than SETTLED
SETTLED = 1e-10  # what is left after such a step is smaller by another two digits at least


def solve_smooth(problem: LeastSquares, l2: float) -> tuple[Array, bool, tuple[str, ...]]:
    if l2 > 0 and (quick := _solve_ridge(problem, l2)) is not None:
        return quick, True, ()
    live = problem.norms > 0
    T, z = triangular(problem, l2, live)
    w = np.zeros_like(problem.z)
    w[live], deficient = smallest_norm(T, z, problem.floor)
    return w, not deficient, (_dependence(problem),) if deficient else ()


def _solve_ridge(problem: LeastSquares, l2: float) -> Array | None:
    """(R'R + n l2 I)^-1 R'z, several times faster than QR; the digits that squaring R costs are won back by
    corrections through R itself. None where that does not settle: QR then has to do it."""
    H = problem.gram + problem.n * l2 * np.eye(len(problem.z))
    d = np.sqrt(np.diag(H))
    if d.min(initial=1.0) == 0:
        return None
    inverse = np.linalg.inv(H / d / d[:, None])
    w, last = np.zeros_like(d), np.inf
    for _ in range(CORRECTIONS):
        pull = (problem.R.T @ (problem.z - problem.R @ w) - problem.n * l2 * w) / d
        step = inverse @ pull / d
        size = float(np.abs(step * d).max(initial=0.0))
        if size > last / 100:
            return None
        w, last = w + step, size
        if size <= SETTLED * float(np.abs(w * d).max(initial=0.0)):
            return w
    return None


def _dependence(problem: LeastSquares) -> str:
    return f"{dependence(problem)} The answer with the smallest norm is given; single weights are not unique."


def dependence(problem: LeastSquares) -> str:
    """That columns depend on one another, in words."""
    known = "the data" if problem.rests_on == "data" else "moments, which take near dependence for full"
    return (
        f"The columns depend on one another (rank {problem.rank} of {int((problem.norms > 0).sum())}, "
        f"found from {known})."
    )


def triangular(problem: LeastSquares, l2: float, columns: NDArray[np.bool_]) -> tuple[Array, Array]:
    """T (k, k) upper triangular and t (k,) with ||z - R w||^2 + n l2 ||w||^2 = ||t - T w||^2 + constant."""
    if l2 == 0 and columns.all():
        return problem.R, problem.z
    rows = np.column_stack((problem.R[:, columns], problem.z))
    k = rows.shape[1] - 1
    if l2 > 0:  # a ridge is k more rows; squaring R instead would cost half the digits
        rows = np.vstack((rows, np.sqrt(problem.n * l2) * np.eye(k, k + 1)))
    T = triangle(rows)
    return T[:k, :k], T[:k, k]


def unit_columns(T: Array) -> tuple[Array, Array]:
    """T with columns of norm 1, and the norms: the units in which "nearly singular" has a meaning."""
    norms = np.sqrt((T**2).sum(axis=0))
    norms[norms == 0] = 1.0
    return T / norms, norms


def safe_inverse(unit: Array, floor: float) -> Array | None:
    """unit^-1, or None where the condition number may reach 1/floor."""
    try:
        inverse = np.linalg.inv(unit)
    except np.linalg.LinAlgError:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # a nearly singular one may hold anything
        safe = float(np.linalg.norm(unit)) * float(np.linalg.norm(inverse)) * floor < 1
    return inverse if safe else None


def smallest_norm(T: Array, z: Array, floor: float) -> tuple[Array, bool]:
    """argmin ||z - T w||, of smallest norm where it is not unique, and whether it is not."""
    unit, norms = unit_columns(T)
    if safe_inverse(unit, floor) is not None:
        return solve_upper(unit, z) / norms, False
    filled = unit.any(axis=1)  # fewer rows than columns leave rows of zeros, which only cost time
    U, s, Vt = np.linalg.svd(unit[filled], full_matrices=False)
    r = int((s > floor * s.max(initial=0.0)).sum())
    w = Vt[:r].T @ ((U.T @ z[filled])[:r] / s[:r]) / norms
    if r == len(norms):
        return w, False
    B = np.linalg.qr((Vt[:r] * norms).T)[0]  # only this part of w has an effect: the rest would add to its norm
    return B @ (B.T @ w), True


def solve_transposed(T: Array, b: Array, floor: float) -> Array:
    """T'^-1 b, of smallest norm where T is singular."""
    unit, norms = unit_columns(T)
    if safe_inverse(unit, floor) is not None:
        return solve_lower(unit, b / norms)
    return np.linalg.lstsq(unit.T, b / norms, rcond=floor)[0]


def solve_nonnegative(problem: LeastSquares, penalty: L1L2, start: Array | None = None) -> Array:
    """The minimum of F among weights of 0 or more, by active sets (Lawson and Hanson 1974): there the L1 part is a
    linear term. Weights of 0 are exact zeros. `start` (p,) is a guess that can only save time."""
    live = problem.norms > 0
    T, t = triangular(problem, penalty.l2, live)
    pull, bound = T.T @ t, problem.n * penalty.l1
    w: Array = np.zeros(len(pull))
    free = np.zeros(len(pull), bool)
    if start is not None and (start[live] > 0).any():
        free = start[live] > 0
        w = _towards_free(T, pull - bound, np.where(free, start[live], 0.0), free, problem.floor)
    rounding = EPS * len(pull) * float(np.abs(T).max(initial=0.0)) ** 2
    for _ in range(MOST_SETS * max(1, len(pull))):
        steep = pull - bound - T.T @ (T @ w)
        steep[free] = -np.inf
        best = int(np.argmax(steep)) if len(steep) else 0
        if not len(steep) or steep[best] <= 64 * EPS * float(np.abs(pull).max(initial=0.0)) + rounding:
            break
        free[best] = True
        w = _towards_free(T, pull - bound, w, free, problem.floor)
    found = np.zeros_like(problem.z)
    found[live] = w
    return found


def _towards_free(T: Array, pull: Array, w: Array, free: NDArray[np.bool_], floor: float) -> Array:
    """The minimum over the free weights, which are let go of one by one where they would fall below 0."""
    while free.any():
        R = triangle(T[:, free])
        aim = np.zeros_like(w)
        aim[free], _ = smallest_norm(R, solve_transposed(R, pull[free], floor), floor)
        below = free & (aim <= 0)
        if not below.any():
            return aim
        share = np.min(w[below] / np.maximum(w[below] - aim[below], TINY))
        w = np.where(free, w + share * (aim - w), 0.0)
        free &= ~(below & (w <= EPS * np.abs(w).max(initial=0.0)))
        w[~free] = 0.0
    return np.zeros_like(w)


def nonnegative_gap(penalty: L1L2, w: Array, gradient: Array) -> float:
    """How far w is from the conditions of that minimum: no slope at weights above 0, none that leads up from 0."""
    slope = gradient + penalty.l2 * w + penalty.l1
    return float(np.where(w > 0, np.abs(slope), np.maximum(-slope, 0.0)).max(initial=0.0))
