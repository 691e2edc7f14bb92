"""Rows of totals and notes at the foot of a text, which are no data; the words for them are in `formats.headers`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from shoal.data.dialects import split_with_places
from shoal.data.files import Source
from shoal.data.formats.headers import is_total, names_totals, notes_note, says_total, total_note
from shoal.files.remote import opened

TAIL_BYTES = 1 << 16
SENTENCE = 15  # letters from which a text of several words is a note
END_BYTES = 1 << 13  # in which the last row is looked for words of totals


def without_totals(source: Source, to_predict: bool) -> Source:
    """The same without the last rows if those have totals or notes, which is said; `source` can be read at any byte.
    Of rows to predict each may be meant: notes alone are not looked for there."""
    with opened(source.path) as file:
        first = max(source.data_start, source.size - TAIL_BYTES)
        file.seek(first)
        text = file.read(source.size - first)
    nameless = (
        text.rstrip().rpartition(source.dialect.newline.encode())[2].startswith(source.dialect.delimiter.encode())
    )
    bare = text.rstrip(b"\r\n ").endswith(source.dialect.delimiter.encode() * (len(source.layout.names) - 1))
    told = says_total(text[-END_BYTES:].decode(source.dialect.text_encoding, "replace"))
    if not nameless and not told and (not bare or len(source.layout.names) < 3):
        return source  # most files: no row of them has to be taken apart
    whole = first == source.data_start
    if not whole:
        first, text = first + text.find(b"\n") + 1, text[text.find(b"\n") + 1 :]
    rows = [r for r in split_with_places(text, source.dialect, True, None) if len(r) == len(source.layout.names)]
    cells = [[cell for cell, _ in row] for row in rows]
    words: list[str] = []
    below = 0
    while len(cells) >= 3 and (_is_footnote(cells[-1]) or not any(cells[-1])):
        cells.pop()
        below += 1
    kept = len(cells)
    while len(cells) >= 3 and (word := is_total(cells[-1], cells[:-1])):
        words.insert(0, word)
        cells.pop()
    if not words and whole and len(cells) >= 3 and _adds_up(source, cells):
        words.append("")
        cells.pop()
    if not words and (to_predict or not _are_notes([row[0][0] for row in rows[kept:]], cells)):
        return source
    place = text.rfind(source.dialect.newline.encode(), 0, rows[len(cells)][0][1]) + 1
    said = total_note(words, below) if words else notes_note(below)
    return replace(source, size=first + place, notes=(*source.notes, said))


def _is_footnote(row: Sequence[str]) -> bool:
    """Whether a row of several columns has one text and nothing else: the source of a table and the like."""
    return len(row) > 2 and bool(row[0]) and not any(row[1:]) and not names_totals(row[0])


def _are_notes(below: Sequence[str], above: Sequence[Sequence[str]]) -> bool:
    """Whether the last rows are texts of several words, or nothing at all, as none above them is."""
    if not below or any(_is_footnote(row) or not any(row) for row in above):
        return False
    return all(not any(map(str.isalnum, text)) or (len(text) >= SENTENCE and " " in text) for text in below)


def _adds_up(source: Source, cells: Sequence[Sequence[str]]) -> bool:
    """Whether the last row has no name where all others do, and a number that is the sum of all those above it."""
    if cells[-1][0] or not all(row[0] for row in cells[:-1]):
        return False
    for column in source.layout.numbers:
        values = [source.layout.number(column, row[column], source.dialect) for row in cells]
        above = [value for value in values[:-1] if value is not None]
        if (
            values[-1] is not None
            and len(above) > 1
            and math.isclose(sum(above), values[-1], rel_tol=1e-6)
            and values[-1]
        ):
            return True
    return False
