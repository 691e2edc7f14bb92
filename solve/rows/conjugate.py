"""Least squares with a ridge, or none, by conjugate gradients: only products with the rows, no matrix of them."""

from __future__ import annotations

import numpy as np

from shoal.models import Array
from shoal.solve.rows.dense import RowsAtHand

ITERATIONS = 5000  # in all
RESTARTS = 8  # each begins with the true residual, so that rounding of the one before is taken back
ENOUGH = 1e-14  # of the gradient at 0


def conjugate_gradients(
    rows: RowsAtHand, l2: float, begun: Array | None = None, enough: float = ENOUGH
) -> tuple[Array, bool]:
    """argmin ||y - X w||^2 + n l2 ||w||^2 (p,), of smallest norm where it is not unique, and whether it is settled.

    With a ridge, columns are scaled by d = 1 / sqrt(||x_j||^2 + n l2); without, that would change what norm is small.
    `begun` is a guess, for a ridge only; `enough` of the gradient at 0 may be left.
    """
    ridge = rows.n * l2
    d = 1 / np.sqrt(rows.norms**2 + ridge) if l2 > 0 else np.ones(rows.width)
    w, left = np.zeros(rows.width) if begun is None else begun, ITERATIONS
    start = float(np.linalg.norm(d * rows.slopes * rows.n))
    last = np.inf
    for _ in range(RESTARTS):
        residual = rows.residual(w)
        size = float(np.linalg.norm(d * (rows.against(residual) - ridge * w)))
        if size <= enough * start or size > last / 2 or left <= 0:
            return w, size <= max(enough, 1e-10) * start
        last = size
        step, used = _correction(rows, residual, w, d, ridge, enough * start, left)
        w, left = w + step, left - used
    return w, True


def _correction(
    rows: RowsAtHand, residual: Array, w: Array, d: Array, ridge: float, enough: float, most: int
) -> tuple[Array, int]:
    """The step from w by CGLS in v with step = d v, and how many iterations it took."""
    v, r = np.zeros_like(w), residual
    s = d * (rows.against(r) - ridge * w)
    direction, size = s, float(s @ s)
    first = size
    for used in range(most):
        if np.sqrt(size) <= max(enough, 1e-10 * np.sqrt(first)) or size == 0:
            return d * v, used
        moved = d * direction
        image = rows.times(moved)
        length = size / float(image @ image + ridge * (moved @ moved))
        v, r = v + length * direction, r - length * image
        s = d * (rows.against(r) - ridge * (w + d * v))
        size, before = float(s @ s), size
        direction = s + size / before * direction
    return d * v, most
