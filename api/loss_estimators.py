"""scikit-learn estimators for yes/no targets, counts and positive numbers, fitted exactly by one or many processes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from shoal.api.array_fits import SharedRows, check_squares, engine_on
from shoal.api.estimators import check, check_workers, counted_rows, is_real, is_sparse_matrix
from shoal.api.sparse_fits import as_dense, minimise_sparse
from shoal.fitting.classes.fit import MOST_PARAMETERS, best_constant, descend_classes, rows_of_classes
from shoal.fitting.losses.descent import descend
from shoal.fitting.losses.rows import centre_for
from shoal.losses.base import RowLoss
from shoal.losses.gamma import Gamma
from shoal.losses.logistic import Logistic
from shoal.losses.lognormal import Lognormal
from shoal.losses.multinomial import Multinomial
from shoal.losses.poisson import Poisson
from shoal.losses.squared import Squared
from shoal.models import L1L2, Certificate, Floats
from shoal.settings.limits import SOLVING, memory_for_exact
from shoal.solve.classes.newton import ClassPoint, ClassSums, certificate_of_classes, class_slope
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import plan_cells
from shoal.solve.newton import Curvature, NewtonPoint, Scale, certificate_of_slope, slope_at, start_with_scale
from shoal.utils import available_memory

__all__ = ["GammaRegressor", "LogisticRegression", "LognormalRegressor", "PoissonRegressor"]


class ExactLoss(BaseEstimator):  # type: ignore[misc]
    """What the three share: checks of the input and the fit.

    Fitted attributes beside those of each: n_iter_ (passes over the rows); notes_ (sentences about the fit);
    certificate_ (the largest derivative at the answer, relative to that at w = 0, from the rows themselves).
    """

    fit_intercept: bool
    standardize: bool
    n_workers: int | None
    engine: str
    l1_ratio: float
    _scale: Scale | None
    _takes_sparse = False

    def _fitted(self, X: Any, y: Floats, loss: RowLoss, penalty: L1L2, weights: Floats | None) -> tuple[Floats, float]:
        """The coefficients and the intercept; bits are the same for any engine and number of workers."""
        if is_sparse_matrix(X):
            if penalty != L1L2() and not loss.has_scale:
                return self._fitted_sparse(X, y, loss, penalty, weights)
            X = as_dense(X)
        Y = y.reshape(-1, 1)
        plan_cells(X.shape[1] + 1, 1, memory_for_exact(available_memory()), SOLVING)
        with (
            engine_on(self.engine, self.n_workers, *X.shape) as engine,
            SharedRows.shared(engine, X, Y, weights) as rows,
        ):
            moments = rows.moments()
            check_squares(moments)
            units = Standardisation.of(moments, bool(self.fit_intercept), bool(self.standardize))
            centre = centre_for(units)

            def curvature(point: NewtonPoint) -> Curvature:
                coef = point.w / units.scale
                own = loss.scaled(point.scale.value) if point.scale else loss
                return rows.curvature(own, coef, point.b - float((units.centre - centre) @ coef), centre)

            first = start_with_scale(moments, units, penalty) if loss.has_scale else None
            found = descend(curvature, moments, loss, units, centre, penalty, first=first)
            constant = loss.eta(float(moments.mean[-1])) if units.intercept else 0.0
            zero = NewtonPoint(np.zeros_like(found.point.w), constant, found.point.scale)
            at = partial(slope_at, centre=centre, units=units)
            steepest = float(np.abs(at(curvature(zero), at=zero).gradient).max(initial=0.0))
            last = at(curvature(found.point), at=found.point)
        of_b = last.of_b if units.intercept else 0.0
        self.certificate_: Certificate = certificate_of_slope(
            penalty, found.point, last.gradient, of_b, steepest, last.of_scale
        )
        self._scale = found.point.scale
        self.n_iter_ = found.sweeps
        self.notes_ = found.notes + (
            ("Coefficients grow without end; a penalty holds them.",) if found.separated else ()
        )
        coef = np.asarray(found.point.w / units.scale, np.float64)
        return coef, found.point.b - float(units.centre @ coef) if units.intercept else 0.0

    def _fitted_sparse(
        self, X: Any, y: Floats, loss: RowLoss, penalty: L1L2, weights: Floats | None
    ) -> tuple[Floats, float]:
        """The same from a matrix whose zeros are not filled in, by this process."""
        found = minimise_sparse(loss, X, y, weights, penalty, bool(self.fit_intercept), bool(self.standardize))
        self.certificate_, self.n_iter_, self.notes_, self._scale = found.certificate, found.steps, (), None
        return np.asarray(found.coef, np.float64), found.intercept if self.fit_intercept else 0.0

    def _fitted_classes(
        self, X: Any, places: Any, count: int, penalty: L1L2, weights: Floats | None
    ) -> tuple[Floats, Floats]:
        """Coefficients (K, p) and intercepts (K,) of several classes."""
        X, p = as_dense(X) if is_sparse_matrix(X) else X, X.shape[1]
        plan_cells(min(count * (p + 1), max(MOST_PARAMETERS, p + 1)), 1, memory_for_exact(available_memory()), SOLVING)
        with (
            engine_on(self.engine, self.n_workers, X.shape[0], count * p) as engine,
            SharedRows.shared(engine, X, np.asarray(places, np.float64).reshape(-1, 1), weights) as rows,
        ):
            moments = rows.moments()
            check_squares(moments)
            units = Standardisation.of(moments, bool(self.fit_intercept), bool(self.standardize))
            centre = centre_for(units)

            def sums(_: Any, point: ClassPoint, curved: bool) -> ClassSums:
                coef = point.W / units.scale
                return rows.class_sums(coef, point.b - coef @ (units.centre - centre), centre, curved)

            zero = ClassPoint.zero(count, p)
            counts = rows_of_classes(sums((), zero, False))
            start = ClassPoint(zero.W, best_constant(counts / counts.sum())) if units.intercept else zero
            found = descend_classes(sums, (), None, moments, units, penalty, start)
            at = partial(class_slope, centre=centre, units=units, penalty=penalty)
            steepest = float(np.abs(at(sums((), start, False)).gradient).max(initial=0.0))
            last = at(sums((), found.point, False))
        self.certificate_ = certificate_of_classes(penalty, found.point, last, steepest, units.intercept)
        self.n_iter_ = found.sweeps
        self.notes_ = ("Coefficients grow without end; a penalty holds them.",) if found.separated else ()
        coef = np.asarray(found.point.W / units.scale, np.float64)
        return coef, np.asarray(found.point.b - coef @ units.centre if units.intercept else found.point.b, np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        return tags

    def _check_knobs(self) -> None:
        l1_ratio: Any = self.l1_ratio
        check("l1_ratio", l1_ratio, "a number from 0 to 1", is_real(l1_ratio) and 0 <= l1_ratio <= 1)
        check_workers(self.engine, self.n_workers)


class LogisticRegression(ClassifierMixin, ExactLoss):  # type: ignore[misc]
    """Minimise  sum_i log(1 + e^-(s_i)) + 1/C (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2),  s_i = +-(x_i w + b).

    Of three or more classes:  sum_i (log sum_k e^(x_i w_k + b_k) - (x_i w_y + b_y))  with the same penalty on all w_k.

    C               the inverse of the penalty's strength, as scikit-learn has it; infinite for no penalty
    l1_ratio        0 for ridge, 1 for lasso, whose zeros are exact zeros
    class_weight    None; "balanced", so that all classes count as much; or what a row of each counts for, by class
    fit_intercept, standardize, n_workers, engine    as of `Ridge`

    Fitted: coef_ (1, p), intercept_ (1,), classes_ (probabilities are in their order); of several classes coef_ (K, p)
    and intercept_ (K,).

    >>> import numpy as np, shoal
    >>> model = shoal.LogisticRegression().fit(np.array([[0.0], [1.0], [2.0], [3.0]]), ["no", "yes", "no", "yes"])
    >>> model.predict([[5.0]]).tolist(), model.predict_proba([[1.5]]).round(6).tolist()
    (['yes'], [[0.5, 0.5]])
    """

    _takes_sparse = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        l1_ratio: float = 0.0,
        class_weight: Any = None,
        fit_intercept: bool = True,
        standardize: bool = False,
        n_workers: int | None = None,
        engine: str = "auto",
    ) -> None:
        self.C = C
        self.l1_ratio = l1_ratio
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.n_workers = n_workers
        self.engine = engine

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X (n, p) and y (n,) with two or more different values; rows count as sample_weight (n,) says. A sparse
        X (scipy, any format) stays sparse where there are two and a penalty, and one process solves it."""
        C: Any = self.C
        check("C", C, "a number greater than 0", is_real(C) and C > 0)
        self._check_knobs()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32))
        check_classification_targets(y)
        X, y, weights = counted_rows(X, y, sample_weight)
        self.classes_, places = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"Expected two classes, got one class: {self.classes_[0]!r}. There is nothing to tell apart."
            )
        if self.class_weight is not None:
            weights = self._by_class(places, np.ones(len(y)) if weights is None else weights)
        strength = 1 / (float(C) * (len(y) if weights is None else float(weights.sum())))
        penalty = L1L2(strength * self.l1_ratio, strength * (1 - self.l1_ratio))
        if len(self.classes_) > 2:
            self.coef_, self.intercept_ = self._fitted_classes(X, places, len(self.classes_), penalty, weights)
            return self
        coef, intercept = self._fitted(X, places.astype(np.float64), Logistic(), penalty, weights)
        self.coef_, self.intercept_ = coef[None], np.array([intercept])
        return self

    def _by_class(self, places: Any, weights: Floats) -> Floats:
        """Weights of rows times those of their class."""
        own: Any = self.class_weight
        if own == "balanced":
            per_class = weights.sum() / (len(self.classes_) * np.bincount(places, weights, len(self.classes_)))
        elif isinstance(own, Mapping):
            per_class = np.array([float(own.get(one, 1.0)) for one in self.classes_.tolist()])
            check("class_weight", own, "weights of classes above 0", bool((per_class > 0).all()))
        else:
            check("class_weight", own, "None, 'balanced' or a dictionary of weights by class", False)
        return np.asarray(weights * per_class[places], np.float64)

    def decision_function(self, X: Any) -> Floats:
        """(n,): the log odds of the second class; (n, K) of several: the score of each."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        if len(self.classes_) > 2:
            return np.asarray(X @ self.coef_.T + self.intercept_, np.float64)
        scores: Floats = X @ self.coef_[0] + self.intercept_[0]
        return scores

    def predict_proba(self, X: Any) -> Floats:
        """(n, K): the probabilities of the classes."""
        scores = self.decision_function(X)
        if scores.ndim > 1:
            return np.asarray(Multinomial().mean(scores), np.float64)
        yes = Logistic().mean(scores)
        return np.column_stack((1 - yes, yes)).astype(np.float64, copy=False)

    def predict(self, X: Any) -> Any:
        """(n,): the likeliest class."""
        scores = self.decision_function(X)
        if scores.ndim > 1:
            return self.classes_[scores.argmax(axis=1)]
        return self.classes_[(scores >= 0).astype(int)]


class _Mean(RegressorMixin, ExactLoss):  # type: ignore[misc]
    """A mean e^(x w + b) of counts or of positive numbers."""

    _loss: RowLoss
    _low = 0.0
    _lowest = ""
    _takes_sparse = True

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.0,
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X (n, p) and y (n,); rows count as sample_weight (n,) says."""
        alpha: Any = self.alpha
        check("alpha", alpha, "a finite number of at least 0", is_real(alpha) and 0 <= alpha < np.inf)
        self._check_knobs()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), y_numeric=True)
        X, y, weights = counted_rows(X, np.asarray(y, np.float64), sample_weight)
        self._check_range(y)
        penalty = L1L2(float(alpha) * self.l1_ratio, float(alpha) * (1 - self.l1_ratio))
        self.coef_, self.intercept_ = self._solved(X, y, penalty, weights)
        return self

    def _solved(self, X: Any, y: Floats, penalty: L1L2, weights: Floats | None) -> tuple[Floats, float]:
        return self._fitted(X, y, self._loss, penalty, weights)

    def _check_range(self, y: Floats) -> None:
        if y.min() < self._low or not y.any():
            raise ValueError(f"Expected values of y {self._lowest}, got {y.min():g} as the smallest of them.")

    def predict(self, X: Any) -> Floats:
        """(n,): the expected values."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(self._loss.mean(X @ self.coef_ + self.intercept_), np.float64)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the deviance that is explained (D2), as scikit-learn's estimators of these names have it."""
        y = np.asarray(y, np.float64)
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        deviances = []
        for mean in (self.predict(X), np.full(len(y), np.average(y, weights=weights))):
            eta = np.log(mean)
            deviances.append(float(weights @ self._loss.deviance(y, eta, self._loss.at(y, eta).value)))
        return 1 - deviances[0] / deviances[1] if deviances[1] > 0 else float("nan")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class PoissonRegressor(_Mean):
    """Minimise  1/n sum_i (e^(x_i w + b) - y_i (x_i w + b)) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2).

    Parameters as of `LogisticRegression`, with alpha as scikit-learn's estimator of this name has it.
    """

    _loss: RowLoss = Poisson()
    _lowest = "of 0 or more, some of them above"


