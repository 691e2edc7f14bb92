"""The report of a model of another loss, made from what was computed; the types that it is made of are in `results`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from shoal.fitting.losses.fit import LossFit
from shoal.fitting.reports import (
    Trained,
    certified,
    finite,
    inference_rows,
    named_values,
    of_the_table,
    trained,
    warned,
)
from shoal.losses.base import RowLoss
from shoal.passes.losses import LossSums, PartScores
from shoal.results.findings import LEAVE_OUT, Finding, FindingKind, in_order, no_end, worse_than_nothing
from shoal.results.fit import FitInference, FitReport, FitScores, PredictionInterval
from shoal.results.outcome import CalibrationBin, Outcome, OutcomeScores, ThresholdCurve
from shoal.settings.when import penalty_knob
from shoal.solve.conformal import prediction_interval, prediction_sets
from shoal.solve.ranking import (
    Ranked,
    area_under_roc,
    average_precision,
    calibration,
    grid_for,
    threshold_curve,
)
from shoal.words import listed

TOO_GOOD = 0.9995  # area under the ROC curve from which on a model is hardly to be believed


def described_loss(fit: LossFit) -> Trained:
    """All but how long it took."""
    return trained(None, _report(fit), fit.config, fit.prepared)


def _report(fit: LossFit) -> FitReport:
    config, names = fit.config, fit.prepared.encoding.names
    shrunk, outcome = config.shrink != "none", _outcome(fit)
    test = _plain_scores(fit, fit.scores.test.sums)
    return FitReport(
        model=config.model,
        target=config.target,
        alpha=finite(config.alpha) if shrunk else None,
        l1_ratio=config.l1_ratio if config.shrink == "elasticnet" else None,
        intercept=finite(fit.intercept),
        coefficients=named_values(names, fit.coef),
        coefficients_standardized=named_values(names, fit.w),
        train=_plain_scores(fit, fit.scores.train.sums),
        test=test,
        inference=_inference(fit, names),
        certificate=certified(fit.certificate),
        condition=finite(fit.condition),
        unique=bool(fit.unique),
        rows_dropped=finite(fit.rows_dropped),
        collinearity=fit.together,
        **of_the_table(config, fit.prepared, fit.w),
        findings=in_order(
            (
                *fit.prepared.findings,
                *([no_end()] if fit.separated and not shrunk else []),
                *_too_good(fit, outcome),
                *_worse(fit, test, outcome),
            )
        ),
        **warned(fit.notes, fit.scores.unseen, fit.prepared),
        outcome=outcome,
        prediction_interval=_sets(fit) if fit.values else _interval(fit),
    )


def _worse(fit: LossFit, test: FitScores, outcome: Outcome) -> tuple[Finding, ...]:
    """By the squares of its errors where columns multiply: its own deviance hides how far off the largest are."""
    multiplies = fit.loss.link == "log"
    found = outcome.test.scores
    explained = test.r2 if multiplies else found.get("deviance_explained", found.get("loss_explained"))
    knob = "" if fit.separated else penalty_knob(fit.config.as_dict())  # what has no end is told of a penalty already
    return worse_than_nothing(explained, multiplies, knob)


def _too_good(fit: LossFit, outcome: Outcome) -> Iterator[Finding]:
    """Two values that are told apart almost without an error: mostly by a column that was filled in afterwards."""
    honest = outcome.test if outcome.test.rows else outcome.train
    area = honest.scores.get("auc")
    if not fit.values or area is None or area < TOO_GOOD or not len(fit.w):
        return
    heaviest = fit.prepared.encoding.terms[int(np.argmax(np.abs(fit.w)))].columns
    if any(found.kind == FindingKind.LEAK and {*heaviest} <= {*found.columns} for found in fit.prepared.findings):
        return
    no, yes = fit.values.names
    yield Finding(
        FindingKind.LEAK, tuple(heaviest),
        f"It tells '{no}' and '{yes}' apart almost without an error (AUC {area:.4f}), most by "
        f"{listed([repr(name) for name in heaviest])} (leak?).",
        "If that is not known when predicting, leave it out", LEAVE_OUT, tuple(heaviest),
    )  # fmt: skip


def _interval(fit: LossFit) -> PredictionInterval:
    """About numbers: how far off those of the test rows are, in what the model takes for their spread."""
    test = fit.scores.test
    found = prediction_interval(test.sizes, _rows(fit, test.sums), False, test.weights, fit.prepared.repeats)
    return replace(found, spread=fit.loss.spread_is, centre=math.exp(-fit.loss.origin))


def _sets(fit: LossFit) -> PredictionInterval:
    """Sets of classes from the test rows; scores that were rounded down are taken for as bad as they may be."""
    part, loss = fit.scores.test, fit.loss
    found, grid = Ranked.together(part.ranked), grid_for(fit.prepared.dataset.rows)
    rows = _rows(fit, part.sums)
    if not rows:
        return prediction_sets(np.zeros(0), np.zeros(0), np.zeros(0), 0)
    low, high = loss.mean(found.eta), loss.mean(found.eta + grid)
    p, nothing = np.concatenate((low, high)), np.zeros(len(found.eta))
    no, yes = np.concatenate((nothing, found.no)), np.concatenate((found.yes, nothing))
    return prediction_sets(p, no, yes, rows, part.sums.total / rows)


def _plain_scores(fit: LossFit, sums: LossSums) -> FitScores:
    """Of the mean that is predicted, for counts and positive numbers; a yes/no target has only its rows there."""
    if fit.values:
        return FitScores(rows=_rows(fit, sums))
    kept = int(np.count_nonzero(fit.w)) if fit.penalty.l1 else fit.rank
    return sums.residuals.scores(kept, fit.config.intercept, fit.prepared.repeats)


def _rows(fit: LossFit, sums: LossSums) -> int:
    """How many rows some are: where weights say how many each stands for, these."""
    return round(sums.total) if fit.prepared.repeats else sums.rows


def _inference(fit: LossFit, names: list[str]) -> FitInference | None:
    if fit.estimates is None:
        return None
    coef, intercept = fit.estimates
    free = _rows(fit, fit.scores.train.sums) - fit.rank - int(fit.config.intercept)
    return FitInference(
        confidence=fit.config.confidence,
        coefficients=dict(zip(names, inference_rows(coef), strict=True)),
        intercept=inference_rows(intercept)[0] if intercept else None,
        residual_sd=None, residual_df=float(free) if fit.loss.dispersed else None,
        f=None, f_p_value=None, r2=None, adjusted_r2=None,
    )  # fmt: skip


def _outcome(fit: LossFit) -> Outcome:
    scores, loss = fit.scores, fit.loss
    train, test = (_ranked(fit, part) for part in (scores.train, scores.test))
    curve: ThresholdCurve | None = None
    bins: tuple[CalibrationBin, ...] = ()
    if fit.values:
        honest = test if scores.test.sums.rows else train
        middle = loss.mean(honest.eta + grid_for(fit.prepared.dataset.rows) / 2)
        curve = threshold_curve(loss.mean(honest.eta), honest.no, honest.yes)
        bins = calibration(middle, honest.no, honest.yes)
    fitted, known = (loss.log_likelihood(s.totals, fit.dispersion) for s in (scores.train.sums, fit.null))
    free = fit.rank + int(fit.config.intercept) + int(loss.dispersed)
    return Outcome(
        loss=loss.name,
        link=loss.link,
        parameters=dict(loss.parameters),
        shrink=fit.config.shrink,
        classes=fit.values.names if fit.values else (),
        class_rows=fit.values.rows if fit.values else (),
        numbers=fit.prepared.dataset.columns[fit.config.target].is_number,
        train=_scores(fit, scores.train, train),
        test=_scores(fit, scores.test, test),
        log_likelihood=finite(fitted),
        null_log_likelihood=finite(known),
        aic=finite(2 * free - 2 * fitted) if fit.config.shrink == "none" else None,
        deviance=finite(scores.train.sums.deviance),
        null_deviance=finite(fit.null.deviance),
        dispersion=finite(fit.dispersion),
        separated=fit.separated,
        sweeps=fit.sweeps,
        curve=curve,
        calibration=bins,
    )


def _ranked(fit: LossFit, part: PartScores) -> Ranked:
    """Rows in the order of their scores; weights that are no numbers of rows come to that number all the same."""
    found = Ranked.together(part.ranked)
    if fit.prepared.weighting is None or not part.sums.rows:
        return found
    per_row = _rows(fit, part.sums) / part.sums.total
    return Ranked(found.eta, found.no * per_row, found.yes * per_row)


def _scores(fit: LossFit, part: PartScores, ranked: Ranked) -> OutcomeScores:
    sums, null = part.sums, part.null
    if not sums.rows:
        return OutcomeScores()
    if fit.values is None:
        found, known = (_of_mean(fit.loss, one, null) for one in (sums, null))
    else:
        found, known = class_scores(fit.mean, sums, null, ranked)
    return OutcomeScores(_rows(fit, sums), finite(found), finite(known))


def _of_mean(loss: RowLoss, sums: LossSums, null: LossSums) -> dict[str, Any]:
    """All but classes: the share of the deviance that is explained, and errors in the target's unit, as the loss has
    them."""
    n = sums.total
    found = {
        "deviance_explained": 1 - sums.deviance / null.deviance if null.deviance > 0 else None,
        "mean_deviance": sums.deviance / n,
        "loss_explained": 1 - sums.deviance / null.deviance if null.deviance > 0 else None,
        "log_r2": 1 - sums.deviance / null.deviance if null.deviance > 0 else None,
        "log_rmse": math.sqrt(sums.deviance / n),
        "huber_loss": sums.deviance / (2 * n),
        "pinball": sums.value / n,
        "below": sums.pearson / n,
        "rmse": math.sqrt(sums.residuals.squares / n),
        "mae": sums.residuals.sizes / n,
    }
    return {name: found[name] for name in loss.scores}


def class_scores(mean: float, sums: LossSums, null: LossSums, ranked: Ranked) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of a yes/no model and of knowing the mean of the training rows alone."""
    n, yes, no = sums.total, float(ranked.yes.sum()), float(ranked.no.sum())
    called = ranked.eta >= 0  # a probability of a half or more
    hits, alarms = float(ranked.yes[called].sum()), float(ranked.no[called].sum())
    known = mean >= 0.5
    found = {
        "log_loss": sums.value / n,
        "auc": area_under_roc(ranked.no, ranked.yes),
        "pr_auc": average_precision(ranked.no, ranked.yes),
        **_at_threshold(hits, alarms, yes, no),
        "brier": sums.residuals.squares / n,
        "deviance_explained": 1 - sums.deviance / null.deviance if null.deviance > 0 else None,
    }
    baseline = {
        "log_loss": null.value / n,
        "auc": 0.5 if yes and no else None,
        "pr_auc": yes / (yes + no) if yes else None,
        **_at_threshold(yes * known, no * known, yes, no),
        "brier": null.residuals.squares / n,
        "deviance_explained": 0.0,
    }
    return found, baseline


def _at_threshold(hits: float, alarms: float, yes: float, no: float) -> dict[str, float | None]:
    called = hits + alarms
    return {
        "accuracy": (hits + no - alarms) / (yes + no),
        "balanced_accuracy": (hits / yes + (no - alarms) / no) / 2 if yes and no else None,
        "f1": 2 * hits / (called + yes) if called + yes else None,
    }
