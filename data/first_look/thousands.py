"""Points and commas that may be decimal marks or group thousands: told by the other columns of a text, or else said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from shoal.data.dialects import Dialect
from shoal.data.kinds import Guess
from shoal.data.notation.grouping import Grouping, grouping, other_mark
from shoal.data.notation.numbers import Notation, cores_of
from shoal.kernels.csv_kernel import FieldKind
from shoal.lazy.classes import dataclass
from shoal.words import listed

WORDS = {".": "point", ",": "comma"}


@dataclass(frozen=True)
class _Marked:
    """A column of numbers with points or commas: how it is read, and what its own numbers say of that."""

    column: int
    shown: str  # one of its numbers
    mark: str
    notation: Notation
    told: Grouping

    @property
    def is_decimal(self) -> bool:
        return self.mark == self.notation.decimal


def like_the_others(
    names: Sequence[str], guesses: Sequence[Guess], rows: Sequence[Sequence[str]], dialect: Dialect
) -> tuple[list[Guess], list[str]]:
    """The columns with those that leave it open read like the others, and what is to be said of it.

    A column with 1.5 or 0.125 tells that points are decimal marks in all of them, one with 0,74 kg that commas are; one
    of thousands, or decimals of the other mark, that they group digits. Where nothing tells, points are decimal ones.
    Where both are there and leave it open, semicolons between fields speak for commas: who has points needs none.
    Whole numbers with a unit are taken to be written so too: 950 m² may be followed by 1.050 m².
    """
    marked = list(_marked(guesses, rows, dialect))
    decimals = {m.mark for m in marked if m.is_decimal and m.told is Grouping.NO}
    thousands = {m.mark for m in marked if m.told is Grouping.YES}
    open_marks = {m.mark for m in marked if m.told is Grouping.OPEN}
    by_delimiter = dialect.delimiter == ";" and not decimals and not thousands and open_marks == {".", ","}
    decimals |= {","} if by_delimiter else set()
    found, undecided, assumed = list(guesses), list[_Marked](), list[_Marked]()
    for m in marked:
        settled = m.mark in decimals or other_mark(m.mark) in decimals
        if m.told is Grouping.YES and not settled and m.mark != dialect.delimiter:
            assumed.append(m)
        if m.told is Grouping.OPEN and m.mark in decimals and not m.is_decimal:
            notation = replace(m.notation, decimal=m.mark, thousands=other_mark(m.mark))
            found[m.column] = replace(guesses[m.column], kind=FieldKind.MARKED, notation=notation)
        if m.told is not Grouping.OPEN or m.mark in decimals:
            continue
        if m.is_decimal and (settled or m.mark in thousands):
            notation = replace(m.notation, decimal=other_mark(m.mark), thousands=m.mark)
            found[m.column] = replace(guesses[m.column], kind=FieldKind.MARKED, notation=notation)
            assumed += [] if settled else [replace(m, notation=notation)]
        elif not settled and m.mark != dialect.delimiter:
            undecided.append(m)
    if by_delimiter:
        undecided = [replace(m, notation=found[m.column].notation or m.notation) for m in marked]
    if len(decimals) == 1:
        _as_written_elsewhere(found, {m.column for m in marked}, decimals.pop())
    return found, [*_open_notes(names, undecided), *_assumed_notes(names, assumed)]


def _as_written_elsewhere(guesses: list[Guess], marked: set[int], decimal: str) -> None:
    """Columns of units or currencies without a point or comma in them, by the decimal mark of the others."""
    for j, guess in enumerate(guesses):
        notation = guess.notation
        if notation is None or j in marked:
            continue
        thousands = other_mark(decimal) if notation.thousands in ("", decimal) else notation.thousands
        guesses[j] = replace(guess, notation=replace(notation, decimal=decimal, thousands=thousands))


def _marked(guesses: Sequence[Guess], rows: Sequence[Sequence[str]], dialect: Dialect) -> Iterator[_Marked]:
    for j, guess in enumerate(guesses):
        if guess.kind not in (FieldKind.NUMBER, FieldKind.MARKED):
            continue
        notation = guess.notation or Notation(dialect.decimal, dialect.thousands)
        # Words among numbers tell nothing, k.A. and .. least of all.
        cells = [row[j] for row in rows if row[j] not in dialect.missing and any(map(str.isdigit, row[j]))]
        mark = next((m for m in (notation.decimal, notation.thousands) if m and any(m in cell for cell in cells)), "")
        if mark not in WORDS:
            continue
        if guess.notation is None and any(mark in cell and cell[-4:-3] != mark for cell in cells):
            yield _Marked(j, "", mark, notation, Grouping.NO)  # as nearly always: 1.5, without a look at the others
            continue
        cores = cores_of(cells)
        yield _Marked(j, next((core for core in cores if mark in core), ""), mark, notation, grouping(cores, mark))


def _open_notes(names: Sequence[str], undecided: Sequence[_Marked]) -> Iterator[str]:
    for m, columns, has in _by_reading(names, undecided):
        read, other = ("decimals", "groups thousands") if m.is_decimal else ("thousands", "is a decimal one")
        knob = "thousands" if m.is_decimal else "decimal"
        yield (
            f"{columns} {has} numbers such as {m.shown}, read as {read}. "
            f"If the {WORDS[m.mark]} {other}, say so ({knob}: {m.mark})."
        )


def _assumed_notes(names: Sequence[str], assumed: Sequence[_Marked]) -> Iterator[str]:
    for m, columns, has in _by_reading(names, assumed):
        yield (
            f"{columns} {has} numbers such as {m.shown} beside whole ones, read as thousands. "
            f"If the {WORDS[m.mark]} is a decimal one, say so (decimal: {m.mark})."
        )


def _by_reading(names: Sequence[str], marked: Sequence[_Marked]) -> Iterator[tuple[_Marked, str, str]]:
    """One sentence for all columns that are read alike: the first, their names, and the verb for them."""
    alike: dict[tuple[str, bool], list[_Marked]] = {}
    for m in marked:
        alike.setdefault((m.mark, m.is_decimal), []).append(m)
    for group in alike.values():
        columns = listed([f"'{names[m.column]}'" for m in group], 8)
        one = len(group) == 1
        yield group[0], f"Column {columns}" if one else f"Columns {columns}", "has" if one else "have"
