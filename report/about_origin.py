"""The sections of a report about where a model comes from: its data, what proves it, run and settings."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from shoal.data.notation.dates import has_times
from shoal.fitting.model_file import SavedModel
from shoal.report import charts as drawn
from shoal.report import words
from shoal.report.evidence import Evidence
from shoal.report.html import Html, heading, paragraph, table
from shoal.results.answers.table import ColumnLook
from shoal.results.card import ModelCard
from shoal.results.fit import FitReport
from shoal.results.model import NAME, ModelFile
from shoal.words import date_text, short

COLUMNS = 400  # of the table of columns; more would be a book
LEVELS = 5  # of a text column that are named
TYPES = {"numeric": "numbers", "datetime": "dates", "categorical": "levels", "text": "free text"}


def data(model: SavedModel, evidence: Evidence) -> Iterator[str]:
    yield heading("Data")
    yield paragraph(f"{model.file.data.file or 'A table'}: {words.rows(model.file)}")
    yield _columns(model, evidence) if evidence.columns else _columns_of_model(model)
    if len(evidence.columns) > COLUMNS:
        yield paragraph(f"The first {COLUMNS} of {len(evidence.columns):,} columns.", "small")


def _fills(model: SavedModel) -> dict[str, float]:
    return {name: float(fill) for name, fill in model.encoding.fills.items()}


def _columns(model: SavedModel, evidence: Evidence) -> str:
    fills, used = _fills(model), {*model.numbers, *model.texts}
    rows = []
    for column in evidence.columns[:COLUMNS]:
        name = column.name
        role = "target" if name == model.target else "used" if name in used else "not used"
        numeric, mean = column.type == "numeric", evidence.means.get(name)
        fill = _fill(fills.get(name), model.report.dates.get(name))
        rows.append((
            name, role, TYPES.get(column.type, column.type), column.missing, column.min,
            mean if numeric else None, column.max, _levels(column),
            fill if role == "used" else None, Html(drawn.spread_of(column)),
        ))  # fmt: skip
    head = ("column", "role", "holds", "missing", "min", "mean", "max", "levels (rows)", "if missing", "spread")
    return table(head, rows)


def _fill(value: float | None, written: str | None) -> float | str | None:
    """What stands in for a missing value: a number, or a date where the column is written as one."""
    return value if value is None or written is None else date_text(value, has_times(written))


def _levels(column: ColumnLook) -> str:
    frequent = column.frequent or ()
    said = ", ".join(f"{level} ({count:,})" for level, count in frequent[:LEVELS])
    more = column.distinct - len(frequent[:LEVELS])
    return f"{said} and {more:,} more" if frequent and more > 0 else said


def _columns_of_model(model: SavedModel) -> str:
    """What the model file alone knows of the columns."""
    fills = _fills(model)
    dates = model.report.dates
    rows = [(name, "dates" if name in dates else "numbers",
             f"{short(_fill(fills[name], dates.get(name)))} stands in for a missing one" if name in fills else "")
            for name in model.numbers]  # fmt: skip
    rows += [(name, "levels", ", ".join(model.encoding.known.get(name, ()))) for name in model.texts]
    return table(("column", "holds", ""), rows)


# ------------------------------------------------------------------ where it comes from


def trust(report: FitReport) -> Iterator[str]:
    yield heading("Certificate")
    yield paragraph(words.training(report))
    yield paragraph(words.certificate(report))
    if report.collinearity and (said := report.collinearity.sentences(report.condition)):
        yield paragraph(" ".join(said))


def lineage(file: ModelFile, card: ModelCard) -> Iterator[str]:
    yield heading("Lineage")
    yield table(("what", "value"), [*_facts(file), *_run(card), *_settings(file), _made()])
    yield paragraph("Settings that are not named have their usual value.", "small")


def _facts(file: ModelFile) -> list[tuple[str, str]]:
    return [
        ("data file", file.data.file),
        ("rows of the file", f"{file.data.rows:,}"),
        ("fingerprint of the data", file.data.content),
        ("solver", "gradient steps" if file.report.training else "exact"),
        ("model file", f"{NAME} {file.version}"),
    ]


def _run(card: ModelCard) -> Iterator[tuple[str, str]]:
    """What the store of models knows besides the file."""
    if card.run:
        yield "run", card.run
    if card.created:
        yield "saved", _moment(card.created)
    if card.seconds:
        yield "training took", f"{card.seconds:.3g} s"
    if card.state == "stopped":
        yield "ended", "stopped before it was finished"
    if card.copied_from:
        yield "copied from", card.copied_from
    if card.note:
        yield "note", card.note


def _settings(file: ModelFile) -> list[tuple[str, str]]:
    return [(f"setting {name}", value) for name, value in words.settings(file.config)]


def _made() -> tuple[str, str]:
    by = f"Shoal {_version('shoal')}, Python {platform.python_version()}, NumPy {_version('numpy')}"
    return "report made", f"{_moment(time.time())} by {by}"


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed as a package)"
