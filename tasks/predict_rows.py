"""Predictions for rows that come as plain values, such as those of JSON, at once; whole files are in `predict`."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shoal.data.kinds import date_of, style_of, time_of
from shoal.data.terms import MISSING_LEVEL
from shoal.errors import DataError
from shoal.fitting.model_file import SavedModel
from shoal.losses.layers import expected
from shoal.results.answers.predictions import unknown_told
from shoal.results.thresholds import check_threshold
from shoal.tasks.explain_row import Value, encode
from shoal.words import listed, plural

T = TypeVar("T")

PLACES = 3  # rows that a note names


@dataclass(frozen=True)
class RowPredictions:
    """A prediction for each row, None where there is none; of a yes/no model its value, and the yes's probability; of
    several classes the likeliest, and the probability of each by its name."""

    predictions: tuple[Any, ...]
    probabilities: tuple[float | None, ...] | tuple[dict[str, float] | None, ...] | None
    notes: tuple[str, ...]


class RowPredictor:
    """A model that predicts rows given by the names of their columns; made once, asked often."""

    def __init__(self, model: SavedModel) -> None:
        self.model = model
        encoding = model.encoding
        columns = dict.fromkeys((*encoding.columns, *encoding.known))
        self._readers: dict[str, Callable[[Any], Value]] = {name: self._reader(name) for name in columns}

    @property
    def inputs(self) -> dict[str, str]:
        """The columns that a row has to have, and of what kind: number, text or date."""
        dates, known = self.model.report.dates, self.model.encoding.known
        return {name: "text" if name in known else "date" if name in dates else "number" for name in self._readers}

    def predict(self, rows: Sequence[Mapping[str, Any]], threshold: float | None = None) -> RowPredictions:
        """DataError for a row that lacks a column or has what cannot be one of its values. Null is a missing value."""
        model, unknown = self.model, defaultdict[str, Counter[str]](Counter)
        at = defaultdict[str, list[int]](list)  # rows that have one of them
        called_from = check_threshold(model.outcome, threshold)
        X = np.empty((len(rows), len(model.encoding.terms)))
        for i, row in enumerate(rows):
            values = self._read(row, i)
            X[i] = encode(model.encoding, values)
            for name in model.encoding.known:
                level = str(values[name] or MISSING_LEVEL)
                if not model.encoding.knows(name, level):
                    unknown[name][level] += 1
                    at[name].append(i)
        means = expected(X, *model.fitted[1:])
        there = np.isfinite(means if means.ndim == 1 else means[:, 0])
        told = unknown_told(model.encoding.references, unknown)
        named = (f"{said} See {_places(at[name])}." for name, said in zip(unknown, told, strict=True))
        notes = (*named, *_notes(np.flatnonzero(~there).tolist()))
        outcome = model.outcome
        if outcome is not None and outcome.several:
            shares = [dict(zip(outcome.classes, own, strict=True)) for own in means.tolist()]
            likeliest = [outcome.labels[place] for place in means.argmax(axis=1)]
            return RowPredictions(_where(there, likeliest), _where(there, shares), notes)
        found = _where(there, means.tolist())
        if outcome is None or not outcome.classes:
            return RowPredictions(found, None, notes)
        calls = tuple(None if p is None else outcome.labels[int(p >= called_from)] for p in found)
        return RowPredictions(calls, found, notes)

    def _read(self, row: Mapping[str, Any], place: int) -> dict[str, Value]:
        absent = [name for name in self._readers if name not in row]
        if absent:
            raise DataError(
                f"The model needs columns that row {place} does not have: {listed(absent)}. "
                "Add them; null stands for a missing value."
            )
        try:
            return {name: read(row[name]) for name, read in self._readers.items()}
        except DataError as error:
            raise DataError(f"Row {place}: {error.message}") from None

    def _reader(self, name: str) -> Callable[[Any], Value]:
        if (known := self.model.encoding.known.get(name)) is not None:
            spelled = {level.lower(): level for level in known}
            return lambda value: _level(value, spelled)
        written = self.model.report.dates.get(name)
        if written is not None:
            return lambda value: _day(name, value, written)
        return lambda value: _number(name, value)


def _where(there: npt.NDArray[np.bool_], values: Sequence[T]) -> tuple[T | None, ...]:
    return tuple(value if known else None for known, value in zip(there.tolist(), values, strict=True))


def _level(value: Any, spelled: Mapping[str, str]) -> str | None:
    """The text that a file would have: whole numbers without a point, truth values as the known levels spell them."""
    if value is None:
        return None
    if isinstance(value, bool):
        return spelled.get(str(value).lower(), str(value))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value).strip() or None


def _number(name: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if isinstance(value, bool) or not math.isfinite(found):
        raise DataError(f"Expected a number or null in '{name}', got {str(value)[:60]!r}.")
    return found


def _day(name: str, value: Any, written: str) -> float | None:
    if value is None:
        return None
    style = style_of(written)
    found = None
    if isinstance(value, str):
        found = time_of(value.strip()) if style is None else date_of(value.strip(), style)
    if found is None:
        raise DataError(f"Expected a date such as {written} or null in '{name}', got {str(value)[:60]!r}.")
    return float(found)


def _notes(none: list[int]) -> tuple[str, ...]:
    if not none:
        return ()
    rows = plural(len(none), "row")
    return (f"{rows} without a prediction ({_places(none)}): a number has no logarithm or root there.",)


def _places(rows: list[int]) -> str:
    shown = ", ".join(str(row) for row in rows[:PLACES])
    return f"row {shown}" + (", ..." if len(rows) > PLACES else "")
