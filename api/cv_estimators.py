"""scikit-learn estimators that choose their penalty by cross-validation, from the moments of their folds' rows.

How folds of a file are made is in `folds`; here they are splits of the rows of an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import check_cv
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from shoal.api.array_fits import FitPlan, SharedRows, check_squares, engine_on, solve_all
from shoal.api.estimators import Exact, check, check_workers, checked_weights, is_sparse_matrix
from shoal.api.sparse_fits import solve_sparse_all, sparse_curves, sparse_grids
from shoal.errors import TrainingError
from shoal.lazy.classes import dataclass
from shoal.models import Floats, penalty_for
from shoal.passes.arrays import summed
from shoal.settings.limits import SOLVING, memory_for_exact
from shoal.solve.least_squares import LeastSquares, Standardisation, needs_data, triangle
from shoal.solve.moments import Moments, merge_all, plan_cells
from shoal.solve.paths import alpha_grid, has_path
from shoal.utils import available_memory
from shoal.whatif.curve import CrossValidation, Fold, curves
from shoal.whatif.penalty_choice import checked_alphas, checked_ratios

__all__ = ["ElasticNetCV", "LassoCV", "RidgeCV"]

USUAL_FOLDS = 5
SELECTIONS = ("best", "one_se")
MOST_CELLS = 4  # for each split; splits that cut the rows into more parts are summed one by one

Rows1 = npt.NDArray[np.int64]


# ------------------------------------------------------------------ splits


@dataclass(frozen=True)
class _Split:
    """The rows of one split."""

    train: Rows1
    test: Rows1


def _splits(cv: Any, X: npt.NDArray[Any], y: Floats) -> list[_Split]:
    """Of the rows by their index modulo k for None or a number k; else as scikit-learn's splitter or iterable says."""
    n = X.shape[0]
    if cv is None or isinstance(cv, Integral):
        k = USUAL_FOLDS if cv is None else int(cv)
        check("cv", cv, "None, a number of at least 2, a splitter or an iterable of splits", k >= 2)
        if n < k:
            raise ValueError(f"Expected at least as many rows as folds, got n_samples={n} for {k} folds. Set cv lower.")
        rows = np.arange(n)
        return [_Split(rows[rows % k != fold], rows[rows % k == fold]) for fold in range(k)]
    found = [_Split(_rows(train, n), _rows(test, n)) for train, test in check_cv(cv).split(X, y)]
    if not found or any(not len(part) for split in found for part in (split.train, split.test)):
        raise ValueError("Expected splits with rows to train on and rows to test on, got some without. Correct cv.")
    return found


def _rows(part: Any, n: int) -> Rows1:
    rows = np.asarray(part)
    return np.flatnonzero(rows) if rows.dtype == bool else np.arange(n)[rows]  # negative ones count from the end


def _cells(splits: Sequence[_Split], n: int) -> tuple[Rows1, list[tuple[Rows1, Rows1]]] | None:
    """The cell of each row, and the cells that each split trains and is tested on: rows of a cell are in the same part
    of every split. None where that takes too many cells, or a row counts twice."""
    cell = np.zeros(n, np.int64)
    for split in splits:
        trained, tested = (np.bincount(part, minlength=n) for part in (split.train, split.test))
        if max(trained.max(), tested.max()) > 1:
            return None
        code = 4 * cell + 2 * tested + trained
        used = np.bincount(code) > 0
        if used.sum() > MOST_CELLS * len(splits):
            return None
        cell = (np.cumsum(used) - 1)[code]
    first = np.unique(cell, return_index=True)[1]
    return cell, [
        (np.flatnonzero(np.isin(first, split.train)), np.flatnonzero(np.isin(first, split.test))) for split in splits
    ]


# ------------------------------------------------------------------ the folds' errors


@dataclass(frozen=True, eq=False)
class _FoldSums:
    """Moments of (columns..., target) over all rows, and over the training and test rows of each split."""

    whole: Moments
    parts: list[tuple[Moments, Moments]]

    @classmethod
    def of(
        cls, rows: SharedRows, X: npt.NDArray[Any], y: Floats, splits: Sequence[_Split], weights: Floats | None
    ) -> _FoldSums:
        found = _cells(splits, len(X))
        if found is None:
            parts = [(_moments(X, y, split.train, weights), _moments(X, y, split.test, weights)) for split in splits]
            return cls(rows.moments(), parts)
        cell, chosen = found
        cells = rows.cell_moments(cell, int(cell.max()) + 1)
        parts = [(merge_all(cells[i] for i in train), merge_all(cells[i] for i in test)) for train, test in chosen]
        return cls(merge_all(cells), parts)


def _moments(X: npt.NDArray[Any], y: Floats, rows: Rows1, weights: Floats | None) -> Moments:
    return summed(np.column_stack((X[rows], y[rows])), None if weights is None else weights[rows])


