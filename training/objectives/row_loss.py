"""Another loss of rows than squares as what a gradient run minimises, with weights and offsets.

    F(w, b) = 1/n sum_i c_i loss(y_i, b + xs_i'w + offset_i)  +  penalty(w)          loss: half the deviance of a row

The intercept b is a parameter here: centring the target removes it for squares only. The exact optimum comes from
Newton steps before the run; it is used to report the distance and to set step sizes, never to move weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.splits import Split
from shoal.data_pipeline import Shards
from shoal.errors import ConfigError, Remedy
from shoal.fitting.exact import Prepared, rows_dropped
from shoal.fitting.losses.descent import checked_optimum, optimum_of
from shoal.fitting.losses.fit import LossFit, dispersion_of, notes_of
from shoal.fitting.losses.report import described_loss
from shoal.fitting.losses.rows import LossRows, constant_for, prepared_for, without_columns
from shoal.fitting.losses.smearing import to_the_mean
from shoal.fitting.own_metrics import MetricRows
from shoal.fitting.reports import Trained
from shoal.fitting.targets import TwoValues
from shoal.lazy.classes import dataclass
from shoal.losses.huber import Huber
from shoal.losses.named import loss_for, penalty_beside
from shoal.losses.steps import HuberSteps, RowLossModel, StepLoss
from shoal.metrics import Timings
from shoal.models import L1L2, TINY, Array, Certificate
from shoal.results.fit import GradientTraining
from shoal.settings.config import RunConfig
from shoal.settings.strength import strength
from shoal.settings.when import LOGARITHMS
from shoal.solve.collinearity import collinearity
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments
from shoal.solve.newton import Curvature, NewtonPoint, Optimum, Scale, Slope, certificate_of_slope
from shoal.solve.ranking import grid_for
from shoal.training.objectives.base import Bounds, Concluded, ParameterPart
from shoal.training.objectives.near_optimum import (
    MARGIN,
    KnownOptimum,
    NearOptimum,
    check_steps,
    gram_of,
    with_training,
)


@dataclass(frozen=True)
class PreparedLoss:
    """What is known before the rows of a run are dealt out; nothing of it depends on the penalty."""

    prepared: Prepared
    rows: LossRows
    units: Standardisation
    moments: Moments
    values: TwoValues | None
    constant: float  # the best score of knowing nothing but the offset
    start: NewtonPoint


class RowLossObjective(NearOptimum):
    """F over the training rows of one run, in standardised columns."""

    def __init__(
        self, config: RunConfig, known: PreparedLoss, optimum: Optimum, sums: Curvature, curved: Array
    ) -> None:
        """`optimum` and `sums` there are the exact fit's; `curved` (size, size) is the curvature that bounds steps."""
        self._known, self._optimum, self._curved = known, optimum, curved
        self.target_centre = known.units.y_mean if known.rows.loss.has_scale and config.intercept else 0.0
        self._free, slope = int(config.intercept), known.rows.slope(sums, optimum.point)
        ended, best = self._flat(optimum.point), None
        if not optimum.separated:
            best = KnownOptimum(
                ended, sums.value / sums.rows, np.append(slope.gradient, slope.of_b)[: len(ended)],
                curvature_of(slope, config.intercept), optimum.unique, slope.problem.condition(),
            )  # fmt: skip
        super().__init__(
            config, known.prepared, known.units, known.moments.n, known.rows.class_weight, ended, best
        )  # fmt: skip

    @property
    def parts(self) -> tuple[ParameterPart, ...]:
        free = (ParameterPart("intercept", 1),) if self._free else ()
        return (ParameterPart("coefficients", self.width), *free)

    @property
    def start(self) -> Array:
        return self._flat(self._known.start)

    @property
    def constant_parameters(self) -> Array:
        return np.append(np.zeros(self.width), self._known.constant - self.target_centre)

    def _flat(self, point: NewtonPoint) -> Array:
        return np.append(point.w, point.b - self.target_centre)[: len(point.w) + self._free]

    def _point(self, w: Array) -> NewtonPoint:
        return NewtonPoint(w[: self.width], float(w[-1]) + self.target_centre if self._free else 0.0)

    def _penalty(self, alpha: float) -> L1L2:
        return penalty_beside(self._known.rows.loss, self.config.shrink, alpha, self.config.l1_ratio, self.n)

    def _model(self, intercept: bool) -> RowLossModel:
        own, loss = self._known.rows.loss, StepLoss(self.config.model, self._most)
        steps = HuberSteps(own.epsilon, own.sigma) if isinstance(own, Huber) else loss
        return RowLossModel(steps, self.own, intercept, self._beside)

    @property
    def evenly_curved(self) -> bool:  # type: ignore[override]
        return self.config.model in ("logistic", LOGARITHMS, "huber")

    def bounds(self, coordinator: Coordinator, shards: Shards) -> Bounds:
        top = float(np.linalg.eigvalsh(self._curved)[-1]) * 1.001
        if not self.evenly_curved:
            at_optimum = float(np.linalg.eigvalsh(self.best.H)[-1]) if self.best else 0.0
            top = MARGIN * max(top, at_optimum)
        return Bounds(top, self._row)

    # ---------------------------------------------------------------- how good parameters are

    def predicted(self, w: Array) -> MetricRows | None:
        """Of logarithms only at the end, when it is known by how much their mean is above their median."""
        found = self._held_rows
        if found is None or self.config.model == LOGARITHMS:
            return None
        rows, eta = self._model(self.config.intercept).scored(*found, w)
        weight = np.ones(len(eta)) if rows.weight is None else rows.weight
        return MetricRows(rows.y + self.target_centre, self._known.rows.loss.mean(eta + self.target_centre), weight)

    # ---------------------------------------------------------------- what comes of it

    @property
    def optimum(self) -> NewtonPoint:
        """Where Newton steps have ended, which is no optimum where columns tell the rows apart without an error."""
        return self._optimum.point

    @property
    def constant(self) -> float:
        """The best score of knowing nothing."""
        return self._known.constant

    @property
    def rows(self) -> LossRows:
        return self._known.rows

    def conclude(self, coordinator: Coordinator, w: Array) -> Concluded:
        fit, slope = self.fit(self._point(w))

        def reported(training: GradientTraining, notes: Sequence[str]) -> Trained:
            return with_training(described_loss(fit), training, notes)

        sums, gradient = fit.scores.curvature, np.append(slope.gradient, slope.of_b)[: self.size]
        return Concluded(self.away_at_last(w, sums.value / sums.rows, gradient), reported)

    def fit(self, point: NewtonPoint) -> tuple[LossFit, Slope]:
        """The model of these weights, as an exact fit has it, by a pass over the rows; and how steep F is there."""
        known, prepared, mean = self._known, self.prepared, float(self._known.moments.mean[-1])
        rows, point, constant = to_the_mean(known.rows, point, known.constant, mean)
        scores = rows.scores(point, constant, grid_for(prepared.dataset.rows))
        slope = rows.slope(scores.curvature, point)
        certificate = self._certificate(point, slope, rows.slope(
            replace(scores.curvature, slope=scores.null_slope), point))  # fmt: skip
        if rows.loss.has_scale:  # what it is worth rests on the loss's own curvature, as in an exact fit
            slope = rows.slope(rows.curvature(prepared.dataset.blocks, point, own=True), point)
        config = dataclasses.replace(self.config, alpha=self.alpha)  # a command may have changed it
        coef, intercept = rows.raw(point)
        used = scores.train.sums.rows + scores.test.sums.rows
        fit = LossFit(
            config, prepared, known.values, rows.loss, self.own, point.w, coef, intercept, certificate, scores,
            slope.problem.rank, slope.problem.condition(self.own.l2),
            self._optimum.unique and not self._optimum.separated, self._optimum.separated, 0,
            mean, None, dispersion_of(rows.loss, scores, slope, known.units),
            rows_dropped(prepared, config, used), (), without_columns(rows, scores),
            None if self._optimum.separated else collinearity(slope.problem, prepared.encoding.names),
        )  # fmt: skip
        return replace(fit, notes=tuple(notes_of(fit, self._optimum))), slope

    def _certificate(self, point: NewtonPoint, slope: Slope, null: Slope) -> Certificate:
        of_b = slope.of_b if self.config.intercept else 0.0
        steepest = float(np.abs(null.gradient).max(initial=0.0))
        return certificate_of_slope(self.own, point, slope.gradient, of_b, steepest)


