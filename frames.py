"""Data frames as a model sees them: the same terms, fills and levels that its file had. pandas is imported by use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from design import MISSING_LEVEL, Encoding, Indicator, Level, Number
from dialects import DEFAULT_MISSING
from errors import DataError
from utils import listed

Floats = npt.NDArray[np.float64]
ROWS = 1 << 16  # encoded at a time, so that a long frame needs no second frame's memory


def is_frame(data: object) -> bool:
    """Whether this is a pandas data frame, without importing pandas to find out."""
    kind = type(data)
    return kind.__module__.split(".")[0] == "pandas" and kind.__name__ == "DataFrame"


def encoded(frame: Any, encoding: Encoding) -> Iterator[tuple[Floats, int]]:
    """X (rows, terms) for some rows at a time, and in how many of them a level is not known."""
    absent = [name for name in encoding.columns if name not in frame.columns]
    if absent:
        raise DataError(
            f"The model needs columns that the data frame does not have: {listed(absent)}. "
            f"It has: {listed([str(name) for name in frame.columns])}. Rename or add them."
        )
    for start in range(0, len(frame), ROWS):
        yield _encode(frame.iloc[start : start + ROWS], encoding)


def _encode(frame: Any, encoding: Encoding) -> tuple[Floats, int]:
    X = np.zeros((len(frame), len(encoding.terms)))
    unseen = np.zeros(len(frame), bool)
    numeric = {term.column for term in encoding.terms if not isinstance(term, Level)}
    values = {name: _numbers(frame[name]) for name in numeric}
    for i, term in enumerate(encoding.terms):
        if isinstance(term, Number):
            X[:, i] = np.where(np.isnan(values[term.column]), term.fill, values[term.column])
        elif isinstance(term, Indicator):
            X[:, i] = np.isnan(values[term.column])
    for name, known in encoding.known.items():
        places = dict.fromkeys(known, -1)  # the left-out level sets no term
        places |= {t.level: i for i, t in enumerate(encoding.terms) if isinstance(t, Level) and t.column == name}
        place = _places(frame[name], places)
        unseen |= place == -2
        rows = np.flatnonzero(place >= 0)
        X[rows, place[rows]] = 1.0
    return X, int(unseen.sum())


def _places(column: Any, places: Mapping[str, int]) -> npt.NDArray[np.intp]:
    """For each row the term that its level sets; -1 for none, -2 for a level that is not known."""
    import pandas as pd

    codes, values = pd.factorize(column)
    table = [places.get(_level(value, places), -2) for value in values]
    return np.array([*table, places.get(MISSING_LEVEL, -2)], np.intp)[codes]  # code -1, missing, takes the last


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
