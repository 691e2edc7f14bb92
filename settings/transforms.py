"""Transforms of columns as text: `area=log`, `sold=trend+month`. Whether a column can be had so is in the data."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass
from shoal.lazy.patterns import pattern
from shoal.settings.levels import SIGN, split_level
from shoal.words import did_you_mean

PLAIN = "plain"  # the column as it is, beside its other parts
NUMBERS = ("log", "log1p", "sqrt", "bins", "spline")
DATES = ("year", "month", "weekday", "day_of_year", "hour", "trend")
STEP = "step:"  # before the name of a plug-in's column step
TEXTS = ("hash", "words")  # of texts: all of it, or each word, into 2^n columns by a hash
COUNTS = {"bins": (2, 100), "spline": (2, 50), "hash": (1, 30), "words": (1, 30)}  # bins; knots with both ends; bits
EXAMPLE = "price=log, area=spline(5) or sold=trend+month"
_STEP = pattern(r"step:[\w.-]{1,100}", re.ASCII)
_PART = pattern(r"\s*([a-z0-9_]+)\s*(?:\(\s*(\d{1,9})\s*\))?\s*")


@dataclass(frozen=True)
class ColumnPart:
    """One way to see a column: `log`, or `bins` with how many."""

    how: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.how}({self.number})" if self.number else self.how

    def of(self, column: str) -> str:
        """What its terms are called."""
        return f"{self.how.removeprefix(STEP)}({column})"

    @property
    def step(self) -> str:
        """The name of a plug-in's step; empty where it is built in."""
        return self.how.removeprefix(STEP) if self.how.startswith(STEP) else ""


def check_transform(text: str) -> None:
    """As far as that can be told without the columns of a file."""
    if SIGN not in text or not text.partition(SIGN)[0].strip():
        raise _wrong(f"Expected a column and how it is used, {EXAMPLE}, got '{text}'. Correct it.")
    parts_of(text.rpartition(SIGN)[2])


def hashes_text(text: str) -> bool:
    """Whether a transform is one of a text column by hashes."""
    return any(part.how in TEXTS for part in parts_of(text.rpartition(SIGN)[2]))


def parts_of(text: str) -> tuple[ColumnPart, ...]:
    """`spline(5)+plain` in its parts, each once."""
    return tuple(dict.fromkeys(_part(one) for one in text.split("+")))


def _part(text: str) -> ColumnPart:
    if _STEP.fullmatch(text.strip()):
        return ColumnPart(text.strip())
    found = _PART.fullmatch(text)
    known = (*NUMBERS, *DATES, *TEXTS, PLAIN)
    if not found or found[1] not in known:
        raise _wrong(
            f"Expected ways to use a column, some of {', '.join(known)}, or {STEP}NAME of a plug-in, joined by +; got "
            f"'{text.strip()}'."
            f"{did_you_mean(text.strip(), known) or ' Choose one of them.'}"
        )
    how, count = found[1], int(found[2] or 0)
    if how not in COUNTS:
        if found[2] is not None:
            raise _wrong(f"Expected '{how}' alone, got '{text.strip()}'. Leave the number out.")
        return ColumnPart(how)
    low, high = COUNTS[how]
    if not low <= count <= high:
        what = {"bins": "bins", "spline": "knots, with those at both ends,"}.get(how, "bits of a hash")
        raise _wrong(
            f"Expected how many {what} there are to be, from {low} to {high}, as in {how}(5); got '{text.strip()}'."
        )
    return ColumnPart(how, count)


def parts_by_column(texts: Iterable[str], columns: Collection[str]) -> dict[str, tuple[ColumnPart, ...]]:
    """Of several texts the parts of each column; ConfigError where it is said twice, or of no column."""
    found: dict[str, tuple[ColumnPart, ...]] = {}
    for text in texts:
        cut = split_level(text, columns)
        if cut is None:
            raise _wrong(
                f"Expected a column of the file in '{text}', got '{text.rpartition(SIGN)[0]}'."
                f"{did_you_mean(text.rpartition(SIGN)[0], columns) or ' Check its name.'}"
            )
        column, how = cut
        if column in found:
            raise _wrong(
                f"'{column}' is in transform twice. Join what is wanted of it: {column}={_joined(texts, column)}."
            )
        found[column] = parts_of(how)
    return found


def _joined(texts: Iterable[str], column: str) -> str:
    return "+".join(text.rpartition(SIGN)[2] for text in texts if text.rpartition(SIGN)[0] == column)


def _wrong(message: str) -> ConfigError:
    return ConfigError(message, knobs=["transform"])