def curvature_of(slope: Slope, intercept: bool) -> Array:
    """H (size, size) of the mean loss in the units of the weights, b last; `slope` has it with b eliminated."""
    S = slope.problem.gram
    if not intercept:
        return S / slope.problem.n
    S = S + np.outer(slope.pull, slope.pull) / max(slope.weight, TINY)
    return np.block([[S, slope.pull[:, None]], [slope.pull[None, :], np.array([[slope.weight]])]]) / slope.problem.n


def row_loss_objective(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings
) -> RowLossObjective:
    """Look at the target, sum moments, and find the exact optimum by Newton steps, as an exact fit does."""
    check_steps(config)
    loss = loss_for(config)
    split = Split(config.test_every, config.test_fraction, config.seed)
    with timings.stage("moments"):
        prepared, moments, values = prepared_for(coordinator, dataset, config, split, loss)
    units, mean = Standardisation.of(moments, config.intercept, config.standardize), float(moments.mean[-1])
    balanced = (0.5 / (1 - mean), 0.5 / mean) if config.class_weight == "balanced" else None
    rows = LossRows(coordinator, prepared, units, loss, balanced)
    penalty = penalty_beside(loss, config.shrink, strength(config), config.l1_ratio, moments.n)
    with timings.stage("solve"):
        constant = constant_for(rows, mean)
        optimum = optimum_of(rows, moments, penalty, constant)
        optimum, scores, _, _ = checked_optimum(rows, penalty, optimum, constant)
        sums = scores.curvature
        if optimum.point.scale is not None:
            rows, optimum, sums = _at_scale(rows, optimum, optimum.point.scale)
        start = NewtonPoint(np.zeros(len(units.scale)), 0.0 if balanced or not config.intercept else constant)
        known = PreparedLoss(prepared, rows, units, moments, values, constant, start)
        curved = _bounding(known, config)
    return RowLossObjective(config, known, optimum, sums, curved)


