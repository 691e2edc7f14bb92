"""The models: squared loss with its gradient, penalties, the step that joins the two, and how good an answer is.

    F(w) = 1/(2n) ||y - X w - b||^2  +  l1 ||w||_1  +  l2/2 ||w||^2          b is never penalised

No data, no exact solver and no rule of how long a step is belongs here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass
from shoal.settings.when import check_linear

Array = NDArray[np.floating[Any]]
Values = NDArray[Any]  # rows in float32 or float64
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
StoredPlaces = NDArray[np.int32]  # of values that are stored
Prox = Callable[[Array, float | Array], Array]  # (w (p,), step: a number or (p,)) -> (p,)
RestsOn = Literal["moments", "data"]

TINY = float(np.finfo(np.float64).tiny)
CHUNK_BYTES = 1 << 20  # rows of X that are multiplied twice while they are in the cache; less was slower


def squared_loss(residual_ss: float, n: float) -> float:
    """||r||^2 / (2n)."""
    return residual_ss / (2 * n)


# ------------------------------------------------------------------ penalties


class Penalty(Protocol):
    """A penalty of w (p,) beside the loss 1/(2n) ||y - Xw||^2; columns are standardised."""

    def value(self, w: Array, /) -> float:
        """The penalty itself; infinite where w is not allowed."""
        ...

    def prox(self, w: Array, step: float | Array, /) -> Array:
        """argmin_v ||v - w||^2 / 2 + step * penalty(v), a new array; `step` may be one number or one a coordinate."""
        ...

    def optimality_gap(self, w: Array, gradient: Array, /) -> float:
        """The largest distance of -gradient_j to the subdifferential of the penalty at w_j; 0 is optimal."""
        ...


@dataclass(frozen=True)
class L1L2:
    """l1 ||w||_1 + l2/2 ||w||^2 over w (p,)."""

    l1: float = 0.0
    l2: float = 0.0

    def value(self, w: Array) -> float:
        squares = float((w * w).sum()) if self.l2 else 0.0  # by one thread: several wait for one another
        return float(self.l1 * np.abs(w).sum()) + self.l2 / 2 * squares

    def prox(self, w: Array, step: float | Array) -> Array:
        """Soft-threshold, then shrink; without a penalty, as small steps by the thousand have it, w itself."""
        if self.l1 == 0 == self.l2:
            return w
        kept = np.maximum(np.abs(w) - step * self.l1, 0)
        shrunk: Array = np.sign(w) * kept / (1 + step * self.l2)
        return shrunk

    def optimality_gap(self, w: Array, gradient: Array) -> float:
        smooth = gradient + self.l2 * w
        at_zero = np.maximum(np.abs(smooth) - self.l1, 0)
        distance = np.where(w == 0, at_zero, np.abs(smooth + self.l1 * np.sign(w)))
        return float(distance.max(initial=0.0))


# ------------------------------------------------------------------ models


@dataclass(frozen=True)
class NoPenalty:
    """0 for all w: what is given comes back as it is."""

    def value(self, w: Array) -> float:
        return 0.0

    def prox(self, w: Array, step: float | Array) -> Array:
        return w

    def optimality_gap(self, w: Array, gradient: Array) -> float:
        return float(np.abs(gradient).max(initial=0.0))


class StepModel(Protocol):
    """What server and workers know of what a gradient run minimises: a mean over rows, plus a penalty.

        F(w) = 1/n sum_i c_i loss_i(w)  +  penalty(w)            w: all parameters in one flat vector

    Rows come as X (n, p) and y: the target (n,) or, where more is known of a row, (n, k) with the target first.
    """

    @property
    def penalty(self) -> Penalty: ...

    def gradient(self, X: Values, y: Values, w: Array, /) -> tuple[Array, float]:
        """The gradient (len(w),) of a batch and what its rows' losses come to, both summed over its rows."""
        ...

    def update(self, w: Array, direction: Array, step: float | Array, shrink: float | Array | None = None, /) -> Array:
        """The parameters after one step along a direction, as `proximal_step` has it."""
        ...


@runtime_checkable
class DrawingModel(Protocol):
    """A model whose gradients draw random numbers: it is told of which batch the next one is, so that whoever computes
    it draws the same."""

    def seed(self, *place: int) -> None: ...


@dataclass(frozen=True, eq=False)
class TouchedSums:
    """The vector that is `values` at `places`, each named once, 0 elsewhere, plus `along` times the rows' centre."""

    places: StoredPlaces
    values: Array
    along: float


