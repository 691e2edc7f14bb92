"""What programs send and get: rows as JSON or as CSV, and predictions in the same form; who may ask is in `app`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from shoal.dashboard.api.problems import Refusal
from shoal.data.dialects import DEFAULT_MISSING
from shoal.data.notation.spelling import in_one_spelling
from shoal.errors import DataError
from shoal.fitting.model_file import SavedModel
from shoal.lazy.classes import dataclass
from shoal.serving.served_model import ServedModel
from shoal.settings.values import config_from
from shoal.tasks.predict_rows import RowPredictions

JSON, CSV = "application/json", "text/csv"
MOST_ROWS = 20_000  # of one request: it keeps others waiting; larger tables are for `shoal predict`
KEYS = ("row", "rows", "interval", "threshold")
DELIMITERS = ",;\t"


@dataclass(frozen=True)
class RowsAsked:
    """What one request asks for."""

    rows: Sequence[Mapping[str, Any]]
    interval: float | None = None
    threshold: float | None = None


def asked(kind: str, data: bytes, query: Mapping[str, str], model: SavedModel) -> RowsAsked:
    """The rows of a body and what is to be said of them; for CSV, `interval` and `threshold` are in the address."""
    if others := set(query) - {"interval", "threshold"}:
        raise Refusal(422, f"Expected the parameters interval and threshold at most, got '{min(others)[:80]}'.")
    more = {name: _number_of(name, text) for name, text in query.items()}
    if kind == CSV:
        return RowsAsked(_limited(_csv_rows(data, model)), more.get("interval"), more.get("threshold"))
    values = _object(data)
    rows = values["rows"] if "rows" in values else [values["row"]]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise Refusal(422, "Expected 'rows' to be a list of objects, or 'row' one object: a value for each column.")
    for name in ("interval", "threshold"):
        if (given := values.get(name)) is not None:
            if isinstance(given, bool) or not isinstance(given, int | float):
                raise Refusal(422, f"Expected a number for '{name}', got {str(given)[:60]!r}.")
            more[name] = float(given)
    return RowsAsked(_limited(rows), more.get("interval"), more.get("threshold"))


def _object(data: bytes) -> dict[str, Any]:
    try:
        values = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"Expected a body that is JSON, got: {error}.") from None
    if not isinstance(values, dict) or set(values) - set(KEYS) or ("row" in values) == ("rows" in values):
        raise Refusal(
            422,
            'Expected {"row": {...}} or {"rows": [{...}, ...]}, and beside it interval and threshold at most. '
            "See /model for an example.",
        )
    return values


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _number_of(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Refusal(422, f"Expected a number for '{name}', got '{text[:60]}'.") from None


def _limited(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    if len(rows) > MOST_ROWS:
        raise Refusal(413, f"Expected at most {MOST_ROWS:,} rows, got {len(rows):,}. Send them in parts.")
    return rows


def _csv_rows(data: bytes, model: SavedModel) -> list[Mapping[str, Any]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refusal(400, f"Expected CSV in UTF-8, got a byte that is none at place {error.start}.") from None
    first = text.partition("\n")[0]
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=max(DELIMITERS, key=first.count), strict=True)
    try:
        names = [name.strip() for name in next(lines, [])]
        cells = [line for line in lines if line]
    except csv.Error as error:
        raise Refusal(400, f"Expected CSV, got in line {lines.line_num}: {error}.") from None
    if not names or not cells:
        raise DataError("Expected CSV with the names of its columns in the first line and rows below, got none.")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"Expected each column once, got '{twice[:80]}' twice. Rename one of them.")
    is_missing = _missing(model, names)
    for place, line in enumerate(cells):
        if len(line) != len(names):
            raise DataError(f"Row {place}: expected {len(names)} fields as in the first line, got {len(line)}.")
    return [
        {name: None if none(value := cell.strip()) else value
         for name, cell, none in zip(names, line, is_missing, strict=True)}
        for line in cells
    ]  # fmt: skip


def _missing(model: SavedModel, names: Sequence[str]) -> list[Callable[[str], bool]]:
    """Of each column: whether a text means no value, as when the model was trained; words of columns that are read in
    one spelling in any."""
    known = config_from(model.file.config)
    usual = set(DEFAULT_MISSING if known.missing is None else ("", *known.missing))
    own: dict[str, set[str]] = {}
    for text in known.also_missing:
        column, mark, value = text.partition("=")
        own.setdefault(column, set()).add(value) if mark else usual.add(text)
    return [_among(usual, own.get(name, set()), name in model.one_spelling) for name in names]


def _among(usual: Set[str], own: Set[str], one_spelling: bool) -> Callable[[str], bool]:
    if not own or not one_spelling:
        return (usual | own).__contains__
    spelled = frozenset(map(in_one_spelling, own))
    return lambda text: text in usual or in_one_spelling(text) in spelled


# ------------------------------------------------------------------ answers


def answer(kind: str, served: ServedModel, found: RowPredictions) -> bytes:
    return _csv_of(found, served) if kind == CSV else _json_of(found, served)


def _json_of(found: RowPredictions, served: ServedModel) -> bytes:
    said: dict[str, Any] = {
        "model": served.name, "version": served.number, "target": served.predictor.model.target,
        "predictions": found.predictions,
    }  # fmt: skip
    more = {name: getattr(found, name) for name in ("probabilities", "lower", "upper", "sets")}
    said |= {name: value for name, value in more.items() if value is not None}
    outcome = served.predictor.model.outcome
    if found.probabilities is not None and outcome is not None and not outcome.several:
        said["probabilities_of"] = outcome.yes
    return json.dumps({**said, "notes": found.notes}, allow_nan=False, separators=(",", ":")).encode()


def _csv_of(found: RowPredictions, served: ServedModel) -> bytes:
    """The columns that `shoal predict` writes."""
    outcome = served.predictor.model.outcome
    columns: dict[str, Sequence[Any]] = {"row": range(len(found.predictions)), "prediction": found.predictions}
    if outcome is not None and outcome.several and found.probabilities is not None:
        shares = [one if isinstance(one, dict) else {} for one in found.probabilities]
        columns |= {f"probability_{name}": [one.get(name) for one in shares] for name in outcome.classes}
    elif found.probabilities is not None:
        columns[f"probability_{outcome.yes if outcome else ''}"] = found.probabilities
    if found.lower is not None and found.upper is not None:
        columns |= {"lower": found.lower, "upper": found.upper}
    if found.sets is not None:
        columns["set"] = ["" if one is None else "|".join(map(str, one)) for one in found.sets]
    out = io.StringIO(newline="")
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows(zip(*columns.values(), strict=True))
    return out.getvalue().encode("utf-8", "backslashreplace")
