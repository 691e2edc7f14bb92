"""scikit-learn estimators for arrays and data frames, fitted exactly by one or many processes.

Nothing is solved here: rows become moments and a triangle, `paths` finds the answer, the rows then certify it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from array_requests import RangeMoments, RangeResiduals, RangeTriangle, ResidualSums, row_ranges
from engine_pool import close_pools, engine_for
from engines.base import Engine
from fitting import GOOD_ENOUGH, SMALL
from least_squares import LeastSquares, Standardisation, needs_data, stack
from models import Certificate, Penalty, penalty_for
from moments import Moments, merge_all, plan_cells
from paths import Solution, polish, refine, solve, with_certificate
from runs import cores
from utils import available_memory
from worker import Request, SharedArray

__all__ = ["ElasticNet", "Lasso", "LinearRegression", "Ridge", "close_pools"]

Floats = npt.NDArray[np.float64]
ENGINES = ("auto", "inline", "processes")
MANY_COLUMNS = 200  # from here on the sums take longer than the copy of X that worker processes need ...
MUCH_WORK = 1e10  # ... and from so many multiplications (rows x columns^2) longer than to start the workers
POLISHED = 5e4  # values up to which a linear model is polished in extended precision: that takes about 10 ms


# ------------------------------------------------------------------ who does the work


class _OneThread:
    """One BLAS thread while any thread is inside: worker processes have one, and two may round differently.

    Counted, since a limit that two threads set and restore in turn would be left behind.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._controller: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._controller = self._controller or ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


_one_thread = _OneThread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread.__init__)  # type: ignore[misc]  # its lock may be shut in a fork


@contextmanager
def _engine(kind: str, workers: int | None, rows: int, columns: int) -> Iterator[Engine]:
    """The engine of that kind, or for `auto` the one that is done first."""
    count = workers or cores()
    pays = count > 1 and columns >= MANY_COLUMNS and rows * columns**2 >= MUCH_WORK
    processes = kind == "processes" or (kind == "auto" and pays)
    with nullcontext() if processes else _one_thread, engine_for(count if processes else 0) as engine:
        yield engine


class _Rows:
    """All rows of X (n, p) and Y (n, q), with the workers that sum over them."""

    def __init__(self, engine: Engine, X: SharedArray, Y: SharedArray) -> None:
        self._engine, self._X, self._Y = engine, X, Y
        self.ranges = row_ranges(X.shape[0], X.shape[1] + Y.shape[1])

    @classmethod
    @contextmanager
    def shared(cls, engine: Engine, X: npt.NDArray[Any], Y: Floats) -> Iterator[_Rows]:
        shared: list[SharedArray] = []
        try:
            for array in (X, Y):
                shared.append(engine.share(array))
            yield cls(engine, *shared)
        finally:
            for one in shared:
                engine.release(one)

    def moments(self) -> Moments:
        return merge_all(self._sweep(RangeMoments))

    def triangle(self, units: Standardisation, target_means: Floats) -> Floats:
        parts = self._sweep(RangeTriangle, units, target_means)
        total: Floats = next(parts)
        for part in parts:
            total = np.asarray(stack(total, part), np.float64)
        return total

    def residuals(self, problem: LeastSquares, coef: Floats, intercept: Floats) -> ResidualSums:
        parts = self._sweep(RangeResiduals, coef, intercept, problem.centre, problem.scale)
        total: ResidualSums = next(parts)
        for part in parts:
            total = total + part
        return total

    def _sweep(self, request: Callable[..., Request], *more: Any) -> Iterator[Any]:
        return self._engine.sweep(request(self._X, self._Y, start, stop, *more) for start, stop in self.ranges)


# ------------------------------------------------------------------ one fit


@dataclass(frozen=True)
class _Plan:
    """What to fit, in the words of the solver."""

    model: str
    alpha: float
    l1_ratio: float
    intercept: bool
    standardize: bool

    def penalty(self, n: float) -> Penalty:
        return penalty_for(self.model, self.alpha, self.l1_ratio, n)