class SparseWalk(Protocol):
    """Plain steps down the loss of sparse rows, from weights that others share; the penalty is the server's to take."""

    def step(self, X: Any, y: Values, rate: float, /) -> float:
        """One step of `rate` times a batch's gradient, summed over its rows; what their losses come to before it."""
        ...

    def moved(self) -> TouchedSums:
        """How far the steps have gone."""
        ...


@runtime_checkable
class TouchingModel(Protocol):
    """A model of sparse rows: its gradients touch few coordinates, and those are all that is told of them."""

    def touched(self, X: Any, y: Values, w: Array, /) -> tuple[TouchedSums, float]:
        """As `StepModel.gradient`."""
        ...

    def walk(self, w: Array, centre: Array, /) -> SparseWalk: ...


P = TypeVar("P", bound=Penalty, covariant=True)


@dataclass(frozen=True)
class LinearModel(Generic[P]):
    """Squared loss and a penalty: what is minimised, its gradient, and the step that a gradient leads to."""

    penalty: P

    def objective(self, w: Array, residual_ss: float, n: float) -> float:
        """F(w) from ||y - Xw||^2 over n rows."""
        return squared_loss(residual_ss, n) + self.penalty.value(w)

    @staticmethod
    def gradient(X: Values, y: Values, w: Array) -> tuple[Array, float]:
        """X'(Xw - y) (p,) and ||Xw - y||^2 of a batch, summed over its rows; the penalty has no part in it.

        With y (n, 2), its second column is how much each row counts: X'C(Xw - y) and (Xw - y)'C(Xw - y).

        In X's precision within a chunk, in float64 over chunks. Chunks are counted from the first row of X, so the
        answer depends on these rows and on nothing else.
        """
        if y.ndim == 2:
            return _weighted_gradient(X, y, w)
        rows, width = X.shape
        w = w.astype(X.dtype)
        step = chunk_rows(X)
        if rows <= step:
            return _gradient_of_chunk(X, y, w)
        residuals = np.empty(min(step, rows), X.dtype)
        # Squares of small or large units would leave the range of float32.
        exact = residuals if X.dtype == np.float64 else np.empty(len(residuals))
        part, gradient, squares = np.empty(width, X.dtype), np.zeros(width), 0.0
        for start in range(0, rows, step):
            chunk, target = X[start : start + step], y[start : start + step]
            residual, wide = residuals[: len(chunk)], exact[: len(chunk)]
            np.dot(chunk, w, out=residual)
            residual -= target
            np.dot(residual, chunk, out=part)
            gradient += part
            if exact is not residuals:
                wide[:] = residual
            squares += float(np.dot(wide, wide))
        return gradient, squares

    def update(self, w: Array, direction: Array, step: float | Array, shrink: float | Array | None = None) -> Array:
        """The weights after one step along a direction, as `proximal_step` has it."""
        return proximal_step(w, direction, step, self.penalty.prox, shrink)


def _gradient_of_chunk(X: Values, y: Values, w: Values) -> tuple[Array, float]:
    """The same where all rows are multiplied at a time, as those of small steps are: nothing is prepared for more."""
    residual = X.dot(w)
    residual -= y
    wide = residual.astype(np.float64)
    return residual.dot(X).astype(np.float64), float(wide.dot(wide))


def _weighted_gradient(X: Values, y: Values, w: Array) -> tuple[Array, float]:
    """X'C(Xw - y) and (Xw - y)'C(Xw - y), rounded as without weights; y (n, 2) has target and weight of each row."""
    gradient, squares, step = np.zeros(X.shape[1]), 0.0, chunk_rows(X)
    w = w.astype(X.dtype)
    for start in range(0, len(X), step):
        chunk, known = X[start : start + step], y[start : start + step]
        residual = np.dot(chunk, w) - known[:, 0]
        weighted = residual * known[:, 1]
        gradient += np.dot(weighted, chunk)
        squares += float(np.dot(weighted.astype(np.float64), residual.astype(np.float64)))
    return gradient, squares


def proximal_step(
    w: Array, direction: Array, step: float | Array, prox: Prox, shrink: float | Array | None = None
) -> Array:
    """w+ = prox(w - step d, step): down the loss, then the penalty by its own operator, so that zeros are exact.

    `step` is one number or one a coordinate, and the same in both places, unless d is a sum over rows and `step` was
    divided by their number: `shrink` is then the step of the penalty.
    """
    return prox(w - step * direction, step if shrink is None else shrink)


class OrdinaryLeastSquares(LinearModel[L1L2]):
    """Without a penalty."""

    def __init__(self, alpha: float = 0.0, l1_ratio: float = 0.0, n: float = 0.0) -> None:
        super().__init__(L1L2())


