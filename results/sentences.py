"""What a fit has come to, in three plain sentences: how well it predicts, against a baseline, and what matters.

The same on pages, in the terminal, in reports and in Python; figures in tables and charts are elsewhere.
"""

from __future__ import annotations

import math

from shoal.results.findings import LITTLE, FindingKind
from shoal.results.fit import FitReport, FitScores
from shoal.results.outcome import SCORE_NAMES, Outcome, by_column
from shoal.words import MODELS, date_text, listed, number, plural, shortened, term_shown, within_words

NAMED, LETTERS = 3, 48  # columns that matter most, and of a name in a sentence
CHANCE = 0.05  # p-value above which a coefficient may be 0
ROUNDING = 1e-9  # standardised weights below which there is nothing but rounding
LEFT_OUT = 20  # columns that are named in one sentence
CROSSED = 0.05  # share of test rows in which lines change places, from which on it is said
TIME = "14:35"  # times of day, which are hours, are written so; no date is as short
EXACTLY = 1e-9  # share of the spread below which nothing is left but rounding
GRAVE = (FindingKind.LEAK, FindingKind.SUM_LEAK, FindingKind.PRODUCT_LEAK)


def three_sentences(report: FitReport) -> tuple[str, ...]:
    """What predicts what and how well; the error of always predicting the mean; what matters most, or what to mind."""
    if report.network:
        return report.network.sentences(report.target)
    return _how_well(report), _against_nothing(report), _what_matters(report)


def usual_range(report: FitReport, digits: int = 4) -> str:
    """How far from their predictions new numbers lie, nine in ten of them; empty where no rows tell, and of classes."""
    said = report.prediction_interval
    width = said.half_widths.get("0.9") if said else None
    if said is None or width is None or (report.outcome and report.outcome.classes):
        return ""
    within = within_words("the prediction", width, said.spread, said.centre, digits)
    if said.spread == "even":
        within = f"± {number(width, digits)} of the prediction"
    return f"90 % of new rows like the test rows lie within {within}."


def bands_told(report: FitReport, digits: int = 4) -> str:
    """How wide intervals are that follow the rows; empty without any."""
    if (found := report.bands) is None:
        return ""
    level, said = f"{100 * found.level:g} %", report.prediction_interval
    alike = said.half_widths.get(str(found.level)) if said else None
    instead = f"; one width for all rows would be {number(2 * alike, digits)}" if alike is not None else ""
    crossed = (
        f" The two lines change places in {100 * found.crossed:.2g} % of the test rows: their spread is no straight "
        "line of these columns, or there are too few training rows for so many."
    )
    return (
        f"Intervals of {level} follow the rows: {number(found.mean_width, digits)} wide on average in "
        f"{plural(found.rows, 'test row')}, for a tenth of them below {number(found.narrow, digits)}, for a tenth "
        f"above {number(found.wide, digits)}{instead}.{crossed if found.crossed > CROSSED else ''}"
    )


def left_out(report: FitReport) -> str:
    """Which columns of the table the model does without, by choice or since they cannot be used; empty without any."""
    names = report.columns_left_out
    return f"Left out of the model: {listed(list(names), LEFT_OUT).rstrip('.')}." if names else ""


def filled(report: FitReport) -> str:
    """What stands in for missing numbers, and in how many rows; empty without any."""
    said = [
        f"'{name}' with {filling(report, name)} in {plural(one.rows, 'row')}" for name, one in report.filled.items()
    ]
    return f"Missing numbers were filled: {listed(said, LEFT_OUT)}{of_all_rows(report)}." if said else ""


def of_all_rows(report: FitReport) -> str:
    """What the counts of filled rows need to be said of them where the model does without some rows."""
    return " (counted in all rows, those that were left out included)" if any(report.rows_dropped.values()) else ""


def filling(report: FitReport, name: str) -> str:
    """What stands in for missing values of a column: a number, or a day where it holds dates."""
    value, written = report.filled[name].value, report.dates.get(name, "")
    return date_text(value, ":" in written) if len(written) > len(TIME) else number(value)


def baseline(scores: FitScores) -> float | None:
    """The typical error of always predicting the mean of these rows: R2 = 1 - (rmse / baseline)^2."""
    if scores.r2 is None or scores.rmse is None or not 1 - scores.r2 > EXACTLY:
        return None
    return scores.rmse / math.sqrt(1 - scores.r2)


