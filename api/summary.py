"""What is said of a fitted model at a glance, as text and as HTML for notebooks; the numbers are made elsewhere."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import Any

from shoal.fitting.model_file import usable
from shoal.lazy.classes import dataclass
from shoal.results.fit import Estimate, FitReport
from shoal.results.model import ModelFile
from shoal.results.outcome import SCORE_NAMES, Outcome
from shoal.results.sentences import filled, left_out, three_sentences
from shoal.settings.values import config_from
from shoal.tasks.predict import suited
from shoal.tasks.quartiles import residual_quartiles
from shoal.tasks.refit import Basis
from shoal.tasks.workers import kept_coordinator, reachable
from shoal.words import compared

QUARTILES = ("min", "1Q", "median", "3Q", "max")
SHOWN = 12  # coefficients in a repr
HEADERS = ("estimate", "std. error", "t", "p", "low", "high", "VIF")


@dataclass(frozen=True)
class ModelSummary:
    """A table of coefficients below some lines about the whole; `str` of it is for terminals.

    Likelihoods are those of normal errors. AIC and BIC count the coefficients and not the variance, as statsmodels
    does; R's are larger by 2 and log(n). None for penalised models, whose coefficients are not counted so.
    """

    report: FitReport
    vif: dict[str, float]
    log_likelihood: float | None = None
    aic: float | None = None
    bic: float | None = None
    residuals: tuple[float, ...] = ()  # smallest, quartiles and largest, of training rows

    @classmethod
    def of(cls, report: FitReport, vif: dict[str, float], residuals: tuple[float, ...] = ()) -> ModelSummary:
        found, n = report.inference, report.train.rows
        if found is None or not found.residual_sd or found.residual_df is None:
            return cls(report, vif, residuals=residuals)
        rss, counted = found.residual_sd**2 * found.residual_df, n - found.residual_df
        likelihood = -n / 2 * (math.log(2 * math.pi * rss / n) + 1)
        aic, bic = 2 * counted - 2 * likelihood, counted * math.log(n) - 2 * likelihood
        return cls(report, vif, likelihood, aic, bic, residuals)

    def facts(self) -> list[tuple[str, str]]:
        """Name and value of each line about the whole."""
        report, found = self.report, self.report.inference
        alpha = "" if report.alpha is None else f", alpha = {report.alpha:g}"
        facts = [("model", f"{report.model} of {report.target}{alpha}")]
        for name, scores in (("training rows", report.train), ("test rows", report.test)):
            if scores.rows and not report.outcome:
                facts.append((name, f"{scores.rows:,}, R2 {_number(scores.r2)}, RMSE {_number(scores.rmse)}"))
        if report.outcome:
            return [*facts, *_outcome_facts(report.outcome)]
        if self.residuals:
            ends = (f"{name} {_number(value)}" for name, value in zip(QUARTILES, self.residuals, strict=True))
            facts.append(("residuals", ", ".join(ends)))
        if found is not None:
            facts += [
                ("adjusted R2", _number(found.adjusted_r2)),
                ("residual SD", f"{_number(found.residual_sd)} on {found.residual_df:g} degrees of freedom"),
                ("F", f"{_number(found.f)}, p = {_number(found.f_p_value)}"),
            ]
        if self.aic is not None:
            facts.append(
                ("log-likelihood", f"{_number(self.log_likelihood)}, AIC {_number(self.aic)}, BIC {_number(self.bic)}")
            )
        return facts

    def notes(self) -> list[str]:
        """What was worth knowing before the fit, and what is to be said of it."""
        said, together = compared(self.report.references), self.report.collinearity
        return [
            *filter(None, (left_out(self.report), filled(self.report), said)),
            *map(str, self.report.findings),
            *self.report.warnings,
            *(together.sentences(self.report.condition) if together else ()),
        ]

    def rows(self) -> list[tuple[str, list[str]]]:
        """Name and cells of each coefficient, the intercept's first; of a network of each part."""
        found = self.report.inference
        if found is not None:
            return [
                (self.report.shown(name), [*_cells(one), _number(self.vif.get(name))])
                for name, one in found.named().items()
            ]
        if self.report.network:
            return [(part.name, [f"{part.size:,}"]) for part in self.report.network.parts]
        values = {"(intercept)": self.report.intercept, **self.report.coefficients}
        return [(self.report.shown(name), [_number(value)]) for name, value in values.items()]

    def _headers(self, rows: list[tuple[str, list[str]]]) -> tuple[str, ...]:
        return ("parameters",) if self.report.network else HEADERS[: len(rows[0][1])]

    def __str__(self) -> str:
        rows = self.rows()
        table = [["", *self._headers(rows)], *([name, *cells] for name, cells in rows)]
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        lines = [*three_sentences(self.report), "", *(f"{name:<16}{value}" for name, value in self.facts()), ""]
        for first, *cells in table:
            aligned = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
            lines.append("  ".join((f"{first:<{widths[0]}}", *aligned)).rstrip())
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = self.rows()
        facts = "".join(f"<tr><th>{html.escape(a)}</th><td>{html.escape(b)}</td></tr>" for a, b in self.facts())
        head = "".join(f"<th>{name}</th>" for name in ("", *self._headers(rows)))
        body = "".join(
            f"<tr><th>{html.escape(name)}</th>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
            for name, cells in rows
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        said = f"<p>{html.escape(' '.join(three_sentences(self.report)))}</p>"
        return f"{said}<table>{facts}</table><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def shown_model(report: FitReport, scores: Mapping[str, Mapping[str, Any]]) -> str:
    """A fitted model in some lines."""
    alpha = "" if report.alpha is None else f", alpha = {report.alpha:g}"
    coefficients = report.coefficients
    columns = "1 column" if len(coefficients) == 1 else f"{len(coefficients)} columns"
    if report.network:
        return "\n  ".join((f"<FittedModel: {report.model} model of '{report.target}'>", *three_sentences(report)))
    lines = [f"<FittedModel: {report.model} model of '{report.target}'{alpha}, {columns}>"]
    for part, found in scores.items():
        if found["rows"]:
            shown = ", ".join(f"{k} {v:.6g}" for k, v in found.items() if k != "rows" and v is not None)
            lines.append(f"  {part}: {found['rows']:,} rows, {shown}")
    names = ["(intercept)", *map(report.shown, list(coefficients)[:SHOWN])]
    width = max(map(len, names))
    values = [report.intercept, *coefficients.values()]
    lines += [f"  {name:<{width}}  {value: .6g}" for name, value in zip(names, values, strict=False)]
    if len(coefficients) > SHOWN:
        lines.append(f"  ... and {len(coefficients) - SHOWN} more")
    return "\n".join(lines)


def residuals_of(file: ModelFile, basis: Basis) -> tuple[float, ...]:
    """Smallest, quartiles and largest, of training rows, from the cached data set; none where that is gone."""
    dataset, saved = basis.prepared.dataset, usable(file)
    if not dataset.is_whole():
        return ()
    with kept_coordinator(reachable(config_from({**file.config, "out": None}))) as coordinator:
        return residual_quartiles(suited(saved, dataset), dataset, coordinator)


def _outcome_facts(outcome: Outcome) -> list[tuple[str, str]]:
    """Scores of another loss, with those of the baseline in brackets."""
    facts = []
    for name, part in (("training rows", outcome.train), ("test rows", outcome.test)):
        if part.rows:
            said = (
                f"{label} {_number(part.scores[key])} ({_number(part.baseline.get(key))})"
                for key, label in SCORE_NAMES.items()
                if key in part.scores
            )
            facts.append((name, f"{part.rows:,}; {', '.join(said)}"))
    if outcome.parameters:
        own = ", ".join(f"{name} {_number(value)}" for name, value in outcome.parameters.items())
        return [*facts, ("of the loss", own)]
    worth = f"{_number(outcome.log_likelihood)}, deviance {_number(outcome.deviance)}, AIC {_number(outcome.aic)}"
    return [*facts, ("log-likelihood", worth)]


def _cells(one: Estimate) -> list[str]:
    return [_number(value) for value in (one.estimate, one.std_error, one.t, one.p_value, one.low, one.high)]


def _number(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.6g}"
