"""Squared loss, the penalties and the named models; no data, no solver, no step rule lives here.

    F(w) = 1/(2n) ||y - X w - b||^2  +  l1 ||w||_1  +  l2/2 ||w||^2          b is never penalised

`gradient` is everywhere that of the loss alone, in the mean convention: -X'r / n with r = y - X w - b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ConfigError

Array = NDArray[np.floating[Any]]
RestsOn = Literal["moments", "data"]

MODELS = ("linear", "ridge", "lasso", "elasticnet")
TINY = float(np.finfo(np.float64).tiny)


def squared_loss(residual_ss: float, n: float) -> float:
    """||r||^2 / (2n)."""
    return residual_ss / (2 * n)


@dataclass(frozen=True)
class Penalty:
    """l1 ||w||_1 + l2/2 ||w||^2 over w (p,)."""

    l1: float = 0.0
    l2: float = 0.0

    def value(self, w: Array) -> float:
        return float(self.l1 * np.abs(w).sum() + self.l2 / 2 * (w @ w))

    def prox(self, w: Array, step: float | Array) -> Array:
        """argmin_v  ||v - w||^2 / 2 + step * penalty(v): soft-threshold, then shrink; a step per coordinate will do."""
        kept = np.maximum(np.abs(w) - step * self.l1, 0)
        shrunk: Array = np.sign(w) * kept / (1 + step * self.l2)
        return shrunk

    def optimality_gap(self, w: Array, gradient: Array) -> float:
        """The largest distance of -gradient_j to the subdifferential of the penalty at w_j; 0 is optimal."""
        smooth = gradient + self.l2 * w
        at_zero = np.maximum(np.abs(smooth) - self.l1, 0)
        distance = np.where(w == 0, at_zero, np.abs(smooth + self.l1 * np.sign(w)))
        return float(distance.max(initial=0.0))


def penalty_for(model: str, alpha: float, l1_ratio: float, n: float) -> Penalty:
    """The penalty of a named model, with `alpha` and `l1_ratio` as scikit-learn means them for n rows.

    scikit-learn's ridge adds alpha ||w||^2 to a *sum* of squares, its lasso and elastic net to a mean.
    """
    if model not in MODELS:
        raise ConfigError(f"Expected a model out of {', '.join(MODELS)}, got {model!r}. Choose one of these.")
    if not (math.isfinite(alpha) and alpha >= 0):
        raise ConfigError(f"Expected alpha to be 0 or more, got {alpha!r}. Give a finite number such as 0.1.")
    if not 0 <= l1_ratio <= 1:
        raise ConfigError(f"Expected l1_ratio from 0 (ridge) to 1 (lasso), got {l1_ratio!r}. Give a share such as 0.5.")
    if model == "linear":
        return Penalty()
    if model == "ridge":
        return Penalty(l2=alpha / n)
    if model == "lasso":
        return Penalty(l1=alpha)
    return Penalty(l1=alpha * l1_ratio, l2=alpha * (1 - l1_ratio))


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
    penalty: Penalty,
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


def _duality_gap(penalty: Penalty, w: Array, gradient: Array, rss: float, n: float) -> float:
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