def _fold(
    X: npt.NDArray[Any], y: Floats, split: _Split, train: Moments, test: Moments, plan: FitPlan,
    ratios: Sequence[float], grids: Sequence[Floats], weights: Floats | None,
) -> Fold:  # fmt: skip
    """One split: from moments where these are fine enough for the weakest penalty, else from the rows."""
    problem = LeastSquares.from_moments(train, plan.intercept, plan.standardize)
    weakest = min(
        penalty_for(plan.model, float(grid.min()), ratio, problem.n).l2
        for ratio, grid in zip(ratios, grids, strict=True)
    )
    if not needs_data(problem, weakest):
        return Fold(problem, test.n, test)
    units = Standardisation.of(train, plan.intercept, plan.standardize)
    roots = np.ones((len(y), 1)) if weights is None else np.sqrt(weights)[:, None]
    T = triangle(units.apply(X[split.train], y[split.train]) * roots[split.train])
    problem = LeastSquares.from_triangle(T, units, train.n)
    rows = problem.units.apply(X[split.test], y[split.test]) * roots[split.test]
    return Fold(problem, test.n, rows[:, int(plan.intercept) :])


# ------------------------------------------------------------------ the estimators


class _Tuned(Exact):
    """What the three estimators share. Fitted attributes beside those of `Exact`:

    alpha_, l1_ratio_      what was chosen; the model is fitted to all rows with it
    alphas_                (m,) falling, or (ratios, m) for several mixing ratios
    mse_path_              (m, folds), or (ratios, m, folds): the mean squared error on the test rows of each split
    best_alpha_, one_se_alpha_   the alpha of the smallest mean error, and the largest whose error is within one
                           standard error (sd / sqrt(folds)) of it
    """

    cv: Any
    alphas: Sequence[float] | None
    n_alphas: int
    selection: str

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose alpha by the splits of X (n, p) and y (n,), then fit all rows; sample_weight (n,) says how much each
        counts, in fits and in errors. A sparse X (scipy, any format) stays sparse, and one process does all."""
        ratios, given = self._requested()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), y_numeric=True)
        y, weights = np.asarray(y, np.float64), checked_weights(X, sample_weight)
        splits = _splits(self.cv, X, y)
        if self.selection == "one_se" and len(splits) < 2:
            raise ValueError(
                "Expected at least 2 splits for a standard error, got 1. Use selection='best' or another cv."
            )
        plan = self._plan()
        if is_sparse_matrix(X):
            return self._fit_sparse(X, y, weights, splits, plan, ratios, given)
        width = X.shape[1] + 1
        held = 2 * len(splits) + 1  # training and test rows of each, and all
        plan_cells(width, held, memory_for_exact(available_memory()), SOLVING, least=held)
        with (
            engine_on(self.engine, self.n_workers, len(X), width) as engine,
            SharedRows.shared(engine, X, y[:, None], weights) as rows,
        ):
            sums = _FoldSums.of(rows, X, y, splits, weights)
            if not all(part.n for parts in sums.parts for part in parts):
                raise ValueError("Expected rows that count in each part of every split, got none in some. Correct cv.")
            check_squares(sums.whole)
            grids, about = self._grids(sums.whole, plan, ratios, given)
            parts = zip(splits, sums.parts, strict=True)
            folds = (_fold(X, y, split, *moments, plan, ratios, grids, weights) for split, moments in parts)
            chosen = self._choose(curves(folds, plan.model, ratios, grids), ratios)
            solutions = solve_all(rows, chosen, X, y[:, None])
        self._keep(solutions, 1)
        self.notes_ = (*about, *self.notes_)
        return self

    def _fit_sparse(
        self, X: Any, y: Floats, weights: Floats | None, splits: Sequence[_Split], plan: FitPlan,
        ratios: Sequence[float], given: Floats | None,
    ) -> Self:  # fmt: skip
        if weights is not None and not all(weights[part].any() for s in splits for part in (s.train, s.test)):
            raise ValueError("Expected rows that count in each part of every split, got none in some. Correct cv.")
        found = sparse_grids(plan, X, y, weights, ratios, self.n_alphas) if given is None else [given] * len(ratios)
        grids, about = self._or_any(found, ratios)
        parts = ((split.train, split.test) for split in splits)
        chosen = self._choose(sparse_curves(plan, X, y, weights, parts, ratios, grids), ratios)
        self._keep(solve_sparse_all(chosen, X, y[:, None], weights), 1)
        self.notes_ = (*about, *self.notes_)
        return self

    def _or_any(
        self, found: list[Floats] | None, ratios: Sequence[float]
    ) -> tuple[list[Floats], tuple[str, ...]]:  # fmt: skip
        """Alphas where no column is related to the target, which gives them no scale."""
        if found is not None:
            return found, ()
        about = "No column is related to the target at all, so that all penalties are alike."
        return [np.geomspace(1, 1e-4, self.n_alphas)] * len(ratios), (about,)

    def _grids(
        self, moments: Moments, plan: FitPlan, ratios: Sequence[float], given: Floats | None
    ) -> tuple[list[Floats], tuple[str, ...]]:
        """The alphas for each mixing ratio."""
        if given is not None:
            return [given] * len(ratios), ()
        problem = LeastSquares.from_moments(moments, plan.intercept, plan.standardize)
        if not has_path(problem):
            return self._or_any(None, ratios)
        grids = [alpha_grid(problem, plan.model, ratio, self.n_alphas) for ratio in ratios]
        return [np.asarray(grid, np.float64) for grid in grids], ()

    def _choose(self, found: Sequence[CrossValidation], ratios: Sequence[float]) -> FitPlan:
        """Keeps what was found; the plan of the final fit."""
        place = int(np.argmin([curve.mean[curve.best] for curve in found]))
        curve = found[place]
        several = len(found) > 1
        self.alphas_ = np.array([one.alphas for one in found]) if several else curve.alphas
        self.mse_path_ = np.array([one.errors.T for one in found]) if several else curve.errors.T
        one_se = curve.one_se if len(curve.errors) > 1 else curve.best  # one error has no standard error
        self.best_alpha_, self.one_se_alpha_ = (float(curve.alphas[i]) for i in (curve.best, one_se))
        self.alpha_ = self.best_alpha_ if self.selection == "best" else self.one_se_alpha_
        self.l1_ratio_ = ratios[place]
        return FitPlan(self._model, self.alpha_, self.l1_ratio_, bool(self.fit_intercept), bool(self.standardize))

    def _requested(self) -> tuple[tuple[float, ...], Floats | None]:
        check("selection", self.selection, f"one of {', '.join(SELECTIONS)}", self.selection in SELECTIONS)
        try:
            ratios = checked_ratios(self._model, getattr(self, "l1_ratio", 1.0))
            count = self.n_alphas if self.alphas is None else None
            given = checked_alphas(self._model, self.alphas, count)[0]
        except TrainingError as error:
            raise ValueError(str(error)) from None
        return ratios, None if given is None else np.asarray(given, np.float64)

    def _plan(self) -> FitPlan:
        """Without a penalty: that is to be found."""
        check_workers(self.engine, self.n_workers)
        return FitPlan(self._model, 0.0, 1.0, bool(self.fit_intercept), bool(self.standardize))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


class _OneRatio(_Tuned):
    def __init__(
        self,
        *,
        alphas: Sequence[float] | None = None,
        n_alphas: int = 100,
        cv: Any = None,
        selection: str = "best",
        fit_intercept: bool = True,
        standardize: bool = False,
        n_workers: int | None = None,
        engine: str = "auto",
    ) -> None:
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.cv = cv
        self.selection = selection
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.n_workers = n_workers
        self.engine = engine


class LassoCV(_OneRatio):
    """`Lasso` with alpha chosen by cross-validation, exactly at every alpha of every fold.

    alphas          those to try; None for `n_alphas` from the smallest that leaves no column down by a factor of
                    10,000 (100 with fewer rows than columns), in equal ratios
    cv              None for 5 folds or a number of folds: row i is in fold i % cv, so that sorted rows do no harm
                    (scikit-learn's default, blocks of rows, is cv=KFold(5)); or a splitter, or an iterable of splits
    selection       "best", the smallest mean error over folds, or "one_se", the largest alpha within one standard
                    error of it
    standardize     whether columns are given mean 0 and spread 1 by the training rows of each fold, and of all at last
    fit_intercept, n_workers, engine    as of `LinearRegression`

    >>> import numpy as np, shoal
    >>> x = np.arange(40.0)
    >>> model = shoal.LassoCV(alphas=[100.0, 1.0, 0.01]).fit(np.column_stack((x, x % 3)), 2 * x + x % 7)
    >>> model.alpha_, model.mse_path_.shape
    (1.0, (3, 5))
    """

    _model = "lasso"


class RidgeCV(_OneRatio):
    """`Ridge` with alpha chosen by cross-validation; parameters as of `LassoCV`."""

    _model = "ridge"


class ElasticNetCV(_Tuned):
    """`ElasticNet` with alpha and the mixing ratio chosen by cross-validation; parameters as of `LassoCV`.

    l1_ratio        a share of the L1 part, or several of them to choose from
    """

    _model = "elasticnet"

    def __init__(
        self,
        *,
        l1_ratio: float | Sequence[float] = 0.5,
        alphas: Sequence[float] | None = None,
        n_alphas: int = 100,
        cv: Any = None,
        selection: str = "best",
        fit_intercept: bool = True,
        standardize: bool = False,
        n_workers: int | None = None,
        engine: str = "auto",
    ) -> None:
        self.l1_ratio = l1_ratio
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.cv = cv
        self.selection = selection
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.n_workers = n_workers
        self.engine = engine
