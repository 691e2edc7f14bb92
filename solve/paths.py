"""Exact answers from a `LeastSquares` problem: solve, refine, certify; reads no rows but in `polish`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DataError
from shoal.kernels.path_kernel import sparse_path
from shoal.lazy.classes import dataclass
from shoal.models import L1L2, TINY, Array, Certificate, RestsOn, certify, penalty_for
from shoal.solve.least_squares import (
    CONSTANT,
    ENOUGH_DIGITS,
    LeastSquares,
    Standardisation,
    solve_lower,
    solve_upper,
)
from shoal.solve.smooth import (
    nonnegative_gap,
    smallest_norm,
    solve_nonnegative,
    solve_smooth,
    solve_transposed,
    triangular,
)
from shoal.solve.sparse import correlations, settled_along, solve_sparse

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


def solve(problem: LeastSquares, penalty: L1L2, start: Array | None = None) -> Solution:
    """The minimum of F to machine precision; `start` (p,) is a guess of w that can only save time."""
    notes: tuple[str, ...] = ()
    if problem.nonnegative:
        w, unique = solve_nonnegative(problem, penalty, start), penalty.l2 > 0 or problem.rank == problem.width
    elif penalty.l1 == 0:
        w, unique, notes = solve_smooth(problem, penalty.l2)
    else:
        w, unique, notes = solve_sparse(problem, penalty, start)
    notes = (*constant_note(int((problem.norms == 0).sum())), *notes)
    return _solution(problem, penalty, w, unique, notes)


def constant_note(count: int) -> tuple[str, ...]:
    """What is said of so many columns that do not vary."""
    if not count:
        return ()
    return (
        "1 column does not vary; its weight is 0."
        if count == 1
        else f"{count} columns do not vary; their weights are 0.",
    )


def _solution(problem: LeastSquares, penalty: L1L2, w: Array, unique: bool, notes: tuple[str, ...]) -> Solution:
    coef, intercept = problem.units.raw(w)
    return Solution(w, coef, intercept, problem.rank, certificate_of(problem, penalty, w), unique, notes)


def certificate_of(problem: LeastSquares, penalty: L1L2, w: Array) -> Certificate:
    """How far w can be from the optimum, by what the problem itself rests on."""
    return _certify(problem, penalty, w, problem.gradient(w), problem.rss(w), problem.rests_on)


def _certify(
    problem: LeastSquares, penalty: L1L2, w: Array, gradient: Array, rss: float, rests_on: RestsOn
) -> Certificate:
    if problem.nonnegative:
        gap = nonnegative_gap(penalty, w, gradient)
        return Certificate("kkt", gap, gap / max(problem.zero_gradient, TINY) if gap else 0.0, rests_on)
    scales = {"y_scatter": problem.y_scatter, "zero_gradient": problem.zero_gradient}
    return certify(penalty, w, gradient, rss, problem.n, rests_on=rests_on, **scales)


# ---- many penalties at once


@dataclass(frozen=True, eq=False)
class Path:
    """The answers at m penalties: W (m, p) in standardised columns; coef (m, p) and intercepts (m,) in file units."""

    model: str
    l1_ratio: float
    alphas: Array
    W: Array
    coef: Array
    intercepts: Array
    certificates: tuple[Certificate, ...]

    @property
    def kept(self) -> NDArray[np.intp]:
        """How many weights are not 0, at each alpha."""
        return np.asarray(np.count_nonzero(self.W, axis=1))

    @property
    def worst(self) -> Certificate:
        """The certificate of the point that may be furthest from its optimum."""
        return max(self.certificates, key=lambda one: one.relative)


def follow(problem: LeastSquares, model: str, alphas: Array, l1_ratio: float = 0.5) -> Path:
    """The whole path with a certificate at each point."""
    alphas = np.asarray(alphas, np.float64)
    W = weights_along(problem, model, alphas, l1_ratio)
    return Path(
        model, l1_ratio, alphas, W, *problem.units.raw_along(W), certify_along(problem, model, alphas, l1_ratio, W)
    )


def weights_along(problem: LeastSquares, model: str, alphas: Array, l1_ratio: float = 0.5) -> Array:
    """W (m, p): the weights at each alpha; quickest where alphas fall."""
    l1, l2 = penalties_along(model, alphas, l1_ratio, problem.n)
    W = np.empty((len(l1), len(problem.z)))
    if problem.nonnegative:
        for i, penalty in enumerate(map(L1L2, l1.tolist(), l2.tolist())):
            W[i] = solve_nonnegative(problem, penalty, W[i - 1] if i else None)
        return W
    sparse, smooth = l1 > 0, (l1 == 0) & (l2 > 0)
    W[sparse] = sparse_weights(problem, l1[sparse], l2[sparse])
    if smooth.any():
        W[smooth] = _ridge_weights(problem, l2[smooth])
    if not (sparse | smooth).all():
        W[~(sparse | smooth)] = solve(problem, L1L2()).w
    return W


def penalties_along(model: str, alphas: Array, l1_ratio: float, n: float) -> tuple[Array, Array]:
    """l1 (m,) and l2 (m,): both are proportional to alpha."""
    alphas = np.asarray(alphas, np.float64)
    for end in (alphas.min(initial=0.0), alphas.max(initial=0.0)):  # either is NaN where one of them is
        penalty_for(model, float(end), l1_ratio, n)
    unit = penalty_for(model, 1.0, l1_ratio, n)
    return alphas * unit.l1, alphas * unit.l2


def sparse_weights(problem: LeastSquares, l1: Array, l2: Array, start: Array | None = None) -> Array:
    """W (m, p) at penalties with an L1 part; `start` (p,) is a guess of the first.

    From the Gram matrix, which is quick; with corrections by R where that loses too many digits. What is not settled
    so, or not to rounding, is solved on R itself with the signs found, and the path goes on from there.
    """
    root = np.sqrt(problem.n)
    H, c = problem.gram / problem.n, problem.R.T @ problem.z / problem.n
    coarse = _squares_too_coarse(problem, l2)
    factor = (problem.R / root, problem.z / root) if coarse.any() else None
    W = np.zeros((len(l1), len(c)))
    at = 0
    while at < len(l1):
        found, settled = sparse_path(H, c, l1[at:], l2[at:], start, factor=factor)
        end = at + settled
        W[at:end] = found[:settled]
        exact = settled_along(problem, l1[at:end], l2[at:end], W[at:end]) if factor else np.ones(settled, bool)
        for i in at + np.flatnonzero(~exact):
            W[i] = solve(problem, L1L2(l1[i], l2[i]), W[i]).w
        if end < len(l1):
            W[end] = start = solve(problem, L1L2(l1[end], l2[end]), W[max(end - 1, 0)]).w
        at = end + 1
    return W


def _squares_too_coarse(problem: LeastSquares, l2: Array) -> NDArray[np.bool_]:
    """Whether R'R has fewer than ENOUGH_DIGITS good digits, for each l2."""

    def coarse(value: float) -> bool:
        return bool(16 - 2 * np.log10(problem.condition(value)) < ENOUGH_DIGITS)

    if not len(l2) or not coarse(float(l2.min())):  # a stronger penalty can only help
        return np.zeros(len(l2), bool)
    found = {value: coarse(value) for value in set(l2.tolist())}
    return np.array([found[value] for value in l2.tolist()], bool)


