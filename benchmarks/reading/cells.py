"""Whether two tables are the same, one of them as text: numbers, dates and times by what they mean."""

from __future__ import annotations

import contextlib
import datetime
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

NONE = frozenset(("", "na", "n/a", "nan", "null", "none", "?", ".", "-", "--"))
DATES = ("%d-%m-%Y %H:%M", "%d/%m/%Y", "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%d %H:%M:%S")
MARKS = re.compile(r"[$€£%\s]")
EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True)
class Grid:
    """A table as names and rows."""

    names: Sequence[str]
    rows: Sequence[Sequence[Any]]


def same_table(found: Grid, expected: Grid, headed: bool = False) -> bool:
    """`expected` has texts; unless the file is known to be `headed`, columns that are called by their places have no
    header, and all of it is rows."""
    if not headed and list(found.names) == [str(i) for i in range(len(expected.names))]:
        expected = Grid(found.names, [expected.names, *expected.rows])
    return (
        [name.strip() for name in found.names] == [name.strip() for name in expected.names]
        and len(found.rows) == len(expected.rows)
        and all(
            len(row) == len(texts) and all(map(same_cell, row, texts))
            for row, texts in zip(found.rows, expected.rows, strict=True)
        )
    )


def same_cell(value: Any, text: str) -> bool:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return text.strip().lower() in NONE
    if isinstance(value, str):
        return value.strip() == text.strip()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value in set(_moments(text))
    return any(math.isclose(float(value), number, rel_tol=1e-12) for number in _numbers(text))


def _numbers(text: str) -> Iterator[float]:
    """What a text may mean as a number: itself, days since 1970, hours after midnight."""
    with contextlib.suppress(ValueError):
        yield float(MARKS.sub("", text))
    for moment in _moments(text):
        if isinstance(moment, datetime.time):
            yield moment.hour + moment.minute / 60 + moment.second / 3600
        elif not isinstance(moment, datetime.datetime):
            yield float((moment - EPOCH).days)
        else:
            midnight = datetime.datetime.combine(EPOCH, datetime.time())
            yield (moment - midnight) / datetime.timedelta(days=1)


def _moments(text: str) -> Iterator[datetime.date | datetime.time]:
    for form in DATES:
        try:
            moment = datetime.datetime.strptime(text, form)
        except ValueError:
            continue
        yield moment.date()
        yield moment
    with contextlib.suppress(ValueError):
        yield datetime.time.fromisoformat(text)
    with contextlib.suppress(ValueError):
        moment = datetime.datetime.fromisoformat(text)
        yield moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment
