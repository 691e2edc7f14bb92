"""One exact fit of a quantile: down along rounded losses, then to the corner that a few rows make, proven by all."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from statistics import NormalDist

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.splits import Split
from shoal.fitting.exact import NEARLY_DEPENDENT, robust_notes, rows_dropped
from shoal.fitting.losses.fit import LossFit, estimates_for
from shoal.fitting.losses.rows import LossRows, constant_for, prepared_for, without_columns
from shoal.fitting.targets import check_varies, dependent_note
from shoal.lazy.classes import dataclass
from shoal.losses.named import loss_for, penalty_beside
from shoal.losses.quantile import QuantileDensity, Smooth
from shoal.metrics import Timings
from shoal.models import L1L2, Array
from shoal.passes.losses import LossScores
from shoal.passes.quantiles import FindChanged, FindSides, SketchResiduals, SumKernel
from shoal.results.findings import routine
from shoal.settings.config import RunConfig
from shoal.settings.limits import memory_for_exact
from shoal.settings.strength import strength
from shoal.solve.collinearity import collinearity
from shoal.solve.inference import Estimates
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments
from shoal.solve.newton import NewtonPoint, Slope, spread_in, start_with_scale
from shoal.solve.pinball import Corner, Near, Sides, approach, to_corner
from shoal.solve.ranking import grid_for
from shoal.utils import available_memory

COPIES = 8  # of the near rows that the small program holds at a time
NEAR_VALUES, FEWEST_NEAR = 200_000, 2_000  # numbers, and rows, that the small program is to have


@dataclass(frozen=True)
class _LineRows:
    """Passes over the rows of a table for `solve.pinball`."""

    rows: LossRows
    quantile: float

    def sides(self, point: NewtonPoint, width: float) -> Sides:
        blocks = self.rows.prepared.dataset.blocks
        self.rows.passes.append("sides")
        requests = [FindSides(*self.rows.at(block, point), self.quantile, width) for block in blocks]
        return Sides.together(list(self.rows.coordinator.swept("rows near the line", requests)))

    def changed(self, point: NewtonPoint, width: float, to: NewtonPoint) -> Near:
        blocks = self.rows.prepared.dataset.blocks
        coef = to.w / self.rows.units.scale
        line = coef, to.b - float((self.rows.units.centre - self.rows.centre) @ coef)
        self.rows.passes.append("changed")
        requests = [FindChanged(*self.rows.at(block, point), width, *line) for block in blocks]
        return Near.together(list(self.rows.coordinator.swept("rows that change sides", requests)))


def near_rows(p: int) -> tuple[int, int]:
    """Rows that the small program is to have, and those that memory has room for."""
    room = memory_for_exact(available_memory()) // (8 * COPIES * (p + 1))
    return max(NEAR_VALUES // (p + 1), 20 * (p + 1), FEWEST_NEAR), room


def fit_quantile(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> LossFit:
    """Look at the target, sum moments, find the corner, and say what came out."""
    loss = loss_for(config)
    split = Split(config.test_every, config.test_fraction, config.seed)
    with timings.stage("moments"):
        prepared, moments, _ = prepared_for(coordinator, dataset, config, split, loss)
    units = Standardisation.of(moments, config.intercept, config.standardize)
    penalty = penalty_beside(loss, config.shrink, strength(config), config.l1_ratio, moments.n)
    check_varies(loss, moments)
    rows = LossRows(coordinator, prepared, units, loss)
    with timings.stage("solve"):
        constant = constant_for(rows, float(moments.mean[-1]))
        corner = corner_of(rows, moments, config.quantile, penalty)
    with timings.stage("score"):
        point = corner.point
        scores = rows.scores(point, constant, grid_for(dataset.rows))
        steepest = float(np.abs(rows.slope(scores.null_curvature, point).gradient).max(initial=0.0))
        mean_loss = scores.train.sums.value / scores.curvature.rows + penalty.value(point.w)
        certificate = corner.certificate(penalty, mean_loss, steepest)
    with timings.stage("inference"):
        slope = rows.slope(rows.curvature(dataset.blocks, point, expected=True), point)
        free = round(scores.curvature.rows) - slope.problem.rank - int(units.intercept)
        known = penalty == L1L2() and free > 0
        width = _width(rows, scores, moments, point, config.quantile) if known else 0.0
        dispersion = _sparsity(rows, scores, point, config.quantile, width)
        estimates = _estimates(rows, point, slope, dispersion, width, config) if known else None
    coef, intercept = rows.raw(point)
    used = scores.train.sums.rows + scores.test.sums.rows
    fit = LossFit(
        config, prepared, None, loss, penalty, point.w, coef, intercept, certificate, scores, slope.problem.rank,
        slope.problem.condition(penalty.l2), _unique(corner, slope, penalty, units), False, len(rows.passes),
        float(moments.mean[-1]), estimates, dispersion, rows_dropped(prepared, config, used), (),
        without_columns(rows, scores), collinearity(slope.problem, prepared.encoding.names),
    )  # fmt: skip
    return replace(fit, notes=tuple(_notes(fit, corner)))


def corner_of(rows: LossRows, moments: Moments, quantile: float, penalty: L1L2) -> Corner:
    """Where the sum of the loss over the training rows is smallest."""
    own = rows.prepared.dataset
    enough, most = near_rows(len(rows.units.scale))
    smooth = replace(rows, loss=Smooth(quantile, 1.0))
    start = start_with_scale(moments, rows.units, penalty)
    sweep = partial(smooth.curvature, own.blocks)
    spread = spread_in(rows.units, moments)
    where = rows.centre, rows.units
    start, width, _ = approach(sweep, *where, spread, penalty, start, own.rows, min(enough, most))
    line = _LineRows(rows, quantile)
    return to_corner(line, quantile, moments.n, *where, penalty, replace(start, scale=None), width, most)


def _unique(corner: Corner, slope: Slope, penalty: L1L2, units: Standardisation) -> bool:
    """Whether the rows that the line goes through leave it no way to turn."""
    return penalty.l2 > 0 or corner.through >= slope.problem.rank + int(units.intercept)


def _width(rows: LossRows, scores: LossScores, moments: Moments, point: NewtonPoint, quantile: float) -> float:
    """About the line, within which rows tell how dense they are there; 0 where they do not."""
    blocks, n = rows.prepared.dataset.blocks, scores.curvature.rows
    rows.passes.append("residuals")
    sketch = list(rows.coordinator.swept("residuals", [SketchResiduals(*rows.at(block, point)) for block in blocks]))
    r, c = (np.concatenate(column) for column in zip(*sketch, strict=True))
    return bandwidth(r, c, math.sqrt(float(moments.scatter[-1, -1]) / moments.n), n, quantile)


def _sparsity(rows: LossRows, scores: LossScores, point: NewtonPoint, quantile: float, width: float) -> float | None:
    """q (1 - q) / f^2 with the density f of residuals at 0: the variance of a coefficient but for (X'X)^-1, where rows
    are spread alike. f by Epanechnikov's kernel with the bandwidth of Hall and Sheather, as statsmodels' QuantReg has
    it (vcov="iid")."""
    blocks, n = rows.prepared.dataset.blocks, scores.curvature.rows
    if not width > 0:
        return None
    rows.passes.append("density")
    kernels = sum(rows.coordinator.swept("residuals", [SumKernel(*rows.at(block, point), width) for block in blocks]))
    density = kernels / (n * width)
    return quantile * (1 - quantile) / density**2 if density > 0 else None


def _estimates(
    rows: LossRows, point: NewtonPoint, slope: Slope, dispersion: float | None, width: float, config: RunConfig
) -> tuple[Estimates, Estimates | None]:
    """Robust ones rest on the density of the rows at the line where each of them is, not on one for all."""
    if config.robust == "none" or dispersion is None:
        return estimates_for(rows, point, slope, dispersion, replace(config, robust="none"))
    local = replace(rows, loss=QuantileDensity(config.quantile, width))
    own = local.slope(local.curvature(rows.prepared.dataset.blocks, point, own=True), point)
    return estimates_for(local, point, own, dispersion, config)


def bandwidth(r: Array, c: Array, spread: float, n: float, quantile: float) -> float:
    """In the unit of residuals r (k,), each of which stands for c (k,) rows; `spread` is that of y."""
    normal = NormalDist()
    z = normal.inv_cdf(quantile)
    h = (1.5 * normal.pdf(z) ** 2 / (2 * z**2 + 1) / n) ** (1 / 3) * normal.inv_cdf(0.975) ** (2 / 3)
    h = min(h, 0.99 * quantile, 0.99 * (1 - quantile))  # of few rows it would reach beyond all of them
    low, high = _quartiles(r, c)
    return min(spread, (high - low) / 1.34) * (normal.inv_cdf(quantile + h) - normal.inv_cdf(quantile - h))


def _quartiles(r: Array, c: Array) -> tuple[float, float]:
    """In between two residuals by a straight line."""
    order = np.argsort(r, kind="stable")
    r, c = r[order], c[order]
    places = np.cumsum(c) - c  # of the first row that each stands for
    last = np.cumsum(c) - 1
    total = float(c.sum()) - 1
    at = np.interp([0.25 * total, 0.75 * total], np.stack((places, last), 1).ravel(), np.repeat(r, 2))
    return float(at[0]), float(at[1])


def _notes(fit: LossFit, corner: Corner) -> list[str]:
    notes, q = list(fit.prepared.notes), fit.config.quantile
    notes += routine(
        [f"Predictions are the {q:g} quantile, not the mean: of rows alike, a share of {q:g} is to lie at or below it."]
    )
    if fit.estimates and fit.config.robust == "none":
        notes += routine(
            [
                "Standard errors rest on the density of the residuals at 0, and hold where rows are spread alike "
                "(sparsity); where the spread differs from row to row, robust ones (--robust HC1) are more honest."
            ]
        )
    elif fit.estimates:
        notes += robust_notes(fit.config)
    if not corner.exact:
        notes.append(
            "More rows lie at the line than memory has room for, so the coefficients are near the optimum, not at it. "
            "Free memory, or use fewer columns."
        )
    if not fit.unique:
        notes.append("Other coefficients fit these rows as well: a quantile of few or equal values leaves room.")
    elif NEARLY_DEPENDENT < fit.condition < np.inf:
        notes.append(dependent_note(fit.condition))
    return notes
