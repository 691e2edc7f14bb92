"""Exact answers from a `LeastSquares` problem: solve, refine, certify; reads no rows but in `polish`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errors import DataError
from least_squares import LeastSquares, solve_lower, solve_upper
from models import Array, Certificate, Penalty, RestsOn, certify, penalty_for
from path_kernel import sparse_path
from smooth import smallest_norm, solve_smooth, solve_transposed, triangular
from sparse import correlations, solve_sparse

RIDGE_AS = 1e-3  # the share of lasso at which a ridge path begins, as in glmnet: it has no end of its own


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
        w, unique, notes = solve_smooth(problem, penalty.l2)
    else:
        w, unique, notes = solve_sparse(problem, penalty, start)
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


# ---- many penalties at once


def weights_along(problem: LeastSquares, model: str, alphas: Array, l1_ratio: float = 0.5) -> Array:
    """W (m, p): the weights at each alpha; quickest where alphas fall."""
    penalties = [penalty_for(model, float(alpha), l1_ratio, problem.n) for alpha in alphas]
    l1, l2 = (np.array([getattr(p, part) for p in penalties]) for part in ("l1", "l2"))
    if not l1.any() and l2.all():
        return _ridge_weights(problem, l2)
    if not l1.all():
        return np.array([solve(problem, penalty).w for penalty in penalties])
    W, settled = sparse_path(problem.gram / problem.n, problem.R.T @ problem.z / problem.n, l1, l2)
    for i in range(settled, len(penalties)):
        W[i] = solve(problem, penalties[i], W[i - 1] if i else None).w
    return W


def _ridge_weights(problem: LeastSquares, l2: Array) -> Array:
    """V diag(s / (s^2 + n l2)) U'z for every l2, from one decomposition of R."""
    U, s, Vt = np.linalg.svd(problem.R)
    weights: Array = (s * (U.T @ problem.z) / (s**2 + problem.n * l2[:, None])) @ Vt
    return weights


def alpha_grid(problem: LeastSquares, model: str, l1_ratio: float = 0.5, count: int = 100) -> Array:
    """From the smallest penalty that leaves nothing (for ridge: nearly nothing) down, in equal ratios.

    The range is glmnet's: four powers of ten, two where there are fewer rows than columns.
    """
    ratio = {"lasso": 1.0, "ridge": RIDGE_AS}.get(model, max(l1_ratio, RIDGE_AS))
    largest = problem.zero_gradient / ratio
    if largest == 0:
        raise DataError("No column is related to the target at all, so there is no path. Choose other columns.")
    if model == "ridge":
        largest *= problem.n  # scikit-learn's ridge counts the sum of squares, not the mean
    depth = 1e-4 if problem.n >= len(problem.z) else 1e-2
    return np.geomspace(largest, largest * depth, count)


# ---- better than the moments: corrections from the rows themselves


def refine(problem: LeastSquares, penalty: Penalty, solution: Solution, gradient: Array) -> Solution:
    """One correction of solution.w from gradient = Xs'r (p,), summed over the rows themselves at solution.w.

    A Newton step with R'R for Xs'Xs (the corrected semi-normal equations), on the support where l1 > 0. The
    certificate still rests on the problem; `with_certificate` replaces it after one more pass over the rows.
    """
    w = solution.w
    support = problem.norms > 0 if penalty.l1 == 0 else w != 0
    pull = gradient - problem.n * (penalty.l2 * w + penalty.l1 * np.sign(w))
    T, _ = triangular(problem, penalty.l2, support)
    step = np.zeros_like(w)
    step[support], _ = smallest_norm(T, solve_transposed(T, pull[support], problem.floor), problem.floor)
    if penalty.l1 > 0 and not _holds(problem, penalty, w, step, gradient):
        target = problem.R @ w + solve_transposed(problem.R, gradient, problem.floor)
        w = solve(replace(problem, z=target), penalty, w).w
    else:
        w = w + step
    return _solution(problem, penalty, w, solution.unique, solution.notes)


def _holds(problem: LeastSquares, penalty: Penalty, w: Array, step: Array, gradient: Array) -> bool:
    """Whether w + step keeps every sign and no other column reaches its bound."""
    after = (gradient - problem.gram @ step) / problem.n
    _, rounding = correlations(problem, penalty, w)
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
