"""Rows that are no data: names of columns, units below them, names that come again, totals at the foot.

Cells come in as texts; where rows are in a file, and how they are split, is known to `sniffing` and `files`.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence

IsValue = Callable[[str], bool]  # whether a cell is a number, a date or a time

_TOTALS = """
total totals subtotal subtotals sum summe gesamt gesamtsumme insgesamt zwischensumme totale somme suma razem celkem
spolu ukupno skupaj kokku kopā összesen итого всего разом усього общо toplam totaal totalt yhteensä σύνολο jumlah tổng
المجموع الإجمالي 合計 小計 総計 総数 計 全国 合计 小计 总计 全国总计 總計 합계 소계 รวม"""
_MEANS = """
average avg mean mittelwert durchschnitt moyenne promedio medelvärde gemiddelde średnia среднее 平均 평균"""
SUMS = frozenset(_TOTALS.split())
TOTALS = SUMS | frozenset(_MEANS.split())
# Of several words, none of which says so alone.
PHRASES = ("i alt", "alt i alt", "w sumie", "iš viso", "tổng cộng", "im ganzen", "all rows", "a fost totalul", "סה כ")


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
    value, *numbers = (_roughly(text) for text in (cell, *others))
    known = [number for number in numbers if number is not None]
    return value is not None and bool(known) and not min(known) <= value <= max(known)


def _roughly(text: str) -> float | None:
    """The value of a number in which a mark that comes twice, or stands before the other one, groups digits."""
    marks = [letter for letter in text if letter in ",."]
    grouping = marks[0] if len(marks) > 1 else ""
    with contextlib.suppress(ValueError):
        return float("".join(text.replace(grouping, "").split()).replace("'", "").replace(",", "."))
    return None


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


YEAR = re.compile(r"(1[6-9]|20|21)\d\d")


def tells_apart(names: Sequence[str], rows: Sequence[Sequence[str]], is_value: IsValue) -> bool:
    """Whether the row below the names tells columns apart that share one: 2020, 2021, 2020, 2021 below sales and cost.

    It has numbers there and nothing below names that stand alone. They are years where the rows further down have
    none, or they go up and are the same below every name, as in no other row.
    """
    if len(rows) < 2 or len(rows[0]) != len(names):
        return False
    groups = _shared(names)
    below, places = rows[0], [j for group in groups for j in group]
    alone = set(range(len(names))).difference(places)
    beside = any(below[j] and (names[j] or is_value(below[j])) for j in alone)
    if not places or beside or not all(below[j] for j in places):
        return False
    joined = [f"{j} {below[place]}" for j, group in enumerate(groups) for place in group]
    others = [row for row in rows[1:] if len(row) == len(names)]
    numbers = [j for j in places if is_value(below[j])]
    if not numbers or not others or len(set(joined)) < len(joined):
        return False
    if all(YEAR.fullmatch(below[j]) for j in numbers):
        years = sum(all(YEAR.fullmatch(row[j]) for j in numbers) for row in others)
        return 2 * years < len(others)
    return _same_in_all(below, groups) and not any(_same_in_all(row, groups) for row in others)


def _shared(names: Sequence[str]) -> list[list[int]]:
    """Columns that have one name together: it comes again, or those beside it have none."""
    groups: dict[str, list[int]] = {}
    upper = ""
    for j, name in enumerate(names):
        upper = name or upper
        if upper:
            groups.setdefault(upper, []).append(j)
    return [group for group in groups.values() if len(group) > 1]


def _same_in_all(row: Sequence[str], groups: Sequence[Sequence[int]]) -> bool:
    cells = [[row[j] for j in group] for group in groups]
    return len(cells) > 1 and all(cell == cells[0] for cell in cells) and are_rising(cells[0])


def joined_names(names: Sequence[str], second: Sequence[str]) -> list[str]:
    """Names of two lines: the upper ones, over more than one column, before those below them; units name nothing."""
    if all(names) and len(set(names)) == len(names):
        return list(names)
    found, upper = [], ""
    for name, lower in zip(names, second, strict=True):
        upper = name or upper
        found.append(f"{upper} {lower}".strip())
    return found


_RULE = re.compile(r":?[-=_]{2,}:?")


def is_rule(row: Sequence[str]) -> bool:
    """Whether a row is a line drawn below the names of columns, as Markdown has it: |----|:---:|"""
    return any(row) and all(_RULE.fullmatch(cell.strip()) for cell in row if cell.strip())


def says_total(text: str) -> bool:
    """Whether any word for totals is in a text; quick, and yes far too often."""
    text = text.casefold()
    return any(word in text for word in (*TOTALS, *PHRASES))


def names_totals(cell: str) -> bool:
    """Whether a cell is what rows of totals are called: a word for them, among few others."""
    words = re.findall(r"[^\W\d_]+", cell.casefold())
    if not words:
        return cell.strip("* ") == "" and "*" in cell  # of lists that SAP draws
    return len(words) <= 3 and (bool(TOTALS & set(words)) or " ".join(words) in PHRASES)


def names_sums(cell: str) -> bool:
    """The same without words for means, which are names of many other things."""
    return names_totals(cell) and not SUMS.isdisjoint(re.findall(r"[^\W\d_]+", cell.casefold()))


def is_total(row: Sequence[str], others: Sequence[Sequence[str]]) -> str:
    """The word that says that a row has totals, if none of the others has it; else nothing."""
    blank = next((j for j, cell in enumerate(row) if cell), 0)  # the word may stand beside the sums only
    return next(_totals_in(row[: max(3, blank + 1)], others), "")


def _totals_in(row: Sequence[str], others: Sequence[Sequence[str]]) -> Iterator[str]:
    for j, cell in enumerate(row):
        if names_totals(cell) and not any(cell in other[j : j + 1] for other in others):
            yield cell


def first_total(rows: Sequence[Sequence[str]], is_value: IsValue) -> str:
    """The word that says that the first of the rows has their totals: it has a number larger than all below it."""
    if len(rows) < 4:
        return ""
    first, others = rows[0], rows[1:]
    word = next((word for word in _totals_in(first, others) if any(map(str.isalpha, word))), "")  # ***** is no value
    larger = word and any(
        _is_outside(cell, [row[j] for row in others]) for j, cell in enumerate(first) if is_value(cell)
    )
    return word if larger else ""


def total_note(words: Sequence[str], below: int = 0, above: int = 0) -> str:
    """That the last rows are left out, which begin with these words, and with them the lines around them."""
    lines, where = below + above, "below" if not above else "above" if not below else "around"
    also = f", and the {f'{lines} lines' if lines > 1 else 'line'} {where} as well" if lines else ""
    if words == [""]:
        return f"The last row has no name and the sums of the rows above it: it is taken for totals and left out{also}."
    if len(words) == 1:
        return f"The last row begins with '{words[0]}': it is taken for totals and left out{also}."
    begin = ", ".join(f"'{word}'" for word in words)
    return f"The last {len(words)} rows begin with {begin}: they are taken for totals and left out{also}."


def notes_note(below: int) -> str:
    """That the last rows have a text and nothing else, or nothing at all, and are left out."""
    if below == 1:
        return "The last row has at most one text and no value: it is taken for a note below the table and left out."
    return f"The last {below} rows have at most one text and no value: they are taken for notes and left out."


def one_column_notes(lines: Sequence[str]) -> list[str]:
    """What to say of a table of one column, unless its lines are single words or numbers."""
    start = "The file is read as one column. "
    if mark := _in_all(lines, (",", ";", "\t", "|")):
        rest = f"Its lines are within quotes as a whole; if {mark!r} is between their fields, write them without."
    elif mark := _in_all(lines, (":", " ", "^", "~", "/")):
        rest = f"If {mark!r} is between its fields, say so (delimiter)."
    elif sum(SEVERAL.search(line.strip()) is not None for line in lines) > 0.5 * len(lines):
        rest = "If its lines have several fields, say what is between them (delimiter) and around them (quote)."
    else:
        return []
    return [start + rest]


SEVERAL = re.compile(r"""[\s,;:|^~/"']""")  # what no single word has


def _in_all(lines: Sequence[str], marks: Sequence[str]) -> str:
    """The first of the marks that comes equally often in all lines; several blanks count as one."""
    if len(lines) < 3:
        return ""
    for mark in marks:
        counts = {
            len(re.findall(f"{re.escape(mark)}+" if mark == " " else re.escape(mark), line.strip())) for line in lines
        }
        if len(counts) == 1 and counts.pop() > 0:
            return mark
    return ""


ALIGNED = "Fields are apart by several blanks, and every blank counts as one delimiter. Write one between two fields."


def are_aligned(table: Sequence[Sequence[str]]) -> bool:
    """Whether rows that were split at blanks have several of them between fields: empty cells in most rows."""
    return sum("" in row[1:-1] for row in table) > 0.5 * len(table)
