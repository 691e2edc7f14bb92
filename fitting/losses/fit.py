"""One exact fit of a model of another loss than squares: Newton steps from passes over the rows, to a certificate.

Rows, columns and their encoding are those of linear models (`fitting.exact`); what is said of the fit is in `report`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.splits import Split
from shoal.fitting.exact import NEARLY_DEPENDENT, Prepared, robust_notes, rows_dropped
from shoal.fitting.losses.descent import checked_optimum, optimum_of
from shoal.fitting.losses.rows import LossRows, constant_for, prepared_for, without_columns
from shoal.fitting.losses.smearing import to_the_mean
from shoal.fitting.targets import TwoValues, dependent_note, few_rows_note, separated_note, smeared_note, value_notes
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.losses.named import loss_for, penalty_beside
from shoal.metrics import Timings
from shoal.models import L1L2, Array, Certificate
from shoal.passes.losses import LossScores, LossSums
from shoal.passes.residuals import RobustRows
from shoal.results.collinearity import Collinearity
from shoal.settings.config import RunConfig
from shoal.settings.strength import strength
from shoal.solve.collinearity import collinearity
from shoal.solve.inference import Estimates, estimates_of, leverages
from shoal.solve.least_squares import Standardisation
from shoal.solve.newton import NewtonPoint, Optimum, Slope


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
    together: Collinearity | None = None  # of columns whose rows count by their curvature


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
        rows, point, constant = to_the_mean(rows, optimum.point, constant, mean)
        loss, optimum = rows.loss, replace(optimum, point=point)
    with timings.stage("score"):
        optimum, scores, slope, certificate = checked_optimum(rows, penalty, optimum, constant)
    with timings.stage("inference"):
        known, held = penalty == L1L2() and not optimum.separated, False
        if optimum.point.scale is not None:  # steps have a curvature that is not quite the loss's, and move the scale
            held = not optimum.point.scale.is_free
            loss, known = loss.scaled(optimum.point.scale.value), known and not held
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
        None if optimum.separated else collinearity(slope.problem, prepared.encoding.names),
    )  # fmt: skip
    return replace(fit, notes=tuple(notes_of(fit, optimum, held)))


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
    if not rows.units.intercept or rows.loss.smears:  # a smeared intercept has an error that is not the curvature's
        return of_coef, None
    return of_coef, estimates_of(np.array([intercept]), np.array([of_intercept]), df, confidence)


def notes_of(fit: LossFit, optimum: Optimum, held: bool = False) -> list[str]:
    """`held`: a scale of residuals is not free, since there are none to speak of."""
    notes = [*fit.prepared.notes, *optimum.notes, *(robust_notes(fit.config) if fit.estimates else ())]
    names = np.array(fit.prepared.encoding.names, object)
    if fit.values:
        notes += value_notes(fit.values, fit.config.class_weight == "balanced")
        notes += few_rows_note(fit.values, len(names)) if fit.penalty == L1L2() else []
    if held and fit.penalty == L1L2():
        notes.append(
            "Most rows lie on the line itself, but for rounding, so there is no scale, and no standard errors."
        )
    if fit.loss.smears:
        notes.append(smeared_note(fit.intercept, fit.loss.origin))
    if optimum.separated:
        notes.append(separated_note(fit.values, names[optimum.running].tolist()[:5]))
    elif fit.unique and NEARLY_DEPENDENT < fit.condition < np.inf:
        notes.append(dependent_note(fit.condition))
    return notes
