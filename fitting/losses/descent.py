"""The way down to the minimum of another loss than squares: Newton steps from passes, to a certificate from rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from shoal.fitting.losses.rows import LossRows
from shoal.fitting.targets import check_varies
from shoal.losses.base import RowLoss
from shoal.models import L1L2, Array, Certificate
from shoal.passes.losses import LossScores
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments
from shoal.solve.newton import (
    CurvatureAt,
    NewtonPoint,
    Optimum,
    Slope,
    certificate_of_slope,
    minimise,
    newton_step,
    spread_in,
    start_from,
    start_with_scale,
)
from shoal.solve.ranking import grid_for

GOOD = 1e-9  # relative certificate from which on the rows are not asked again
AGAIN = 3  # more steps from the last pass, where the certificate is not that good yet
CHEAP = 2e9  # rows x columns^2 up to which another pass costs no time that one would notice
QUICK = 3e-5  # the size of the last step of larger tables; what is left is its square, and the certificate looks at it
SAMPLED = 32  # blocks from which on the first steps are made on every SAMPLE-th of them
SAMPLE = 8
ROUGH = 1e-2  # how far those go
LONGEST = 3.0  # spread of the scores that the start may have: what is linear near 0 leads astray further out


def optimum_of(rows: LossRows, moments: Moments, penalty: L1L2, constant: float) -> Optimum:
    """The minimum: from moments, on a sample of a large table, then on all rows."""
    blocks = rows.prepared.dataset.blocks
    check_varies(rows.loss, moments)
    sample = partial(rows.curvature, blocks[::SAMPLE]) if len(blocks) >= SAMPLED else None
    sweep, zero = partial(rows.curvature, blocks), np.zeros(len(rows.units.scale))
    slopes = partial(rows.curvature, blocks, squares=False) if rows.loss.in_c else None
    start = NewtonPoint(zero, 0.0) if rows.class_weight else None
    if rows.prepared.encoding.offset or not rows.loss.mean_is_constant:
        start = NewtonPoint(zero, constant if rows.units.intercept else 0.0)
    if rows.loss.has_scale:
        start = start_with_scale(moments, rows.units, penalty)
    return descend(sweep, moments, rows.loss, rows.units, rows.centre, penalty, sample, start, slopes)


def descend(
    sweep: CurvatureAt, moments: Moments, loss: RowLoss, units: Standardisation, centre: Array, penalty: L1L2,
    sample: CurvatureAt | None = None, first: NewtonPoint | None = None, slopes: CurvatureAt | None = None,
) -> Optimum:  # fmt: skip
    """The minimum from sums of all rows, first from those of a sample where there is one. `first`: where to start,
    where moments do not know it, since rows count otherwise in the sums or have an offset; `slopes`: sums without
    squares, for the last steps on a large table."""
    spread, p = spread_in(units, moments), len(units.scale)
    run = partial(minimise, centre=centre, units=units, spread=spread, penalty=penalty)
    start, worst = first or NewtonPoint(np.zeros(p), 0.0), None
    if units.intercept and first is None:  # without one, moments say nothing of the slope at 0
        start, worst = _start(loss, moments, units, penalty, spread)
    about: Array | None = None
    if sample is not None:
        rough = run(sample, start=start, settled=ROUGH)
        if not rough.separated:
            start, about = rough.point, rough.square * (moments.n / rough.slope.problem.n)
    if moments.n * p**2 < CHEAP:
        return run(sweep, start=start, worst=worst)
    if slopes is None:
        return run(sweep, start=start, worst=worst, settled=QUICK)
    return run(sweep, start=start, worst=worst, slopes=slopes, about=about)


def _start(
    loss: RowLoss, moments: Moments, units: Standardisation, penalty: L1L2, spread: Array
) -> tuple[NewtonPoint, float]:
    """The first Newton step from the best constant, which moments know; and F there."""
    mean = float(moments.mean[-1])
    eta = loss.eta(mean)
    none, one = loss.at(np.array([0.0, 1.0]), np.full(2, eta)).slope.tolist()
    curve = float(loss.expected(np.array([eta]))[0])
    worst = float(loss.at(np.array([mean]), np.array([eta])).value[0])
    w = start_from(moments, units, penalty, none - one, curve).w
    moved = float(np.sqrt(max(float(w @ spread @ w), 0.0)))
    return NewtonPoint(w * min(1.0, LONGEST / max(moved, LONGEST)), eta), worst


def checked_optimum(
    rows: LossRows, penalty: L1L2, optimum: Optimum, null_eta: float
) -> tuple[Optimum, LossScores, Slope, Certificate]:
    """Scores and a certificate from the rows; another Newton step from the same pass while that helps. Beside a penalty
    nothing rests on the curvature at the optimum itself, so that of a large table is the one of the last steps."""
    grid, n = grid_for(rows.prepared.dataset.rows), rows.prepared.dataset.rows
    large = rows.loss.in_c and n * len(optimum.point.w) ** 2 >= CHEAP
    square = optimum.square if large and penalty != L1L2() else None
    best: tuple[Optimum, LossScores, Slope, Certificate] | None = None
    for _ in range(AGAIN):
        scores = rows.scores(optimum.point, null_eta, grid, square)
        slope = rows.slope(scores.curvature, optimum.point)
        of_b = slope.of_b if rows.units.intercept else 0.0
        steepest = float(np.abs(rows.slope(scores.null_curvature, optimum.point).gradient).max(initial=0.0))
        certificate = certificate_of_slope(penalty, optimum.point, slope.gradient, of_b, steepest, slope.of_scale)
        if best is not None and not certificate.relative < best[3].relative / 2:
            return best
        best = replace(optimum, sweeps=optimum.sweeps + 1), scores, slope, certificate
        if certificate.relative < GOOD or optimum.separated:
            return best
        optimum = replace(best[0], point=newton_step(slope, rows.units, penalty, optimum.point))
    assert best is not None
    return best
