"""The report of a fit, made from what was computed; the types that it is made of are in `results`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.data.terms import Number
from shoal.fitting.exact import Fit
from shoal.fitting.model_file import model_of
from shoal.models import Array
from shoal.results.fit import Estimate, Filled, FitCertificate, FitInference, FitReport, GradientTraining
from shoal.results.model import ModelFile
from shoal.solve import inference as solved
from shoal.solve.conformal import prediction_interval


def finite(value: Any) -> Any:
    """The same with None for what JSON cannot say (NaN, infinities), also inside lists and dictionaries."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    if isinstance(value, (np.floating, float)):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Trained:
    """A fit, what is said of it, and its model file."""

    fit: Fit
    report: FitReport
    model: ModelFile


def described(fit: Fit, training: GradientTraining | None = None, notes: Iterable[str] = (), **changes: Any) -> Trained:
    """All but how long it took; a gradient run adds what is said of its training, and more to warn of."""
    said = report(fit)
    said = replace(said, training=training, warnings=(*said.warnings, *notes), **changes)
    return Trained(fit, said, model_of(fit.prepared.encoding, said, fit.config, fit.prepared.dataset.manifest.content))


def report(fit: Fit) -> FitReport:
    """What is said about a fit."""
    config, solution, names = fit.config, fit.solution, fit.prepared.encoding.names
    columns = int(np.count_nonzero(solution.w)) if config.model in ("lasso", "elasticnet") else solution.rank
    certificate = solution.certificate
    calibrated = prediction_interval(
        fit.sums.calibration, fit.sums.test.rows, config.solver == "gradient" and bool(config.patience)
    )
    return FitReport(
        model=config.model,
        target=config.target,
        alpha=None if config.model == "linear" else finite(config.alpha),
        l1_ratio=config.l1_ratio if config.model == "elasticnet" else None,
        intercept=finite(solution.intercept),
        coefficients=_named(names, solution.coef),
        coefficients_standardized=_named(names, solution.w),
        train=fit.sums.train.scores(columns, config.intercept),
        test=fit.sums.test.scores(columns, config.intercept),
        inference=_inference(names, fit.inference) if fit.inference else None,
        prediction_interval=calibrated,
        certificate=FitCertificate(
            certificate.kind, finite(certificate.value), finite(certificate.relative), certificate.rests_on
        ),
        condition=finite(fit.condition),
        unique=bool(solution.unique),
        rows_read=fit.prepared.dataset.rows,
        rows_dropped=finite(fit.rows_dropped),
        filled=_filled(fit),
        warnings=(*fit.notes, *_unseen(fit.sums.unseen)),
    )


def _filled(fit: Fit) -> dict[str, Filled]:
    """The columns with missing numbers."""
    if fit.config.impute == "drop":
        return {}
    columns = fit.prepared.dataset.columns
    numbers = [t for t in fit.prepared.encoding.terms if isinstance(t, Number) and columns[t.column].missing]
    return {t.column: Filled(columns[t.column].missing, finite(t.fill)) for t in numbers}


def _unseen(count: int) -> list[str]:
    return (
        [f"{count} test rows have a level that no training row has; its 0/1 columns are all 0 there."] if count else []
    )


def _named(names: list[str], values: Array) -> dict[str, float]:
    found: dict[str, float] = finite(dict(zip(names, values.tolist(), strict=True)))
    return found


def _inference(names: list[str], found: solved.Inference) -> FitInference:
    def rows(estimates: solved.Estimates) -> list[Estimate]:
        parts = zip(
            estimates.value, estimates.std_error, estimates.t, estimates.p_value, estimates.low, estimates.high,
            strict=True,
        )  # fmt: skip
        return [Estimate(*finite(part)) for part in parts]

    return FitInference(
        confidence=found.confidence,
        coefficients=dict(zip(names, rows(found.coef), strict=True)),
        intercept=rows(found.intercept)[0] if found.intercept else None,
        residual_sd=finite(found.residual_sd),
        residual_df=finite(found.residual_df),
        f=finite(found.f),
        f_p_value=finite(found.f_p_value),
        r2=finite(found.r2),
        adjusted_r2=finite(found.adjusted_r2),
    )
