"""Predictions for rows that come as plain values, such as those of JSON, at once; whole files are in `predict`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from shoal.data.encoding import Encoding
from shoal.data.notation.dates import has_times
from shoal.data.notation.spelling import in_one_spelling
from shoal.data.notation.styles import any_date_of, style_of, time_of
from shoal.data.terms import MISSING_LEVEL, Factor, HashedText, Indicator, Level, Number, Offset, Product, Shaped, Term
from shoal.errors import DataError
from shoal.fitting.model_file import SavedModel
from shoal.lazy.classes import dataclass
from shoal.losses.layers import NetworkMean, expected
from shoal.losses.multinomial import Multinomial
from shoal.models import Array
from shoal.results.answers.predictions import LONGEST_LEVEL, gone_told, is_as_if_gone, unknown_told
from shoal.results.model import WITH_DATES
from shoal.results.thresholds import check_threshold
from shoal.solve.conformal import between
from shoal.sparse.texts.models import split_where_many
from shoal.words import date_text, listed, plural, shortened

if TYPE_CHECKING:
    from shoal.tasks.explain_row import Value  # a fit needs none of that

T = TypeVar("T")
ReadColumns = Mapping[str, Sequence["Value"]]

PLACES = 3  # rows that a note names


@dataclass(frozen=True)
class RowPredictions:
    """A prediction for each row, None where there is none; of a yes/no model its value, and the yes's probability; of
    several classes the likeliest, and the probability of each by its name.

    Where an interval was asked for, `lower` and `upper` are its ends; of classes, `sets` has those that are usual.
    """

    predictions: tuple[Any, ...]
    probabilities: tuple[float | None, ...] | tuple[dict[str, float] | None, ...] | None
    notes: tuple[str, ...]
    lower: tuple[Any, ...] | None = None
    upper: tuple[Any, ...] | None = None
    sets: tuple[tuple[Any, ...] | None, ...] | None = None
    columns: ReadColumns = field(default_factory=dict, repr=False)  # what was read, by column


class RowPredictor:
    """A model that predicts rows given by the names of their columns; made once, asked often."""

    def __init__(self, model: SavedModel) -> None:
        self.model = model
        encoding = model.encoding
        columns = dict.fromkeys((*encoding.columns, *encoding.known))
        self._readers: dict[str, Callable[[Any], Value]] = {name: self._reader(name) for name in columns}
        self._numbers = {name for name, kind in self.inputs.items() if kind == "number"}
        self._scores = _Scores(model)
        dated = model.report.dates.get(model.target)
        self._times = None if dated is None or model.file.version < WITH_DATES else has_times(dated)

    @property
    def inputs(self) -> dict[str, str]:
        """The columns that a row has to have, and of what kind: number, text or date."""
        dates, known = self.model.report.dates, self.model.encoding.known
        return {name: "text" if name in known else "date" if name in dates else "number" for name in self._readers}

    def predict(
        self, rows: Sequence[Mapping[str, Any]], threshold: float | None = None, interval: float | None = None
    ) -> RowPredictions:
        """DataError for a row that lacks a column or has what cannot be one of its values. Null is a missing value."""
        called_from = check_threshold(self.model.outcome, threshold)
        width, lines = (None, ()) if interval is None else self.model.interval_at(interval)
        columns = self._read(rows)
        means = self._scores.of(columns, len(rows))
        there = np.isfinite(means if means.ndim == 1 else means[:, 0])
        notes = (
            *self._gone_told(columns, len(rows)),
            *self._unknown_told(columns),
            *_without(np.flatnonzero(~there).tolist()),
        )
        if self.model.outcome is not None and self.model.outcome.classes:
            return self._calls(means, there, called_from, width, notes, columns)
        loss = self.model.fitted[3]
        ends: tuple[Array, Array] | None = None
        if lines and width is not None:
            low, high = (_Scores(line).of(columns, len(rows)) for line in lines)
            ends = between(low, high, width)
        elif width is not None:
            said = self.model.report.prediction_interval
            even = said is None or loss is None or isinstance(loss, Multinomial | NetworkMean) or said.spread == "even"
            ends = (means - width, means + width) if even else loss.interval(means, width, said.spread)  # type: ignore[union-attr]
        lower, upper = (None, None) if ends is None else (self._told(there, end) for end in ends)
        return RowPredictions(self._told(there, means), None, notes, lower, upper, columns=columns)

    def _calls(
        self, means: Array, there: npt.NDArray[np.bool_], called_from: float, width: float | None,
        notes: tuple[str, ...], columns: ReadColumns,
    ) -> RowPredictions:  # fmt: skip
        """Of two classes the yes from a probability on, of several the likeliest."""
        outcome = self.model.outcome
        assert outcome is not None
        labels = outcome.labels
        shares = means if means.ndim > 1 else np.stack((1 - means, means), axis=1)
        likeliest = shares.argmax(axis=1)
        called = likeliest if outcome.several else (means >= called_from).astype(int)
        sets = None
        if width is not None:
            usual = 1 - shares <= width
            usual[np.arange(len(shares)), likeliest] = True
            sets = _where(there, [tuple(labels[k] for k in np.flatnonzero(row)) for row in usual])
        calls = _where(there, [labels[place] for place in called.tolist()])
        if outcome.several:
            by_name = [dict(zip(outcome.classes, own, strict=True)) for own in means.tolist()]
            return RowPredictions(calls, _where(there, by_name), notes, sets=sets, columns=columns)
        return RowPredictions(calls, _where(there, means.tolist()), notes, sets=sets, columns=columns)

    def _told(self, there: npt.NDArray[np.bool_], values: Array) -> tuple[Any, ...]:
        """Numbers as they are; days since 1970 as the dates of the file."""
        if (times := self._times) is None:
            return _where(there, values.tolist())
        dates = [date_text(day if times else round(day), times) if day == day else None for day in values.tolist()]
        return _where(there, dates)

    def _gone_told(self, columns: ReadColumns, rows: int) -> Iterator[str]:
        """Which columns of numbers have a value in few of the rows, or none; texts are told of by their levels."""
        for name in self.model.encoding.fills:
            missing, before = columns[name].count(None), gaps_before(self.model, name)
            if missing and is_as_if_gone(missing, rows, before):
                yield gone_told(name, missing, rows, before, stand_in(self.model, name))

    def _unknown_told(self, columns: ReadColumns) -> Iterator[str]:
        """Which levels the model was not trained with, and where."""
        unknown, encoding = self._unknown(columns), self.model.encoding
        said = unknown_told(encoding.references, unknown, encoding.known)
        for (name, levels), told in zip(unknown.items(), said, strict=True):
            yield f"{told} See {_places([i for i, value in enumerate(columns[name]) if _as_level(value) in levels])}."

    def _unknown(self, columns: ReadColumns) -> dict[str, Counter[str]]:
        """By column: levels that no term is meant for, and in how many rows."""
        encoding = self.model.encoding
        found: dict[str, Counter[str]] = {}
        for name in encoding.known:
            levels = Counter(_as_level(value) for value in columns[name])
            unknown = Counter({level: rows for level, rows in levels.items() if not encoding.knows(name, level)})
            found |= {name: unknown} if unknown else {}
        return found

    def _read(self, rows: Sequence[Mapping[str, Any]]) -> ReadColumns:
        try:
            return {name: self._column(name, [row[name] for row in rows]) for name in self._readers}
        except (KeyError, DataError):
            for place, row in enumerate(rows):
                self._check(row, place)
            raise

    def _column(self, name: str, values: list[Any]) -> Sequence[Value]:
        """Numbers that are what is read of them are taken as they are: most are, and there may be a million of them."""
        if name in self._numbers and set(map(type, values)) == {float} and all(map(math.isfinite, values)):
            return values
        return [*map(self._readers[name], values)]

    def _check(self, row: Mapping[str, Any], place: int) -> None:
        """Say what is wrong with the first row that cannot be read."""
        absent = [name for name in self._readers if name not in row]
        if absent:
            raise DataError(
                f"The model needs columns that row {place} does not have: {listed(absent)}. "
                "Add them; null stands for a missing value."
            )
        try:
            for name, read in self._readers.items():
                read(row[name])
        except DataError as error:
            raise DataError(f"Row {place}: {error.message}") from None

    def _reader(self, name: str) -> Callable[[Any], Value]:
        if (known := self.model.encoding.known.get(name)) is not None:
            spelled = {level.lower(): level for level in known}
            if name in self.model.one_spelling:
                return lambda value: (level := _level(value, spelled)) and in_one_spelling(level)
            return lambda value: _level(value, spelled)
        written = self.model.report.dates.get(name)
        if written is not None:
            return lambda value: _day(name, value, written)
        return lambda value: _number(name, value)


class _Scores:
    """What a model predicts of columns of values."""

    def __init__(self, model: SavedModel) -> None:
        self.split = split_where_many(model)
        self.design = _Design(self.split.dense.encoding)

    def of(self, columns: ReadColumns, count: int) -> Array:
        means = expected(self.design.rows(columns, count), *self.split.dense.fitted[1:])
        for name, weights in self.split.texts.items():
            means = means + np.nan_to_num(weights.of_cells([_as_level(value) for value in columns[name]]))
        return means


class _Design:
    """How columns of values become design rows, as the encoder of data sets makes them: a missing number becomes its
    fill, a missing name the level for that, and a name that is not known sets no term, or that of rare ones."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        plain = [(place, term) for place, term in enumerate(encoding.terms) if isinstance(term, Number)]
        self.numbers = [term.column for _, term in plain]
        self.number_places = [place for place, _ in plain]
        self.fills = np.array([term.fill for _, term in plain])
        levels: dict[str, list[int]] = {}
        for place, term in enumerate(encoding.terms):
            if isinstance(term, Level):
                levels.setdefault(term.column, []).append(place)
        self.levels = levels
        self.others = [
            (place, term) for place, term in enumerate(encoding.terms) if not isinstance(term, Number | Level)
        ]
        self._indicators: dict[tuple[str, str], Array] = {}  # of known levels: there may be any number of others

    def rows(self, columns: ReadColumns, count: int) -> Array:
        X = np.empty((count, len(self.encoding.terms)))
        if self.numbers:
            values = np.array([columns[name] for name in self.numbers], float).T
            X[:, self.number_places] = np.where(np.isnan(values), self.fills, values)
        for name, places in self.levels.items():
            codes: dict[str, int] = {}
            own = [codes.setdefault(_as_level(value), len(codes)) for value in columns[name]]
            X[:, places] = np.array([self._indicator(name, level) for level in codes])[own]
        for place, term in self.others:
            X[:, place] = self._values(term, columns)
        return X

    def _indicator(self, name: str, level: str) -> Array:
        found = self._indicators.get((name, level))
        if found is None:
            terms = (self.encoding.terms[place] for place in self.levels[name])
            found = np.array([float(isinstance(term, Level) and term.holds(level)) for term in terms])
            if level in self.encoding.known.get(name, ()):
                self._indicators[name, level] = found
        return found

    def _values(self, term: Term, columns: ReadColumns) -> Array:
        def factor(one: Factor) -> Array:
            if isinstance(one, Level):
                return np.array([float(one.holds(_as_level(value))) for value in columns[one.column]])
            values = np.array(columns[one.column], float)
            if isinstance(one, Shaped):
                return one.of(values)
            if isinstance(one, Indicator):
                return np.asarray(np.isnan(values), float)
            return np.asarray(np.where(np.isnan(values), one.fill, values))

        if isinstance(term, Offset):
            values = np.array(columns[term.column], float)
            return term.of(np.asarray(np.where(np.isnan(values), term.usual, values)))
        assert not isinstance(term, HashedText)  # such models are not loaded for this
        return term.of(factor) if isinstance(term, Product) else factor(term)