def _solve_all(rows: _Rows, plan: _Plan, X: npt.NDArray[Any], Y: Floats) -> list[Solution]:
    """One solution for each column of Y, certified by the rows."""
    penalty = plan.penalty(len(X))
    problems = _problems(rows, plan, penalty, X.shape[1], Y.shape[1])
    solutions = [solve(problem, penalty) for problem in problems]
    if penalty == Penalty() and len(rows.ranges) == 1 and X.size * Y.shape[1] <= POLISHED:
        solutions = [polish(X, y, one, found) for y, one, found in zip(Y.T, problems, solutions, strict=True)]
    return _checked_on_rows(rows, problems, penalty, solutions)


def _problems(rows: _Rows, plan: _Plan, penalty: Penalty, p: int, q: int) -> list[LeastSquares]:
    """The least-squares problem of each target, from moments where these are fine enough, else from the rows."""
    moments = rows.moments()
    if not np.isfinite(moments.scatter).all():
        raise ValueError(
            "Expected values whose squares can be summed, got some that are too large for float64 (over about 1e150). "
            "Divide them by a constant first."
        )
    targets = [moments.take([*range(p), p + k]) for k in range(q)]
    if moments.n > p and moments.n * p**2 >= SMALL:
        problems = [LeastSquares.from_moments(one, plan.intercept, plan.standardize) for one in targets]
        if not needs_data(problems[0], penalty.l2):
            return problems
    units = [Standardisation.of(one, plan.intercept, plan.standardize) for one in targets]
    T = rows.triangle(units[0], np.array([one.y_mean for one in units]))
    return [LeastSquares.from_triangle(_triangle_of(T, q, k), one, moments.n) for k, one in enumerate(units)]


def _triangle_of(T: Floats, q: int, k: int) -> Floats:
    """The triangle of (columns..., target k) from that of (columns..., q targets)."""
    width = len(T) - q
    one = np.zeros((width + 1, width + 1))
    one[:-1, :-1], one[:-1, -1] = T[:width, :width], T[:width, width + k]
    one[-1, -1] = np.linalg.norm(T[width:, width + k])
    return one


def _checked_on_rows(
    rows: _Rows, problems: Sequence[LeastSquares], penalty: Penalty, solutions: Sequence[Solution]
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
    rows: _Rows, problems: Sequence[LeastSquares], penalty: Penalty, solutions: Sequence[Solution]
) -> list[tuple[Solution, Floats]]:
    """Each solution with its certificate from one pass over the rows, and the gradient Xs'r that it rests on."""
    coef = np.column_stack([one.coef for one in solutions]).astype(np.float64, copy=False)
    sums = rows.residuals(problems[0], coef, np.array([one.intercept for one in solutions]))
    parts = zip(problems, solutions, sums.gradient.T, sums.squares, strict=True)
    return [
        (with_certificate(problem, penalty, one, gradient, float(squares)), gradient)
        for problem, one, gradient, squares in parts
    ]


# ------------------------------------------------------------------ the estimators


