"""The section of a report about how a yes/no model tells yes from no: calls at thresholds, the ROC curve."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.report.html import figure, heading, paragraph, table
from shoal.report.svg import Plot, PlotAxis
from shoal.results.outcome import Outcome, ThresholdCurve
from shoal.results.thresholds import calls_at
from shoal.words import number

THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def told_apart(outcome: Outcome, curve: ThresholdCurve) -> Iterator[str]:
    no, yes = outcome.classes
    yield heading("Yes from no")
    yield paragraph(
        f"Rows called '{yes}' from a probability on, the others '{no}'; of {curve.yes:,} rows that are '{yes}' and "
        f"{curve.no:,} that are '{no}'."
    )
    rows = []
    for threshold in THRESHOLDS:
        found = calls_at(curve, threshold)
        rows.append((threshold, found.hits, found.alarms, found.misses, found.passes, found.recall, found.precision))
    head = (
        "from",
        "right yes",
        "false alarms",
        "misses",
        "right no",
        f"share of '{yes}' found",
        "share of calls right",
    )
    yield table(head, rows)
    area = number(outcome.honest.scores.get("auc"))
    yield figure(_roc(curve, area), f"ROC curve: yes rows found against no rows called yes; the area is {area}.")


def called_what(outcome: Outcome) -> Iterator[str]:
    """Rows of each of several classes, and what they are called."""
    yield heading("Calls")
    which = "test" if outcome.test.rows else "training"
    yield paragraph(f"The {which} rows by what they are (lines) and what they are called (columns).")
    rows = [
        (name, *line, sum(line), line[place] / sum(line) if sum(line) else None)
        for place, (name, line) in enumerate(zip(outcome.classes, outcome.confusion, strict=True))
    ]
    yield table(("", *outcome.classes, "rows", "share right"), rows)


def _roc(curve: ThresholdCurve, area: str) -> str:
    points = [(a / max(curve.no, 1), h / max(curve.yes, 1)) for h, a in zip(curve.hits, curve.alarms, strict=True)]
    ends = [0.0, 1.0]
    plot = Plot(PlotAxis.around(ends, "no rows called yes"), PlotAxis.around(ends, "yes rows found"))
    plot.line([(0.0, 0.0), (1.0, 1.0)], "mark dashed")
    plot.line([(0.0, 0.0), *points[::-1], (1.0, 1.0)], "blue")
    return plot.svg(f"ROC curve, area {area}")
