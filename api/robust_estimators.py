"""scikit-learn estimators for numbers with rows far off, and for quantiles, fitted exactly by one or many processes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from shoal.api.array_fits import SharedRows, check_squares, engine_on
from shoal.api.estimators import check, check_workers, counted_rows, is_real, is_sparse_matrix
from shoal.api.loss_estimators import ExactLoss
from shoal.api.sparse_fits import as_dense
from shoal.fitting.losses.rows import centre_for
from shoal.fitting.robust.quantile import near_rows
from shoal.lazy.classes import dataclass
from shoal.losses.huber import Huber
from shoal.losses.quantile import Smooth
from shoal.models import L1L2, TINY, Array, Certificate, Floats
from shoal.solve.least_squares import Standardisation
from shoal.solve.newton import Curvature, NewtonPoint, spread_in, start_with_scale
from shoal.solve.pinball import Near, Sides, approach, to_corner

__all__ = ["HuberRegressor", "QuantileRegressor"]


class _Line(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A prediction x w + b."""

    coef_: Floats
    intercept_: float

    def _rows(self, X: Any, y: Any) -> tuple[Any, Floats]:
        """X (n, p) and y (n,); the zeros of a sparse X are filled in where there is memory for it."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), y_numeric=True)
        return as_dense(X) if is_sparse_matrix(X) else X, np.asarray(y, np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def predict(self, X: Any) -> Floats:
        """(n,): the line's values."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_ + self.intercept_, np.float64)


