"""Rows of totals and notes at the foot of a text, which are no data; the words for them are in `formats.headers`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from shoal.data.dialects import split_with_places
from shoal.data.files import Source
from shoal.data.formats.headers import is_total, names_totals, notes_note, says_total, total_note
from shoal.files.remote import opened
from shoal.lazy.patterns import pattern

TAIL_BYTES = 1 << 16
SENTENCE = 15  # letters from which a text of several words is a note
# Of languages that put no blanks between words.
_EASTERN_NOTE = pattern(r"[（(［\[]?(注|※|出典|資料|备注|数据来源|来源|資料來源)")
END_BYTES = 1 << 13  # in which the last row is looked for words of totals


def without_totals(source: Source, to_predict: bool) -> Source:
    """The same without the last rows if those have totals or notes, which is said; `source` can be read at any byte.
    Of rows to predict each may be meant: notes with all delimiters of a row are not looked for there."""
    width = len(source.layout.names)
    with opened(source.path) as file:
        first = max(source.data_start, source.size - TAIL_BYTES)
        file.seek(first)
        text = file.read(source.size - first)
    if not _may_have_foot(text, source, width):
        return source  # most files: no row of them has to be taken apart
    whole = first == source.data_start
    if not whole:
        first, text = first + text.find(b"\n") + 1, text[text.find(b"\n") + 1 :]
    found = split_with_places(text, source.dialect, True, None)
    rows = [row for row in found if len(row) == width or _may_be_foot([cell for cell, _ in row], width)]
    cells = [[cell for cell, _ in row] for row in rows]
    short = _short_notes(cells, width)
    sure = short and _are_apart(text, rows, len(cells) - short, source)
    words: list[str] = []
    below = above = 0
    while len(cells) >= 3 and (_is_footnote(cells[-1]) or not any(cells[-1]) or _is_short_note(cells[-1], width)):
        cells.pop()
        below += 1
    kept = len(cells)
    while len(cells) >= 3 and ((word := is_total(cells[-1], cells[:-1])) or _is_short_note(cells[-1], width)):
        words[:0] = [word] if word else []
        above += not word
        cells.pop()
    if not words and whole and len(cells) >= 3 and _adds_up(source, cells):
        words.append("")
        cells.pop()
    rest = len(cells)
    if words:
        said = total_note(words, below, above)
    elif not to_predict and _are_notes([row[0][0] for row in rows[kept:]], cells):
        said = notes_note(below)
    elif sure:
        rest, said = len(rows) - short, notes_note(short)
    else:
        return source
    place = text.rfind(source.dialect.newline.encode(), 0, rows[rest][0][1]) + 1
    others = [row[0][0] for row in found if row[0][1] > place and row not in rows]
    return replace(source, size=first + place, notes=(*source.notes, said, *_another_table(others)))


def _another_table(lines: Sequence[str]) -> list[str]:
    """What to say of lines below the totals that have other fields than the rows above."""
    lines = [line for line in lines if any(map(str.isalnum, line))]  # not the frame of a list
    if len(lines) < 2:  # one is a note with a comma in it
        return [f"A note below the totals, '{line}', is left out." for line in lines]
    return [
        f"{len(lines)} lines below the totals, from '{lines[0]}' on, have other fields, as another table has, and are "
        "left out. To use that table, save it as a file of its own."
    ]


def _may_have_foot(text: bytes, source: Source, width: int) -> bool:
    """Whether the last line, or a word near it, may be one of totals or notes; quick, and yes too often."""
    mark = source.dialect.delimiter.encode()
    last = text.rstrip().rpartition(source.dialect.newline.encode())[2]
    bare = width >= 3 and text.rstrip(b"\r\n ").endswith(mark * (width - 1))
    fewer = last.count(mark) < width - 1
    told = says_total(text[-END_BYTES:].decode(source.dialect.text_encoding, "replace"))
    return last.startswith(mark) or bare or fewer or told


def _is_short_note(row: Sequence[str], width: int) -> bool:
    """Whether a line without the delimiters of a row has one text: no row was to be there, whatever it says."""
    return len(row) < width and width > 2 and any(map(str.isalpha, row[0])) and not any(row[1:])


def _may_be_foot(row: Sequence[str], width: int) -> bool:
    """The same, or a line of totals that has fewer fields than rows have; other such lines are damaged rows."""
    return _is_short_note(row, width) or (len(row) < width and any(map(names_totals, row[:1])))


def _short_notes(cells: Sequence[Sequence[str]], width: int) -> int:
    """How many of the last lines are such texts; two rows at least stay."""
    found = 0
    while found < len(cells) - 2 and _is_short_note(cells[-1 - found], width):
        found += 1
    return found


def _are_apart(text: bytes, rows: Sequence[Sequence[tuple[str, int]]], place: int, source: Source) -> bool:
    """Whether lines from a place on are hardly a row that was cut off: an empty line is above them, or they are of
    several words each, as the first cells of no rows above them are."""
    between = text[rows[place - 1][-1][1] : rows[place][0][1]]
    if between.count(source.dialect.newline.encode()) > 1:
        return True
    return all(_is_sentence(row[0][0]) for row in rows[place:]) and not any(
        _is_sentence(row[0][0]) for row in rows[:place]
    )


def _is_sentence(text: str) -> bool:
    return (len(text) >= SENTENCE and " " in text) or _EASTERN_NOTE.match(text) is not None


def _is_footnote(row: Sequence[str]) -> bool:
    """Whether a row of several columns has one text and nothing else: the source of a table and the like."""
    return len(row) > 2 and bool(row[0]) and not any(row[1:]) and not names_totals(row[0])


def _are_notes(below: Sequence[str], above: Sequence[Sequence[str]]) -> bool:
    """Whether the last rows are texts of several words, or nothing at all, as none above them is."""
    if not below or any(_is_footnote(row) or not any(row) for row in above):
        return False
    return all(not any(map(str.isalnum, text)) or _is_sentence(text) for text in below)


def _adds_up(source: Source, cells: Sequence[Sequence[str]]) -> bool:
    """Whether the last row has no name where all others do, and a number that is the sum of all those above it."""
    place = next((j for j in range(len(cells[0])) if any(row[j : j + 1] != [""] for row in cells)), 0)
    if any(cells[-1][: place + 1]) or not all(row[place : place + 1] not in ([], [""]) for row in cells[:-1]):
        return False
    if len(cells[-1]) < len(source.layout.names):
        return False
    full = [row for row in cells if len(row) == len(cells[-1])]
    for column in source.layout.numbers:
        values = [source.layout.number(column, row[column], source.dialect) for row in full]
        above = [value for value in values[:-1] if value is not None]
        if (
            values[-1] is not None
            and len(above) > 1
            and math.isclose(sum(above), values[-1], rel_tol=1e-6)
            and values[-1]
        ):
            return True
    return False
