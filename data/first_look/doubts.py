"""What is to be said of columns whose cells may mean something else than they are read as; nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shoal.data.dialects import Dialect
from shoal.data.first_look.doubtful_numbers import doubt_about_number
from shoal.data.first_look.mixtures import mixture_note, numeric_note
from shoal.data.first_look.nearly import nearly
from shoal.data.kinds import Guess, number_of
from shoal.data.notation.words import is_word
from shoal.kernels.csv_kernel import FieldKind
from shoal.lazy.patterns import pattern
from shoal.words import listed, plural

NUMBERS = 0.5  # share of a text column's cells that are numbers, from which one asks about the others
MOST = 0.85  # share from which a few different ones are enough
SPARSE = 0.5  # share of a column's cells that are empty where cells were merged
FEW = 20  # rows below which nothing is to be said
_POINTED = pattern(r"([01]?\d|2[0-3])\.[0-5]\d")


def doubts_about(
    names: Sequence[str], guesses: Sequence[Guess], rows: Sequence[Sequence[str]], dialect: Dialect
) -> Iterator[str]:
    """Sentences about columns, from the rows that were looked at."""
    for j, (name, guess) in enumerate(zip(names, guesses, strict=True)):
        cells = [row[j] for row in rows]
        present = [cell for cell in cells if cell not in dialect.missing]
        if guess.kind == FieldKind.TIME:
            yield f"Column '{name}' holds times of day, read as hours after midnight: {guess.written} is 14.58."
        if guess.kind != FieldKind.LEVEL and present and (doubt := doubt_about_number(name, guess, present)):
            yield doubt
        if guess.kind == FieldKind.NUMBER and _may_be_times(present):
            yield (
                f"Column '{name}' may hold times of day with a point for a colon, such as {present[0]}; they are read "
                "as decimal numbers. If they are times, write them with a colon."
            )
        if guess.kind == FieldKind.NUMBER and present and (mixed := numeric_note(name, present)):
            yield mixed
        if guess.kind != FieldKind.LEVEL or not present:
            continue
        if mixed := mixture_note(name, present):
            yield mixed
            continue
        if len(rows) < FEW:
            if said := nearly(present) or _few_odd(present, dialect):
                yield f"Column '{name}' is read as text: {said}"
            continue
        if _other_digits(present):
            yield (
                f"Column '{name}' has digits of another script, such as '{present[0]}', and is read as text. "
                "Write them as 0 to 9 to have numbers and dates."
            )
        elif said := nearly(present):
            yield f"Column '{name}' is read as text: {said}"
        elif odd := _hardly_odd(present, dialect):
            yield (
                f"Column '{name}' is read as text: most of its values are numbers, but not {odd}. "
                f"If it is one of numbers, say so (numeric: {name}), and rows with others are left out."
            )
        elif _is_merged(cells, present):
            yield (
                f"Column '{name}' has a value in the first of several rows only, {plural(len(present), 'value')} in "
                f"{plural(len(cells), 'row')}, as merged cells have: fill the others in, or they count as missing."
            )


def _may_be_times(cells: Sequence[str]) -> bool:
    """Hours below 24 and, in many different cells, two digits below 60 each: of decimals two in five are above."""
    parts = {cell.partition(".")[2] for cell in cells if _POINTED.fullmatch(cell)}
    return len(parts) >= FEW and all(map(_POINTED.fullmatch, cells))


def _other_digits(cells: Sequence[str]) -> bool:
    """Whether nearly all cells have decimal digits, none of them 0 to 9."""
    foreign = [
        any(c.isdecimal() and not c.isascii() for c in cell) and not any("0" <= c <= "9" for c in cell)
        for cell in cells
    ]
    return sum(foreign) >= 0.9 * len(cells)


def _hardly_odd(cells: Sequence[str], dialect: Dialect) -> str:
    """Of a column that is mostly numbers, some of its other cells; words alone are offered as missing elsewhere."""
    odd = [cell for cell in cells if number_of(cell, dialect) is None]
    if not odd or len(cells) - len(odd) < NUMBERS * len(cells) or all(map(is_word, odd)):
        return ""
    most = 1 - len(odd) / len(cells) >= MOST
    if len({cell for cell in cells if cell not in odd}) < (FEW // 4 if most else FEW // 2):  # codes: 1, 2, 2a
        return ""
    return listed([f"'{cell}'" for cell in dict.fromkeys(odd)], 3)


def _few_odd(cells: Sequence[str], dialect: Dialect) -> str:
    """The same of so few rows that a third of numbers is to be told."""
    odd = [cell for cell in cells if number_of(cell, dialect) is None]
    numbers = len(cells) - len(odd)
    if not odd or numbers < max(3, len(cells) / 3):
        return ""
    shown = listed([f"'{cell}'" for cell in dict.fromkeys(odd)], 3)
    return f"{plural(numbers, 'value')} of {len(cells)} are numbers, but not {shown}."


def _is_merged(cells: Sequence[str], present: Sequence[str]) -> bool:
    """Whether each value stands once, before rows without one: the first row has one, most others have none."""
    return (
        len(present) > 1 and cells[0] == present[0] and len(set(present)) == len(present)
        and len(present) <= (1 - SPARSE) * len(cells) and cells[1] not in present and cells[-1] not in present
    )  # fmt: skip
