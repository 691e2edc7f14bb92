"""One exact fit of a model of another loss than squares: Newton steps from passes over the rows, to a certificate.

Rows, columns and their encoding are those of linear models (`exact`); what is said of the fit is in `outcomes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns
from shoal.data.dataset import Block, Dataset
from shoal.data.encoding import Encoding, mapped
from shoal.data.splits import Split
from shoal.fitting.exact import (
    NEARLY_DEPENDENT,
    Prepared,
    check_bad_rows,
    check_rows,
    design_for,
    notes_before,
    robust_notes,
    rows_dropped,
)
from shoal.fitting.targets import (
    TwoValues,
    check_numbers,
    check_offset,
    check_range,
    check_varies,
    dependent_note,
    few_rows_note,
    look_at,
    offset_notes,
    separated_note,
    two_values,
    value_notes,
)
from shoal.losses.base import RowLoss
from shoal.losses.named import loss_for, penalty_beside
from shoal.metrics import Timings
from shoal.models import L1L2, Array, Certificate
from shoal.passes.ingest import stored_moments
from shoal.passes.losses import LossScores, LossSums, ScoreLoss, SumCurvature
from shoal.passes.quantiles import base_for, quantile_of
from shoal.passes.residuals import RobustRows
from shoal.passes.weights import weighted, weighting_of
from shoal.settings.config import RunConfig
from shoal.settings.limits import SOLVING, memory_for_exact
from shoal.settings.strength import strength
from shoal.solve.inference import Estimates, estimates_of, leverages
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments, plan_cells
from shoal.solve.newton import (
    SETTLED,
    Curvature,
    CurvatureAt,
    NewtonPoint,
    Optimum,
    Slope,
    certificate_of_slope,
    minimise,
    newton_step,
    slope_at,
    spread_in,
    start_from,
    start_with_scale,
)
from shoal.solve.ranking import grid_for
from shoal.utils import available_memory

FAR = 10.0  # spreads from zero beyond which columns are centred row by row; nearer ones are by their sums
GOOD = 1e-9  # relative certificate from which on the rows are not asked again
AGAIN = 3  # more steps from the last pass, where the certificate is not that good yet
CHEAP = 2e9  # rows x columns^2 up to which another pass costs no time that one would notice
QUICK = 3e-5  # the size of the last step of larger tables; what is left is its square, and the certificate looks at it
SAMPLED = 32  # blocks from which on the first steps are made on every SAMPLE-th of them
SAMPLE = 8
ROUGH = 1e-2  # how far those go
LONGEST = 3.0  # spread of the scores that the start may have: what is linear near 0 leads astray further out
CONSTANT_STEPS, CONSTANT_FOUND = 50, 1e-12  # towards the best constant beside an offset


@dataclass(frozen=True)
class LossFit:
    """A fitted model of another loss, and all that is said about it."""

    config: RunConfig
    prepared: Prepared
    values: TwoValues | None
    loss: RowLoss
    penalty: L1L2
    w: Array
    coef: Array
    intercept: float
    certificate: Certificate
    scores: LossScores
    rank: int
    condition: float
    unique: bool
    separated: bool
    sweeps: int
    mean: float  # of the target over the training rows
    estimates: tuple[Estimates, Estimates | None] | None
    dispersion: float | None
    rows_dropped: dict[str, int]
    notes: tuple[str, ...]
    null: LossSums  # of training rows, by a model of no column, as R has it: without an intercept its scores are 0


_Where = tuple[str, Block, Encoding, Split, RowLoss, Array, float, Array, tuple[float, float] | None]


@dataclass(frozen=True)
class LossRows:
    """What rows and columns a model is fitted to, and passes over them."""

    coordinator: Coordinator
    prepared: Prepared
    units: Standardisation
    loss: RowLoss
    class_weight: tuple[float, float] | None = None
    passes: list[str] = field(default_factory=list)  # what each one was for, those over a part of the rows included

    @property
    def centre(self) -> Array:
        return centre_for(self.units)

    def curvature(
        self, blocks: Sequence[Block], point: NewtonPoint, expected: bool = False, own: bool = False
    ) -> Curvature:
        requests = [SumCurvature(*self.at(block, point), expected=expected, own=own) for block in blocks]
        total = Curvature.none(len(point.w))
        self.passes.append("curvature")
        for part in self.coordinator.swept("Newton steps", requests):
            total = total.merge(part)
        return total

    def scores(self, point: NewtonPoint, null_eta: float, grid: float) -> LossScores:
        requests = [ScoreLoss(*self.at(block, point), null_eta, grid) for block in self.prepared.dataset.blocks]
        total: LossScores | None = None
        self.passes.append("scores")
        for part in self.coordinator.swept("scoring", requests):
            total = part if total is None else total.merge(part)
        assert total is not None
        return total

    def slope(self, sums: Curvature, point: NewtonPoint) -> Slope:
        return slope_at(sums, self.centre, self.units, point)

    def at(self, block: Block, point: NewtonPoint) -> _Where:
        """The coefficients in raw columns less `centre`, and the score where those are 0."""
        coef = point.w / self.units.scale
        at_centre = point.b - float((self.units.centre - self.centre) @ coef)
        own = self.prepared
        place = str(own.dataset.directory)
        loss = self.loss.scaled(point.scale.value) if point.scale else self.loss
        return place, block, own.encoding, own.split, loss, coef, at_centre, self.centre, self.class_weight

    def raw(self, point: NewtonPoint) -> tuple[Array, float]:
        coef = point.w / self.units.scale
        return coef, point.b - float(self.units.centre @ coef)


def centre_for(units: Standardisation) -> Array:
    """What is taken off the columns of every row before sums are made; nothing where all of them lie near zero."""
    far = float(np.abs(units.centre / units.scale).max(initial=0.0)) > FAR
    return units.centre if far else np.zeros_like(units.centre)


def fit_loss(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> LossFit:
    """Look at the target, sum moments, go down by Newton steps, and say what came out."""
    loss = loss_for(config)
    split = Split(config.test_every, config.test_fraction, config.seed)
    with timings.stage("moments"):
        prepared, moments, values = prepared_for(coordinator, dataset, config, split, loss)
    units = Standardisation.of(moments, config.intercept, config.standardize)
    penalty = penalty_beside(loss, config.shrink, strength(config), config.l1_ratio, moments.n)
    mean = float(moments.mean[-1])
    balanced = (0.5 / (1 - mean), 0.5 / mean) if config.class_weight == "balanced" else None
    rows = LossRows(coordinator, prepared, units, loss, balanced)
    with timings.stage("solve"):
        constant = constant_for(rows, mean)
        optimum = optimum_of(rows, moments, penalty, constant)
    with timings.stage("score"):
        optimum, scores, slope, certificate = checked_optimum(rows, penalty, optimum, constant)
    with timings.stage("inference"):
        known = penalty == L1L2() and not optimum.separated
        if optimum.point.scale is not None:  # steps have a curvature that is not quite the loss's, and move the scale
            loss, known = loss.scaled(optimum.point.scale.value), known and optimum.point.scale.is_free
            rows, optimum = replace(rows, loss=loss), replace(optimum, point=replace(optimum.point, scale=None))
            slope = rows.slope(rows.curvature(dataset.blocks, optimum.point, own=True), optimum.point)
        dispersion = dispersion_of(loss, scores, slope, units)
        estimates = estimates_for(rows, optimum.point, slope, dispersion, config) if known else None
    coef, intercept = rows.raw(optimum.point)
    condition = slope.problem.condition(penalty.l2)
    used = scores.train.sums.rows + scores.test.sums.rows
    fit = LossFit(
        config, prepared, values, loss, penalty, optimum.point.w, coef, intercept, certificate, scores,
        slope.problem.rank, condition, optimum.unique and not optimum.separated, optimum.separated, len(rows.passes),
        mean, estimates, dispersion, rows_dropped(prepared, config, used), (), without_columns(rows, scores),
    )  # fmt: skip
    return replace(fit, notes=tuple(notes_of(fit, optimum)))


def prepared_for(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, split: Split, loss: RowLoss
) -> tuple[Prepared, Moments, TwoValues | None]:
    check_bad_rows(dataset, config)
    check_numbers(dataset.columns.get(config.target), loss)
    choice = choose_columns(dataset, config)
    weighting = weighting_of(coordinator.swept, dataset, config, split, choice.names)
    repeats = weighting is not None and weighting.repeats
    seen = look_at(coordinator, dataset, config.target, split, config.weights, repeats)
    values = two_values(dataset, config, seen) if loss.target == "two" else None
    if values is None:
        check_range(dataset.columns[config.target], loss, seen)
    yes = values.yes if values else None
    check_offset(dataset, config)
    base = weighted(base_for(coordinator.swept, dataset, config, split, choice, yes), weighting)
    plan_cells(len(base.terms) + 1, 2, memory_for_exact(available_memory()), SOLVING, least=2)
    train = _moments(coordinator, dataset, base, split, values)
    train = weighting.counted(train) if weighting else train
    check_rows(train.n, config)
    encoding, notes = design_for(coordinator, dataset, config, choice, base, train.mean, train.n, split)
    said = notes_before(dataset, weighting, choice, notes, *offset_notes(base))
    return Prepared(dataset, split, encoding, said, weighting=weighting), mapped(train, base, encoding), values


def _moments(
    coordinator: Coordinator, dataset: Dataset, base: Encoding, split: Split, values: TwoValues | None
) -> Moments:
    """Of (terms..., target) over the training rows.

    A target of text has no sums from reading; where those of the columns are there, its share will do: what is not
    known, and 0 here, is how it goes with the columns, which only a start is made from.
    """
    if values and base.yes is not None and not base.weights and not dataset.columns[base.target].missing:
        stored = stored_moments(dataset, replace(base, target="", yes=None), split)
        if stored is not None:
            own, share = stored[0], values.rows[1] / sum(values.rows)
            scatter = np.pad(own.scatter, (0, 1))
            scatter[-1, -1] = own.n * share * (1 - share)
            return Moments(own.n, np.append(own.mean, share), scatter)
    return coordinator.moments(dataset, base, split)[0]


def constant_for(rows: LossRows, mean: float) -> float:
    """What knowing nothing comes to: the link of the mean, a quantile, or the best constant (0) beside an offset."""
    own = rows.prepared
    if rows.loss.constant_at is not None:
        where = own.dataset, own.encoding.target, rows.loss.constant_at, own.split, own.encoding.weights
        return quantile_of(rows.coordinator.swept, *where)
    if not own.encoding.offset:
        return rows.loss.eta(mean)
    if not rows.units.intercept:
        return 0.0
    b, zero = rows.loss.eta(mean), np.zeros(len(rows.units.scale))
    for _ in range(CONSTANT_STEPS):
        sums = rows.curvature(rows.prepared.dataset.blocks, NewtonPoint(zero, b))
        g, h = float(sums.slope[0]), float(sums.square[0, 0])
        step = rows.loss.constant_step(g, h, sums.rows)
        b += step
        if abs(step) < CONSTANT_FOUND:
            break
    return b


def optimum_of(rows: LossRows, moments: Moments, penalty: L1L2, constant: float) -> Optimum:
    """The minimum: from moments, on a sample of a large table, then on all rows."""
    blocks = rows.prepared.dataset.blocks
    check_varies(rows.loss, moments)
    sample = partial(rows.curvature, blocks[::SAMPLE]) if len(blocks) >= SAMPLED else None
    sweep, zero = partial(rows.curvature, blocks), np.zeros(len(rows.units.scale))
    start = NewtonPoint(zero, 0.0) if rows.class_weight else None
    start = NewtonPoint(zero, constant) if rows.prepared.encoding.offset else start
    if rows.loss.has_scale:
        start = start_with_scale(moments, rows.units, penalty)
    return descend(sweep, moments, rows.loss, rows.units, rows.centre, penalty, sample, start)


def descend(
    sweep: CurvatureAt, moments: Moments, loss: RowLoss, units: Standardisation, centre: Array, penalty: L1L2,
    sample: CurvatureAt | None = None, first: NewtonPoint | None = None,
) -> Optimum:  # fmt: skip
    """The minimum from sums of all rows, first from those of a sample where there is one. `first`: where to start,
    where moments do not know it, since rows count otherwise in the sums or have an offset."""
    spread, p = spread_in(units, moments), len(units.scale)
    run = partial(minimise, centre=centre, units=units, spread=spread, penalty=penalty)
    start, worst = first or NewtonPoint(np.zeros(p), 0.0), None
    if units.intercept and first is None:  # without one, moments say nothing of the slope at 0
        start, worst = _start(loss, moments, units, penalty, spread)
    if sample is not None:
        rough = run(sample, start=start, settled=ROUGH)
        start = start if rough.separated else rough.point
    settled = SETTLED if moments.n * p**2 < CHEAP else QUICK
    return run(sweep, start=start, worst=worst, settled=settled)


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
    """Scores and a certificate from the rows; another Newton step from the same pass while that helps."""
    grid = grid_for(rows.prepared.dataset.rows)
    best: tuple[Optimum, LossScores, Slope, Certificate] | None = None
    for _ in range(AGAIN):
        scores = rows.scores(optimum.point, null_eta, grid)
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


def without_columns(rows: LossRows, scores: LossScores) -> LossSums:
    """Of a model without columns: the best constant, or, without an intercept, nothing but the offset."""
    if rows.units.intercept or rows.prepared.encoding.offset:
        return scores.train.null
    nothing = NewtonPoint(np.zeros(len(rows.units.scale)), 0.0)
    return rows.scores(nothing, 0.0, grid_for(rows.prepared.dataset.rows)).train.sums


def dispersion_of(loss: RowLoss, scores: LossScores, slope: Slope, units: Standardisation) -> float | None:
    """Pearson's: the mean square of (y - mean) / mean, by the rows that coefficients leave free."""
    free = round(scores.curvature.rows) - slope.problem.rank - int(units.intercept)
    if not loss.dispersed or free <= 0:
        return None
    return loss.dispersion(scores.train.sums.pearson, slope.weight, scores.curvature.rows, free)


