"""Exact fits to arrays by one or many processes: rows become moments and a triangle, and then certify the answer.

Nothing is solved here, that is done in `paths`; the estimators that scikit-learn knows are in `estimators`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.engines.base import Engine
from shoal.fitting.classes.sums import RangeClasses
from shoal.fitting.exact import GOOD_ENOUGH, SMALL
from shoal.kernels.threads import one_thread
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.models import L1L2, Array, Floats, penalty_for
from shoal.passes.arrays import (
    RangeCells,
    RangeMoments,
    RangeResiduals,
    RangeTriangle,
    ResidualSums,
    row_ranges,
)
from shoal.passes.losses import RangeCurvature
from shoal.passes.quantiles import RangeSides
from shoal.solve.classes.newton import ClassSums
from shoal.solve.least_squares import LeastSquares, Standardisation, needs_data, stack
from shoal.solve.moments import Merger, Moments, merge_all
from shoal.solve.newton import Curvature
from shoal.solve.paths import Solution, polish, refine, solve, with_certificate
from shoal.solve.pinball import Sides
from shoal.solve.rows.dense import WideRows
from shoal.solve.rows.wide import solve_wide
from shoal.tasks.train import cores
from shoal.tasks.workers import engine_for
from shoal.tuning.points import AskRange, PointsAsked, PointsSaid, together
from shoal.worker import Request, SharedArray

MANY_COLUMNS = 200  # from here on the sums take longer than the copy of X that worker processes need ...
MUCH_WORK = 1e10  # ... and from so many multiplications (rows x columns^2) longer than to start the workers
POLISHED = 5e4  # values up to which a linear model is polished in extended precision: that takes about 10 ms


# ------------------------------------------------------------------ who does the work


@contextmanager
def engine_on(kind: str, workers: int | None, rows: int, columns: int) -> Iterator[Engine]:
    """The engine of that kind, or for `auto` the one that is done first."""
    count = workers or cores()
    pays = count > 1 and columns >= MANY_COLUMNS and rows * columns**2 >= MUCH_WORK
    processes = kind == "processes" or (kind == "auto" and pays)
    with nullcontext() if processes else one_thread, engine_for(count if processes else 0) as engine:
        yield engine


class SharedRows:
    """All rows of X (n, p) and Y (n, q), and their weights (n,) if they have some, with the workers that sum them."""

    def __init__(self, engine: Engine, X: SharedArray, Y: SharedArray, weights: SharedArray | None = None) -> None:
        self._engine, self._X, self._Y, self._weights = engine, X, Y, weights
        self.ranges = row_ranges(X.shape[0], X.shape[1] + Y.shape[1])

    @classmethod
    @contextmanager
    def shared(
        cls, engine: Engine, X: npt.NDArray[Any], Y: Floats, weights: Floats | None = None
    ) -> Iterator[SharedRows]:
        shared: list[SharedArray] = []
        try:
            for array in (X, Y, *([] if weights is None else [weights])):
                shared.append(engine.share(array))
            yield cls(engine, *shared)
        finally:
            for one in shared:
                engine.release(one)

    @property
    def weighted(self) -> bool:
        return self._weights is not None

    def moments(self) -> Moments:
        return merge_all(self._sweep(RangeMoments))

    def cell_moments(self, cells: npt.NDArray[np.int64], count: int) -> list[Moments]:
        """Of the rows of each cell, from the cell of every row."""
        shared = self._engine.share(cells)
        try:
            mergers = [Merger() for _ in range(count)]
            for parts in self._sweep(RangeCells, shared, count):
                for merger, part in zip(mergers, parts, strict=True):
                    merger.add(part)
        finally:
            self._engine.release(shared)
        return [merger.total() for merger in mergers]

    def triangle(self, units: Standardisation, target_means: Floats) -> Floats:
        parts = self._sweep(RangeTriangle, units, target_means)
        total: Floats = next(parts)
        for part in parts:
            total = np.asarray(stack(total, part), np.float64)
        return total

    def residuals(self, problem: LeastSquares, coef: Floats, intercept: Floats) -> ResidualSums:
        parts = self._sweep(RangeResiduals, coef, intercept, problem.units.centre, problem.units.scale)
        total: ResidualSums = next(parts)
        for part in parts:
            total = total + part
        return total

    def curvature(self, loss: RowLoss, coef: Array, at_centre: float, centre: Array) -> Curvature:
        parts = self._sweep(RangeCurvature, loss, coef, at_centre, centre)
        return functools.reduce(Curvature.merge, parts, Curvature.none(len(coef)))

    def class_sums(self, coef: Array, at_centre: Array, centre: Array, curved: bool) -> ClassSums:
        parts = self._sweep(RangeClasses, coef, at_centre, centre, curved)
        return functools.reduce(ClassSums.merge, parts, ClassSums.none(coef.shape, curved))

    @contextmanager
    def beside(self, array: npt.NDArray[Any]) -> Iterator[SharedArray]:
        """One more array, of which each worker has the rows."""
        shared = self._engine.share(array)
        try:
            yield shared
        finally:
            self._engine.release(shared)

    def points(self, cells: SharedArray, loss: RowLoss, centre: Array, asked: PointsAsked) -> PointsSaid:
        """What all rows say of many points at once."""
        return together(asked, self._sweep(AskRange, cells, loss, centre, asked))

    def sides(self, *line: Any) -> Sides:
        """Rows near a line, see `RangeSides`."""
        return Sides.together(list(self._sweep(RangeSides, *line)))

    def _sweep(self, request: Callable[..., Request], *more: Any) -> Iterator[Any]:
        arrays = self._X, self._Y, self._weights
        return self._engine.sweep(request(*arrays, start, stop, *more) for start, stop in self.ranges)


# ------------------------------------------------------------------ one fit


@dataclass(frozen=True)
class FitPlan:
    """What to fit, in the words of the solver."""

    model: str
    alpha: float
    l1_ratio: float
    intercept: bool
    standardize: bool
    nonnegative: bool = False

    @property
    def is_sparse(self) -> bool:
        return self.penalty(1.0).l1 > 0

    def penalty(self, n: float) -> L1L2:
        return penalty_for(self.model, self.alpha, self.l1_ratio, n)


def solve_all(rows: SharedRows, plan: FitPlan, X: npt.NDArray[Any], Y: Floats) -> list[Solution]:
    """One solution for each column of Y, certified by the rows."""
    moments = rows.moments()
    penalty = plan.penalty(moments.n)
    problems = _problems(rows, plan, penalty, moments, Y.shape[1])
    problems = [replace(problem, nonnegative=plan.nonnegative) for problem in problems]
    solutions = [solve(problem, penalty) for problem in problems]
    plain = penalty == L1L2() and not plan.nonnegative and not rows.weighted
    if plain and len(rows.ranges) == 1 and X.size * Y.shape[1] <= POLISHED:
        solutions = [polish(X, y, one, found) for y, one, found in zip(Y.T, problems, solutions, strict=True)]
    return _checked_on_rows(rows, problems, penalty, solutions)


def solve_wide_all(plan: FitPlan, X: npt.NDArray[Any], Y: Floats) -> list[Solution]:
    """The same for thousands of columns, or more of them than rows: by one process, without a square matrix of them."""
    n, X = len(X), np.asarray(X, np.float64)
    mean = X.mean(axis=0)
    Z = X - mean
    squares = np.einsum("ij,ij->j", Z, Z)
    found = []
    for y in Y.T:
        scatter = float(((y - y.mean()) ** 2).sum())
        check_finite(squares, scatter)
        means = np.append(mean, y.mean())
        units = Standardisation.of_spread(n, means, np.append(squares, scatter), plan.intercept, plan.standardize)
        rows = WideRows.of((Z if plan.intercept else X) / units.scale, y - units.y_mean, units)
        found.append(solve_wide(rows, plan.penalty(n)))
    return found


def _problems(rows: SharedRows, plan: FitPlan, penalty: L1L2, moments: Moments, q: int) -> list[LeastSquares]:
    """The least-squares problem of each target, from moments where these are fine enough, else from the rows."""
    check_squares(moments)
    p = len(moments.mean) - q
    targets = [moments.take([*range(p), p + k]) for k in range(q)]
    if moments.n > p and moments.n * p**2 >= SMALL:
        problems = [LeastSquares.from_moments(one, plan.intercept, plan.standardize) for one in targets]
        if not needs_data(problems[0], penalty.l2):
            return problems
    units = [Standardisation.of(one, plan.intercept, plan.standardize) for one in targets]
    T = rows.triangle(units[0], np.array([one.y_mean for one in units]))
    return [LeastSquares.from_triangle(_triangle_of(T, q, k), one, moments.n) for k, one in enumerate(units)]


def check_squares(moments: Moments) -> None:
    check_finite(moments.scatter)


def check_finite(*squares: Any) -> None:
    if not all(np.isfinite(one).all() for one in squares):
        raise ValueError(
            "Expected values whose squares can be summed, got some that are too large for float64 (over about 1e150). "
            "Divide them by a constant first."
        )


def _triangle_of(T: Floats, q: int, k: int) -> Floats:
    """The triangle of (columns..., target k) from that of (columns..., q targets)."""
    width = len(T) - q
    one = np.zeros((width + 1, width + 1))
    one[:-1, :-1], one[:-1, -1] = T[:width, :width], T[:width, width + k]
    one[-1, -1] = np.linalg.norm(T[width:, width + k])
    return one


def _checked_on_rows(
    rows: SharedRows, problems: Sequence[LeastSquares], penalty: L1L2, solutions: Sequence[Solution]
) -> list[Solution]:
    """With a certificate from the rows; refined by their gradient while that helps."""
    best = _certified(rows, problems, penalty, solutions)
    for _ in range(2):
        if all(_is_settled(solution) for solution, _ in best):
            break
        tried = [
            one if _is_settled(one) else refine(problem, penalty, one, gradient)
            for problem, (one, gradient) in zip(problems, best, strict=True)
        ]
        best = [
            new if new[0].certificate.relative < old[0].certificate.relative / 2 else old
            for old, new in zip(best, _certified(rows, problems, penalty, tried), strict=True)
        ]
    return [solution for solution, _ in best]


def _is_settled(solution: Solution) -> bool:
    return not solution.unique or solution.certificate.relative < GOOD_ENOUGH


def _certified(
    rows: SharedRows, problems: Sequence[LeastSquares], penalty: L1L2, solutions: Sequence[Solution]
) -> list[tuple[Solution, Floats]]:
    """Each solution with its certificate from one pass over the rows, and the gradient Xs'r that it rests on."""
    coef = np.column_stack([one.coef for one in solutions]).astype(np.float64, copy=False)
    sums = rows.residuals(problems[0], coef, np.array([one.intercept for one in solutions]))
    parts = zip(problems, solutions, sums.gradient.T, sums.squares, strict=True)
    return [
        (with_certificate(problem, penalty, one, gradient, float(squares)), gradient)
        for problem, one, gradient, squares in parts
    ]
