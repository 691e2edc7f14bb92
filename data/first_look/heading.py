"""The rows above the data that name its columns: how many they are, the names, and what is to be said about that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shoal.data.dialects import Dialect
from shoal.data.formats.headers import first_total, is_rule, joined_names, second_line, tells_apart
from shoal.data.formats.mended import mended_names, without_stray_quotes
from shoal.data.sniffing import is_value
from shoal.lazy.classes import dataclass
from shoal.words import listed

MOST_BELOW = 3  # lines below the names that may belong to them: units, questions, keys


@dataclass(frozen=True)
class Heading:
    """How many rows above the data are none of it, the names, and what is to be said about that."""

    rows: int
    names: Sequence[str]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Sequence[Sequence[str]], line: str, width: int, dialect: Dialect, given: bool) -> Heading:
        """`line`: the first one. `given`: somebody said whether there is a header, and what follows it is data."""
        first = table[0]
        if not dialect.header:
            said = "No row names the columns: the first one is read as data, and columns are called 0, 1, ... "
            return cls(0, first, () if given else (f"{said}If it has their names, say so (header).",))
        if len(first) != width and (mended := mended_names(line, width, dialect.delimiter, dialect.quote)):
            return cls(1, mended.names, (mended.note,))
        if len(first) == width and (names := without_stray_quotes(first, dialect.quote)) != list(first):
            note = f"The header has a quote that stands alone; it is left out of {_shown(names, first)}."
            return cls.of([names, *table[1:]], line, width, dialect, given).also(note)
        rows = [row for row in table[1:] if len(row) == width]
        if given:
            return cls(1, first)
        return _below(first, rows, dialect)._without_totals(rows)

    def also(self, note: str) -> Heading:
        return replace(self, notes=(note, *self.notes))

    def _without_totals(self, rows: Sequence[Sequence[str]]) -> Heading:
        """Some tools write the sums of all rows above them."""
        word = first_total(rows[self.rows - 1 :], is_value)
        if not word:
            return self
        note = f"The first row says '{word}' and has larger numbers than all others looked at: it is taken for totals "
        return replace(self, rows=self.rows + 1, notes=(*self.notes, f"{note}and left out."))


def _shown(names: Sequence[str], before: Sequence[str]) -> str:
    return listed([f"'{name}'" for name, old in zip(names, before, strict=True) if name != old], 4)


def _below(first: Sequence[str], rows: Sequence[Sequence[str]], dialect: Dialect) -> Heading:
    """With the lines below the names that belong to them."""
    if tells_apart(first, rows, is_value):
        shown = listed([cell for cell in rows[0] if cell], 4)
        note = f"The row below the names ({shown}) is read as a second line of them, which come more than once. "
        return Heading(2, joined_names(first, rows[0]), (f"{note}If it is data, say so (header).",))
    if rows and is_rule(rows[0]):
        return Heading(2, first, ("The line below the names is a rule between them and the rows, and is left out.",))
    below = 0
    while below < MOST_BELOW and second_line(first, rows[below:], is_value, dialect.missing):
        below += 1
    if below:
        shown = listed([cell for cell in rows[0] if cell], 4)
        note = f"The row below the names ({shown}) is read as a second line of them or their units, not as data."
        if below > 1:
            note = (
                f"{below} rows below the names ({shown}) are read as further lines of them or their units, not as data."
            )
        return Heading(1 + below, joined_names(first, rows[0]), (note,))
    numbers = [cell for cell in first if is_value(cell)]
    if rows and 2 * len(numbers) >= len(first):
        note = f"The first row is taken for names of columns although it has numbers ({listed(numbers, 3)}). "
        return Heading(1, first, (f"{note}If it is data, say so (no header).",))
    return Heading(1, first)
