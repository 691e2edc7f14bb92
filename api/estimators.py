"""scikit-learn estimators for arrays and data frames, fitted exactly by one or many processes.

How that is done is in `array_fits`; those that choose their penalty by cross-validation are in `cv_estimators`.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from shoal.api.array_fits import (
    FitPlan,
    SharedRows,
    engine_on,
    solve_all,
    solve_wide_all,
)
from shoal.api.sparse_fits import solve_sparse_all
from shoal.kernels.threads import one_thread
from shoal.models import Certificate, Floats
from shoal.settings.config import ENGINES
from shoal.settings.limits import SOLVING, memory_for_exact, solved_from_rows
from shoal.solve.moments import plan_cells
from shoal.solve.paths import Solution
from shoal.tasks.workers import close_pools
from shoal.utils import available_memory

__all__ = ["ElasticNet", "Lasso", "LinearRegression", "Ridge", "close_pools"]


# ------------------------------------------------------------------ the estimators


class Exact(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What the four estimators share: checks of the input, the fit, and predictions.

    Fitted attributes: coef_ (p,) or (targets, p); intercept_ a float or (targets,); rank_; notes_ (sentences about
    the fit, such as columns that depend on one another); certificate_ (how far the answer can be from the optimum, by
    the rows themselves; of several targets the worst); n_features_in_ and, from data frames, feature_names_in_.
    """

    _model = ""
    fit_intercept: bool
    standardize: bool
    positive: bool = False
    n_workers: int | None
    engine: str

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X (n, p) and y (n,) or (n, targets), with rows that count as sample_weight (n,) says; the answer has
        the same bits for any engine and worker count. A sparse X (scipy, any format) stays sparse, and one process
        solves it."""
        plan = self._plan()
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), multi_output=True, y_numeric=True
        )
        X, y, weights = counted_rows(X, y, sample_weight)
        Y = np.asarray(y, np.float64).reshape(len(y), -1)
        if is_sparse_matrix(X):
            if self.positive:
                raise ValueError("Expected a dense X beside positive=True, got a sparse one. Give X.toarray().")
            self._keep(solve_sparse_all(plan, X, Y, weights), y.ndim)
            return self
        width = X.shape[1] + Y.shape[1]
        free = available_memory()
        if not self.positive and weights is None and solved_from_rows(len(X), X.shape[1], plan.is_sparse, free):
            with one_thread:
                self._keep(solve_wide_all(plan, X, Y), y.ndim)
            return self
        plan_cells(width, 1, memory_for_exact(free), SOLVING)
        with (
            engine_on(self.engine, self.n_workers, len(X), width) as engine,
            SharedRows.shared(engine, X, Y, weights) as rows,
        ):
            solutions = solve_all(rows, plan, X, Y)
        self._keep(solutions, y.ndim)
        return self

    def predict(self, X: Any) -> Floats:
        """The predictions for the rows of X: (n,), or (n, targets) after a fit to several."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _plan(self) -> FitPlan:
        """The parameters, checked here and not when they are set, as scikit-learn wants it."""
        alpha, l1_ratio = getattr(self, "alpha", 0.0), getattr(self, "l1_ratio", 1.0)
        check("alpha", alpha, "a finite number of at least 0", is_real(alpha) and 0 <= alpha < np.inf)
        check("l1_ratio", l1_ratio, "a number from 0 to 1", is_real(l1_ratio) and 0 <= l1_ratio <= 1)
        check_workers(self.engine, self.n_workers)
        units = bool(self.fit_intercept), bool(self.standardize)
        return FitPlan(self._model, float(alpha), float(l1_ratio), *units, bool(self.positive))


def is_sparse_matrix(X: Any) -> bool:
    return hasattr(X, "tocsr")


def checked_weights(X: Any, sample_weight: Any) -> Floats | None:
    """How much each row counts; None where nothing is said."""
    if sample_weight is None:
        return None
    checked = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    weights: Floats = np.asarray(checked, np.float64)
    return weights


def counted_rows(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Floats | None]:
    """The rows that count for something, and how much; None for that where nothing is said."""
    weights = checked_weights(X, sample_weight)
    if weights is None or weights.all():
        return X, y, weights
    return X[weights > 0], y[weights > 0], weights[weights > 0]


def check_workers(engine: str, workers: Any) -> None:
    here = [name for name in ENGINES if name != "ray"]  # what is in memory here is fitted here
    check("engine", engine, f"one of {', '.join(here)}", engine in here)
    whole = workers is None or (isinstance(workers, Integral) and int(workers) >= 1)
    check("n_workers", workers, "None (one a core) or a whole number of at least 1", whole)


def is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check(name: str, value: object, expected: str, holds: bool) -> None:
    if not holds:
        raise ValueError(f"Expected {name} to be {expected}, got {value!r}.")


class LinearRegression(Exact):
    """Least squares:  minimise ||y - X w - b||^2;  of several best w the one with the smallest norm.

    fit_intercept   whether there is a b
    standardize     whether "smallest norm" is that of the weights of columns with spread 1
    positive        whether coefficients have to be 0 or more, as in scikit-learn; of a dense X
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
        positive: bool = False,
        n_workers: int | None = None,
        engine: str = "auto",
    ) -> None:
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.positive = positive
        self.n_workers = n_workers
        self.engine = engine


class _Penalised(Exact):
    """An estimator with a strength of penalty."""

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        standardize: bool = False,
        positive: bool = False,
        n_workers: int | None = None,
        engine: str = "auto",
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.positive = positive
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


class ElasticNet(Exact):
    """Minimise  1/(2n) ||y - X w - b||^2 + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2);  others as `Ridge`."""

    _model = "elasticnet"

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        standardize: bool = False,
        positive: bool = False,
        n_workers: int | None = None,
        engine: str = "auto",
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.positive = positive
        self.n_workers = n_workers
        self.engine = engine
