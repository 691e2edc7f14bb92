"""Texts that are nearly numbers, times or dates: which way of writing it is, and what to write instead.

Nothing is decided here: such a column is one of texts, and that is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from shoal.data.notation import limits
from shoal.data.notation.dates import SAYS_NOTHING, month_words
from shoal.data.notation.words import is_word
from shoal.lazy.classes import dataclass
from shoal.words import listed

DIFFERENT = 20  # texts from which on a column of them is none of a few names
SEVERAL = 10  # numbers, or pairs of them, that are no names any more
CLASSES = 3  # of texts that are hardly names of anything else
PLAIN = 0.3  # share of a column's cells that have to be numbers where others have marks
MADE = 0.02, 0.9  # shares of a column's texts that a spreadsheet took for dates, and did not for others

_NUMBER = r"[+-]?\d+(?:[.,]\d+)?"
_PLAIN = re.compile(_NUMBER)
_MARKED = re.compile(
    rf"(?:[<>≤≥~≈±]=? ?|ca\.? ?|c\. ?)?{_NUMBER}(?: ?[*†‡§¹²³⁴]+| ?\[\w{{1,3}}\]| ?\(\w{{1,3}}\)| ?[a-z]{{1,2}})?"
)
_DATED = re.compile(
    r"\d{4}([-/.])\d{1,2}\1\d{1,2}\D|\d{1,2}([-/.]) ?\d{1,2}\2 ?\d{4}\D|\d{4} ?[年년] ?\d{1,2} ?[月월]"
    r"|1\d{2}([-/.])\d{1,2}\3\d{1,2}$"
    r"|(明治|大正|昭和|平成|令和|民國|民国) ?(\d{1,3}|元) ?年|[MTSHR]\d{1,2}\.\d{1,2}\.\d{1,2}$"
)
_AMOUNT = re.compile(r"[^\d.,]{0,12}\d[\d.,'\s]*[.,]\d+[^\d.,]{1,12}|[^\d.,]{1,12}\d[\d.,'\s]*[.,]\d+[^\d.,]{0,12}")
_FRACTION = re.compile(r"(?:\d{1,5} )?\d{1,5}(?:[.,]\d+)? ?/ ?\d{1,5}(?:[.,]\d+)?|\d{0,5} ?[¼-¾⅐-⅞]")
_POWER = re.compile(rf"{_NUMBER} ?[x×·*∙] ?10(?:(?:\^|\*\*)?[+-]?\d{{1,3}}|\^?[⁺⁻]?[⁰¹²³⁴-⁹]{{1,3}})")
_TOLERANCE = re.compile(rf"(?:{_NUMBER} ?)?(?:±|\+/-|\+-) ?{_NUMBER}(?: ?[^\d\s]{{1,5}})?")
_GUARDED = re.compile(rf"'{_NUMBER}")
_FEET = re.compile(r"\d{1,3} ?(?:['′’]|ft\.?) ?\d{1,2}(?:[.,]\d+)? ?(?:[\"″”]|''|in\.?)?")
_CLOCK = re.compile(
    r"([01]?\d|2[0-3])\.[0-5]\d\.[0-5]\d|([01]?\d|2[0-4]):[0-5]\d(:[0-5]\d)? ?[^\d\s]{1,7}( ?[^\d\s]{1,4})?"
)
_FOREIGN = re.compile(
    r"([^\d\W]{1,7} )?\d{1,2}[. \u00a0-]{1,2}[^\d\s,;/]{2,16}( \d{1,2},?)?"
    r"([. \u00a0-]{1,2}[^\d\s]{2,5})?[. \u00a0-]{1,2}(1[89]|2[0-6])\d\d"
)
_RANGE = re.compile(r"(?!0\d)\d{1,5}(?:[.,]\d+)? ?(?:-|–|\.\.|to|bis|à|a) ?(?!0\d)\d{1,5}(?:[.,]\d+)?")
_LASTED = re.compile(
    r"\d{1,4}:[0-5]\d(:[0-5]\d)?([.,]\d+)?"
    r"|(\d+(?:[.,]\d+)? ?(d|days?|Tage?|h|hrs?|hours?|Std\.?|m|mins?|minutes?|Min\.?|s|secs?|seconds?|Sek\.?)[ ,]*){2,}"
    r"|P(\d+D)?T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?"
)
_PERIOD = re.compile(
    r"\d{4}-?W\d{2}-?[1-7]|\d{4}[-/.](0[1-9]|1[0-2])|\d{4}M(0[1-9]|1[0-2])|(0?[1-9]|1[0-2])[/.]\d{4}"
    r"|\d{4}[- ]?[QTK][1-4]|[QTK][1-4][- /.]?(\d{4}|\d{2})|\d{4}[- ]?(W|KW|S)(0?[1-9]|[1-4]\d|5[0-3])"
    r"|KW ?\d{1,2}[ /.-]\d{2,4}"
)
_MONTH = re.compile(r"(?P<word>[^\W\d_]{3,12})\.?[- /']{1,2}(\d{4}|\d{2})|(\d{4}|\d{2})[- /](?P<last>[^\W\d_]{3,12})")
_DEGREES = re.compile(r"[NSEWO]? ?[+-]?\d{1,3} ?[°º] ?\d[^,;]*")
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]+")
_WORDED = re.compile(r"[^\W\d_]{3,12}")
_YEAR, _DAY = re.compile(r"(?<!\d)(1[6-9]|20|21)\d\d(?!\d)"), re.compile(r"(?<!\d)(0?[1-9]|[12]\d|3[01])(?!\d)")
_MADE = re.compile(r"(0?[1-9]|[12]\d|3[01])[-. ](?P<word>[^\W\d_]{3,4})\.?")


@dataclass(frozen=True)
class _Way:
    """A way of writing that all cells of a column have, from how many different ones on, and what is said of it."""

    fits: Callable[[str], object]
    different: int
    said: str


def _is_month(word: str) -> bool:
    return month_words().get(word.lower(), SAYS_NOTHING) != SAYS_NOTHING


def _is_month_of_year(cell: str) -> bool:
    found = _MONTH.fullmatch(cell)
    return found is not None and _is_month(found["word"] or found["last"])


def _has_day(cell: str) -> bool:
    """Whether a day, the name of a month and a year are in a text, whatever else is."""
    named = any(map(_is_month, _WORDED.findall(cell)))
    return named and _YEAR.search(cell) is not None and _DAY.search(cell) is not None


_WAYS = (
    _Way(
        _PERIOD.fullmatch, CLASSES, "are months, quarters or weeks. Write their first days (2021-10-01) to have dates."
    ),
    _Way(_is_month_of_year, CLASSES, "are months of years. Write their first days (2021-10-01) to have dates."),
    _Way(
        _FRACTION.fullmatch, CLASSES, "are two numbers each. Write what they come to, or both in columns of their own."
    ),
    _Way(_POWER.fullmatch, CLASSES, "are numbers times a power of ten. Write them like 7.46E4 to have numbers."),
    _Way(
        _TOLERANCE.fullmatch, CLASSES, "have a tolerance. Write that without ± in a column of its own to have numbers."
    ),
    _Way(_GUARDED.fullmatch, CLASSES, "are numbers behind an apostrophe. Write them without it to have numbers."),
    _Way(_FEET.fullmatch, SEVERAL, "are feet and inches. Write them in one unit to have numbers."),
    _Way(_CLOCK.fullmatch, SEVERAL, "look like times of day. Write them like 14:35:00 to have times."),
    _Way(_RANGE.fullmatch, SEVERAL, "are ranges. Write their ends in columns of their own to have numbers."),
    _Way(_LASTED.fullmatch, SEVERAL, "are lengths of time. Write them in one unit, such as minutes, to have numbers."),
    _Way(_DEGREES.fullmatch, SEVERAL, "are degrees with minutes. Write them as decimal numbers to have such."),
    _Way(_HEXADECIMAL.fullmatch, SEVERAL, "are hexadecimal. Write them with digits alone to have numbers."),
    _Way(_DATED.match, DIFFERENT, "begin as dates do. Write them like 2021-12-31 14:35 to have dates."),
    _Way(_FOREIGN.fullmatch, SEVERAL, "look like dates. Write them like 2021-12-31 to have dates."),
    _Way(_has_day, SEVERAL, "look like dates. Write them like 2021-12-31 14:35 to have dates."),
    _Way(_AMOUNT.fullmatch, DIFFERENT, "are numbers with words beside them. Write the numbers alone to have them."),
)


def nearly(cells: Sequence[str]) -> str:
    """What to say of a column of texts that are something else in nearly the right way; empty for others."""
    different = list(dict.fromkeys(cells))
    for way in _WAYS:
        enough = min(way.different, max(CLASSES, len(cells)))  # of few rows all have to differ
        if len(different) >= enough and all(map(way.fits, different)):
            shown = listed([f"'{cell}'" for cell in _apart(different)], 3)
            return f"its values, such as {shown}, {way.said}"
    if shown := _limits(cells):
        return (
            f"some of its numbers are limits ({shown}). Say whether these are read as the limit, half of it or missing "
            "(limits: half), to have numbers."
        )
    if shown := _marked(cells):
        return (
            f"some of its numbers have marks beside them ({shown}). Write the numbers alone, the marks in a column of "
            "their own."
        )
    if shown := _made(cells):
        return f"{shown} among its texts look like dates that a spreadsheet made of something else. Look at the source."
    return ""


def _marked(cells: Sequence[str]) -> str:
    """Examples of numbers with marks in a column of numbers, with and without them, and perhaps of some words."""
    said = [cell for cell in cells if not is_word(cell)]
    plain = {cell for cell in said if _PLAIN.fullmatch(cell)}
    count = sum(cell in plain for cell in said)
    if len(plain) < SEVERAL or count < PLAIN * len(cells) or not all(map(_MARKED.fullmatch, said)):
        return ""
    return listed([f"'{cell}'" for cell in _apart([cell for cell in dict.fromkeys(said) if cell not in plain])], 3)


def _limits(cells: Sequence[str]) -> str:
    """Examples of limits in a column that is one of numbers and such, and perhaps of some words."""
    said = [cell for cell in dict.fromkeys(cells) if not is_word(cell)]
    found = [cell for cell in said if limits.parts(cell)]
    plain = [cell for cell in said if _PLAIN.fullmatch(cell)]
    if not found or len(plain) < CLASSES or len(found) + len(plain) < len(said):
        return ""
    return listed([f"'{cell}'" for cell in _apart(found)], 3)


def _made(cells: Sequence[str]) -> str:
    """Days without a year among other texts: genes and sizes that a spreadsheet has changed."""
    found = [cell for cell in cells if (day := _MADE.fullmatch(cell)) and _is_month(day["word"])]
    least, most = MADE
    return listed([f"'{cell}'" for cell in dict.fromkeys(found)], 3) if least < len(found) / len(cells) < most else ""


def _apart(cells: Sequence[str]) -> list[str]:
    """One cell for each way of writing, told by what is no digit."""
    return list({re.sub(r"[\d.,'\s]+", "0", cell): cell for cell in reversed(cells)}.values())[::-1]
