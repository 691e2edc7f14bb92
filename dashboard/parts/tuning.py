"""What is said of a model whose penalty was chosen by cross-validation: its error there, the choice, its intervals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.dashboard.parts.literal import line, section
from shoal.lazy.frames import pd
from shoal.results.fit import FitReport
from shoal.results.tuned import BY_HAND, WAYS, CrossValidated, FormulaIntervals
from shoal.words import number, plural

FOLDS = {"row": "row number", "hash": "hash", "class": "class", "group": "groups of", "time": "time in"}
RESAMPLED = "resampled"
OF_THE_MODEL = ("linear", "ridge", RESAMPLED)  # kinds of intervals around the model's own coefficients


def cards(found: CrossValidated | None) -> list[tuple[str, str, str]]:
    """Label, value and help of its scores."""
    if found is None:
        return []
    if found.measure:
        return [
            (
                f"{found.measure.capitalize()}, cross-validated",
                number(found.deviance),
                "On rows that a model was not fitted to, over all folds.",
            ),
            (
                "Explained, cross-validated",
                number(found.explained),
                "Share of the error of knowing the mean alone that is gone on rows that a model was not fitted to.",
            ),
        ]
    return [
        ("R², cross-validated", number(found.r2), "On rows that a model was not fitted to, over all folds."),
        (
            "RMSE, cross-validated",
            number(found.rmse),
            "Typical error on rows that a model was not fitted to, over all folds, in the target's own unit.",
        ),
    ]


def folds_told(count: int, by: str) -> str:
    way, _, column = by.partition(":")
    return f"{plural(count, 'fold')} by {FOLDS.get(way, way)}{f' {column}' if column else ''}"


def choice_told(report: FitReport) -> list[str]:
    """How the penalty was chosen, in a few lines."""
    found = report.cross_validation
    if found is None:
        return []
    lines = [f"{folds_told(found.folds, found.fold_by)}; {found.error_name} {number(found.error)} ± {number(found.se)}"]
    if found.best is None or report.model == "linear":
        return lines
    way = WAYS.get(found.chosen, WAYS[BY_HAND])
    lines.append(f"alpha {number(report.alpha)}: {way}{'' if found.chosen == BY_HAND else f' ({found.alphas} tried)'}")
    others = {"best": found.best, "1-SE": found.one_se}
    lines.append(" · ".join(f"{name}: alpha {number(alpha)}" for name, alpha in others.items() if alpha is not None))
    return lines


def tuning(report: FitReport) -> None:
    """The section of a result; nothing where no cross-validation was part of it."""
    if lines := choice_told(report):
        section("Cross-validation")
        line("\n".join(lines))


def own_intervals(report: FitReport) -> dict[str, dict[str, Any]]:
    """Around the model's own coefficients, by name, for whiskers; empty where there are none."""
    own = [found for found in report.intervals if found.kind in OF_THE_MODEL]
    return {name: {"low": one.low, "high": one.high} for name, one in own[0].coefficients.items()} if own else {}


def add_intervals(table: pd.DataFrame, names: Iterable[str], found: tuple[FormulaIntervals, ...]) -> None:
    """Columns with their ends in a table of coefficients, whose names these are; it may show others (per day)."""
    names = list(names)
    for intervals in found:
        without = "" if intervals.kind in OF_THE_MODEL else " without the penalty"
        ends = [intervals.coefficients.get(name) for name in names]
        table[f"Low{without}"] = [None if one is None else one.low for one in ends]
        table[f"High{without}"] = [None if one is None else one.high for one in ends]


def meanings(report: FitReport) -> list[str]:
    return [f"{found.confidence:.0%} intervals: {found.meaning}" for found in report.intervals]
