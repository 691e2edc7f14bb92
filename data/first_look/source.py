"""A text as a table that can be read at any byte: its dialect, columns and first row, told from its first bytes.

What a file is, and how its text is got, is in `files`; the rows at its foot are looked at in `totals`.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shoal.data.dialects import Dialect, as_kernel_bytes, body, column_names, offset_of_line, split, too_many_columns
from shoal.data.files import Source, file_format, read_sample
from shoal.data.first_look.doubts import doubts_about
from shoal.data.first_look.heading import Heading
from shoal.data.first_look.read_as_none import codes_without_na
from shoal.data.first_look.thousands import like_the_others
from shoal.data.formats import digits
from shoal.data.formats.encodings import encoding_note
from shoal.data.formats.headers import ALIGNED, are_aligned, one_column_notes
from shoal.data.formats.pairs import refuse_pairs
from shoal.data.formats.workbooks import chosen_sheet
from shoal.data.kinds import (
    Guess,
    Layout,
    Wanted,
    agreeing,
    date_notes,
    given_limits,
    given_orders,
    guess_kind,
)
from shoal.data.notation.limits import limit_notes, without_sign
from shoal.data.notation.numbers import notation_notes
from shoal.data.notation.words import per_column
from shoal.data.sniffing import TOO_LONG, detect, usual_width
from shoal.errors import ConfigError, DataError
from shoal.kernels.csv_kernel import PADDING, FieldKind, ParserState, library
from shoal.lazy.classes import dataclass
from shoal.settings.limits import MOST_COLUMNS
from shoal.words import no_such_column

READER_DIALECT = {"encoding": "utf-8", "delimiter": ",", "quote": '"', "escape": "", "decimal": ".", "thousands": "",
                  "comment": "", "newline": "\n", "skip_lines": 0, "header": True}  # fmt: skip
OPEN_IN_SHEETS = ("skip_lines", "header")  # are looked for in the text of a sheet, unlike in that of a plug-in


def inspect_text(
    path: Path,
    overrides: Mapping[str, Any],
    categorical: Sequence[str],
    numeric: Sequence[str],
    wanted: Wanted | None = None,
) -> Source:
    """Find out from the first bytes how the file is written and what its columns seem to hold; others are skipped."""
    overrides, said = _known(path, overrides)
    sample = Beginning.of(path, overrides)
    heading = Heading.of(
        sample.table, sample.first_line(), sample.width, sample.dialect, overrides.get("header") is not None
    )
    header = _Header.of(sample, heading, wanted)
    one_spelling = overrides.get("one_spelling") or ()
    for name in (*categorical, *numeric, *(one_spelling if wanted is None else ())):
        if name not in header.names:
            raise ConfigError(no_such_column(name, header.names))
    rows = sample.rows(heading)
    orders = given_orders(overrides.get("dates") or (), header.names)
    limits = given_limits(overrides.get("limits") or (), header.names, wanted is None)
    bare = _without_limits(rows, header.names, limits)
    guesses = _guesses(sample, header, bare, overrides, orders, categorical, numeric, wanted)
    told: list[str] = []
    if wanted is None and not _numbers_given(overrides):
        guesses, told = like_the_others(header.names, guesses, bare, sample.dialect)
    notes = [*said, *_about_text(sample, overrides), *header.notes, *date_notes(header.names, guesses, orders)]
    notes += notation_notes({name: g.notation for name, g in zip(header.names, guesses, strict=True) if g.notation})
    notes += told
    if wanted is None:
        notes += doubts_about(
            header.names,
            [_given(g, n, categorical) for g, n in zip(guesses, header.names, strict=True)],
            bare,
            sample.dialect,
        )
        notes += limit_notes(header.names, limits, rows)
    start, line = sample.place_of_row(heading.rows)
    missing = tuple(token for token in sample.dialect.missing if not per_column((token,), header.names)[0])
    unseen = frozenset(j for j in range(sample.width) if all(row[j] in missing for row in rows))
    as_usual = wanted is None and overrides.get("missing") is None
    layout = replace(
        _layout(header.names, guesses, numeric, overrides, wanted, unseen),
        limits=_by_place(guesses, header.names, limits),
        without_na=codes_without_na(guesses, bare, sample.text, sample.dialect) if as_usual else frozenset(),
    ).in_one_spelling(one_spelling)
    return Source(
        str(path), path.stat().st_size, replace(sample.dialect, missing=missing), layout, start + sample.mark, line,
        tuple(notes),
    )  # fmt: skip


def _known(path: Path, overrides: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """What is known of how a text is written before it is looked at, and what is to be said of that.

    How a plug-in writes its text, and how we write that of a sheet, is agreed on.
    """
    kind, wanted = file_format(path), overrides.get("sheet")
    own = {name: overrides.get(name) for name in ("missing", "also_missing", "dates", "limits", "one_spelling")}
    if kind == "workbook":
        sheet, said = chosen_sheet(path, str(wanted or ""))
        agreed = {name: value for name, value in READER_DIALECT.items() if name not in OPEN_IN_SHEETS}
        return {**own, **{name: overrides.get(name) for name in OPEN_IN_SHEETS}, **agreed, "sheet": sheet}, said
    if wanted:
        raise ConfigError(f"'{path.name}' is no workbook and has no sheets. Leave the sheet out.", knobs=["sheet"])
    return (own | READER_DIALECT if kind == "plugin" else overrides), []


# ------------------------------------------------------------------ the first bytes


@dataclass(frozen=True)
class Beginning:
    """The first bytes of a text as the kernel sees them, how they are written, and their rows as cells."""

    text: bytes
    mark: int  # bytes of a byte-order mark before them in the file
    at_end: bool  # whether that is all of it
    dialect: Dialect
    table: list[list[str]]
    width: int

    @classmethod
    def of(cls, path: Path, overrides: Mapping[str, Any]) -> Beginning:
        raw, at_end = read_sample(path, overrides.get("sheet") or "")
        if overrides.get("delimiter") is None:
            refuse_pairs(raw if at_end else raw[: raw.rfind(b"\n") + 1], path.name)
        dialect = detect(raw, at_end, overrides)
        text = as_kernel_bytes(raw, dialect.encoding, at_end)
        table = [
            ["" if cell.isspace() else cell for cell in row] for row in split(body(text, dialect), dialect, at_end)
        ]  # blanks only, in quotes, are missing
        if not table:
            raise DataError("Expected a table, got only comments or empty lines. Choose a file with rows.")
        width = usual_width(table)
        if width > MOST_COLUMNS:
            raise DataError(too_many_columns(width))
        if not at_end and len(table) < 2:
            raise DataError(TOO_LONG)
        return cls(text, len(raw) - len(text) if not dialect.rewrites else 0, at_end, dialect, table, width)

    def first_line(self) -> str:
        """The line that the table begins with."""
        line = body(self.text, self.dialect).partition(self.dialect.newline.encode())[0]
        return line.decode(self.dialect.text_encoding, "replace")

    def has_gaps(self) -> bool:
        """Whether a line below the first is empty, but for what may follow the last newline."""
        lines = body(self.text, self.dialect).replace(b"\r\n", b"\n").split(self.dialect.newline.encode())
        return b"" in lines[1:-1]

    def rows(self, heading: Heading) -> list[list[str]]:
        """Those of data, with as many cells as there are columns."""
        return [row for row in self.table[heading.rows :] if len(row) == self.width]

    def place_of_row(self, number: int) -> tuple[int, int]:
        """Where in the text the row of that number begins, and its line, counted from 1."""
        start, line = offset_of_line(self.text, self.dialect.skip_lines, self.dialect.newline), self.dialect.skip_lines
        for _ in range(number):
            start, lines = _end_of_first_row(self.text, start, self.dialect)
            line += lines
        return start, line + 1


def _end_of_first_row(text: bytes, start: int, dialect: Dialect) -> tuple[int, int]:
    """Where the row after the one at `start` begins, and how many lines that is further down."""
    buffer = np.zeros(len(text) + PADDING, np.uint8)
    buffer[: len(text)] = np.frombuffer(text, np.uint8)
    buffer[len(text)] = ord(dialect.newline)
    kind = np.zeros(1, np.int32)
    parser = ParserState(buffer=buffer.ctypes.data, length=len(text), at_end=1, position=start, stop=len(text),
                    marks=dialect.marks(), columns=1, kind=kind.ctypes.data, row_room=1)  # fmt: skip
    library().parse(ctypes.byref(parser))
    return min(parser.position, len(text)), parser.lines


def _about_text(sample: Beginning, overrides: Mapping[str, Any]) -> Iterator[str]:
    """What was guessed of the text as a whole."""
    dialect, skipped = sample.dialect, sample.dialect.skip_lines
    if not overrides.get("encoding") and not dialect.encoding.startswith("utf"):
        yield encoding_note(dialect.encoding, sample.text if not dialect.rewrites else b"")
    if dialect.encoding == digits.CODEC:
        yield digits.NOTE
    if sample.width == 1 and overrides.get("delimiter") is None:
        yield from one_column_notes([row[0] for row in sample.table])
    if sample.width == 1 and sample.has_gaps():
        yield "Empty lines are no rows. If they are missing values of the one column, write them as NA."
    if dialect.quote == "'" and overrides.get("quote") is None:
        yield "Fields are read as quoted by ' where they begin with it. If it is a letter of theirs, say so (quote)."
    if dialect.escape:
        yield f"A {dialect.escape} within quotes is left out: the character behind it is taken as it is."
    if dialect.delimiter == " " and are_aligned(sample.table):
        yield ALIGNED
    if skipped and overrides.get("skip_lines") is None:
        what = "line is above the table and is" if skipped == 1 else "lines are above the table and are"
        yield f"The first {'' if skipped == 1 else f'{skipped} '}{what} skipped."


# ------------------------------------------------------------------ its columns


@dataclass(frozen=True)
class _Header:
    """One name a column, which columns at the ends have neither name nor value, and what is to be said of that."""

    names: list[str]
    empty: frozenset[int]
    notes: list[str]

    @classmethod
    def of(cls, sample: Beginning, heading: Heading, wanted: Wanted | None) -> _Header:
        dialect = sample.dialect
        first, last = (
            _empty_at_the_ends(heading.names, sample.text, dialect) if sample.at_end and dialect.header else (0, 0)
        )
        empty = frozenset((*range(first), *range(sample.width - last, sample.width)))
        last_is_empty = all(not row[-1] for row in sample.rows(heading))
        names, named = column_names(heading.names, sample.width, dialect.header, last_is_empty, empty)
        notes = []
        if empty:
            shown = "A column" if len(empty) == 1 else f"{len(empty)} columns"
            where = "at both ends" if first and last else "at the end" if last else "at the beginning"
            is_ = "is" if len(empty) == 1 else "are"
            notes.append(f"{shown} {where} without a name and without any value {is_} left out.")
        return cls(wanted.called(names) if wanted else names, empty, [*notes, *heading.notes, *named])


def _empty_at_the_ends(names: Sequence[str], text: bytes, dialect: Dialect) -> tuple[int, int]:
    """How many columns at the beginning and at the end of a whole text have neither a name nor a value."""
    first = len(list(itertools.takewhile(lambda name: not name.strip(), names)))
    last = len(list(itertools.takewhile(lambda name: not name.strip(), reversed(names))))
    if first == len(names) or not (first or last):
        return 0, 0
    mark = dialect.delimiter.encode()
    lines = body(text, dialect).replace(b"\r", b"").split(dialect.newline.encode())
    rows = [line for line in lines if mark in line]
    before, after = all(row.startswith(mark * first) for row in rows), all(row.endswith(mark * last) for row in rows)
    return first if before else 0, last if after else 0


def _guesses(
    sample: Beginning, header: _Header, rows: Sequence[Sequence[str]], overrides: Mapping[str, Any],
    orders: Mapping[str, int], categorical: Sequence[str], numeric: Sequence[str], wanted: Wanted | None,
) -> list[Guess]:  # fmt: skip
    """What each column seems to hold; those that are not wanted, or have nothing in them, are skipped."""
    sure = _numbers_given(overrides)
    absent, _ = per_column(overrides.get("also_missing") or (), header.names)
    found = []
    for j, name in enumerate(header.names):
        if (wanted and name not in wanted.columns) or j in header.empty:
            found.append(Guess(FieldKind.SKIP))
            continue
        known = wanted.notation(name) if wanted and overrides.get("decimal") is None else None
        order = orders.get(name, orders.get(""))
        cells = ["" if row[j] in absent.get(name, ()) else row[j] for row in rows]
        found.append(guess_kind(name, cells, sample.dialect, categorical, numeric, sure, order, known))
    return agreeing(found)


def _without_limits(rows: list[list[str]], names: Sequence[str], limits: Mapping[str, str]) -> list[list[str]]:
    """The same cells without the signs of limits, in columns where somebody said how these are read."""
    if not limits:
        return rows
    places = [j for j, name in enumerate(names) if name in limits or "" in limits]
    bare = [list(row) for row in rows]
    for row in bare:
        for j in places:
            row[j] = without_sign(row[j])
    return bare


def _by_place(guesses: Sequence[Guess], names: Sequence[str], limits: Mapping[str, str]) -> dict[int, str]:
    """How limits are read, by the place of each column of numbers for which somebody said so."""
    asked = {j: limits.get(name, limits.get("", "")) for j, name in enumerate(names)} if limits else {}
    return {j: way for j, way in asked.items() if way and guesses[j].kind in (FieldKind.NUMBER, FieldKind.MARKED)}


def _numbers_given(overrides: Mapping[str, Any]) -> bool:
    """Whether somebody said how numbers are written: what groups digits, if anything does."""
    return overrides.get("decimal") is not None or overrides.get("thousands") is not None


def _given(guess: Guess, name: str, categorical: Sequence[str]) -> Guess:
    """Nobody asks about a column that somebody said to be of texts."""
    return Guess(FieldKind.SKIP) if name in categorical else guess


def _layout(
    names: Sequence[str], guesses: Sequence[Guess], numeric: Sequence[str], overrides: Mapping[str, Any],
    wanted: Wanted | None, unseen: frozenset[int],
) -> Layout:  # fmt: skip
    absent, _ = per_column(overrides.get("also_missing") or (), names)
    return Layout(
        tuple(names), tuple(g.kind for g in guesses), tuple(g.style for g in guesses),
        frozenset(i for i, name in enumerate(names) if name in numeric),
        {j: g.notation for j, g in enumerate(guesses) if g.notation is not None},
        {names.index(name): texts for name, texts in absent.items() if wanted is None or name in wanted.columns},
        {j: g.written for j, g in enumerate(guesses) if g.written},
        {j: g.others for j, g in enumerate(guesses) if g.others},
        unseen,
    )  # fmt: skip
