"""A line of names that is damaged: a quote or a delimiter too many, or another delimiter than the rows have."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shoal.lazy.classes import dataclass

DELIMITERS = (",", ";", "\t", "|", " ")
WORDS = 5  # names with blanks between them at least: fewer may be a title
MOST = 200  # quotes of a line that are tried one by one
_NUMBER = re.compile(r"[+-]?[\d.,' ]*\d[\d.,' ]*%?")


@dataclass(frozen=True)
class Mended:
    """The names, one a column, and what is to be said of how they were got."""

    names: list[str]
    note: str


def mended_names(line: str, width: int, delimiter: str, quote: str) -> Mended | None:
    """The names in a line that has another number of cells than the rows; None if it cannot be told what they are."""
    for names, note in _readings(line.strip("\r\n"), delimiter, quote):
        if len(names) == width and all(name and not _NUMBER.fullmatch(name) for name in names):
            return Mended(names, note)
    return None


def _readings(line: str, delimiter: str, quote: str) -> Iterator[tuple[list[str], str]]:
    if quote and 0 < line.count(quote) <= MOST:
        note = "A quote in the header is never closed; it is read without it."
        places = [i for i, letter in enumerate(line) if letter == quote]
        for place in places:
            names = _split(line[:place] + line[place + 1 :], delimiter, quote)
            if not any(quote in name for name in names):
                yield names, note
        yield _split(line.replace(quote, ""), delimiter, quote), note
    cells = _split(line, delimiter, quote)
    filled = [cell for cell in cells if cell]
    yield filled, f"The header has {len(cells)} names, of which {len(cells) - len(filled)} without a text are left out."
    for other in DELIMITERS:
        if other != delimiter:
            note = f"The header has {other!r} between its names where the rows have {delimiter!r}; it is read so."
            names = _split(line, other, quote)
            if other != " " or len(names) >= WORDS:
                yield names, note


def _split(line: str, delimiter: str, quote: str) -> list[str]:
    read = csv.reader(
        [line], delimiter=delimiter, quotechar=quote or None, quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    )
    try:
        return [cell.strip() for cell in next(read, [])]
    except csv.Error:  # a field of more than 128 KB is no name
        return []


def stray_quote_notes(levels: Mapping[str, Iterable[str]], quote: str) -> list[str]:
    """What to say of texts, by column, that have a quote without its partner: their lines may have been cut wrongly."""
    notes = []
    for name, texts in levels.items():
        stray = sorted(text for text in texts if quote and quote in text and _is_stray(text, quote))
        if stray:
            shown, more = stray[0], f" and {len(stray) - 1:,} more" if len(stray) > 1 else ""
            shown = f"{shown[:30]} ... {shown[-30:]}" if len(shown) > 65 else shown
            notes.append(
                f"Column '{name}' has a text with a quote that stands alone, as damaged lines have: {shown}{more}."
            )
    return notes


def _is_stray(text: str, quote: str) -> bool:
    """Whether a text has a quote without its partner that is none of inches."""
    return text.count(quote) % 2 == 1 and not re.search(rf"\d{re.escape(quote)}", text)


def without_stray_quotes(names: Sequence[str], quote: str) -> list[str]:
    """Names without quotes that stand alone in them: b" is b, but 5" is five inches."""
    return [name.replace(quote, "") if quote and _is_stray(name, quote) else name for name in names]
