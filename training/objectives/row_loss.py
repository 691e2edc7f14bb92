"""Another loss of rows than squares as what a gradient run minimises, with weights and offsets.

    F(w, b) = 1/n sum_i c_i loss(y_i, b + xs_i'w + offset_i)  +  penalty(w)          loss: half the deviance of a row

The intercept b is a parameter here: centring the target removes it for squares only. The exact optimum comes from
Newton steps before the run; it is used to report the distance and to set step sizes, never to move weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.splits import Split
from shoal.data_pipeline import Shards
from shoal.errors import ConfigError
from shoal.fitting.exact import Prepared, rows_dropped
from shoal.fitting.losses.descent import checked_optimum, optimum_of
from shoal.fitting.losses.fit import LossFit, dispersion_of, notes_of
from shoal.fitting.losses.report import described_loss
from shoal.fitting.losses.rows import LossRows, constant_for, prepared_for, without_columns
from shoal.fitting.losses.smearing import to_the_mean
from shoal.fitting.own_metrics import MetricRows
from shoal.fitting.reports import Trained
from shoal.fitting.targets import TwoValues
from shoal.losses.named import loss_for, penalty_beside
from shoal.losses.steps import RowExtras, RowLossModel, RowsSeen, StepLoss
from shoal.metrics import Timings
from shoal.models import TINY, Array, Certificate, Values
from shoal.passes.shards import ShardSeen
from shoal.results.fit import GradientTraining
from shoal.settings.config import RunConfig
from shoal.settings.strength import strength
from shoal.settings.when import LOGARITHMS, STEPPED
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments
from shoal.solve.newton import Curvature, NewtonPoint, Optimum, Slope, certificate_of_slope
from shoal.solve.ranking import grid_for
from shoal.training.objectives.base import UNKNOWN, Bounds, Concluded, DistanceToOptimum, ParameterPart, table_identity
from shoal.training.objectives.shards import derive
from shoal.training.objectives.squares import evenly_weighted

MARGIN = 2.0  # by which the curvature about start and optimum is overstated, where it has no bound
ROOM = 10.0  # times the largest curvature of a row at start and optimum from which on a loss goes on as a straight line
ROUNDING = 1e-12  # of F: a start that is better than the optimum by less is as good


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


class KnownOptimum(NamedTuple):
    """The exact optimum, and F about it: mean loss of the rows, its gradient (size,) and curvature H (size, size)."""

    w: Array
    mean: float
    gradient: Array
    H: Array
    unique: bool
    condition: float


class RowLossObjective:
    """F over the training rows of one run, in standardised columns."""

    notes: tuple[str, ...] = ()
    convex = scores_cheaply = True
    watches = "test rows"
    usual = precision = None

    def __init__(
        self, config: RunConfig, known: PreparedLoss, optimum: Optimum, sums: Curvature, curved: Array
    ) -> None:
        """`optimum` and `sums` there are the exact fit's; `curved` (size, size) is the curvature that bounds steps."""
        slope = known.rows.slope(sums, optimum.point)
        self.config, self.prepared, self._known, self._optimum = config, known.prepared, known, optimum
        self.n, self._curved = known.moments.n, curved
        self._beside = RowExtras(
            bool(self.prepared.encoding.weights) or known.rows.class_weight is not None,
            self.prepared.encoding.offset is not None,
        )
        self.best: KnownOptimum | None = None
        if not optimum.separated:
            self.best = KnownOptimum(
                self._flat(optimum.point), sums.value / sums.rows, np.append(slope.gradient, slope.of_b)[: self.size],
                curvature_of(slope, config.intercept), optimum.unique, slope.problem.condition(),
            )  # fmt: skip
        self.scale = self.at_start = 0.0
        self._least: float | None = None
        self._most = np.inf
        self._shards: Shards | None = None
        self.set_alpha(strength(config))
        self._solved_at = self.alpha

    # ---------------------------------------------------------------- parameters

    @property
    def identity(self) -> dict[str, Any]:
        return table_identity(self.prepared, self.parts)

    @property
    def width(self) -> int:
        return len(self.prepared.encoding.terms)

    @property
    def size(self) -> int:
        return self.width + int(self.config.intercept)

    @property
    def parts(self) -> tuple[ParameterPart, ...]:
        free = (ParameterPart("intercept", 1),) if self.config.intercept else ()
        return (ParameterPart("coefficients", self.width), *free)

    @property
    def start(self) -> Array:
        return self._flat(self._known.start)

    def _flat(self, point: NewtonPoint) -> Array:
        return np.append(point.w, point.b)[: self.size]

    def _point(self, w: Array) -> NewtonPoint:
        return NewtonPoint(w[: self.width], float(w[-1]) if self.config.intercept else 0.0)

    @property
    def penalised(self) -> bool:
        return self.config.shrink != "none"

    def set_alpha(self, alpha: float) -> RowLossModel:
        """Where it is another than the optimum was solved for, that is not known any more: it takes passes."""
        self.alpha, config = alpha, self.config
        self.own = penalty_beside(self._known.rows.loss, config.shrink, alpha, config.l1_ratio, self.n)
        self.model = RowLossModel(StepLoss(config.model, self._most), self.own, config.intercept, self._beside)
        return self.model

    @property
    def _reference(self) -> KnownOptimum | None:
        return self.best if self.alpha == self._solved_at else None

    # ---------------------------------------------------------------- rows, and how they curve it

    @property
    def evenly_curved(self) -> bool:
        return self.config.model in ("logistic", LOGARITHMS)

    @property
    def condition(self) -> float | None:
        return self.best.condition if self.best else None

    def shards(self, coordinator: Coordinator, count: int, dtype: str) -> Shards:
        prepared, config = self.prepared, self.config
        return derive(
            coordinator, prepared.dataset, evenly_weighted(prepared), prepared.split,
            replace(self._known.units, y_mean=0.0), shards=count, dtype=dtype, seed=config.seed,
            partition=config.partition, class_weight=self._known.rows.class_weight,
        )  # fmt: skip

    def meet(self, coordinator: Coordinator, shards: Shards) -> None:
        """Two passes over the rows, at start and optimum: F there, and how far curvatures go."""
        self._shards, self._rows = shards, max(shards.total, 1)
        begin = self._seen(coordinator, shards, self.start)
        end = self._seen(coordinator, shards, self._flat(self._optimum.point))
        self.scale = float(np.abs(begin.gradient[: self.width]).max(initial=0.0)) / self._rows
        self._row = max(begin.row, end.row)
        if not self.evenly_curved:
            self._most, self._row = ROOM * max(begin.curvature, end.curvature), MARGIN * self._row
        self.set_alpha(self.alpha)
        self.at_start = self.loss(self.start, begin.value)
        self._least = self.loss(self.best.w, end.value) if self.best else None

    def _seen(self, coordinator: Coordinator, shards: Shards, w: Array) -> RowsSeen:
        requests = [ShardSeen(shards, shard, self.model, w) for shard in range(len(shards.rows))]
        total: RowsSeen = reduce(RowsSeen.merge, coordinator.swept("measuring", requests))
        return total

    def bounds(self, coordinator: Coordinator, shards: Shards) -> Bounds:
        top = float(np.linalg.eigvalsh(self._curved)[-1]) * 1.001
        if not self.evenly_curved:
            at_optimum = float(np.linalg.eigvalsh(self.best.H)[-1]) if self.best else 0.0
            top = MARGIN * max(top, at_optimum)
        return Bounds(top, self._row)

    # ---------------------------------------------------------------- how good parameters are

    knows_loss = False

    def loss(self, w: Array, value: float | None = None) -> float:
        mean = np.nan if value is None else value / self._rows
        return mean + self.model.penalty.value(w)

    def away(self, w: Array) -> DistanceToOptimum:
        """By the curvature at the optimum: F(w) - F* = d'Hd / 2 + penalty(w) - penalty(w*) + g*'d, d = w - w*.

        That is exact to the third order of d; and a run has converged only where d is small.
        """
        best = self._reference
        if best is None or self._least is None:
            return UNKNOWN
        d = w - best.w
        moved: Array = best.H @ d
        penalty = self.model.penalty
        above = float(d @ moved) / 2 + penalty.value(w) - penalty.value(best.w) + float(best.gradient @ d)
        slope = penalty.optimality_gap(w, best.gradient + moved) / max(self.scale, TINY)
        return DistanceToOptimum(max(above, 0.0) / self._range(self._least), self._coefficients(w, best), slope)

    def _range(self, least: float) -> float:
        return max(self.at_start - least, ROUNDING * abs(self.at_start), TINY)

    def away_by_rows(self, w: Array, gradient: Array, value: float) -> DistanceToOptimum:
        slope = self.model.penalty.optimality_gap(w, gradient) / max(self.scale, TINY)
        if self._reference is not None:
            return self.away(w)._replace(slope=slope)
        return DistanceToOptimum(None, None, slope)

    def _coefficients(self, w: Array, best: KnownOptimum) -> float | None:
        if not best.unique:
            return None
        p = self.width
        largest = max(float(np.abs(best.w[:p]).max(initial=0.0)), TINY)
        found = float(np.abs(w[:p] - best.w[:p]).max(initial=0.0)) / largest
        if self.config.intercept:
            found = max(found, abs(float(w[-1] - best.w[-1])) / max(largest, abs(float(best.w[-1]))))
        return found

    def score(self, w: Array) -> float | None:
        """The share of the deviance of test rows that is explained, over the constant of the training rows."""
        found = self._held_rows
        if found is None or not self._null > 0:
            return None
        return 1 - self.model.deviance(*found, w) / self._null

    @cached_property
    def _held_rows(self) -> tuple[Values, Values] | None:
        """As they are: what the two values of a target count for is a matter of the fit."""
        found, balance = self._shards.held() if self._shards is not None else None, self._known.rows.class_weight
        if found is None or balance is None:
            return found
        y = found[1].copy()
        y[:, 1] /= np.where(y[:, 0] == 1, balance[1], balance[0])
        return found[0], y

    @cached_property
    def _null(self) -> float:
        """The deviance of the test rows by the constant of the training rows."""
        assert self._held_rows is not None
        return self.model.deviance(
            *self._held_rows, self._flat(NewtonPoint(np.zeros(self.width), self._known.constant))
        )

    def predicted(self, w: Array) -> MetricRows | None:
        """Of logarithms only at the end, when it is known by how much their mean is above their median."""
        found = self._held_rows
        if found is None or self.config.model == LOGARITHMS:
            return None
        rows, eta = self.model.scored(*found, w)
        weight = np.ones(len(eta)) if rows.weight is None else rows.weight
        return MetricRows(rows.y, self._known.rows.loss.mean(eta), weight)

    def nonzeros(self, w: Array) -> int:
        return int((w[: self.width] != 0).sum())

    # ---------------------------------------------------------------- what comes of it

    @property
    def optimum(self) -> NewtonPoint:
        """Where Newton steps have ended, which is no optimum where columns tell the rows apart without an error."""
        return self._optimum.point

    @property
    def units(self) -> Standardisation:
        return self._known.units

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

        return Concluded(self._away_at_last(w, fit.scores.curvature, slope), reported)

    def fit(self, point: NewtonPoint) -> tuple[LossFit, Slope]:
        """The model of these weights, as an exact fit has it, by a pass over the rows; and how steep F is there."""
        known, prepared, mean = self._known, self.prepared, float(self._known.moments.mean[-1])
        rows, point, constant = to_the_mean(known.rows, point, known.constant, mean)
        scores = rows.scores(point, constant, grid_for(prepared.dataset.rows))
        slope = rows.slope(scores.curvature, point)
        certificate = self._certificate(point, slope, rows.slope(
            replace(scores.curvature, slope=scores.null_slope), point))  # fmt: skip
        config = dataclasses.replace(self.config, alpha=self.alpha)  # a command may have changed it
        coef, intercept = rows.raw(point)
        used = scores.train.sums.rows + scores.test.sums.rows
        fit = LossFit(
            config, prepared, known.values, rows.loss, self.own, point.w, coef, intercept, certificate, scores,
            slope.problem.rank, slope.problem.condition(self.own.l2),
            self._optimum.unique and not self._optimum.separated, self._optimum.separated, 0,
            mean, None, dispersion_of(rows.loss, scores, slope, known.units),
            rows_dropped(prepared, config, used), (), without_columns(rows, scores),
        )  # fmt: skip
        return replace(fit, notes=tuple(notes_of(fit, self._optimum))), slope

    def _away_at_last(self, w: Array, sums: Curvature, slope: Slope) -> DistanceToOptimum:
        """F(w) - F* from the rows as they are in the file, at both."""
        gradient = np.append(slope.gradient, slope.of_b)[: self.size]
        found = self.away_by_rows(w, gradient, 0.0)
        best = self._reference
        if best is None or self._least is None:
            return found
        penalty = self.model.penalty
        above = sums.value / sums.rows - best.mean + penalty.value(w) - penalty.value(best.w)
        return found._replace(objective=max(above, 0.0) / self._range(self._least))

    def _certificate(self, point: NewtonPoint, slope: Slope, null: Slope) -> Certificate:
        of_b = slope.of_b if self.config.intercept else 0.0
        steepest = float(np.abs(null.gradient).max(initial=0.0))
        return certificate_of_slope(self.own, point, slope.gradient, of_b, steepest)


