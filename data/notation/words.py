"""Words among numbers, and numbers that may stand for none: what to offer as missing. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shoal.data.notation.limits import told_as
from shoal.words import listed

MOST = 8  # different words that a column of numbers may have; where there are more it is one of texts
LONGEST = 40  # characters of a word
VALUES = 10  # different numbers at least, or they are as likely names as the words are

_NINES = [10**digits - 1 for digits in range(1, 9)]  # 9 to 99999999
CODES = (
    frozenset(sign * nine for nine in _NINES for sign in (1, -1))
    | frozenset(nine - 1 for nine in _NINES[3:])  # 99998: does not apply, beside 99999: no answer
    | frozenset(sign * (nine + 0.9) for nine in _NINES[1:6] for sign in (1, -1))  # -9999.9, of weather stations
    | {sign * (base - less) for base in (99, 999) for less in (1, 2, 3) for sign in (1, -1)}  # refused, does not know
    | {-1, 888}
)


def is_word(text: str) -> bool:
    """Whether a text can be no number, however it is written."""
    return 0 < len(text) <= LONGEST and not any(letter.isdigit() for letter in text)


def without_words(cells: Sequence[str]) -> list[str] | None:
    """The rest of a column that seems to be numbers but for a few words; None if it does not."""
    words = {cell: told for cell in set(cells) if is_word(told := told_as(cell))}  # limits are counted as one word
    rest = [cell for cell in cells if cell not in words]
    few = 0 < len(set(words.values())) <= MOST and 2 * len(rest) >= len(cells)
    return rest if few and len(set(rest)) >= VALUES else None


def told(words: Mapping[str, int] | Iterable[tuple[str, int]]) -> str:
    """Words with how often they come: 'k.A.' (912 rows), 'VB' (1 row)."""
    pairs = words.items() if isinstance(words, Mapping) else words
    return listed([f"'{word}' ({count:,} row{'s' if count != 1 else ''})" for word, count in pairs])


def is_code(value: float, count: int, nearest: float, farthest: float) -> bool:
    """Whether the smallest or largest number of a column may stand for none: a usual code, more than once, and as far
    away from all others as they are from each other; `nearest` and `farthest` are the ends of those."""
    least = min(nearest, farthest)  # -200, of sensors; -1 where even 0 is not among the others
    below = value == round(value) and ((value <= -9 and least >= 0) or (value == -1 and least >= 1))
    if (value not in CODES and not below) or count < 2 or nearest == farthest:
        return False
    if below or (value <= -9 and least >= 0):  # -999 where nothing else is below zero
        return True
    return abs(value - nearest) >= max(abs(nearest - farthest), 1.0)


def per_column(entries: Iterable[str], names: Iterable[str]) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """`COLUMN=TEXT` is meant for that column alone: those by column, and the rest."""
    known, rest = set(names), []
    found: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        places = [i for i, letter in enumerate(entry) if letter == "=" and entry[:i] in known]
        place = places[-1] if places else None  # the longest name, where one begins another
        if place is None:
            rest.append(entry)
        else:
            found[entry[:place]] = (*found.get(entry[:place], ()), entry[place + 1 :])
    return found, tuple(rest)
