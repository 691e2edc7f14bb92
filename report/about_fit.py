"""The sections of a report about how well a model predicts: cross-validation, the path of penalties, residuals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from shoal.charts import residuals as described
from shoal.report import charts as drawn
from shoal.report.evidence import Validation, WeightPath
from shoal.report.html import charts, figure, heading, key, paragraph, table
from shoal.results.answers.diagnosis import Diagnosis
from shoal.whatif.curve import CrossValidation
from shoal.words import plural, short

WORTH = 100  # columns in the table of what they are worth


def root(found: CrossValidation) -> float:
    """The typical error at the first alpha."""
    return math.sqrt(float(found.mean[0]))


def validation(found: Validation) -> Iterator[str]:
    yield heading("Cross-validation" if found.path is None else "The penalty and cross-validation")
    by = "by a hash of the row index" if found.choice.by == "hash" else "by row index"
    yield paragraph(
        f"{found.rows:,} training rows in {found.choice.count} folds ({by}); each fold is predicted by a model fitted "
        "to the others, with imputation, levels and units of their own. The mean squared error of this model is "
        f"{short(float(found.own.mean[0]))} ± {short(float(found.own.standard_error[0]))} (mean and standard error "
        f"over folds), a typical error of {short(root(found.own))}."
    )
    if found.path is None or found.along is None:
        yield paragraph("A linear model has no penalty, so there is no path of penalties to show.")
    else:
        yield from _penalties(found.path, found.along)


def _penalties(path: WeightPath, along: CrossValidation) -> Iterator[str]:
    places = {"this model": path.chosen, "best": along.best, "1 SE": along.one_se}
    marks = {name: float(along.alphas[place]) for name, place in places.items() if place is not None}
    svg, names, lines = drawn.path_chart(path, marks)
    caption = (
        f"Coefficients against the strength of the penalty: {len(along.alphas)} exact fits from sums over all rows."
    )
    if lines < int((path.weights != 0).any(axis=0).sum()):
        caption += f" The {lines} largest are drawn."
    curve = "The error on rows that were left out, mean ± one standard error over folds."
    yield charts([figure(svg, caption, key=key(names)), figure(drawn.validation_chart(along, marks), curve)])
    said = {"this model": "this model", "best": "best: the smallest error", "1 SE": "1 SE: within one standard error"}
    rows = [_choice(along, path.weights, place, said[name]) for name, place in places.items() if place is not None]
    yield table(("", "alpha", "mean squared error", "standard error", "coefficients that are not 0"), rows)
    yield paragraph(
        "1 SE is the strongest penalty whose error is at most one standard error above the smallest: nearly as good, "
        "and simpler.", "small",
    )  # fmt: skip


def _choice(along: CrossValidation, weights: Any, place: int, name: str) -> tuple[Any, ...]:
    return (name, float(along.alphas[place]), float(along.mean[place]), float(along.standard_error[place]),
            int((weights[place] != 0).sum()))  # fmt: skip


# ------------------------------------------------------------------ residuals


def residuals(found: Diagnosis) -> Iterator[str]:
    yield heading("Residuals")
    yield paragraph(
        "A deviance residual has the sign of actual less predicted; the squares of all of them sum to the deviance."
        if found.loss else "A residual is the actual value less the predicted one."
    )  # fmt: skip
    tested = bool(found.test.rows)
    points = len(found.sample.row)
    fair = f"{points:,} of {found.rows:,} rows, a fair sample" if points < found.rows else f"all {points:,} rows"
    if tested:
        yield key([("training rows", "train"), ("test rows", "test")])
    if found.loss:
        yield from _of_loss(found, fair)
        return
    yield charts([
        figure(drawn.drawn(described.predicted(found)),
               f"Points on the dashed line are predicted without error; {fair}."),
        figure(drawn.drawn(described.residuals(found)),
               "The blue line is the mean residual in bins of the prediction, ± 2 standard errors; where it leaves "
               "zero, a straight line misses something."),
        figure(drawn.drawn(described.histogram(found)), _sizes(found)),
        figure(drawn.normal_chart(found), "Where residuals are normal, the points lie on the line; ends that leave it "
               "are rows further off than normal noise explains."),
    ])  # fmt: skip


def _of_loss(found: Diagnosis, fair: str) -> Iterator[str]:
    """Calibration, deviance residuals, and what columns are worth."""
    yield charts([
        figure(drawn.drawn(described.calibration(found)), described.curvature(found)),
        figure(drawn.drawn(described.residuals(found)), f"Deviance residuals; {fair}."),
        figure(drawn.drawn(described.histogram(found)), _sizes(found)),
    ])  # fmt: skip
    if worth := found.importance:
        yield heading("What columns are worth", 3)
        yield paragraph(worth.meaning)
        shares = worth.shares()
        rows = [(name, rise, f"{100 * shares[name]:+.1f} %") for name, rise in list(worth.rises.items())[:WORTH]]
        yield table(("column", "rise of the mean deviance", "in percent"), rows)


def _sizes(found: Diagnosis) -> str:
    at = found.at
    rest = f" {plural(found.beyond, 'row')} lie further out." if found.beyond else ""
    return (
        f"Half of the residuals lie between {short(at[0.25])} and {short(at[0.75])}, nine in ten between "
        f"{short(at[0.05])} and {short(at[0.95])}.{rest}"
    )