def estimates_for(
    rows: LossRows, point: NewtonPoint, slope: Slope, dispersion: float | None, config: RunConfig
) -> tuple[Estimates, Estimates | None]:
    """Standard errors from the curvature that is expected at the optimum, as R and statsmodels have them; normal, or
    Student's where the dispersion was estimated."""
    df, confidence, observed = np.inf, config.confidence, slope
    if rows.loss.dispersed:
        sums = rows.curvature(rows.prepared.dataset.blocks, point, expected=True)
        slope = rows.slope(sums, point)
        df = round(sums.rows) - slope.problem.rank - int(rows.units.intercept)
    sd = 1.0 if not rows.loss.dispersed else float(np.sqrt(dispersion)) if dispersion is not None else np.nan
    leverage, at_zero = leverages(slope.problem, slope.weight)
    coef, intercept = rows.raw(point)
    errors: Array = sd * leverage / rows.units.scale
    of_intercept = sd * at_zero
    if config.robust != "none":
        own = rows.prepared
        fitted = own.dataset, own.encoding, own.split, rows.loss, coef, intercept, rows.class_weight, own.repeats
        swept, robust = rows.coordinator.swept, RobustRows(*fitted)
        rows.passes.append("robust errors")
        errors, of_intercept = robust.errors(swept, observed.problem, observed.weight, config.robust)
    of_coef = estimates_of(coef, errors, df, confidence)
    if not rows.units.intercept:
        return of_coef, None
    return of_coef, estimates_of(np.array([intercept]), np.array([of_intercept]), df, confidence)


def notes_of(fit: LossFit, optimum: Optimum) -> list[str]:
    notes = [*fit.prepared.notes, *optimum.notes, *(robust_notes(fit.config) if fit.estimates else ())]
    names = np.array(fit.prepared.encoding.names, object)
    if fit.values:
        notes += value_notes(fit.values, fit.config.class_weight == "balanced")
        notes += few_rows_note(fit.values, len(names)) if fit.penalty == L1L2() else []
    if fit.loss.has_scale and fit.estimates is None and fit.penalty == L1L2():
        notes.append(
            "Most rows lie on the line itself, but for rounding, so there is no scale, and no standard errors."
        )
    if optimum.separated:
        notes.append(separated_note(fit.values, names[optimum.running].tolist()[:5]))
    elif fit.unique and NEARLY_DEPENDENT < fit.condition < np.inf:
        notes.append(dependent_note(fit.condition))
    return notes
