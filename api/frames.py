"""Data frames as a model sees them: the same terms, fills and levels that its file had. pandas is imported by use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.dialects import DEFAULT_MISSING
from shoal.data.encoding import Encoding
from shoal.data.terms import MISSING_LEVEL, Factor, Indicator, Level, Product
from shoal.errors import DataError
from shoal.models import Floats
from shoal.words import listed

ROWS = 1 << 16  # encoded at a time, so that a long frame needs no second frame's memory


def encoded(frame: Any, encoding: Encoding) -> Iterator[tuple[Floats, int]]:
    """X (rows, terms) for some rows at a time, and in how many of them a level is not known."""
    absent = [name for name in dict.fromkeys((*encoding.columns, *encoding.known)) if name not in frame.columns]
    if absent:
        raise DataError(
            f"The model needs columns that the data frame does not have: {listed(absent)}. "
            f"It has: {listed([str(name) for name in frame.columns])}. Rename or add them."
        )
    for start in range(0, len(frame), ROWS):
        yield _encode(frame.iloc[start : start + ROWS], encoding)


def _encode(frame: Any, encoding: Encoding) -> tuple[Floats, int]:
    X = np.zeros((len(frame), len(encoding.terms)))
    columns = _Columns(frame, encoding)
    for i, term in enumerate(encoding.terms):
        if isinstance(term, Product):
            X[:, i] = term.of(columns.factor)
        elif not isinstance(term, Level):
            X[:, i] = columns.factor(term)
    for name, known in encoding.known.items():
        terms = {t.level: i for i, t in enumerate(encoding.terms) if isinstance(t, Level) and t.column == name}
        place = np.array([*(terms.get(level, -1) for level in known), -1])[columns.places[name]]
        rows = np.flatnonzero(place >= 0)
        X[rows, place[rows]] = 1.0
    unseen = [place < 0 for place in columns.places.values()]
    return X, int(np.any(unseen, axis=0).sum()) if unseen else 0


class _Columns:
    """The columns of a frame that an encoding needs: numbers, and the places of levels among those that are known."""

    def __init__(self, frame: Any, encoding: Encoding) -> None:
        self.numbers = {name: _numbers(frame[name]) for name in encoding.columns if name not in encoding.known}
        self.levels = {name: {level: i for i, level in enumerate(known)} for name, known in encoding.known.items()}
        self.places = {name: _places(frame[name], levels) for name, levels in self.levels.items()}

    def factor(self, term: Factor) -> Floats:
        if isinstance(term, Level):
            return np.asarray(self.places[term.column] == self.levels[term.column][term.level], np.float64)
        values = self.numbers[term.column]
        if isinstance(term, Indicator):
            return np.isnan(values).astype(np.float64)
        return np.where(np.isnan(values), term.fill, values)


def _places(column: Any, places: Mapping[str, int]) -> npt.NDArray[np.intp]:
    """For each row the place of its level; -1 for one that is not known."""
    import pandas as pd

    codes, values = pd.factorize(column)
    table = [places.get(_level(value, places), -1) for value in values]
    return np.array([*table, places.get(MISSING_LEVEL, -1)], np.intp)[codes]  # code -1, missing, takes the last


def _level(value: object, known: Mapping[str, int]) -> str:
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


def _numbers(column: Any) -> Floats:
    """The values as doubles, NaN for none; dates as seconds since 1970, as everywhere."""
    import pandas as pd
    from pandas.api import types

    if types.is_datetime64_any_dtype(column):
        return _seconds(column)
    if types.is_numeric_dtype(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        texts = column.astype(object).where(column.notna(), None)
        texts = texts.map(lambda v: None if isinstance(v, str) and v.strip() in DEFAULT_MISSING else v)
        try:
            values = pd.to_numeric(texts).to_numpy(dtype=np.float64, na_value=np.nan)
        except (ValueError, TypeError):
            return _dates(column.name, texts)
    return np.where(np.isfinite(values), values, np.nan)


def _dates(name: object, texts: Any) -> Floats:
    import pandas as pd

    try:
        return _seconds(pd.to_datetime(texts, utc=True, format="ISO8601"))
    except (ValueError, TypeError) as error:
        raise DataError(f"Expected numbers or dates in column '{name}', got: {error}. Correct the column.") from None


def _seconds(column: Any) -> Floats:
    plain = column if column.dt.tz is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
    whole = plain.to_numpy(dtype="datetime64[us]")
    return np.where(np.isnat(whole), np.nan, whole.astype(np.int64) / 1e6)
