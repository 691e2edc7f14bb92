"""A loss of rows as gradient steps see it: half the deviance, its slope, and a curvature that has a bound.

    F(w, b) = 1/n sum_i c_i loss(y_i, b + xs_i'w + offset_i)  +  penalty(w)        b, the last parameter, is free

The curvature of e^eta has no bound, and a step that is too long would leave the doubles. So beyond `most` times it, the
exponential goes on as a straight line: F stays convex, and its minimum is the same where no row gets there.
No data and no rule of how long a step is belongs here.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from shoal.lazy.classes import dataclass
from shoal.losses.huber import Huber
from shoal.losses.logistic import Logistic
from shoal.models import Array, Penalty, StepModel, Values, chunk_rows, proximal_step

QUARTER = 0.25  # the largest curvature of a logistic loss, p (1 - p)


class RowKnown(NamedTuple):
    """What is known of rows beside their columns: target (n,), how much each counts, what is added to its score."""

    y: Array
    weight: Array | None
    offset: Array | None


@dataclass(frozen=True)
class RowExtras:
    """Which columns y (n, k) has: the target, then those that there are."""

    weight: bool = False
    offset: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return ("target", *(["weight"] * self.weight), *(["offset"] * self.offset))

    def of(self, y: Values) -> RowKnown:
        if y.ndim == 1:
            return RowKnown(y.astype(np.float64), None, None)
        columns = iter(y.T.astype(np.float64))
        return RowKnown(next(columns), next(columns) if self.weight else None, next(columns) if self.offset else None)


@dataclass(frozen=True)
class StepLoss:
    """Half the deviance of rows and its derivatives by eta, with a curvature of at most `most`.

    logistic   log(1 + e^eta) - y eta                        curvature at most 1/4 by itself
    poisson    y log y - y - y eta + E(eta)                  E(s) = e^s while e^s <= most, then its tangent
    gamma      E(s) - s - 1  with  s = log y - eta
    lognormal  s^2 / 2                                       curvature 1
    """

    name: str
    most: float = math.inf

    def at(self, y: Array, eta: Array) -> tuple[Array, Array]:
        """Value and slope (n,) of each row."""
        if self.name == "logistic":
            value, slope, _ = Logistic().at(y, eta)
            return value, slope
        if self.name == "lognormal":
            away = eta - np.log(y)
            return away**2 / 2, away
        s, height, beyond = self._exponential(y, eta)
        if self.name == "gamma":
            return height * (1 + beyond) - s - 1, 1 - height
        own = np.where(y > 0, y * np.log(np.maximum(y, 1e-300)), 0.0)
        return own - y - y * eta + height * (1 + beyond), height - y

    def curvature(self, y: Array, eta: Array) -> Array:
        """At most so much, (n,): what steps have to be short enough for."""
        if self.name == "lognormal":
            return np.ones(len(eta))
        return np.full(len(eta), QUARTER) if self.name == "logistic" else self._exponential(y, eta)[1]

    def _exponential(self, y: Array, eta: Array) -> tuple[Array, Array, Array]:
        """s, e^s where that is at most `most`, and how far s is beyond that."""
        s = eta if self.name == "poisson" else np.log(y) - eta
        inside = np.minimum(s, math.log(self.most) if math.isfinite(self.most) else math.inf)
        return s, np.exp(inside), s - inside

    @property
    def unbounded(self) -> StepLoss:
        return StepLoss(self.name)


@dataclass(frozen=True)
class HuberSteps:
    """Half the deviance of a Huber loss at one scale: r^2 / (2 sigma) up to |r| = epsilon sigma, then a straight line.

    It is what `losses.huber` says less sigma / 2, and nowhere curved by more than 1 / sigma. The scale is that of the
    exact fit: F is convex in line and scale together, so at that scale its minimum by the line is the same. As a
    parameter the scale would make the curvature, and so the length of steps, whatever it has come to.
    """

    epsilon: float
    sigma: float

    def at(self, y: Array, eta: Array) -> tuple[Array, Array]:
        value, slope, _ = Huber(self.epsilon, self.sigma).at(y, eta)
        return value - self.sigma / 2, slope

    def curvature(self, y: Array, eta: Array) -> Array:
        return np.full(len(eta), 1 / self.sigma)

    @property
    def unbounded(self) -> HuberSteps:
        return self


@dataclass(frozen=True)
class FreeLast:
    """A penalty of all parameters but the last ones, the intercepts, which are free."""

    penalty: Penalty
    free: int = 1

    def value(self, w: Array) -> float:
        return self.penalty.value(w[: -self.free])

    def prox(self, w: Array, step: float | Array) -> Array:
        own = step[: -self.free] if isinstance(step, np.ndarray) and step.ndim else step
        return np.append(self.penalty.prox(w[: -self.free], own), w[-self.free :])

    def optimality_gap(self, w: Array, gradient: Array) -> float:
        own = self.penalty.optimality_gap(w[: -self.free], gradient[: -self.free])
        return max(own, float(np.abs(gradient[-self.free :]).max()))


class RowsSeen(NamedTuple):
    """What rows say at some parameters: gradient and value summed, the largest curvature h_i, and the largest
    c_i h_i ||u_i||^2 with u = (x, 1), which a step of that row alone would meet."""

    gradient: Array
    value: float
    curvature: float
    row: float

    def merge(self, other: RowsSeen) -> RowsSeen:
        return RowsSeen(
            self.gradient + other.gradient, self.value + other.value, max(self.curvature, other.curvature),
            max(self.row, other.row),
        )  # fmt: skip


class SeeingModel(StepModel, Protocol):
    """What steps are made by, which can also say what rows are like before and beside them."""

    def seen(self, X: Values, y: Values, w: Array, /) -> RowsSeen:
        """Of a shard, before a run begins."""
        ...

    def deviance(self, X: Values, y: Values, w: Array, /) -> float:
        """Half of it, summed over rows that are not trained on."""
        ...


@dataclass(frozen=True)
class RowLossModel:
    """A loss of rows and a penalty, for gradient steps; `intercept`: b is the last parameter."""

    loss: StepLoss | HuberSteps
    own: Penalty  # of the weights of columns
    intercept: bool
    beside: RowExtras

    @property
    def penalty(self) -> Penalty:
        return FreeLast(self.own) if self.intercept else self.own

    def gradient(self, X: Values, y: Values, w: Array) -> tuple[Array, float]:
        """sum_i c_i loss'_i u_i (p + 1,) and sum_i c_i loss_i of a batch, u = (x, 1) with an intercept.

        Products with X in its precision within a chunk, all else in float64, as e^eta leaves a float32 early.
        """
        rows, width = X.shape
        coef, b = w[:width].astype(X.dtype), float(w[width]) if self.intercept else 0.0
        gradient, total = np.zeros(len(w)), 0.0
        step = chunk_rows(X)
        for start in range(0, rows, step):
            chunk, known = X[start : start + step], self.beside.of(y[start : start + step])
            value, slope = self.loss.at(known.y, self._eta(chunk, coef, b, known))
            if known.weight is not None:
                value, slope = value * known.weight, slope * known.weight
            gradient[:width] += np.dot(slope.astype(X.dtype), chunk)
            if self.intercept:
                gradient[width] += slope.sum()
            total += float(value.sum())
        return gradient, total

    def _eta(self, X: Values, coef: Array, b: float, known: RowKnown) -> Array:
        eta: Array = np.dot(X, coef).astype(np.float64)
        eta += b
        return eta if known.offset is None else eta + known.offset

    def update(self, w: Array, direction: Array, step: float | Array, shrink: float | Array | None = None) -> Array:
        return proximal_step(w, direction, step, self.penalty.prox, shrink)

    # ---------------------------------------------------------------- before and beside the steps

    def seen(self, X: Values, y: Values, w: Array) -> RowsSeen:
        """Of a shard, before a run begins."""
        gradient, value = self.gradient(X, y, w)
        width, step = X.shape[1], chunk_rows(X)
        coef, b = w[:width].astype(X.dtype), float(w[width]) if self.intercept else 0.0
        curvature = row = 0.0
        for start in range(0, len(X), step):
            chunk, known = X[start : start + step], self.beside.of(y[start : start + step])
            h = self.loss.curvature(known.y, self._eta(chunk, coef, b, known))
            norms = np.einsum("ij,ij->i", chunk, chunk, dtype=np.float64) + float(self.intercept)
            norms = norms if known.weight is None else norms * known.weight
            curvature = max(curvature, float(h.max(initial=0.0)))
            row = max(row, float((h * norms).max(initial=0.0)))
        return RowsSeen(gradient, value, curvature, row)

    def scored(self, X: Values, y: Values, w: Array) -> tuple[RowKnown, Array]:
        """What is known of rows, and their scores eta (n,)."""
        width, known = X.shape[1], self.beside.of(y)
        return known, self._eta(X, w[:width].astype(X.dtype), float(w[width]) if self.intercept else 0.0, known)

    def deviance(self, X: Values, y: Values, w: Array) -> float:
        """Half of it, summed over rows that are not trained on; no `most` bounds what they cost."""
        return replace(self, loss=self.loss.unbounded).gradient(X, y, w)[1]
