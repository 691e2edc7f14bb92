"""The report of a fit, made from what was computed; the types that it is made of are in `results`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import Any

import numpy as np

from shoal.data.notation.numbers import Notation
from shoal.data.terms import MISSING_LEVEL
from shoal.fitting.exact import Fit, Prepared, Reduced
from shoal.fitting.model_file import model_of
from shoal.lazy.classes import dataclass
from shoal.models import Array, Certificate
from shoal.results.findings import FindingKind, in_order, routine_among, worse_than_nothing
from shoal.results.fit import Estimate, Filled, FitCertificate, FitInference, FitReport, GradientTraining
from shoal.results.model import ModelFile
from shoal.settings.config import RunConfig
from shoal.settings.strength import strength
from shoal.settings.when import penalty_knob
from shoal.solve import inference as solved
from shoal.solve.collinearity import collinearity
from shoal.solve.conformal import prediction_interval
from shoal.words import listed, plural, shortened

NAMED, LONGEST_LEVEL = 5, 80  # new levels of a column, and columns with such, that a warning names; letters of one


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
    """A fit, what is said of it, and its model file; `fit` is None of a model that is not made from sums."""

    fit: Fit | None
    report: FitReport
    model: ModelFile
    files: dict[str, bytes] = field(default_factory=dict)  # in place of a model file: what a module is kept as


def described(fit: Fit, training: GradientTraining | None = None, notes: Iterable[str] = (), **changes: Any) -> Trained:
    """All but how long it took; a gradient run adds what is said of its training, and more to warn of."""
    said = report(fit)
    more = tuple(notes)
    said = replace(
        said,
        training=training,
        warnings=(*said.warnings, *more),
        routine=(*said.routine, *routine_among(more)),
        **changes,
    )
    return trained(fit, said, fit.config, fit.prepared)


def trained(fit: Fit | None, said: FitReport, config: RunConfig, prepared: Prepared) -> Trained:
    """A fit with its report, and the model file that follows from them."""
    columns = written_columns(prepared), prepared.training_columns
    return Trained(fit, said, model_of(prepared.encoding, said, config, prepared.dataset, *columns))


def noted(trained: Trained, notes: tuple[str, ...]) -> Trained:
    """The same with more to know, said first."""
    if not notes:
        return trained
    before = trained.report
    known = (*routine_among(notes), *before.routine)
    said = replace(before, warnings=(*notes, *before.warnings), routine=known)
    return replace(trained, report=said, model=replace(trained.model, report=replace(said, timings={}, run_id="")))


def report(fit: Fit) -> FitReport:
    """What is said about a fit."""
    config, solution, names = fit.config, fit.solution, fit.prepared.encoding.names
    columns = int(np.count_nonzero(solution.w)) if config.model in ("lasso", "elasticnet") else solution.rank
    repeats = fit.prepared.repeats
    calibrated = prediction_interval(
        fit.sums.calibration, fit.sums.test.rows, config.solver == "gradient" and bool(config.patience),
        fit.sums.calibration_weights, repeats,
    )  # fmt: skip
    test = fit.sums.test.scores(columns, config.intercept, repeats)
    few = any(one.kind == FindingKind.FEW_ROWS for one in fit.prepared.findings)  # which offers the same remedy
    worse = () if few else worse_than_nothing(test.r2, False, penalty_knob(config.as_dict()))
    return FitReport(
        model=config.model,
        target=config.target,
        alpha=None if config.model == "linear" else finite(strength(config)),
        l1_ratio=config.l1_ratio if config.model == "elasticnet" else None,
        intercept=finite(solution.intercept),
        coefficients=named_values(names, solution.coef),
        coefficients_standardized=named_values(names, solution.w),
        train=fit.sums.train.scores(columns, config.intercept, repeats),
        test=test,
        inference=_inference(names, fit.inference) if fit.inference else None,
        prediction_interval=calibrated,
        certificate=certified(solution.certificate),
        condition=finite(fit.condition),
        unique=bool(solution.unique),
        rows_dropped=finite(fit.rows_dropped),
        **of_the_table(config, fit.prepared, solution.w),
        findings=in_order((*fit.prepared.findings, *worse)),
        **warned(fit.notes, fit.sums.unseen, fit.prepared),
        collinearity=collinearity(fit.prepared.problem, names) if isinstance(fit.prepared, Reduced) else None,
    )


def certified(certificate: Certificate) -> FitCertificate:
    return FitCertificate(
        certificate.kind, finite(certificate.value), finite(certificate.relative), certificate.rests_on
    )


def of_the_table(config: RunConfig, prepared: Prepared, weights: Array) -> dict[str, Any]:
    """What every report says of the rows and columns that its model was made from."""
    return {
        "rows_read": prepared.dataset.rows_of_table,
        "filled": _filled_columns(config, prepared),
        "references": prepared.encoding.references,
        "dates": _date_columns(config, prepared),
        **_columns_said(config, prepared, weights),
    }


def _columns_said(config: RunConfig, prepared: Prepared, weights: Array) -> dict[str, Any]:
    """How many columns of the table have a weight, of all (p,) or of several classes (K, p), and which are left out,
    because it was told so or they cannot be used. A column counts once, however many levels of it have weights."""
    kept = np.any(np.atleast_2d(weights), axis=0)
    terms = zip(prepared.encoding.terms, kept, strict=True)
    used = {column for term, has_weight in terms if has_weight for column in term.columns}
    asked, in_it = {*config.features, *config.exclude}, {*prepared.encoding.columns, *_beside(config)}
    gone = (
        name for name in prepared.dataset.columns
        if name not in in_it and (name in asked or not config.features)
    )  # fmt: skip
    return {"columns_used": len(used), "columns_left_out": tuple(gone)}


def _beside(config: RunConfig) -> tuple[str, ...]:
    """Columns that a model needs and does not predict from."""
    return config.target, config.weights, config.offset


def _filled_columns(config: RunConfig, prepared: Prepared) -> dict[str, Filled]:
    """The columns with missing numbers."""
    if config.impute == "drop":
        return {}
    columns = prepared.dataset.columns
    fills = {name: fill for name, fill in prepared.encoding.fills.items() if columns[name].missing}
    return {name: Filled(columns[name].missing, finite(fill)) for name, fill in fills.items()}


def written_columns(prepared: Prepared) -> dict[str, str]:
    """How the numbers of the model's columns are written: the same text is to mean the same number in prediction. That
    of the target is what predictions are shown as."""
    dataset, encoding = prepared.dataset, prepared.encoding
    dialect = dataset.manifest.dialect
    usual = Notation(dialect["decimal"], dialect["thousands"]).example
    columns = [dataset.columns[name] for name in encoding.columns if name not in encoding.known]
    columns += [target for target in [dataset.columns[encoding.target]] if target.is_number]
    return {column.name: column.written or usual for column in columns if not column.is_date}


def _date_columns(config: RunConfig, prepared: Prepared) -> dict[str, str]:
    """The columns of the model, and the target, that hold dates."""
    columns = prepared.dataset.columns
    used = (*prepared.encoding.columns, config.target)
    return {name: columns[name].written for name in used if columns[name].is_date}


def warned(notes: Iterable[str], unseen: int = 0, prepared: Prepared | None = None) -> dict[str, Any]:
    """All notes on a fit, and which of them are routine; `unseen` test rows have levels that are new to the model."""
    said = (*notes, *(_unseen_notes(unseen, prepared) if unseen and prepared else ()))
    return {"warnings": tuple(map(str, said)), "routine": routine_among(said)}


def _unseen_notes(count: int, prepared: Prepared) -> list[str]:
    have, new = f"{plural(count, 'test row')} {'has' if count == 1 else 'have'}", [*_new_levels(prepared)]
    more = f"; and more in {plural(len(new) - NAMED, 'column')}" if len(new) > NAMED else ""
    which = f" Such levels: {'; '.join(new[:NAMED])}{more}." if new else ""
    return [
        f"{have} a level that no training row has; its 0/1 columns are all 0 there. The model knows nothing of it, and "
        f"the score on test rows may suffer.{which}"
    ]


def _new_levels(prepared: Prepared) -> Iterator[str]:
    """Of each text column the levels that no training row has."""
    encoding = prepared.encoding
    for name in encoding.known:
        column, known = prepared.dataset.columns[name], {*encoding.known[name]}
        if name in encoding.rare:  # it has a column of its own for whatever is new
            continue
        new = [f"'{shortened(level, LONGEST_LEVEL)}'" for level in column.levels if level and level not in known]
        if column.missing and MISSING_LEVEL not in known and not encoding.drop_missing:
            new.append("no value")
        if new:
            yield f"{listed(new, NAMED)} in '{name}'"


def named_values(names: list[str], values: Array) -> dict[str, float]:
    found: dict[str, float] = finite(dict(zip(names, values.tolist(), strict=True)))
    return found


def inference_rows(estimates: solved.Estimates) -> list[Estimate]:
    parts = zip(
        estimates.value, estimates.std_error, estimates.t, estimates.p_value, estimates.low, estimates.high,
        strict=True,
    )  # fmt: skip
    return [Estimate(*finite(part)) for part in parts]


def _inference(names: list[str], found: solved.Inference) -> FitInference:
    return FitInference(
        confidence=found.confidence,
        coefficients=dict(zip(names, inference_rows(found.coef), strict=True)),
        intercept=inference_rows(found.intercept)[0] if found.intercept else None,
        residual_sd=finite(found.residual_sd),
        residual_df=finite(found.residual_df),
        f=finite(found.f),
        f_p_value=finite(found.f_p_value),
        r2=finite(found.r2),
        adjusted_r2=finite(found.adjusted_r2),
    )
