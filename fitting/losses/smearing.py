"""From what a loss was fitted to back to the mean of the target, by Duan's smearing; other losses stay as they are.

The shift is the logarithm of the mean of y / e^score over the training rows: the best constant of a gamma model beside
these scores, whose slopes say it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoal.fitting.losses.rows import LossRows
from shoal.losses.gamma import Gamma
from shoal.solve.newton import NewtonPoint


def to_the_mean(
    rows: LossRows, point: NewtonPoint, constant: float, mean: float
) -> tuple[LossRows, NewtonPoint, float]:
    """Rows whose loss has the shift, and the point and the best constant that far up. `mean` is that of the target."""
    if not rows.loss.smears:
        return rows, point, constant
    shift, known = _shift(rows, point), rows.loss.eta(mean) - constant
    if rows.prepared.encoding.offset:
        known = _shift(rows, NewtonPoint(np.zeros_like(point.w), constant))
    smeared = replace(rows, loss=rows.loss.shifted(shift, known))
    return smeared, replace(point, b=point.b + shift), constant + known


def _shift(rows: LossRows, point: NewtonPoint) -> float:
    gamma = Gamma()
    sums = replace(rows, loss=gamma).curvature(rows.prepared.dataset.blocks, point)
    return gamma.constant_step(float(sums.slope[0]), float(sums.square[0, 0]), sums.rows)