class HuberRegressor(_Line, ExactLoss):
    """Minimise  sum_i s + s H((y_i - x_i w - b) / s) + alpha (2 l1_ratio ||w||_1 + (1 - l1_ratio) ||w||^2)  by w, b, s

    with H(z) = z^2 up to |z| = epsilon and 2 epsilon |z| - epsilon^2 beyond, as scikit-learn's estimator of this name.

    epsilon         from how many scales on a row counts by the size of its error and no more by its square; 1 or more
    alpha           the penalty's strength; 0 for none
    l1_ratio        0 for ridge, 1 for lasso, whose zeros are exact zeros
    fit_intercept, standardize, n_workers, engine    as of `Ridge`

    Fitted: coef_ (p,), intercept_, scale_ (s), outliers_ (n,): rows that are further off than epsilon scales.

    >>> import numpy as np, shoal
    >>> X = np.arange(10.0).reshape(-1, 1)
    >>> y = 2 * X[:, 0] + np.array([0.1, -0.1] * 5)
    >>> y[9] = 1000.0
    >>> shoal.HuberRegressor().fit(X, y).outliers_.tolist().index(True)
    9
    """

    def __init__(
        self,
        epsilon: float = 1.35,
        *,
        alpha: float = 0.0001,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        standardize: bool = False,
        n_workers: int | None = None,
        engine: str = "auto",
    ) -> None:
        self.epsilon = epsilon
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.n_workers = n_workers
        self.engine = engine

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X (n, p) and y (n,); rows count as sample_weight (n,) says."""
        epsilon, alpha = _real(self.epsilon), _real(self.alpha)
        check("epsilon", self.epsilon, "a finite number of at least 1", 1 <= epsilon < np.inf)
        check("alpha", self.alpha, "a finite number of at least 0", 0 <= alpha < np.inf)
        self._check_knobs()
        X, y = self._rows(X, y)
        X, y, weights = counted_rows(X, y, sample_weight)
        strength = alpha / (len(X) if weights is None else float(weights.sum()))
        penalty = L1L2(strength * self.l1_ratio, strength * (1 - self.l1_ratio))
        self.coef_, self.intercept_ = self._fitted(X, y, Huber(epsilon), penalty, weights)
        self.scale_ = self._scale.value if self._scale else TINY
        self.outliers_ = np.abs(y - X @ self.coef_ - self.intercept_) > epsilon * self.scale_
        return self


class QuantileRegressor(_Line):
    """Minimise  1/n sum_i rho(y_i - x_i w - b) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2),

    with rho(r) = quantile r above 0 and (quantile - 1) r below, as scikit-learn's estimator of this name (l1_ratio 1).

    quantile        which one is predicted, between 0 and 1; 0.5 is the median
    alpha           the penalty's strength; 0 for none
    l1_ratio        1 for lasso, 0 for ridge
    fit_intercept, standardize, n_workers, engine    as of `Ridge`

    Fitted: coef_ (p,), intercept_, n_iter_ (passes over the rows), certificate_ (the duality gap, from all rows).

    >>> import numpy as np, shoal
    >>> y = np.array([1.0, 2.0, 3.0, 4.0, 100.0])
    >>> shoal.QuantileRegressor(alpha=0.0).fit(np.zeros((5, 1)), y).predict([[0.0]]).round(6).tolist()
    [3.0]
    """

    def __init__(
        self,
        *,
        quantile: float = 0.5,
        alpha: float = 1.0,
        l1_ratio: float = 1.0,
        fit_intercept: bool = True,
        standardize: bool = False,
        n_workers: int | None = None,
        engine: str = "auto",
    ) -> None:
        self.quantile = quantile
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.n_workers = n_workers
        self.engine = engine

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X (n, p) and y (n,); rows count as sample_weight (n,) says."""
        quantile, alpha, ratio = _real(self.quantile), _real(self.alpha), _real(self.l1_ratio)
        check("quantile", self.quantile, "a number between 0 and 1", 0 < quantile < 1)
        check("alpha", self.alpha, "a finite number of at least 0", 0 <= alpha < np.inf)
        check("l1_ratio", self.l1_ratio, "a number from 0 to 1", 0 <= ratio <= 1)
        check_workers(self.engine, self.n_workers)
        X, y = self._rows(X, y)
        X, y, weights = counted_rows(X, y, sample_weight)
        penalty = L1L2(alpha * ratio, alpha * (1 - ratio))
        with (
            engine_on(self.engine, self.n_workers, *X.shape) as engine,
            SharedRows.shared(engine, X, y.reshape(-1, 1), weights) as rows,
        ):
            self._solve(rows, penalty, quantile)
        return self

    def _solve(self, rows: SharedRows, penalty: L1L2, quantile: float) -> None:
        moments = rows.moments()
        check_squares(moments)
        units = Standardisation.of(moments, bool(self.fit_intercept), bool(self.standardize))
        line = _ArrayLine(rows, units, quantile)
        enough, most = near_rows(len(units.scale))
        where, spread = (line.centre, units), spread_in(units, moments)
        start = start_with_scale(moments, units, penalty)
        count = rows.ranges[-1][1]
        start, width, sweeps = approach(line.curvature, *where, spread, penalty, start, count, min(enough, most))
        start = NewtonPoint(start.w, start.b)
        corner = to_corner(line, quantile, moments.n, *where, penalty, start, width, most)
        loss = max(float(np.sqrt(moments.scatter[-1, -1] / moments.n)), abs(float(moments.mean[-1])), TINY)
        self.certificate_: Certificate = corner.certificate(penalty, loss, 1.0)
        self.n_iter_ = sweeps + 2 + corner.rounds
        self.coef_ = np.asarray(corner.point.w / units.scale, np.float64)
        self.intercept_ = corner.point.b - float(units.centre @ self.coef_) if units.intercept else 0.0


@dataclass(frozen=True)
class _ArrayLine:
    """Passes over the rows of arrays for `solve.pinball`."""

    rows: SharedRows
    units: Standardisation
    quantile: float

    @property
    def centre(self) -> Array:
        return centre_for(self.units)

    def curvature(self, point: NewtonPoint) -> Curvature:
        width = point.scale.value if point.scale else 1.0
        return self.rows.curvature(Smooth(self.quantile, width), *self._at(point), self.centre)

    def sides(self, point: NewtonPoint, width: float) -> Sides:
        return self.rows.sides(*self._at(point), self.centre, self.quantile, width)

    def changed(self, point: NewtonPoint, width: float, to: NewtonPoint) -> Near:
        return self.rows.sides(*self._at(point), self.centre, self.quantile, width, self._at(to)).near

    def _at(self, point: NewtonPoint) -> tuple[Array, float]:
        coef = point.w / self.units.scale
        return coef, point.b - float((self.units.centre - self.centre) @ coef)


def _real(value: Any) -> float:
    """NaN for what is no number, which no range has."""
    return float(value) if is_real(value) else float("nan")