class RidgeRegression(LinearModel[L1L2]):
    """alpha ||w||^2 beside a *sum* of squares, as scikit-learn has it for ridge alone; hence n, the number of rows."""

    def __init__(self, alpha: float, l1_ratio: float, n: float) -> None:
        super().__init__(L1L2(l2=alpha / n))


class LassoRegression(LinearModel[L1L2]):
    """alpha ||w||_1 beside half a mean of squares."""

    def __init__(self, alpha: float, l1_ratio: float, n: float) -> None:
        super().__init__(L1L2(l1=alpha))


class ElasticNetRegression(LinearModel[L1L2]):
    """alpha (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2) beside half a mean of squares."""

    def __init__(self, alpha: float, l1_ratio: float, n: float) -> None:
        super().__init__(L1L2(l1=alpha * l1_ratio, l2=alpha * (1 - l1_ratio)))


_MODELS: dict[str, Callable[[float, float, float], LinearModel[L1L2]]] = {
    "linear": OrdinaryLeastSquares,
    "ridge": RidgeRegression,
    "lasso": LassoRegression,
    "elasticnet": ElasticNetRegression,
}


def model_for(model: str, alpha: float, l1_ratio: float, n: float) -> LinearModel[L1L2]:
    """The model of that name, with `alpha` and `l1_ratio` as scikit-learn means them for n rows."""
    check_linear(model, "least squares")
    if not (math.isfinite(alpha) and alpha >= 0):
        raise ConfigError(f"Expected alpha to be 0 or more, got {alpha!r}. Give a finite number such as 0.1.")
    if not 0 <= l1_ratio <= 1:
        raise ConfigError(f"Expected l1_ratio from 0 (ridge) to 1 (lasso), got {l1_ratio!r}. Give a share such as 0.5.")
    return _MODELS[model](alpha, l1_ratio, n)


def penalty_for(model: str, alpha: float, l1_ratio: float, n: float) -> L1L2:
    """Its penalty alone, which is all that exact solvers want to know of it."""
    return model_for(model, alpha, l1_ratio, n).penalty


def chunk_rows(X: Values) -> int:
    """Rows that are multiplied at a time."""
    width: int = X.shape[1]
    return max(16, CHUNK_BYTES // (X.itemsize * max(1, width)))


# ------------------------------------------------------------------ how good an answer is


@dataclass(frozen=True)
class Certificate:
    """How far an answer can be from the optimum, and whether moments or the data say so.

    kind "duality_gap": F(w) - F(best) <= value;   relative = value / F(0).
    kind "kkt":         largest |dF/dw_j| = value; relative = value / largest |dF/dw_j| at w = 0.
    """

    kind: Literal["kkt", "duality_gap"]
    value: float
    relative: float
    rests_on: RestsOn


def certify(
    penalty: L1L2,
    w: Array,
    gradient: Array,
    rss: float,
    n: float,
    *,
    y_scatter: float,
    zero_gradient: float,
    rests_on: RestsOn,
) -> Certificate:
    """The certificate of w (p,) from gradient = -X'r/n (p,) and rss = ||r||^2, whoever computed these two.

    y_scatter = ||y||^2 and zero_gradient = max|X'y|/n (centred with an intercept) only set the scale.
    """
    if penalty.l1 == 0:
        value, scale = penalty.optimality_gap(w, gradient), zero_gradient
        return Certificate("kkt", value, _ratio(value, scale), rests_on)
    value = _duality_gap(penalty, w, gradient, rss, n)
    return Certificate("duality_gap", value, _ratio(value, squared_loss(y_scatter, n)), rests_on)


def _duality_gap(penalty: L1L2, w: Array, gradient: Array, rss: float, n: float) -> float:
    """The gap at the dual point s * r, with s the largest factor up to 1 that makes it feasible.

    The elastic net is the lasso on [X; sqrt(n l2) I], [y; 0]. Because r'y = rss + w'X'r, primal minus dual is
    a sum of terms that are all >= 0, so nothing cancels and a gap of 1e-20 is a true 1e-20.
    """
    correlation = -(gradient + penalty.l2 * w)
    residual_ss = rss + n * penalty.l2 * float(w @ w)
    s = min(1.0, penalty.l1 / max(float(np.abs(correlation).max(initial=0.0)), TINY))
    slack = penalty.l1 * np.abs(w) - s * w * correlation
    return (1 - s) ** 2 * squared_loss(residual_ss, n) + float(np.maximum(slack, 0).sum())


def _ratio(value: float, scale: float) -> float:
    return 0.0 if value == 0 else value / max(scale, TINY)
