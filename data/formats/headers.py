"""Rows that are no data: names of columns, units below them, names that come again, totals at the foot.

Cells come in as texts; where rows are in a file, and how they are split, is known to `sniffing` and `files`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

IsValue = Callable[[str], bool]  # whether a cell is a number, a date or a time

_TOTALS = """
total totals sum summe gesamt gesamtsumme insgesamt zwischensumme totale somme suma razem celkem összesen итого всего
toplam totaal totalt yhteensä σύνολο 合計 合计 总计 總計 합계"""
TOTALS = frozenset(_TOTALS.split())


def are_rising(cells: Sequence[str]) -> bool:
    """Whether cells are numbers that go up: 400, 402, 404.5."""
    try:
        numbers = [float(cell.replace(",", ".")) for cell in cells]
    except ValueError:
        return False
    return all(a < b for a, b in itertools.pairwise(numbers))


def names_of_numbers(first: Sequence[str], rows: Sequence[Sequence[str]], is_value: IsValue) -> bool:
    """Whether numbers in the first row name columns (years, wavelengths): they go up, as hardly another row does, and
    are none of their columns' values."""
    places = [j for j, cell in enumerate(first) if is_value(cell)]
    if len(places) < 3 or not rows or not are_rising([first[j] for j in places]):
        return False
    whole = [row for row in rows if len(row) == len(first)]
    if not whole:
        return False
    rising = sum(are_rising([row[j] for j in places]) for row in whole) / len(whole)
    outside = sum(_is_outside(first[j], [row[j] for row in whole]) for j in places) / len(places)
    return (rising <= 0.5 and outside == 1) or (rising <= 0.05 and outside > 0.6)


def _is_outside(cell: str, others: Sequence[str]) -> bool:
    numbers = []
    for text in others:
        try:
            numbers.append(float(text.replace(",", ".")))
        except ValueError:
            continue
    value = float(cell.replace(",", "."))
    return bool(numbers) and not min(numbers) <= value <= max(numbers)


def second_line(names: Sequence[str], rows: Sequence[Sequence[str]], is_value: IsValue, missing: Sequence[str]) -> bool:
    """Whether the row below the names belongs to them: texts where all rows further down have numbers."""
    if len(rows) < 3 or len(rows[0]) != len(names):
        return False
    below = above = 0
    for j, cell in enumerate(rows[0]):
        cells = [row[j] for row in rows[1:] if j < len(row) and row[j] not in missing]
        if not cells or sum(map(is_value, cells)) < 0.9 * len(cells):
            continue
        below += 1
        above += cell not in missing and not is_value(cell)
        if is_value(cell):
            return False
    return above > 0 and 2 * above >= below


def joined_names(names: Sequence[str], second: Sequence[str]) -> list[str]:
    """Names of two lines: the upper ones, over more than one column, before those below them; units name nothing."""
    if all(names) and len(set(names)) == len(names):
        return list(names)
    found, upper = [], ""
    for name, lower in zip(names, second, strict=True):
        upper = name or upper
        found.append(f"{upper} {lower}".strip())
    return found


def says_total(text: str) -> bool:
    """Whether any word for totals is in a text; quick, and yes far too often."""
    text = text.casefold()
    return any(word in text for word in TOTALS)


def is_total(row: Sequence[str], others: Sequence[Sequence[str]]) -> str:
    """The word that says that a row has totals, if none of the others has it; else nothing."""
    for j, cell in enumerate(row[:3]):
        words = re.findall(r"[^\W\d_]+", cell.casefold())
        if words and len(words) <= 3 and TOTALS & set(words) and not any(cell in other[j : j + 1] for other in others):
            return cell
    return ""


def other_separator(lines: Sequence[str]) -> str:
    """What may separate fields in lines that have been read as one column: it comes equally often in all of them."""
    if len(lines) < 3:
        return ""
    for mark, pattern in ((":", ":"), (" ", " +"), ("^", r"\^"), ("~", "~"), ("/", "/")):
        counts = {len(re.findall(pattern, line.strip())) for line in lines}
        if len(counts) == 1 and counts.pop() > 0:
            return mark
    return ""