def with_training(trained: Trained, training: GradientTraining, notes: Sequence[str]) -> Trained:
    """The same by gradient steps, with more to warn of."""
    said = replace(trained.report, training=training, warnings=(*trained.report.warnings, *notes))
    return replace(trained, report=said, model=replace(trained.model, report=said))


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
    if config.model not in STEPPED:
        raise ConfigError(
            f"Expected a model out of {', '.join(STEPPED)} for gradient steps, got {config.model}. "
            "Choose one of these.", knobs=["model", "solver"],
        )  # fmt: skip
    if config.penalty:
        raise ConfigError(
            f"Expected no penalty of a plug-in beside model {config.model}, got '{config.penalty}'. "
            "Use shrink instead.", knobs=["penalty", "model"],
        )  # fmt: skip
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
        start = NewtonPoint(np.zeros(len(units.scale)), 0.0 if balanced or not config.intercept else constant)
        known = PreparedLoss(prepared, rows, units, moments, values, constant, start)
        curved = _bounding(known, config)
    return RowLossObjective(config, known, optimum, scores.curvature, curved)


def _bounding(known: PreparedLoss, config: RunConfig) -> Array:
    """H where a logistic loss is curved most, at scores of 0 in every row; of the others at the start."""
    rows, at = known.rows, known.start
    if config.model == "logistic":
        plain = replace(known.prepared, encoding=replace(known.prepared.encoding, offset=None))
        rows, at = replace(rows, prepared=plain), NewtonPoint(np.zeros_like(at.w), 0.0)
    sums = rows.curvature(known.prepared.dataset.blocks, at)
    return curvature_of(rows.slope(sums, at), config.intercept)