def certify_along(
    problem: LeastSquares, model: str, alphas: Array, l1_ratio: float, W: Array
) -> tuple[Certificate, ...]:
    """`models.certify` for each row of W (m, p), all at once."""
    l1, l2 = penalties_along(model, alphas, l1_ratio, problem.n)
    if problem.nonnegative:
        each = zip(map(L1L2, l1.tolist(), l2.tolist()), W, strict=True)
        return tuple(certificate_of(problem, penalty, w) for penalty, w in each)
    residual = problem.z - W @ problem.R.T
    smooth = -residual @ problem.R / problem.n + l2[:, None] * W
    size = np.abs(smooth)
    at_zero = np.maximum(size - l1[:, None], 0)
    steepest = np.where(W == 0, at_zero, np.abs(smooth + l1[:, None] * np.sign(W))).max(axis=1, initial=0.0)
    squares = np.einsum("ij,ij->i", residual, residual) + problem.rest + problem.n * l2 * np.einsum("ij,ij->i", W, W)
    s = np.minimum(1.0, l1 / np.maximum(size.max(axis=1, initial=0.0), TINY))
    slack = np.maximum(l1[:, None] * np.abs(W) + s[:, None] * W * smooth, 0).sum(axis=1)
    gaps = (1 - s) ** 2 * squares / (2 * problem.n) + slack
    scale = max(problem.y_scatter / (2 * problem.n), TINY), max(problem.zero_gradient, TINY)
    return tuple(
        Certificate("duality_gap", gap, gap / scale[0], problem.rests_on)
        if has_l1
        else Certificate("kkt", kkt, kkt / scale[1], problem.rests_on)
        for has_l1, gap, kkt in zip((l1 > 0).tolist(), gaps.tolist(), steepest.tolist(), strict=True)
    )