def _how_well(report: FitReport) -> str:
    used = report.columns_used or len({_column_of(name, report) for name, value in _weights(report).items() if value})
    kind = MODELS.get(report.model, report.model).lower()
    article = "An" if kind[:1] in "aeiou" else "A"
    start = f"{article} {kind} model predicts '{report.target}' from {plural(used, 'column')}"
    scores, rows = report.honest, _rows(report)
    if report.outcome and report.outcome.classes:
        return f"{start}{_right(report.outcome, rows)}."
    if scores.rmse is None:
        return f"{start}."
    if report.outcome and report.outcome.loss == "quantile":
        return f"{start}{_at_or_below(report.outcome, rows)}."
    exact = scores.r2 is not None and 1 - scores.r2 <= EXACTLY
    if exact:
        return f"{start} and leaves nothing but rounding on {rows}."
    error = f"its typical error (RMSE) on {rows} is {number(scores.rmse)}, in the unit of '{report.target}'"
    return f"{start}; {error}."


def _column_of(name: str, report: FitReport) -> str:
    """The column that a coefficient belongs to: that of a level of a text column is one of several."""
    return next((column for column in report.references if name.startswith(f"{column}=")), name)


def _weights(report: FitReport) -> dict[str, float]:
    """Coefficients by name; of several classes the largest of each column."""
    if report.outcome is None or not report.outcome.several:
        return report.coefficients
    found = by_column(report.outcome.classes, report.coefficients)
    return {name: max(map(abs, values)) for name, values in found.items()}


def _rows(report: FitReport) -> str:
    return plural(report.honest.rows, "test row" if report.test.rows else "training row")


def _right(outcome: Outcome, rows: str) -> str:
    share = outcome.honest.scores.get("accuracy")
    if outcome.several and share is not None:
        return f"; of {rows}, {100 * share:.1f} % are predicted correctly"
    return "" if share is None else f"; at a threshold of 0.5, {100 * share:.1f} % of {rows} are predicted correctly"


def _at_or_below(outcome: Outcome, rows: str) -> str:
    share, wanted = outcome.honest.scores.get("below"), outcome.parameters.get("quantile", 0.5)
    if share is None:
        return ""
    return f": {100 * share:.1f} % of {rows} lie at or below its line, {100 * wanted:g} % were asked for"


def _beside_the_constant(outcome: Outcome) -> str:
    """A model of numbers as they are against always predicting one of them, by its own loss."""
    found, known = outcome.honest.scores, outcome.honest.baseline
    name = "pinball" if outcome.loss == "quantile" else "huber_loss"
    share, loss, nothing = found.get("loss_explained"), found.get(name), known.get(name)
    if share is None or loss is None or nothing is None:
        return "How much that is worth is not known: the target does not vary, or there are too few rows."
    said = f"Always predicting {outcome.constant} has a {SCORE_NAMES[name]} of {number(nothing)}"
    if share < -LITTLE:
        return f"{said}, the model of {number(loss)}: it does worse."
    if share < LITTLE:
        return f"{said}: the model does no better."
    return f"{said}, the model of {number(loss)}: it removes {100 * share:.0f} % of that."


def _beside_the_share(outcome: Outcome) -> str:
    """A yes/no model against always predicting the more frequent value."""
    found, known = outcome.honest.scores, outcome.honest.baseline
    accuracy, auc = known.get("accuracy"), found.get("auc")
    if accuracy is None or auc is None:
        return "How much that is worth is not known: these rows do not have all values."
    if outcome.several:
        return (
            f"Always predicting the most frequent of the {len(outcome.classes)} classes would be right in "
            f"{100 * accuracy:.1f} %; of a row of a class and one of another, the model gives the first a higher "
            f"probability of it in {100 * auc:.1f} % of pairs on average (AUC {auc:.3f}).{_worse(outcome)}"
        )
    return (
        f"Always predicting the more frequent value would be right in {100 * accuracy:.1f} %; of a '{outcome.yes}' "
        f"row and another one, the model gives the first a higher probability in {100 * auc:.1f} % of pairs "
        f"(AUC {auc:.3f})."
        f"{_worse(outcome)}"
    )


