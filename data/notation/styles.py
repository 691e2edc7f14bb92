"""Dates by their style, as the kernel reads them: the order of day, month and year, and names for months."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shoal.data.notation import dates
from shoal.kernels.csv_kernel import DateStyle, Months, library

LONG = (DateStyle.YEAR_FIRST, DateStyle.DAY_FIRST, DateStyle.MONTH_FIRST)
NAMED = DateStyle.DAY_FIRST | DateStyle.NAMED
PLACES = ("ymd", "dmy", "mdy")  # by order
SHORT = tuple(style | DateStyle.SHORT_YEARS for style in (LONG[1], LONG[2], LONG[0]))  # the likelier first
BUDDHIST_YEAR, BUDDHIST = "2564", range(2443, 2644)  # that of 2021, and those of 1900 to 2100
TELLING = (LONG[0], NAMED)  # which no date of another style has, so they may stand among others


def order_of(style: int) -> int:
    return int(style) & 3


def rewritten(example: str, style: int) -> str:
    """How dates are written, as an example that tells the order."""
    if style & DateStyle.COMPACT:
        return f"20211231{example[8:]}"
    own = dates.example_of(example, order_of(style), bool(style & DateStyle.NAMED))
    return own.replace("2021", BUDDHIST_YEAR, 1) if style & DateStyle.BUDDHIST else own


def style_of(written: str) -> int | None:
    """The style of dates that are written like an example; None if it is none."""
    long = tuple(style | DateStyle.BUDDHIST for style in LONG) if BUDDHIST_YEAR in written else LONG
    styles = (*long, NAMED, DateStyle.COMPACT, *SHORT)
    return next((style for style in styles if date_of(written, style) is not None), None)


def date_of(text: str, style: int) -> float | None:
    """Days since 1970, or None for what is not a date of that style."""
    raw, value = text.encode(), ctypes.c_double()
    found = library().date_of(ctypes.byref(months("utf-8").table), raw, len(raw), style, ctypes.byref(value))
    return value.value if found else None


def any_date_of(text: str, style: int) -> float | None:
    """The same, or of a date that tells itself: one with its year first, or with a name for its month."""
    return date_of(text, style | DateStyle.OTHERS_TOO)


def time_of(text: str) -> float | None:
    """Hours after midnight, or None for what is not a time of day."""
    raw, value = text.encode(), ctypes.c_double()
    return value.value if library().time_of(raw, len(raw), ctypes.byref(value)) else None


def also_fitting(days: npt.NDArray[np.float64], style: int, others: Sequence[int]) -> tuple[int, ...]:
    """Of other styles those in which the same dates could have been written: days go up to 31, months to 12."""
    days = days[~np.isnan(days)]
    if not others or not len(days):
        return tuple(others)
    dates_ = np.unique(np.floor(days)).astype("datetime64[D]")
    months_ = dates_.astype("datetime64[M]")
    year, month = dates_.astype("datetime64[Y]").astype(int) + 1970, months_.astype(int) % 12 + 1
    part = {
        "y": year % 100 if style & DateStyle.SHORT_YEARS else year,
        "m": month,
        "d": (dates_ - months_).astype(int) + 1,
    }
    written = [part[name] for name in PLACES[order_of(style)]]
    fitting = []
    for other in others:
        read = dict(zip(PLACES[order_of(other)], written, strict=True))
        if (read["m"].min() >= 1 and read["m"].max() <= 12) and (read["d"].min() >= 1 and read["d"].max() <= 31):
            fitting.append(other)
    return tuple(fitting)


class EncodedMonths:
    """The words of dates as the kernel meets them in a text of some encoding."""

    def __init__(self, encoding: str) -> None:
        names, ends, numbers = dates.encoded_months(encoding)
        self._kept = names, np.array(ends, np.int32), numbers  # what the kernel is given pointers to
        self.table = Months(names, self._kept[1].ctypes.data, numbers, len(ends))


@functools.cache
def months(encoding: str) -> EncodedMonths:
    return EncodedMonths(encoding)
