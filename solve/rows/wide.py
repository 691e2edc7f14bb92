"""Exact answers for tables of more columns than rows, or of thousands of columns: from the rows, no p x p matrix.

A penalty with an L1 part leaves at most n weights, so small problems of a few columns are solved and all other columns
are asked whether they want to come in (working sets, the next one guessed by the strong rule). Without one the answer
is a combination of the rows, so that n numbers are looked for instead of p.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.path_kernel import sparse_path
from shoal.lazy.classes import dataclass
from shoal.models import L1L2, Array, Certificate, certify
from shoal.solve.least_squares import EPS, LeastSquares
from shoal.solve.paths import (
    Solution,
    constant_note,
    refine,
    solve,
    sparse_weights,
    with_certificate,
)
from shoal.solve.rows.conjugate import conjugate_gradients
from shoal.solve.rows.dense import RowsAtHand, WideRows
from shoal.solve.smooth import (
    CORRECTIONS,
    SETTLED,
    safe_inverse,
    solve_smooth,
    unit_columns,
)

FALL = 0.85  # from one penalty to the next on the way to the one asked for: a small step changes few columns
FEWEST_NEW = 32  # columns that may join at a time; as many as there are, where there are more
SURELY = 1e-6  # one by the condition number up to which columns are independent, however they were summed
GOOD_ENOUGH = 1e-13  # of the certificate: what is left is rounding
SMALLEST_NORM = (
    "Of all weights that fit best, those with the smallest norm are given; whether others fit equally well "
    "was not worked out, since both rows and columns are many."
)
UNSETTLED = "The answer still moved when the iterations ended; the certificate says how far it can be from the best."
PROVEN = 2500  # columns whose independence takes a second to prove, where rows are sparse
NOT_PROVEN = "Whether other weights fit equally well was not worked out."
NOT_UNIQUE = "Columns that depend on one another share the weight: other splits fit equally well."


def solve_wide(rows: RowsAtHand, penalty: L1L2) -> Solution:
    """The minimum of F to machine precision, as `paths.solve` gives it from moments."""
    if rows.is_narrow:
        return _by_columns(rows, penalty)
    notes: tuple[str, ...]
    if penalty.l1:
        w = _along(rows, *_way_to(rows, penalty))
        rank = int(np.count_nonzero(w))
        unique, notes = (True, ()) if penalty.l2 > 0 else _uniqueness(rows, penalty, w)
    else:
        w, unique, notes, rank = _smooth(rows, penalty.l2)
    coef, intercept = rows.units.raw(w)
    certificate = _certified(rows, penalty, w)
    notes = (*constant_note(int((rows.norms == 0).sum())), *notes)
    return Solution(w, coef, intercept, rank, certificate, unique, notes)


def _by_columns(rows: RowsAtHand, penalty: L1L2) -> Solution:
    """From the problem of all columns at once, corrected by the rows while that helps."""
    problem = rows.part(np.arange(rows.width))

    def looked_at(found: Solution) -> tuple[Solution, Array]:
        residual = rows.residual(found.w)
        gradient = rows.against(residual)
        return with_certificate(problem, penalty, found, gradient, float(residual @ residual)), gradient

    best, gradient = looked_at(solve(problem, penalty))
    for _ in range(2):
        if not best.unique or best.certificate.relative < GOOD_ENOUGH:
            break
        tried, its_gradient = looked_at(refine(problem, penalty, best, gradient))
        if tried.certificate.relative >= best.certificate.relative / 2:
            break
        best, gradient = tried, its_gradient
    return best


def _certified(rows: RowsAtHand, penalty: L1L2, w: Array) -> Certificate:
    residual = rows.residual(w)
    return certified(rows, penalty, w, -rows.against(residual) / rows.n, float(residual @ residual))


def certified(rows: RowsAtHand, penalty: L1L2, w: Array, gradient: Array, rss: float) -> Certificate:
    """From gradient = -X'r / n (p,) and rss = r'r at w, which were worked out on the rows."""
    return certify(
        penalty, w, gradient, rss, rows.n, y_scatter=rows.y_scatter, zero_gradient=rows.zero_gradient, rests_on="data"
    )


# ------------------------------------------------------------------ with an L1 part


def _along(rows: RowsAtHand, l1: Array, l2: Array) -> Array:
    """The weights at the last penalty alone: those on the way only have to be near."""
    walk, strengths = Walk(rows), (float(l1[-1]), float(l2[-1]))
    if (near := rows.descended(*strengths)) is not None:
        return near if walk.ends_at(near, *strengths) else walk.to(*strengths)
    for a, b in zip(l1[:-1].tolist(), l2[:-1].tolist(), strict=True):
        walk.to(a, b, roughly=True)
    return walk.to(*strengths)


def _way_to(rows: RowsAtHand, penalty: L1L2) -> tuple[Array, Array]:
    """Penalties from where all weights are 0 down to the one asked for."""
    fall = max(rows.zero_gradient / penalty.l1, 1.0)
    steps = int(np.ceil(np.log(fall) / -np.log(FALL)))
    l1 = penalty.l1 * FALL ** -np.arange(steps, -1.0, -1.0)
    return l1, np.full(len(l1), penalty.l2)


class Walk:
    """The weights at falling penalties, each begun from those before it."""

    def __init__(self, rows: RowsAtHand) -> None:
        self.rows, self.before = rows, rows.zero_gradient
        self.w: Array = np.zeros(rows.width)
        self.residual, self.correlation = rows.y, rows.slopes

    def to(self, l1: float, l2: float, roughly: bool = False) -> Array:
        rows = self.rows
        likely = np.abs(self.correlation) >= 2 * l1 - self.before  # the strong rule: nearly always all that come in
        chosen = (self.w != 0) | (likely & (rows.norms > 0))
        while True:
            columns = np.flatnonzero(chosen)
            w: Array = np.zeros_like(self.w)
            w[columns] = _weights(rows.part(columns, roughly=True), l1, l2, self.w[columns], roughly=True)
            self.arrive(w, l1, l2)
            if not (roughly or self._is_settled(l1)):  # sums of products were too coarse
                w[columns] = _weights(rows.part(columns), l1, l2, w[columns], roughly=False)
                self.arrive(w, l1, l2)
            beyond = self._beyond(l1)
            late = np.flatnonzero((beyond > 0) & ~chosen)
            if not len(late):
                return w
            most = max(FEWEST_NEW, len(columns))
            chosen[late[np.argsort(-beyond[late], kind="stable")[:most]]] = True

    def ends_at(self, w: Array, l1: float, l2: float) -> bool:
        """Go on from these weights; whether they are the answer already."""
        self.arrive(w, l1, l2)
        return self._is_settled(l1) and not (self._beyond(l1) > 0).any()

    def arrive(self, w: Array, l1: float, l2: float) -> None:
        """Stand at these weights, and ask all columns about them."""
        rows = self.rows
        self.w, self.before = w, l1
        self.residual = rows.residual(w)
        self.correlation = rows.against(self.residual) / rows.n - l2 * w

    def _beyond(self, l1: float) -> Array:
        """By how much each correlation passes its bound, but for rounding."""
        beyond: Array = np.abs(self.correlation) - l1 - self._rounding(l1)
        return beyond

    def _is_settled(self, l1: float) -> bool:
        """Whether the correlation of every column with a weight is at its bound, by the rows and but for rounding."""
        used = self.w != 0
        off = np.abs(self.correlation - l1 * np.sign(self.w))
        return bool((off <= self._rounding(l1))[used].all())

    def _rounding(self, l1: float) -> Array:
        rows = self.rows
        reach = (float(np.linalg.norm(rows.y)) + float(rows.norms @ np.abs(self.w))) / rows.n
        rounding: Array = 1e-13 * l1 + 16 * EPS * reach * rows.norms
        return rounding


def _weights(problem: LeastSquares, l1: float, l2: float, start: Array, roughly: bool) -> Array:
    penalties = np.array([l1]), np.array([l2])
    if not roughly:
        (exactly,) = sparse_weights(problem, *penalties, start)
        return np.asarray(exactly)
    root = np.sqrt(problem.n)
    R, z = problem.R / root, problem.z / root
    found, settled = sparse_path(R.T @ R, R.T @ z, *penalties, start, factor=(R, z))
    return np.asarray(found[0] if settled else start)


def _uniqueness(rows: RowsAtHand, penalty: L1L2, w: Array) -> tuple[bool, tuple[str, ...]]:
    """Whether the columns that are, or could be, in the model are independent, and what is to be said of it."""
    correlation = rows.against(rows.residual(w)) / rows.n
    at_bound = (w != 0) | (np.abs(correlation) >= penalty.l1 * (1 - 1e-9))
    columns = np.flatnonzero(at_bound & (rows.norms > 0))
    if len(columns) > rows.n - rows.units.intercept:
        return False, (NOT_UNIQUE,)
    columns = rows.entangled(columns)
    if len(columns) > PROVEN and not isinstance(rows, WideRows):
        return False, (NOT_PROVEN,)
    quick = rows.part(columns, roughly=True)
    if safe_inverse(unit_columns(quick.R)[0], SURELY) is not None:
        return True, ()
    unique = rows.part(columns).rank == len(columns)
    return unique, () if unique else (NOT_UNIQUE,)


# ------------------------------------------------------------------ without


def _smooth(rows: RowsAtHand, l2: float) -> tuple[Array, bool, tuple[str, ...], int]:
    """w = X'a: what is not a combination of the rows would only add to the norm of w."""
    if isinstance(rows, WideRows) and rows.width <= rows.n:
        part = rows.part(np.arange(rows.width))
        return *solve_smooth(part, l2), part.rank
    if l2 > 0 and rows.has_few_rows and (quick := _ridge(rows, l2)) is not None:
        return quick, True, (), len(rows.y) - rows.units.intercept
    if not isinstance(rows, WideRows):
        return _iterated(rows, l2)
    spectrum = Spectrum.of(rows)
    rank = int(spectrum.kept.sum())
    return spectrum.weights(l2), l2 > 0, () if l2 > 0 else (_dependence(rows, rank),), rank


