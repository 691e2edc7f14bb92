"""What a report says in words: the model, its formula, scores, certificate and settings; nothing is drawn here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal import words
from shoal.data.terms import Indicator, Level, Term
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
    "elasticnet": "Elastic net: the coefficients make half the mean squared error plus a penalty smallest, a mixture "
    "of their sizes (share l1_ratio) and of their squares, with strength alpha.",
}
DROPPED = {
    "bad_row": "could not be read",
    "target_missing": "had no value in the column to predict",
    "feature_missing": "had no value in another column",
}
IN_FORMULA = 12  # terms that are written out
OUTSIDE = ("file", "out", "target", "model", "alpha", "l1_ratio", "solver")  # of the settings: said elsewhere


def title(report: FitReport) -> str:
    return model_title(report.model, report.target)


def kept(report: FitReport) -> int:
    return sum(1 for value in report.coefficients.values() if value)


def summary(file: ModelFile) -> str:
    """The one sentence for those who read no further."""
    report = file.report
    (part, rows), terms = scored(report), len(report.coefficients)
    used = plural(terms, "coefficient") if kept(report) == terms else f"{kept(report):,} of {terms:,} coefficients"
    text = f"It predicts {report.target} from {file.data.file or 'a table'} by a sum of {used}"
    if part.r2 is None or part.rmse is None:
        return f"{text}."
    explained = f"explains {100 * part.r2:.1f} % of the spread" if part.r2 >= 0 else "does worse than the mean"
    return f"{text}. On {part.rows:,} {rows} it {explained}; its typical error (RMSE) is {short(part.rmse)}."


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
    if report.model != "linear" and file.config.get("standardize", True):
        text += " The penalty is on columns of spread 1, so the units of the file do not matter to it."
    return text


def formula(model: SavedModel) -> str:
    """The prediction as a sum; the terms that move it most come first."""
    weights = model.report.standardized
    terms = [(t, float(c)) for t, c in zip(model.encoding.terms, model.coef, strict=True) if c]
    terms.sort(key=lambda pair: -abs(weights.get(pair[0].name) or 0.0))
    parts = [f"{model.target} = {short(model.intercept)}"]
    for term, value in terms[:IN_FORMULA]:
        parts.append(f"{'+' if value > 0 else '−'} {short(abs(value))} × {factor(term)}")
    if len(terms) > IN_FORMULA:
        parts.append(f"+ {len(terms) - IN_FORMULA:,} more terms, see the table of coefficients")
    return " ".join(parts)


def factor(term: Term) -> str:
    """A term as people read it."""
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
    parts = [f"It was trained by gradient steps: {short(found.epochs)} passes over the rows"]
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