def _ridge_weights(problem: LeastSquares, l2: Array) -> Array:
    """V diag(s / (s^2 + n l2)) U'z for every l2, from one decomposition of R."""
    U, s, Vt = np.linalg.svd(problem.R)
    weights: Array = (s * (U.T @ problem.z) / (s**2 + problem.n * l2[:, None])) @ Vt
    return weights


class Slopes(Protocol):
    """What is known of a problem before it is solved, whatever it rests on."""

    @property
    def n(self) -> float: ...

    @property
    def width(self) -> int: ...

    @property
    def y_scatter(self) -> float: ...

    @property
    def zero_gradient(self) -> float: ...

    @property
    def units(self) -> Standardisation: ...


def has_path(problem: Slopes) -> bool:
    """Whether any column is related to the target; none is to one that varies by rounding only."""
    return problem.zero_gradient > 0 and not _is_flat(problem)


def _is_flat(problem: Slopes) -> bool:
    return bool(np.sqrt(problem.y_scatter / problem.n) <= CONSTANT * abs(problem.units.y_mean))


def alpha_grid(problem: Slopes, model: str, l1_ratio: float = 0.5, count: int = 100) -> Array:
    """From a penalty that leaves nothing (for ridge: nearly nothing) down to one that hardly matters, in equal ratios.

    An L1 part begins where all weights are 0 and ends four powers of ten below (two where there are fewer rows than
    columns), as in glmnet. An L2 part has no units, unlike the target: it ends where it is that of the ridge path, six
    (four) powers of ten below glmnet's beginning for a target of spread 1; glmnet's end is too strong for many tables.
    """
    slope = problem.zero_gradient
    if not has_path(problem):
        if _is_flat(problem):
            raise DataError("The target does not vary over the training rows, so there is no path. Choose another one.")
        raise DataError("No column is related to the target at all, so there is no path. Choose other columns.")
    depth = 1e-4 if problem.n >= problem.width else 1e-2
    strongest_l2 = slope / np.sqrt(problem.y_scatter / problem.n) / RIDGE_AS
    weakest_l2 = strongest_l2 * depth / 100
    if model == "ridge":  # scikit-learn's ridge counts the sum of squares, not the mean
        return np.geomspace(strongest_l2 * problem.n, weakest_l2 * problem.n, count)
    ratio = 1.0 if model == "lasso" else l1_ratio
    largest = slope / max(ratio, RIDGE_AS)
    smallest = largest * depth
    if ratio < 1:
        smallest = min(smallest, weakest_l2 / (1 - ratio))
    return np.geomspace(largest, smallest, count)


# ---- better than the moments: corrections from the rows themselves


def refine(problem: LeastSquares, penalty: L1L2, solution: Solution, gradient: Array) -> Solution:
    """One correction of solution.w from gradient = Xs'r (p,), summed over the rows themselves at solution.w.

    A Newton step with R'R for Xs'Xs (the corrected semi-normal equations), on the support where l1 > 0. The
    certificate still rests on the problem; `with_certificate` replaces it after one more pass over the rows.
    """
    w = solution.w
    if problem.nonnegative:
        target = problem.R @ w + solve_transposed(problem.R, gradient, problem.floor)
        return solve(replace(problem, z=target), penalty, w)
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


def _holds(problem: LeastSquares, penalty: L1L2, w: Array, step: Array, gradient: Array) -> bool:
    """Whether w + step keeps every sign and no other column reaches its bound."""
    after = (gradient - problem.gram @ step) / problem.n
    _, rounding = correlations(problem, penalty, w)
    inside = np.abs(after[w == 0]) <= penalty.l1 * (1 + 1e-9) + rounding[w == 0]
    return bool((np.sign(w + step) == np.sign(w)).all() and inside.all())


def with_certificate(problem: LeastSquares, penalty: L1L2, solution: Solution, gradient: Array, rss: float) -> Solution:
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
    Z = ((X - problem.units.centre.astype(np.longdouble)) / problem.units.scale)[:, live]
    w = solution.w[live].astype(np.longdouble)
    if problem.units.intercept:
        Z, w = np.column_stack((np.ones(len(Z), np.longdouble), Z)), np.append(np.longdouble(0), w)
    target = y - np.longdouble(problem.units.y_mean)
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
    lead = int(problem.units.intercept)
    full, gradient = np.zeros((2, len(live)), np.longdouble)
    full[live], gradient[live] = w[lead:], (Z.T @ r)[lead:]
    coef = full / problem.units.scale
    offset = problem.units.y_mean + w[0] - problem.units.centre @ coef if lead else 0.0
    better = replace(solution, w=full.astype(np.float64), coef=coef.astype(np.float64), intercept=float(offset))
    return with_certificate(problem, L1L2(), better, gradient.astype(np.float64), float(r @ r))