def gaps_before(model: SavedModel, name: str) -> float:
    """The share of training rows without a value in a column; 0 where a file of an older program is silent."""
    found = model.file.design.columns.get(name)
    return found.missing if found else 0.0


def stand_in(model: SavedModel, name: str) -> str:
    """What a row without a value in a column gets: a number as its column is written, or a level."""
    if name in model.encoding.known:
        alike = None if model.encoding.knows(name, MISSING_LEVEL) else model.encoding.references.get(name)
        return f"'{shortened(alike, LONGEST_LEVEL)}'" if alike else "a level of its own"
    fill, dated = model.encoding.fills[name], model.report.dates.get(name)
    return f"{fill:g}" if dated is None else date_text(fill, has_times(dated))


def _as_level(value: Value) -> str:
    return MISSING_LEVEL if value is None else str(value)


def _where(there: npt.NDArray[np.bool_], values: Sequence[T]) -> tuple[T | None, ...]:
    return tuple(value if known else None for known, value in zip(there.tolist(), values, strict=True))


def _level(value: Any, spelled: Mapping[str, str]) -> str | None:
    """The text that a file would have: whole numbers without a point, truth values as the known levels spell them."""
    if value is None:
        return None
    if isinstance(value, dict | list):
        raise DataError(f"Expected a text, a number or null in a column of text, got {str(value)[:60]!r}.")
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
        found = time_of(value.strip()) if style is None else any_date_of(value.strip(), style)
    if found is None:
        raise DataError(f"Expected a date such as {written} or null in '{name}', got {str(value)[:60]!r}.")
    return float(found)


def _places(rows: Sequence[int]) -> str:
    shown = ", ".join(str(row) for row in rows[:PLACES])
    return f"row {shown}" + (", ..." if len(rows) > PLACES else "")


def _without(none: list[int]) -> list[str]:
    """What is said of rows that have no prediction."""
    if not none:
        return []
    rows = plural(len(none), "row")
    return [f"{rows} without a prediction ({_places(none)}): a number has no logarithm or root there."]