def _iterated(rows: RowsAtHand, l2: float) -> tuple[Array, bool, tuple[str, ...], int]:
    """Where neither rows nor columns are few."""
    w, settled = conjugate_gradients(rows, l2)
    notes = () if settled else (UNSETTLED,)
    if l2 == 0:
        notes = (SMALLEST_NORM, *notes)
    most = min(len(rows.y) - rows.units.intercept, int((rows.norms > 0).sum()))
    return w, l2 > 0, notes, most


@dataclass(frozen=True, eq=False)
class Spectrum:
    """X = (U s V') Q', with as many digits as X itself has; `kept` are the directions that are not rounding."""

    rows: WideRows
    Q: Array
    U: Array
    s: Array
    Vt: Array
    kept: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: WideRows) -> Spectrum:
        Q, T = np.linalg.qr(rows.X.T)
        U, s, Vt = np.linalg.svd(T.T)
        return cls(rows, Q, U, s, Vt, s > EPS * 10 * rows.n * s.max(initial=0.0))

    def weights(self, l2: float) -> Array:
        s, rows = self.s, self.rows
        v = (s * (self.U.T @ rows.y) / np.where(self.kept, s**2 + rows.n * l2, np.inf)) @ self.Vt
        w: Array = self.Q @ v
        return w


def _ridge(rows: RowsAtHand, l2: float) -> Array | None:
    """(X X' + n l2) a = y, several times faster than QR; the digits that squaring X costs are won back by corrections
    through X itself. None where that does not settle."""
    m = len(rows.y)
    inverse = np.linalg.inv(rows.inner() + rows.n * l2 * np.eye(m))
    a, last = np.zeros(m), np.inf
    for _ in range(CORRECTIONS):
        step = inverse @ (rows.y - rows.times(rows.against(a)) - rows.n * l2 * a)
        size = float(np.abs(step).max(initial=0.0))
        if size > last / 100:
            return None
        a, last = a + step, size
        if size <= SETTLED * float(np.abs(a).max(initial=0.0)):
            return rows.against(a)
    return None


def _dependence(rows: WideRows, rank: int) -> str:
    return (
        f"There are {int((rows.norms > 0).sum()):,} columns and {rows.n:,} rows, so the columns depend on one another "
        f"(rank {rank:,}). The answer with the smallest norm is given; single weights are not unique."
    )
