"""The sections of a report about the model itself: what it is, its scores, its coefficients and their intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.charts.effects import MOST, effects
from shoal.fitting.model_file import SavedModel
from shoal.report import charts as drawn
from shoal.report import words
from shoal.report.evidence import Evidence
from shoal.report.html import figure, heading, paragraph, table
from shoal.results.fit import FitReport
from shoal.results.outcome import FACTORS, SCORE_NAMES, Outcome, factor
from shoal.results.plain import plain
from shoal.solve.intervals import meaning
from shoal.words import compared


def about(model: SavedModel) -> Iterator[str]:
    yield heading("The model")
    yield paragraph(words.about(model.file))
    yield paragraph(words.formula(model), "formula")
    yield paragraph("[column is level] counts 1 where that is so, else 0.", "small") if model.texts else ""
    if said := compared(model.encoding.references):
        yield paragraph(said, "small")
    yield heading("Scores", 3)
    yield _scores(model.report)
    if own := model.report.own_metrics:
        rows = [(name, one.train, one.test, one.better) for name, one in own.items()]
        yield table(("metric of a plug-in", "training rows", "test rows", "better"), rows)


def _scores(report: FitReport) -> str:
    if report.outcome:
        return _outcome_scores(report.outcome)
    parts = {"training rows": report.train, "test rows": report.test}
    rows = [(name, *dataclasses.astuple(found)) for name, found in parts.items() if found.rows]
    return table(("", "rows", "R²", "adjusted R²", "RMSE", "MAE"), rows)


def _outcome_scores(outcome: Outcome) -> str:
    """Each beside that of a model that knows the training rows' mean and nothing else."""
    parts = {name: part for name, part in (("training", outcome.train), ("test", outcome.test)) if part.rows}
    rows = [
        (label, *(value for part in parts.values() for value in (part.scores.get(key), part.baseline.get(key))))
        for key, label in SCORE_NAMES.items() if any(key in part.scores for part in parts.values())
    ]  # fmt: skip
    head = [text for name, part in parts.items() for text in (f"{part.rows:,} {name} rows", "baseline")]
    return table(("", *head), rows)


# ------------------------------------------------------------------ coefficients


def coefficients(report: FitReport, evidence: Evidence) -> Iterator[str]:
    inference = plain(report.inference) or _own_intervals(report, evidence)
    estimates = inference.get("coefficients", {})
    standardized = report.standardized
    yield heading("Coefficients")
    shown = effects(report.coefficients, standardized, estimates)[:MOST]
    what = f"the {words.scored_name(report)}" if report.outcome else "the prediction"
    caption = f"How much {what} changes for one standard deviation more of the column"
    caption += "; lines are intervals." if any(c.low is not None and c.high is not None for c in shown) else "."
    if len(shown) < len(standardized):
        caption += f" The {len(shown)} largest of {len(standardized):,}; the table has all."
    yield figure(drawn.coefficient_chart(shown, report.target), caption, "wide")
    if inference:
        kind = report.outcome.errors_by if report.outcome else inference.get("kind", "linear")
        yield paragraph(f"What low and high mean: {meaning(kind, inference['confidence'])}")
        if report.training:
            yield paragraph("They are the intervals of the exact fit with the same settings.", "small")
    yield _coefficient_table(report, standardized, inference)
    yield from _without_penalty(report, evidence)


def _own_intervals(report: FitReport, evidence: Evidence) -> Mapping[str, Any]:
    """Those of the model itself, where a formula has some."""
    return next((each for each in evidence.intervals if each["kind"] == report.model), {})


def _coefficient_table(report: FitReport, standardized: Mapping[str, float], inference: Mapping[str, Any]) -> str:
    estimates, first = inference.get("coefficients", {}), inference.get("intercept") or {}
    keys = [k for k in ("std_error", "t", "p_value", "low", "high") if inference and k in (first or _any(estimates))]
    times = FACTORS.get(report.outcome.link) if report.outcome else None
    empty = (None,) * (3 if times else 0)
    rows: list[tuple[Any, ...]] = [
        (name, value, None, *map((first or estimates.get(name) or {}).get, keys), *empty)
        for name, value in report.intercepts.items()
    ]
    for name, value in report.coefficients.items():
        own = estimates.get(name) or {}
        factors = map(factor, (value, own.get("low"), own.get("high"))) if times else ()
        rows.append((report.shown(name), value, standardized.get(name), *map(own.get, keys), *factors))
    letter = "z" if report.outcome and report.outcome.dispersion is None else "t"
    names = {"std_error": "std. error", "p_value": "p", "t": letter}
    ratios = (times, f"{times}, low", f"{times}, high") if times else ()
    return table(("column", "coefficient", "per std. dev.", *(names.get(k, k) for k in keys), *ratios), rows)


def _any(estimates: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(iter(estimates.values()), {})


def _without_penalty(report: FitReport, evidence: Evidence) -> Iterator[str]:
    """Intervals of the true coefficients, where the model's own are pulled toward 0."""
    found = next((each for each in evidence.intervals if each["kind"] in ("debiased", "desparsified")), None)
    if not found:
        return
    yield heading("With the shrinkage of the penalty removed", 3)
    yield paragraph(meaning(found["kind"], found["confidence"]))
    own, keys = report.coefficients, ("estimate", "std_error", "low", "high")
    rows = [(name, own.get(name), *map(each.get, keys)) for name, each in found["coefficients"].items()]
    yield table(("column", "in this model", "without penalty", "std. error", "low", "high"), rows)
