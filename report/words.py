"""What a report says in words: the model, its formula, scores, certificate and settings; nothing is drawn here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal import words
from shoal.data.terms import Indicator, Level, Rare, Term
from shoal.fitting.model_file import SavedModel
from shoal.results.fit import FitReport, FitScores
from shoal.results.model import ModelFile
from shoal.settings.config import RunConfig
from shoal.words import from_optimum, model_title, plural, short

ABOUT = {
    "linear": "Least squares: of all coefficients, these make the sum of squared errors on the training rows smallest.",
    "ridge": "Ridge: the coefficients make the sum of squared errors plus alpha times the sum of their squares "
    "smallest, so all of them are pulled toward 0 a little.",
    "lasso": "Lasso: the coefficients make half the mean squared error plus alpha times the sum of their sizes "
    "smallest, so those that matter little are exactly 0.",
    "logistic": "Logistic regression: the coefficients make the probabilities that are given to what came about "
    "largest (maximum likelihood); the sum below is the logarithm of the odds.",
    "poisson": "Poisson regression: the coefficients make the counts that came about likeliest; the sum below is the "
    "logarithm of the expected count.",
    "gamma": "Gamma regression: the coefficients make the numbers that came about likeliest, with a spread that grows "
    "with the mean; the sum below is the logarithm of the expected value.",
    "lognormal": "Least squares of the logarithm of the target; the sum below is the logarithm of the expected value: "
    "the intercept has in it what makes means of medians (Duan's smearing).",
    "multinomial": "Multinomial regression: the coefficients make the probabilities that are given to the classes that "
    "came about largest (maximum likelihood); each class has a sum as below, its score.",
    "huber": "Huber regression: the coefficients make the sum of errors smallest that count as squares while they are "
    "small and by their size from epsilon times the scale on, so that outliers pull little.",
    "quantile": "Quantile regression: the coefficients make the mean pinball loss smallest, so that the asked share of "
    "the training rows lies at or below the sum.",
    "elasticnet": "Elastic net: the coefficients make half the mean squared error plus a penalty smallest, a mixture "
    "of their sizes (share l1_ratio) and of their squares, with strength alpha.",
}
DROPPED = {
    "bad_row": "could not be read",
    "target_missing": "had no value in the column to predict",
    "no_weight": "had no weight above 0",
    "offset_missing": "had no value in the column of the offset",
    "feature_missing": "had no value in another column",
}
IN_FORMULA = 12  # terms that are written out
OUTSIDE = ("file", "out", "target", "model", "alpha", "l1_ratio", "solver")  # of the settings: said elsewhere


def title(report: FitReport) -> str:
    return model_title(report.model, report.target)


def scored(report: FitReport) -> tuple[FitScores, str]:
    return report.honest, "test rows" if report.test.rows else "training rows"


def about(file: ModelFile) -> str:
    report = file.report
    text = ABOUT.get(report.model, "")
    if report.penalty:
        text = f"The penalty is that of the plug-in {report.penalty}."
    if report.alpha is not None:
        text += f" Here alpha is {short(report.alpha)}"
        text += "." if report.l1_ratio is None else f" and l1_ratio {short(report.l1_ratio)}."
    if report.alpha is not None and file.config.get("standardize", True):
        text += " The penalty is on columns of spread 1, so the units of the file do not matter to it."
    return text


def formula(model: SavedModel) -> str:
    """The prediction as a sum; the terms that move it most come first. Of several classes the score of the first."""
    if model.several and model.outcome:
        first = formula(model.of_class(0)).replace(model.target, f"score of {model.outcome.classes[0]}", 1)
        return f"{first}; and so for each class, of whose e^score a probability is the share"
    weights = model.report.standardized
    terms = [(t, float(c)) for t, c in zip(model.encoding.terms, model.coef, strict=True) if c]
    terms.sort(key=lambda pair: -abs(weights.get(pair[0].name) or 0.0))
    parts = [f"{scored_name(model.report)} = {short(model.intercept)}"]
    for term, value in terms[:IN_FORMULA]:
        parts.append(f"{'+' if value > 0 else '−'} {short(abs(value))} × {factor(term)}")
    if len(terms) > IN_FORMULA:
        parts.append(f"+ {len(terms) - IN_FORMULA:,} more terms, see the table of coefficients")
    return " ".join(parts)


def scored_name(report: FitReport) -> str:
    """What the sum is: the target, or what its mean follows from."""
    if report.outcome is None:
        return report.target
    if report.outcome.several:
        return "score of a class"
    return f"log odds of {report.outcome.yes}" if report.outcome.classes else f"log {report.target}"


def factor(term: Term) -> str:
    """A term as people read it."""
    if isinstance(term, Rare):
        return f"[{term.column} is rare]"
    if isinstance(term, Level):
        return f"[{term.column} {'is missing' if term.level == '__missing__' else f'is {term.level}'}]"
    return f"[{term.column} is missing]" if isinstance(term, Indicator) else term.name


def rows(file: ModelFile) -> str:
    """How many were read, left out and why, and used for what."""
    report = file.report
    parts = [f"{plural(report.rows_read or file.data.rows, 'row')} read"]
    for reason, count in report.rows_dropped.items():
        parts.append(f"{count:,} left out, as they {DROPPED.get(reason, reason.replace('_', ' '))}")
    parts.append(f"{report.train.rows:,} used for training")
    if report.test.rows:
        parts.append(f"{report.test.rows:,} kept for testing")
    return f"{'; '.join(parts)}."


def certificate(report: FitReport) -> str:
    found = report.certificate
    if not found:
        return "There is none in the model file."
    return words.certificate(found.kind, found.relative, found.rests_on)


def training(report: FitReport) -> str:
    """How far a gradient run has come."""
    found = report.training
    if not found:
        return "It was solved exactly."
    parts = [f"It was trained by gradient steps: {short(found.epochs)} epochs"]
    away = found.distance_to_optimum
    if away is not None:
        parts.append(f"the objective: {from_optimum(away)}")
    parts.append("it converged" if found.converged else "it did not converge")
    return f"{', '.join(parts)}."


def settings(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The knobs that were not left as they are, by their names on the command line."""
    usual = RunConfig().as_dict()
    changed = {k: v for k, v in config.items() if (k not in usual or v != usual[k]) and k not in OUTSIDE}
    return [(name, _said(value)) for name, value in changed.items()]


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value)) or "none"
    return short(value)
