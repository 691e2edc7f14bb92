"""Data frames as a model sees them: the same terms, fills and levels that its file had. pandas is imported by use."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.dialects import DEFAULT_MISSING
from shoal.data.encoding import Encoding
from shoal.data.kinds import Wanted
from shoal.data.notation.numbers import Notation, notation_from
from shoal.data.notation.spelling import in_one_spelling
from shoal.data.notation.styles import any_date_of, style_of, time_of
from shoal.data.terms import MISSING_LEVEL, Factor, HashedText, Indicator, Level, Offset, Product, Shaped
from shoal.errors import DataError
from shoal.models import Floats
from shoal.sparse.texts.models import TextWeights
from shoal.words import listed

Unknown = dict[str, dict[str, int]]  # by column: the levels that a model was not trained with, and their rows
ROWS = 1 << 16  # encoded at a time, so that a long frame needs no second frame's memory


def encoded(
    frame: Any, encoding: Encoding, dates: Mapping[str, str] | None = None, marked: Mapping[str, str] | None = None
) -> Iterator[tuple[Floats, Unknown]]:
    """X (rows, terms) for some rows at a time, and the levels that are not known.

    `dates`: the columns that hold dates, with how they were written in training; `marked`: those of numbers that had
    marks, whose texts are read as those of a file.
    """
    notations = {name: notation for name, text in (marked or {}).items() if (notation := notation_from(text))}
    absent = [name for name in dict.fromkeys((*encoding.columns, *encoding.known)) if name not in frame.columns]
    if absent:
        raise _without(absent, frame)
    for start in range(0, len(frame), ROWS):
        yield _encode(frame.iloc[start : start + ROWS], encoding, dates or {}, notations)


def text_sums(frame: Any, texts: Mapping[str, TextWeights]) -> Iterator[tuple[Floats, Unknown]]:
    """What texts add to the scores of as many rows at a time, and the levels that are not known."""
    if absent := [name for name in texts if name not in frame.columns]:
        raise _without(absent, frame)
    for start in range(0, len(frame), ROWS):
        part = frame.iloc[start : start + ROWS]
        total, unknown = np.zeros(len(part)), dict[str, dict[str, int]]()
        for name, weights in texts.items():
            codes, levels, counts = _levels(part[name], weights.levels or {})
            adds = np.append(weights.of_cells(levels), weights.missing)
            for at in np.flatnonzero(np.isnan(adds) & (counts > 0)).tolist():
                level, own = [*levels, MISSING_LEVEL][at], unknown.setdefault(name, {})
                own[level] = own.get(level, 0) + int(counts[at])
            total += np.nan_to_num(adds)[codes]
        yield total if texts else np.full((), -0.0), unknown  # which changes no number, whatever its shape


def _without(absent: list[str], frame: Any) -> DataError:
    return DataError(
        f"The model needs columns that the data frame does not have: {listed(absent)}. "
        f"It has: {listed([str(name) for name in frame.columns])}. Rename or add them."
    )


def as_needed(frame: Any | None, needed: Iterable[str], one_spelling: Iterable[str] = ()) -> Any | None:
    """The frame with its columns called as the model has them, which may have names of several lines, and some of them
    in one spelling."""
    if frame is None:
        return None
    called = Wanted(tuple(needed)).called(list(frame.columns))
    frame = frame if called == list(frame.columns) else frame.set_axis(called, axis="columns")
    spelled = {name: frame[name].map(_in_one_spelling) for name in one_spelling if name in frame.columns}
    return frame.assign(**spelled) if spelled else frame


def _in_one_spelling(value: object) -> object:
    return in_one_spelling(value) if isinstance(value, str) else value


def date_columns(frame: Any, names: Iterable[str]) -> set[str]:
    """Of columns of numbers those that a frame has as dates."""
    from pandas.api import types

    there = [name for name in names if name in frame.columns]
    return {name for name in there if not types.is_numeric_dtype(frame[name]) and _is_dated(frame[name])}


def _is_dated(column: Any) -> bool:
    from pandas.api import types

    if types.is_datetime64_any_dtype(column):
        return True
    present = column[column.notna()]
    return len(present) > 0 and style_of(str(present.iloc[0])) is not None


def _encode(
    frame: Any, encoding: Encoding, dates: Mapping[str, str], notations: Mapping[str, Notation]
) -> tuple[Floats, Unknown]:
    X = np.zeros((len(frame), len(encoding.terms)))
    columns = _Columns(frame, encoding, dates, notations)
    for i, term in enumerate(encoding.terms):
        if isinstance(term, Product):
            X[:, i] = term.of(columns.factor)
        elif isinstance(term, Offset):
            X[:, i] = term.of(columns.numbers[term.column])
        elif not isinstance(term, Level | HashedText):
            X[:, i] = columns.factor(term)
    for name, known in encoding.known.items():
        terms = {t.level: i for i, t in enumerate(encoding.terms) if isinstance(t, Level) and t.column == name}
        group = encoding.rare.get(name)
        other = terms[group.level] if group else -1
        own = (other if group and group.holds(level) else terms.get(level, -1) for level in known)
        place = np.array([*own, other])[columns.places[name]]
        rows = np.flatnonzero(place >= 0)
        X[rows, place[rows]] = 1.0
    return X, {name: levels for name, levels in columns.unknown.items() if levels and name not in encoding.rare}


class _Columns:
    """The columns of a frame that an encoding needs: numbers, and the places of levels among those that are known."""

    def __init__(
        self, frame: Any, encoding: Encoding, dates: Mapping[str, str], notations: Mapping[str, Notation]
    ) -> None:
        numbers = [name for name in encoding.columns if name not in encoding.known]
        self.numbers = {name: _numbers(frame[name], dates.get(name), notations.get(name)) for name in numbers}
        self.levels = {name: {level: i for i, level in enumerate(known)} for name, known in encoding.known.items()}
        found = {name: _places(frame[name], levels) for name, levels in self.levels.items()}
        self.places = {name: places for name, (places, _) in found.items()}
        self.unknown = {name: levels for name, (_, levels) in found.items()}

    def factor(self, term: Factor) -> Floats:
        if isinstance(term, Level):
            return np.asarray(self.places[term.column] == self.levels[term.column][term.level], np.float64)
        values = self.numbers[term.column]
        if isinstance(term, Indicator):
            return np.isnan(values).astype(np.float64)
        if isinstance(term, Shaped):
            return np.asarray(term.of(values), np.float64)
        return np.where(np.isnan(values), term.fill, values)


def _places(column: Any, places: Mapping[str, int]) -> tuple[npt.NDArray[np.intp], dict[str, int]]:
    """For each row the place of its level, -1 for one that is not known; and those, with how many rows have each."""
    codes, own, counts = _levels(column, places)
    levels, unknown = [*own, MISSING_LEVEL], dict[str, int]()
    table = np.array([places.get(level, -1) for level in levels], np.intp)
    for at in np.flatnonzero((table < 0) & (counts > 0)).tolist():
        unknown[levels[at]] = unknown.get(levels[at], 0) + int(counts[at])
    return table[codes], unknown


def _levels(column: Any, known: Mapping[str, Any]) -> tuple[npt.NDArray[np.intp], list[str], npt.NDArray[np.intp]]:
    """For each row the place of its text among the different ones, -1 without a value; these, and how many rows have
    each, and last none."""
    import pandas as pd

    codes, values = pd.factorize(column)
    levels = [_level(value, known) for value in values]
    return codes, levels, np.bincount(codes % (len(levels) + 1), minlength=len(levels) + 1)


def _level(value: object, known: Mapping[str, Any]) -> str:
    """The text that a file would have: whole numbers without a point, truth values as the known levels spell them."""
    if isinstance(value, (bool, np.bool_)):
        spelled = {level.lower(): level for level in known}
        return spelled.get(str(value).lower(), str(value))
    if isinstance(value, (float, np.floating)):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    text = str(value)
    if text in known:
        return text
    return MISSING_LEVEL if text.strip() in DEFAULT_MISSING else text.strip()


def _numbers(column: Any, written: str | None, notation: Notation | None = None) -> Floats:
    """The values as doubles, NaN for none; dates as days since 1970, as everywhere; `written`: how dates were, and
    `notation`: numbers with marks, of which all texts of a column are read so if they can be."""
    import pandas as pd
    from pandas.api import types

    if types.is_datetime64_any_dtype(column):
        return _days(column)
    if types.is_numeric_dtype(column):
        if written is not None and bool(column.notna().any()):
            raise DataError(f"Expected dates in column '{column.name}', such as {written}, got numbers. Convert it.")
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        texts = column.astype(object).where(column.notna(), None)
        texts = texts.map(lambda v: None if isinstance(v, str) and v.strip() in DEFAULT_MISSING else v)
        if written is not None and bool(texts.notna().any()):
            return _dates(column.name, texts, written)  # 20211231 is a number as well
        present = texts[texts.notna()]
        if notation and len(present) and all(isinstance(text, str) for text in present):
            known = {text: notation.number(text.strip()) for text in set(present)}
            if None not in known.values():
                return np.asarray(texts.map(known).to_numpy(np.float64, na_value=np.nan))
        try:
            values = pd.to_numeric(texts).to_numpy(dtype=np.float64, na_value=np.nan)
        except (ValueError, TypeError):
            return _dates(column.name, texts, written)
    return np.where(np.isfinite(values), values, np.nan)


def _dates(name: object, texts: Any, written: str | None) -> Floats:
    import pandas as pd

    style = style_of(written) if written else None
    present = texts[texts.notna()]
    if len(present) and all(isinstance(text, str) for text in present):
        found = {text: time_of(text) if style is None else any_date_of(text.strip(), style) for text in set(present)}
        if None not in found.values():
            return np.asarray(texts.map(found).to_numpy(np.float64, na_value=np.nan))
    try:
        return _days(pd.to_datetime(texts, utc=True, format="ISO8601"))
    except (ValueError, TypeError):
        shown = listed([f"'{text}'" for text in dict.fromkeys(map(str, present)) if not _is_number(text)], 3)
        raise DataError(f"Expected numbers or dates in column '{name}', got {shown}. Correct the column.") from None


def _is_number(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return math.isfinite(float(text))
    return False


def _days(column: Any) -> Floats:
    plain = column if column.dt.tz is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
    whole = plain.to_numpy(dtype="datetime64[us]")
    return np.where(np.isnat(whole), np.nan, whole.astype(np.int64) / 1e6 / 86400)