def _at_scale(rows: LossRows, optimum: Optimum, scale: Scale) -> tuple[LossRows, Optimum, Curvature]:
    """The loss at the scale that the exact fit has found, and its sums there with the curvature that it has itself."""
    if not scale.is_free:
        raise ConfigError(
            "Expected residuals that spread about the line for gradient steps of a huber model, got a line that most "
            "rows lie on, but for rounding: there is no scale that steps could be as long as.",
            Remedy.set("Fit it exactly", "solver", "exact"), knobs=["model", "solver"],
        )  # fmt: skip
    rows = replace(rows, loss=rows.loss.scaled(scale.value))
    optimum = replace(optimum, point=replace(optimum.point, scale=None))
    return rows, optimum, rows.curvature(rows.prepared.dataset.blocks, optimum.point, own=True)


def _bounding(known: PreparedLoss, config: RunConfig) -> Array:
    """H where a logistic loss is curved most, at scores of 0 in every row, and a Huber loss, where all rows are near;
    of the others at the start."""
    rows, at = known.rows, known.start
    if isinstance(rows.loss, Huber):
        return gram_of(known.moments, known.units) / rows.loss.sigma
    if config.model == "logistic":
        plain = replace(known.prepared, encoding=replace(known.prepared.encoding, offset=None))
        rows, at = replace(rows, prepared=plain), NewtonPoint(np.zeros_like(at.w), 0.0)
    sums = rows.curvature(known.prepared.dataset.blocks, at)
    return curvature_of(rows.slope(sums, at), config.intercept)
