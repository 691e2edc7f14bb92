"""The report of a model of several classes, made from what was computed; the types are in `results`."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.fitting.classes.fit import ClassFit
from shoal.fitting.classes.sums import ClassScores
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
from shoal.losses.multinomial import Multinomial
from shoal.models import L1L2
from shoal.results.findings import in_order, no_end
from shoal.results.fit import FitInference, FitReport, FitScores
from shoal.results.outcome import Outcome, OutcomeScores, class_terms
from shoal.settings.strength import strength
from shoal.solve.classes.worth import macro_area, of_calls, of_one_call
from shoal.solve.conformal import class_sets


def described_classes(fit: ClassFit) -> Trained:
    """All but how long it took."""
    return trained(None, _report(fit), fit.config, fit.prepared)


def _report(fit: ClassFit) -> FitReport:
    config, test = fit.config, fit.scores.test
    names = class_terms(fit.classes.names, fit.prepared.encoding.names)
    return FitReport(
        model=config.model,
        target=config.target,
        alpha=finite(strength(config)) if config.shrink != "none" else None,
        l1_ratio=config.l1_ratio if config.shrink == "elasticnet" else None,
        intercept=0.0,
        coefficients=named_values(names, fit.coef.ravel()),
        coefficients_standardized=named_values(names, fit.point.W.ravel()),
        train=FitScores(rows=_rows(fit, fit.scores.train)),
        test=FitScores(rows=_rows(fit, test)),
        inference=_inference(fit, names),
        certificate=certified(fit.certificate),
        condition=finite(fit.condition),
        unique=bool(fit.unique),
        rows_dropped=finite(fit.rows_dropped),
        collinearity=fit.together,
        **of_the_table(config, fit.prepared, fit.point.W),
        findings=in_order((*fit.prepared.findings, *([no_end()] if fit.separated and config.shrink == "none" else []))),
        **warned(fit.notes, fit.scores.unseen, fit.prepared),
        outcome=_outcome(fit),
        prediction_interval=class_sets(test.sizes, _rows(fit, test), test.weights, fit.prepared.repeats),
    )


def _rows(fit: ClassFit, part: ClassScores) -> int:
    """How many rows some are: where weights say how many each stands for, these."""
    return round(part.total) if fit.prepared.repeats else part.rows


def _inference(fit: ClassFit, names: list[str]) -> FitInference | None:
    if fit.estimates is None:
        return None
    coef, intercepts = fit.estimates
    own = dict(zip(names, inference_rows(coef), strict=True))
    if intercepts is not None:
        own |= dict(zip(class_terms(fit.classes.names, ["(intercept)"]), inference_rows(intercepts), strict=True))
    return FitInference(
        confidence=fit.config.confidence, coefficients=own, intercept=None, residual_sd=None, residual_df=None,
        f=None, f_p_value=None, r2=None, adjusted_r2=None,
    )  # fmt: skip


def _outcome(fit: ClassFit) -> Outcome:
    train, test = fit.scores.train, fit.scores.test
    honest = test if test.rows else train
    per_row = _rows(fit, honest) / honest.total if honest.total else 1.0
    free = fit.rank + (len(fit.classes.names) - 1) * int(fit.config.intercept)
    return Outcome(
        loss=Multinomial.name,
        link=Multinomial.link,
        shrink=fit.config.shrink,
        classes=fit.classes.names,
        class_rows=fit.classes.rows,
        numbers=fit.prepared.dataset.columns[fit.config.target].is_number,
        train=_scores(fit, train),
        test=_scores(fit, test),
        log_likelihood=finite(-train.value),
        null_log_likelihood=finite(-train.null),
        aic=finite(2 * free + 2 * train.value) if fit.penalty == L1L2() else None,
        deviance=finite(2 * train.value),
        null_deviance=finite(2 * train.null),
        separated=fit.separated,
        sweeps=fit.sweeps,
        intercepts=tuple(finite(fit.intercepts.tolist())),
        confusion=tuple(tuple(map(round, line)) for line in (honest.calls * per_row).tolist()),
    )


def _scores(fit: ClassFit, part: ClassScores) -> OutcomeScores:
    if not part.rows:
        return OutcomeScores()
    likeliest = int(np.argmax(fit.shares))
    ranked = [(one.no, one.yes) for one in part.by_class()]
    area = macro_area(ranked)
    found: dict[str, Any] = {
        "log_loss": part.value / part.total,
        "auc": area,
        **of_calls(part.calls),
        "brier": part.squares / part.total,
        "deviance_explained": 1 - part.value / part.null if part.null > 0 else None,
    }
    known: dict[str, Any] = {
        "log_loss": part.null / part.total,
        "auc": None if area is None else 0.5,
        **of_one_call(part.calls, likeliest),
        "brier": part.null_squares / part.total,
        "deviance_explained": 0.0,
    }
    return OutcomeScores(_rows(fit, part), finite(found), finite(known))
