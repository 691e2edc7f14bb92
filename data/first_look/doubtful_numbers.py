"""Columns read as numbers or dates that may be something else: days as spreadsheets count them, months without a mark
between, years of another calendar, numbers of which some lack their percent sign. Said, never decided."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shoal.data.kinds import Guess
from shoal.data.notation.dates import is_called_one
from shoal.data.notation.styles import LONG, any_date_of, date_of
from shoal.kernels.csv_kernel import DateStyle, FieldKind
from shoal.lazy.patterns import pattern
from shoal.words import listed, plural

DIFFERENT = 3  # values from which on a column is none of chance
MOSTLY = 0.95  # of a column's dates
OTHER_YEARS = range(1300, 1500)  # of now, as the Persian and Islamic calendars count; of ours, the late Middle Ages
SHARES = frozenset("%‰％٪")
_OLD = pattern(r"(?<!\d)1[34]\d\d(?!\d)")  # in the first cell, before all others are looked at
_MONTH = pattern(r"(19|20)\d\d(0[1-9]|1[0-2])")
_SERIAL = pattern(r"[2-6]\d{4}([.,]\d+)?")
_LAST_YEAR = pattern(r"\d{3,4}(19|20)\d\d")


def doubt_about_number(name: str, guess: Guess, cells: Sequence[str]) -> str:
    """What to say of a column of numbers or dates; empty for nearly all."""
    if guess.kind == FieldKind.DATE:
        return _of_another_calendar(name, guess, cells)
    if guess.kind == FieldKind.MARKED:
        return _without_their_sign(name, guess, cells)
    first = cells[0] if guess.kind == FieldKind.NUMBER and cells else ""
    if _MONTH.fullmatch(first) and _all(cells, _MONTH):
        return (
            f"Column '{name}' holds numbers such as {first}, which may be months of years: from a December to the "
            f"January after it they go up by 89. Write their first days ({first[:4]}-{first[4:]}-01) to have dates."
        )
    if _LAST_YEAR.fullmatch(first) and _all(cells, _LAST_YEAR) and all(map(_is_day_first, cells)):
        return (
            f"Column '{name}' holds numbers such as {first}, which may be days, the year last: as numbers they are in "
            "another order. Write them like 2021-12-31 to have dates."
        )
    if _SERIAL.fullmatch(first) and is_called_one(name) and _all(cells, _SERIAL):
        return (
            f"Column '{name}' holds numbers such as {first}, which may be days as spreadsheets count them (44561 is "
            "2021-12-31). Give the column the format of a date before it is saved to have dates."
        )
    return ""


def _all(cells: Sequence[str], shape: re.Pattern[str]) -> bool:
    return all(map(shape.fullmatch, cells)) and len(set(cells)) >= DIFFERENT


def _is_day_first(cell: str) -> bool:
    padded = cell.zfill(8)
    return date_of(f"{padded[:2]}.{padded[2:4]}.{padded[4:]}", LONG[1]) is not None


def _of_another_calendar(name: str, guess: Guess, cells: Sequence[str]) -> str:
    if guess.style & (DateStyle.BUDDHIST | DateStyle.SHORT_YEARS) or not _OLD.search(cells[0]):
        return ""
    years = [int(1970 + day / 365.2425) for cell in cells if (day := any_date_of(cell, guess.style)) is not None]
    if not years or sum(year in OTHER_YEARS for year in years) < MOSTLY * len(years):
        return ""
    return (
        f"Column '{name}' holds dates such as {cells[0]}, which may be of the Persian or the Islamic calendar; they "
        "are read as days of ours, whose months have other lengths. Write them in ours (2021-12-31)."
    )


def _without_their_sign(name: str, guess: Guess, cells: Sequence[str]) -> str:
    sign = guess.notation.mark if guess.notation else ""
    if sign not in SHARES:
        return ""
    bare = [cell for cell in cells if sign not in cell and any(map(str.isdigit, cell)) and cell.strip("0.,+- ")]
    if not bare:
        return ""
    shown = listed(list(dict.fromkeys(bare)), 3)
    return (
        f"Column '{name}' has {sign} behind its numbers, but not in {plural(len(bare), 'row')} of those looked at "
        f"({shown}), which are read alike. If these are parts of one, write all of them in one way."
    )