class GammaRegressor(_Mean):
    """Minimise  1/n sum_i (y_i e^-(x_i w + b) + x_i w + b) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2).

    Parameters as of `PoissonRegressor`.
    """

    _loss: RowLoss = Gamma()
    _low = float(np.finfo(np.float64).tiny)
    _lowest = "greater than 0"


class LognormalRegressor(_Mean):
    """Minimise  1/(2n) sum_i (log y_i - x_i w - b)^2 + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2).

    Predictions are means of y: e^(x w + b) times the mean of y_i / e^(x_i w + b) (Duan's smearing). `smearing_` is that
    factor, and `intercept_` has its logarithm in it. Parameters as of `PoissonRegressor`; `score` is R² of y itself.
    """

    _loss: RowLoss = Lognormal()
    _low = float(np.finfo(np.float64).tiny)
    _lowest = "greater than 0"

    def _solved(self, X: Any, y: Floats, penalty: L1L2, weights: Floats | None) -> tuple[Floats, float]:
        logs = np.log(y)
        coef, intercept = self._fitted(X, logs, Squared(), penalty, weights)
        self.smearing_ = float(np.average(np.exp(logs - X @ coef - intercept), weights=weights))
        return coef, intercept + float(np.log(self.smearing_))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        return float(RegressorMixin.score(self, X, y, sample_weight))