class _Exact(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What the four estimators share: checks of the input, the fit, and predictions.

    Fitted attributes: coef_ (p,) or (targets, p); intercept_ a float or (targets,); rank_; notes_ (sentences about
    the fit, such as columns that depend on one another); certificate_ (how far the answer can be from the optimum, by
    the rows themselves; of several targets the worst); n_features_in_ and, from data frames, feature_names_in_.
    """

    _model = ""
    fit_intercept: bool
    standardize: bool
    n_workers: int | None
    engine: str

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X (n, p) and y (n,) or (n, targets); the answer has the same bits for any engine and worker count."""
        plan = self._plan()
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32), multi_output=True, y_numeric=True)
        Y = np.asarray(y, np.float64).reshape(len(y), -1)
        width = X.shape[1] + Y.shape[1]
        plan_cells(width, 1, available_memory() // 4)
        with (
            _engine(self.engine, self.n_workers, len(X), width) as engine,
            _Rows.shared(engine, X, Y) as rows,
        ):
            solutions = _solve_all(rows, plan, X, Y)
        self._keep(solutions, y.ndim)
        return self

    def predict(self, X: Any) -> Floats:
        """The predictions for the rows of X: (n,), or (n, targets) after a fit to several."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        predictions: Floats = X @ self.coef_.T + self.intercept_
        return predictions

    def _keep(self, solutions: Sequence[Solution], dimensions: int) -> None:
        coef = np.array([one.coef for one in solutions])
        intercept = np.array([one.intercept for one in solutions])
        self.coef_: Floats = coef[0] if dimensions == 1 else coef
        self.intercept_: float | Floats = float(intercept[0]) if dimensions == 1 else intercept
        self.rank_ = solutions[0].rank
        self.notes_ = tuple(dict.fromkeys(note for one in solutions for note in one.notes))
        self.certificate_: Certificate = max((one.certificate for one in solutions), key=lambda c: c.relative)

    def _plan(self) -> _Plan:
        """The parameters, checked here and not when they are set, as scikit-learn wants it."""
        alpha, l1_ratio = getattr(self, "alpha", 0.0), getattr(self, "l1_ratio", 1.0)
        _check("alpha", alpha, "a finite number of at least 0", _is_real(alpha) and 0 <= alpha < np.inf)
        _check("l1_ratio", l1_ratio, "a number from 0 to 1", _is_real(l1_ratio) and 0 <= l1_ratio <= 1)
        _check("engine", self.engine, f"one of {', '.join(ENGINES)}", self.engine in ENGINES)
        workers: Any = self.n_workers
        whole = workers is None or (isinstance(workers, Integral) and int(workers) >= 1)
        _check("n_workers", workers, "None (one a core) or a whole number of at least 1", whole)
        return _Plan(self._model, float(alpha), float(l1_ratio), bool(self.fit_intercept), bool(self.standardize))


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check(name: str, value: object, expected: str, holds: bool) -> None:
    if not holds:
        raise ValueError(f"Expected {name} to be {expected}, got {value!r}.")


class LinearRegression(_Exact):
    """Least squares:  minimise ||y - X w - b||^2;  of several best w the one with the smallest norm.

    fit_intercept   whether there is a b
    standardize     whether "smallest norm" is that of the weights of columns with spread 1
    n_workers       worker processes; None for one a core
    engine          "inline" (this process), "processes", or "auto": by the size of the data

    >>> import numpy as np, shoal
    >>> model = shoal.LinearRegression().fit(np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0]))
    >>> model.coef_.tolist(), model.intercept_
    ([2.0], 1.0)
    """

    _model = "linear"

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        standardize: bool = False,
        n_workers: int | None = None,
        engine: str = "auto",
    ) -> None:
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.n_workers = n_workers
        self.engine = engine


class _Penalised(_Exact):
    """An estimator with a strength of penalty."""

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        standardize: bool = False,
        n_workers: int | None = None,
        engine: str = "auto",
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.n_workers = n_workers
        self.engine = engine


class Ridge(_Penalised):
    """Minimise  ||y - X w - b||^2 + alpha ||w||^2;  parameters as of `LinearRegression`.

    standardize     whether the penalty applies to columns of mean 0 and spread 1; coef_ is in the units of X anyway
    """

    _model = "ridge"


class Lasso(_Penalised):
    """Minimise  1/(2n) ||y - X w - b||^2 + alpha ||w||_1;  parameters as of `Ridge`. Zeros are exact zeros."""

    _model = "lasso"


class ElasticNet(_Exact):
    """Minimise  1/(2n) ||y - X w - b||^2 + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2);  others as `Ridge`."""

    _model = "elasticnet"

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        standardize: bool = False,
        n_workers: int | None = None,
        engine: str = "auto",
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.n_workers = n_workers
        self.engine = engine
