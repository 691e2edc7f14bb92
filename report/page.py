"""A model as one HTML page for a person: the order of its sections, each of which is made elsewhere.

Every number comes from the model file, or from passes over the rows it was trained on (`evidence`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from shoal.errors import StateError
from shoal.files.output import Output
from shoal.fitting.model_file import SavedModel
from shoal.library.model_cards import read_card
from shoal.library.predicted_columns import version_at_path
from shoal.report import words
from shoal.report.about_fit import residuals, root, validation
from shoal.report.about_model import about, coefficients
from shoal.report.about_origin import data, lineage, trust
from shoal.report.about_outcome import called_what, told_apart
from shoal.report.evidence import Evidence, Validation, gathered
from shoal.report.html import cards, heading, note, page, paragraph
from shoal.results.card import ModelCard
from shoal.results.fit import FitReport
from shoal.results.outcome import SCORE_NAMES
from shoal.results.sentences import bands_told, left_out, three_sentences, usual_range
from shoal.utils import Progress, silent
from shoal.words import number


def write_report(
    model: SavedModel, out: Output, card: ModelCard | None = None, progress: Progress = silent
) -> tuple[str, ...]:
    """Write the page; what it had to do without. `card` is what is known of a saved model besides its file."""
    evidence = gathered(model, progress)
    out.write(html(model, evidence, card or ModelCard()).encode("utf-8", "backslashreplace"))
    return evidence.notes


def card_beside(path: Path) -> ModelCard:
    """What the store of models says of a model file; nothing for a file of one's own."""
    if path.name != "model.json":
        return ModelCard()
    try:
        version = version_at_path(path.absolute())
        return version.card if version else read_card(path.parent, path.name)
    except StateError:
        return ModelCard()


def html(model: SavedModel, evidence: Evidence, card: ModelCard) -> str:
    return page(words.title(model.report), _parts(model, evidence, card))


def _parts(model: SavedModel, evidence: Evidence, card: ModelCard) -> Iterator[str]:
    report = model.report
    yield heading(words.title(report), 1)
    said = (*three_sentences(report), usual_range(report), bands_told(report), left_out(report))
    yield paragraph(" ".join(filter(None, said)), "lead")
    yield _figures(report, evidence.validation)
    yield from map(note, evidence.notes)
    yield from map(note, (*map(str, report.findings), *report.warnings))
    yield from about(model)
    yield from coefficients(report, evidence)
    if evidence.validation:
        yield from validation(evidence.validation)
    if report.outcome and report.outcome.curve:
        yield from told_apart(report.outcome, report.outcome.curve)
    if report.outcome and report.outcome.several:
        yield from called_what(report.outcome)
    if evidence.residuals:
        yield from residuals(evidence.residuals)
    yield from data(model, evidence)
    yield from trust(report)
    yield from lineage(model.file, card)


def _figures(report: FitReport, validated: Validation | None) -> str:
    part, rows = words.scored(report)
    if report.outcome:
        scores = report.outcome.honest.scores
        named = [(f"{SCORE_NAMES[name]}, {rows}", value) for name, value in scores.items() if name in SCORE_NAMES]
        return cards([(what, number(value)) for what, value in named if value is not None])
    found = [(f"R², {rows}", part.r2), (f"RMSE, {rows}", part.rmse), (f"MAE, {rows}", part.mae)]
    if validated:
        found.append((f"RMSE, {validated.choice.count}-fold cross-validation", root(validated.own)))
    return cards([(what, number(value)) for what, value in found if value is not None])
