"""The minimum of a loss of sparse rows with a penalty: Newton steps whose small problems are never made as a matrix.

    F(b, w) = (1/n) sum_i weight_i loss_i(b + a_i'(inverse w)) + l1 |w| + l2/2 |w|^2        b is never penalised

With slopes g and curvatures h of the rows, a step is the minimum of a weighted least-squares problem, in which b is
taken out by centring columns with the weights h: with an L1 part by coordinate descent over the columns that have a
weight or want one, at falling penalties; without one, and on the columns with a weight at the end, by conjugate
gradients. Which loss it is is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns_kernel import SparseDescent
from shoal.lazy.classes import dataclass
from shoal.models import L1L2, TINY, Array, Certificate
from shoal.solve.rows.sparse import SparseRows

FALL, NEAR = 0.3, 1e-2  # of penalties on the way, and of the gradient at 0 that is left there
ENOUGH = 1e-13  # of the gradient at 0: what is left is rounding
ROUNDS, STEPS, INNER = 10, 60, 500  # turns of both ways, Newton steps in each, iterations towards one
SUFFICIENT, SHORTEST = 1e-4, 1e-8  # share of the promised decrease that a step keeps; of a step, where the search ends
ROUNDING = 1e-14  # of F: a value that is higher by less is as low
PASSES, LEAST = 100, 100_000_000  # over all values that the descent of a step may take, or values of 0.3 s


class LossPieces(Protocol):
    """Of each row (m,): value of the loss, its first and second derivative by the score, times what the row counts."""

    @property
    def value(self) -> Array: ...
    @property
    def slope(self) -> Array: ...
    @property
    def curvature(self) -> Array: ...


LossAt = Callable[[Array], LossPieces]  # from the scores of all rows


@dataclass(frozen=True, eq=False)
class Scored:
    """Weights of standardised columns (p,), the score b of a row whose stored values are 0, the scores of all rows."""

    w: Array
    b: float
    eta: Array


class RowsOptimum(NamedTuple):
    """Where it ends; `intercept` and `coef` are in raw columns."""

    w: Array
    coef: Array
    intercept: float
    certificate: Certificate
    steps: int


def minimise_rows(rows: SparseRows, loss: LossAt, penalty: L1L2, constant: float) -> RowsOptimum:
    """The minimum of F with l1 or l2 above 0; `constant` is the best score of all rows, where there is an intercept."""
    return RowsDescent(rows, loss, constant).to(penalty)


class RowsDescent:
    """From the best constant to the minimum with one penalty after another, each from where the last one ended."""

    def __init__(self, rows: SparseRows, loss: LossAt, constant: float, enough: float = ENOUGH) -> None:
        """`enough`: the share of the gradient at 0 that may be left at a minimum."""
        self.own, start = _Steps(rows, loss, enough), constant if rows.units.intercept else 0.0
        self.at = Scored(np.zeros(rows.width), start, np.full(len(rows.y), start))
        self.steepest = max(self.own.steepest(self.at), TINY)
        self.l1 = self.steepest  # with as much, all weights are 0

    def to(self, penalty: L1L2) -> RowsOptimum:
        own, rows = self.own, self.own.rows
        if penalty.l1:
            self.at = own.along(self.at, penalty, self.steepest, self.l1)
            self.l1 = penalty.l1
        else:
            everything = np.arange(rows.width), np.zeros(rows.width)
            self.at = own.smooth(self.at, *everything, penalty, self.steepest)
        left, at = own.left(self.at, penalty), self.at
        coef = at.w * rows.inverse
        shift = rows.units.centre - rows.offset  # columns without zeros are stored about their mean
        certificate = Certificate("kkt", left, 0.0 if left == 0 else left / self.steepest, "data")
        return RowsOptimum(at.w, coef, at.b - float(shift @ coef), certificate, own.taken)


class _Steps:
    """Steps down F, and how many were taken."""

    def __init__(self, rows: SparseRows, loss: LossAt, enough: float) -> None:
        self.rows, self.loss, self.enough, self.taken = rows, loss, enough, 0
        self.A, self.inverse, self.n = rows.A, rows.inverse, rows.n
        self.free = rows.units.intercept

    def gradient(self, slope: Array) -> Array:
        gradient: Array = self.inverse * (self.A.T @ slope) / self.n
        return gradient

    def steepest(self, at: Scored) -> float:
        return float(np.abs(self.gradient(self.loss(at.eta).slope)).max(initial=0.0))

    def left(self, at: Scored, penalty: L1L2) -> float:
        """The largest distance of a derivative of F to 0, with scores worked out anew."""
        slope = self.loss(at.b + self.A @ (self.inverse * at.w)).slope
        of_b = abs(float(slope.sum())) / self.n if self.free else 0.0
        return max(penalty.optimality_gap(at.w, self.gradient(slope)), of_b)

    def value(self, loss: Array, w: Array, penalty: L1L2) -> float:
        return float(loss.sum()) / self.n + penalty.l1 * float(np.abs(w).sum()) + penalty.l2 / 2 * float(w @ w)

    # ---------------------------------------------------------------- with an L1 part

    def along(self, at: Scored, penalty: L1L2, steepest: float, before: float) -> Scored:
        """From the minimum with an L1 part of `before`."""
        l1 = FALL * before
        while l1 > penalty.l1:
            at = self.descended(at, L1L2(l1, penalty.l2), NEAR * l1)
            l1 *= FALL
        best, least = at, np.inf
        for _ in range(ROUNDS):  # conjugate gradients for what nearly dependent columns leave of coordinate descent
            at = self.descended(at, penalty, self.enough * steepest)
            left = self.left(at, penalty)
            if left >= least / 2:
                return best if least < left else at
            best, least = at, left
            if left <= self.enough * steepest:
                return at
            found = self.on_support(at, penalty, steepest)
            if (left := self.left(found, penalty)) < least:
                best, least = found, left
            at = found
        return best

    def on_support(self, at: Scored, penalty: L1L2, steepest: float) -> Scored:
        """The minimum with the signs as they are, weights that would change theirs at 0; as it was if that is lower."""
        signs = np.sign(at.w)
        found = self.smooth(at, np.flatnonzero(at.w), penalty.l1 * signs, penalty, steepest)
        w = np.where(np.sign(found.w) == signs, found.w, 0.0)
        if (w != found.w).any():
            found = Scored(w, found.b, found.b + self.A @ (self.inverse * w))
        heights = [self.value(self.loss(one.eta).value, one.w, penalty) for one in (at, found)]
        return found if heights[1] <= heights[0] * (1 + ROUNDING) else at

    def descended(self, at: Scored, penalty: L1L2, enough: float) -> Scored:
        last, stalled, finer = np.inf, 0, 1e-2
        for _ in range(STEPS):
            pieces = self.loss(at.eta)
            gradient = self.gradient(pieces.slope)
            of_b = abs(float(pieces.slope.sum())) / self.n if self.free else 0.0
            size = max(penalty.optimality_gap(at.w, gradient), of_b)
            stalled = stalled + 1 if size > last / 2 else 0
            if size <= enough or stalled > 4:
                break
            last, finer = min(size, last), finer / 10 if stalled else finer
            correlation = np.abs(gradient + penalty.l2 * at.w)
            chosen = np.flatnonzero((at.w != 0) | (correlation > penalty.l1) & (self.rows.norms > 0))
            w, shift = self.quadratic(at, pieces, chosen, penalty, finer * size)
            moved = self.searched(at, pieces, w, shift, penalty, gradient)
            if moved is None:
                break
            at = moved
        return at

    def quadratic(
        self, at: Scored, pieces: LossPieces, chosen: NDArray[np.intp], penalty: L1L2, enough: float
    ) -> tuple[Array, float]:
        """The w, and the b less that of `at`, with the smallest quadratic model of F, by coordinate descent."""
        h, A, inverse = pieces.curvature, self.A[:, chosen], self.inverse[chosen]
        total = max(float(h.sum()), TINY)
        centre, shift = np.zeros(len(chosen)), 0.0
        if self.free:
            centre, shift = A.T @ h / total, -float(pieces.slope.sum()) / total
        squares = _squared(A).T @ h - total * centre**2
        curvature = np.maximum(squares, 0.0) * inverse**2 / self.n
        descent = SparseDescent(A, h, centre, inverse, curvature, self.n, -pieces.slope - h * shift)
        descent.w[:] = at.w[chosen]
        close = min(1e-3, max(1e-14, enough / penalty.l1))
        descent.to(penalty.l1, penalty.l2, close, max(PASSES * (len(A.data) + len(chosen)), LEAST))
        w: Array = at.w.copy()
        w[chosen] = descent.w
        return w, shift - float(centre @ (inverse * (descent.w - at.w[chosen])))

    # ---------------------------------------------------------------- without one

    def smooth(
        self, at: Scored, chosen: NDArray[np.intp], extra: Array, penalty: L1L2, steepest: float
    ) -> Scored:  # fmt: skip
        """The minimum over the chosen columns with `extra` (p,) added to the gradient in place of the L1 part."""
        whole = len(chosen) == self.rows.width
        A, inverse, extra = self.A if whole else self.A[:, chosen], self.inverse[chosen], extra[chosen]
        squared, ridge, last, stalled = _squared(A), L1L2(0.0, penalty.l2), np.inf, 0
        for _ in range(STEPS):
            pieces = self.loss(at.eta)
            g, h = pieces.slope, pieces.curvature
            part, of_b = at.w[chosen], float(g.sum()) / self.n if self.free else 0.0
            gradient = inverse * (A.T @ g) / self.n + penalty.l2 * part + extra
            size = max(float(np.abs(gradient).max(initial=0.0)), abs(of_b))
            stalled = stalled + 1 if size > last / 2 else 0
            if size <= self.enough * steepest or (stalled > 1 and size < 1e-9 * steepest) or stalled > 12:
                break
            last = min(size, last)
            total = max(float(h.sum()), TINY)
            centre = A.T @ h / total if self.free else np.zeros(len(chosen))
            diagonal = np.maximum(squared.T @ h - total * centre**2, 0.0) * inverse**2 / self.n + penalty.l2

            def product(d: Array, A: Any = A, h: Array = h, centre: Array = centre) -> Array:
                scaled = inverse * d
                u = A @ scaled - float(centre @ scaled)
                out: Array = inverse * (A.T @ (h * u)) / self.n + penalty.l2 * d
                return out

            reduced = gradient - inverse * centre * of_b
            step = _solved(product, -reduced, np.maximum(diagonal, TINY), min(0.1, np.sqrt(size / steepest)))
            w: Array = at.w.copy()
            w[chosen] = part + step
            shift = (-of_b * self.n / total if self.free else 0.0) - float(centre @ (inverse * step))
            slopes = np.zeros_like(w)
            slopes[chosen] = gradient - penalty.l2 * part
            linear = np.zeros_like(w)
            linear[chosen] = extra
            moved = self.searched(at, pieces, w, shift, ridge, slopes - linear, linear)
            if moved is None:
                break
            at = moved
        return at

    def searched(
        self, at: Scored, pieces: LossPieces, w: Array, shift: float, penalty: L1L2, gradient: Array,
        linear: Array | None = None,
    ) -> Scored | None:  # fmt: skip
        """The longest of halved steps towards w that is low enough; None where none is."""
        self.taken += 1
        step = w - at.w
        moved = shift + self.A @ (self.inverse * step)
        extra = np.zeros(1) if linear is None else linear

        def height(found: Array, weights: Array) -> float:
            return self.value(found, weights, penalty) + (float(extra @ weights) if linear is not None else 0.0)

        before = height(pieces.value, at.w)
        of_b = float(pieces.slope.sum()) / self.n if self.free else 0.0
        promised = float(gradient @ step) + of_b * (shift if self.free else 0.0)
        promised += self.value(np.zeros(1), w, penalty) - self.value(np.zeros(1), at.w, penalty)
        promised += float(extra @ step) if linear is not None else 0.0
        share = 1.0
        while share > SHORTEST:
            eta, weights = at.eta + share * moved, at.w + share * step
            with np.errstate(over="ignore", invalid="ignore"):
                now = height(self.loss(eta).value, weights)
            if now <= before + SUFFICIENT * share * min(promised, 0.0) + ROUNDING * abs(before):
                found = Scored(weights, at.b + share * shift, eta)
                return replace(found, w=w) if share == 1.0 else found
            share /= 2
        return None


def _squared(A: Any) -> Any:
    return A.__class__((A.data**2, A.indices, A.indptr), A.shape)


def _solved(product: Callable[[Array], Array], wanted: Array, diagonal: Array, enough: float) -> Array:
    """d with product(d) near `wanted`, by conjugate gradients scaled by the diagonal."""
    d, r = np.zeros_like(wanted), wanted
    z = r / diagonal
    direction, size = z, float(r @ z)
    first = size
    for _ in range(INNER):
        if size <= enough**2 * first or size == 0:
            break
        image = product(direction)
        bent = float(direction @ image)
        if bent <= 0:
            break
        length = size / bent
        d, r = d + length * direction, r - length * image
        z = r / diagonal
        size, before = float(r @ z), size
        direction = z + size / before * direction
    return d
