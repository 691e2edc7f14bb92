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
from shoal.results.plain import plain
from shoal.solve.intervals import meaning


def about(model: SavedModel) -> Iterator[str]:
    yield heading("The model")
    yield paragraph(words.about(model.file))
    yield paragraph(words.formula(model), "formula")
    yield paragraph("[column is level] counts 1 where that is so, else 0.", "small") if model.texts else ""
    yield heading("Scores", 3)
    yield _scores(model.report)


def _scores(report: FitReport) -> str:
    parts = {"training rows": report.train, "test rows": report.test}
    rows = [(name, *dataclasses.astuple(found)) for name, found in parts.items() if found.rows]
    return table(("", "rows", "R²", "adjusted R²", "RMSE", "MAE"), rows)


# ------------------------------------------------------------------ coefficients


def coefficients(report: FitReport, evidence: Evidence) -> Iterator[str]:
    inference = plain(report.inference) or _own_intervals(report, evidence)
    estimates = inference.get("coefficients", {})
    standardized = report.standardized
    yield heading("Coefficients")
    shown = effects(report.coefficients, standardized, estimates)[:MOST]
    caption = "How much the prediction changes for one standard deviation more of the column"
    caption += "; lines are intervals." if any(c.low is not None and c.high is not None for c in shown) else "."
    if len(shown) < len(standardized):
        caption += f" The {len(shown)} largest of {len(standardized):,}; the table has all."
    yield figure(drawn.coefficient_chart(shown, report.target), caption, "wide")
    if inference:
        kind = inference.get("kind", "linear")
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
    rows: list[tuple[Any, ...]] = [("(intercept)", report.intercept, None, *map(first.get, keys))]
    for name, value in report.coefficients.items():
        rows.append((name, value, standardized.get(name), *map((estimates.get(name) or {}).get, keys)))
    names = {"std_error": "std. error", "p_value": "p"}
    return table(("column", "coefficient", "per std. dev.", *(names.get(k, k) for k in keys)), rows)


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