def _worse(outcome: Outcome) -> str:
    """That on these rows a model does worse than saying the same of each, by its own measure; mostly nothing."""
    found, known = outcome.honest.scores, outcome.honest.baseline
    share = found.get("deviance_explained")
    name = "log_loss" if outcome.classes else "mean_deviance"
    ours, nothing = found.get(name), known.get(name)
    if share is None or ours is None or nothing is None or share >= -LITTLE:
        return ""
    what = "Its probabilities are" if outcome.classes else "By its deviance it is"
    return (
        f" {what} worse than the baseline: a {SCORE_NAMES[name]} of {number(ours)}, where always predicting "
        f"{outcome.constant} of the training rows has {number(nothing)}."
    )


def _against_nothing(report: FitReport) -> str:
    if report.outcome and report.outcome.classes:
        return _beside_the_share(report.outcome)
    if report.outcome and report.outcome.link == "identity":
        return _beside_the_constant(report.outcome)
    scores = report.honest
    if scores.r2 is None or scores.rmse is None:
        return f"How much that is worth is not known: '{report.target}' does not vary, or there are too few rows."
    nothing = baseline(scores)
    if nothing is None:
        return "Always predicting the mean would be far off: the model explains all of the spread."
    said = f"Always predicting the mean would be off by {number(nothing)}"
    worse = _worse(report.outcome) if report.outcome else ""
    if scores.r2 < -LITTLE:
        return f"{said}: the model does worse (R² {scores.r2:.3f}).{worse}"
    if scores.r2 < LITTLE:
        return f"{said}: the model does no better.{worse}"
    gone = 100 * (1 - math.sqrt(1 - scores.r2))
    return f"{said}: the model removes {gone:.0f} % of that error (R² {scores.r2:.3f}).{worse}"


def _what_matters(report: FitReport) -> str:
    weights = {name: value for name, value in report.standardized.items() if value}
    first = _first_of_columns(weights, report)
    if first and abs(weights[first[0]]) < ROUNDING and report.outcome and report.outcome.separated:
        return "Its coefficients grow without end, so what moves it most cannot be told."
    if not first:
        return f"All weights are 0: it always predicts {report.outcome.constant if report.outcome else 'the mean'}."
    named = ", ".join(_moving(name, weights[name], report) for name in first)
    return f"What moves it most: {named}{_by_chance(report, first)}{_caveat(report)}."


def _first_of_columns(weights: dict[str, float], report: FitReport) -> list[str]:
    """The heaviest coefficient of each of the columns that matter most, in the order of charts: a text column once."""
    heaviest: dict[str, str] = {}
    for name in sorted(weights, key=lambda name: -abs(weights[name])):
        heaviest.setdefault(_column_of(name, report), name)
    return list(heaviest.values())[:NAMED]


def _moving(name: str, weight: float, report: FitReport) -> str:
    way, column = "up" if weight > 0 else "down", _column_of(name, report)
    if column == name:
        return f"{shortened(term_shown(name), LETTERS)} ({way})"
    level = name.removeprefix(f"{column}=")
    return f"{shortened(column, LETTERS)} ({'no value' if level == '__missing__' else shortened(level, LETTERS)} {way})"


def _by_chance(report: FitReport, names: list[str]) -> str:
    """Which of the first columns are not told from 0, as one is not that another says nearly the same as."""
    known = report.inference.coefficients if report.inference else {}
    p_values = {name: known[name].p_value for name in names if name in known}
    unsure = [name for name, p in p_values.items() if p is not None and p > CHANCE]
    if not unsure:
        return ""
    if len(unsure) == len(p_values):
        return " (none of them surely: the intervals have 0 in them)" if len(names) > 1 else " (not surely)"
    why = "its interval has 0 in it" if len(unsure) == 1 else "their intervals have 0 in them"
    return f" ({listed([shortened(term_shown(name), LETTERS) for name in unsure])} not surely: {why})"


def _caveat(report: FitReport) -> str:
    """The gravest thing to mind, if there is one."""
    if any(finding.kind in GRAVE for finding in report.findings):
        return "; but it may know the answer already, see the note on a leak"
    if report.outcome and report.outcome.separated:
        return "; but coefficients grow without end here, so how far they go says little"
    if report.training and not report.training.converged:
        return "; it has not converged yet"
    if not report.test.rows:
        return "; no rows were kept for testing, so on new rows it may do worse"
    return ""
