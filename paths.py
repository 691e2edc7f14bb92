"""Exact answers from a `LeastSquares` problem: solve, refine, certify; reads no rows but in `polish`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from least_squares import LeastSquares, solve_lower, solve_upper
from models import Array, Certificate, Penalty, RestsOn, certify
from smooth import smallest_norm, solve_smooth, solve_transposed, triangular
from sparse import correlations, solve_sparse


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
