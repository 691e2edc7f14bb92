"""What the columns of a text table hold: numbers, dates or levels, guessed from a sample; no file is read here."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.dialects import Dialect
from shoal.data.notation import dates, limits
from shoal.data.notation.grouping import Grouping, grouping
from shoal.data.notation.numbers import MINUSES, ODD_SHARE, Notation, notation_from, notation_of
from shoal.data.notation.spelling import in_one_spelling
from shoal.data.notation.styles import (
    BUDDHIST,
    LONG,
    NAMED,
    SHORT,
    TELLING,
    any_date_of,
    date_of,
    order_of,
    rewritten,
    time_of,
)
from shoal.data.notation.words import without_words
from shoal.errors import ConfigError
from shoal.kernels.csv_kernel import DateStyle, FieldKind, MarkRole
from shoal.lazy.classes import dataclass
from shoal.lazy.patterns import pattern
from shoal.words import tidy_name


@dataclass(frozen=True)
class Layout:
    """The columns as a file has them: their names, how their fields are read, how dates and numbers are written."""

    names: tuple[str, ...]
    kinds: tuple[FieldKind, ...]
    styles: tuple[int, ...]  # of dates
    fixed: frozenset[int] = frozenset()  # columns whose kind was given: a value of another kind is a bad row
    notations: Mapping[int, Notation] = field(default_factory=dict)  # of columns whose numbers have marks
    absent: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # texts that mean none in that column alone
    written: Mapping[int, str] = field(default_factory=dict)  # an example of each column of dates
    others: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # styles that columns of dates may have as well
    unseen: frozenset[int] = frozenset()  # columns without a value in what was looked at: they may be of any kind
    order: tuple[int, ...] = ()  # of the columns in their table, where that is made of files that differ in it
    many: frozenset[str] = frozenset()  # names of columns of which all different texts are told apart, however many
    limits: Mapping[int, str] = field(default_factory=dict)  # how <0.5 is read in columns where somebody said
    one_spelling: frozenset[int] = frozenset()  # columns whose texts are told apart without capitals and blanks
    without_na: frozenset[int] = frozenset()  # columns of codes of which NA, read as no value, may be one

    @property
    def columns(self) -> Sequence[int]:
        """The columns in the order that blocks have them."""
        return self.order or range(len(self.kinds))

    @property
    def numbers(self) -> list[int]:
        """Columns that become doubles: numbers and dates."""
        return [i for i in self.columns if self.kinds[i] not in (FieldKind.SKIP, FieldKind.LEVEL)]

    @property
    def levels(self) -> list[int]:
        return [i for i in self.columns if self.kinds[i] == FieldKind.LEVEL]

    def in_one_spelling(self, columns: Collection[str]) -> Layout:
        """The same with texts of these columns in one spelling, those that mean no value too."""
        places = frozenset(i for i in self.levels if self.names[i] in columns)
        absent = {i: tuple(map(in_one_spelling, texts)) if i in places else texts for i, texts in self.absent.items()}
        return replace(self, one_spelling=places, absent=absent)

    def slots(self) -> npt.NDArray[np.int32]:
        """A column's place among those of its sort."""
        slots = np.zeros(len(self.kinds), np.int32)
        for group in (self.numbers, self.levels):
            slots[group] = np.arange(len(group))
        return slots

    def reconsidered(self, columns: Sequence[int]) -> Layout:
        """The same with these columns read in another way: dates in another order if one is left, or else as texts."""
        dated = {i: self.others[i] for i in columns if self.others.get(i)}
        styles = tuple(dated[i][0] if i in dated else style for i, style in enumerate(self.styles))
        kinds = tuple(self._otherwise(i) if i in columns and i not in dated else k for i, k in enumerate(self.kinds))
        examples = {
            i: rewritten(self.written[i], styles[i]) if i in dated else text for i, text in self.written.items()
        }
        return replace(
            self, kinds=kinds, styles=styles, written=_without(examples, set(columns) - set(dated)),
            others={i: dated[i][1:] if i in dated else rest for i, rest in self.others.items()},
            notations=_without(self.notations, set(columns)),
        )  # fmt: skip

    def _otherwise(self, column: int) -> FieldKind:
        """What a column is that is not of its kind: texts; eight digits that are no dates are numbers."""
        return FieldKind.NUMBER if self.styles[column] & DateStyle.COMPACT else FieldKind.LEVEL

    def read_styles(self) -> list[int]:
        """The styles of dates for the kernel: while an order is open, dates that tell themselves are left out, for they
        settle nothing of it."""
        return [style if self.others.get(i) else style | DateStyle.OTHERS_TOO for i, style in enumerate(self.styles)]

    def number(self, column: int, text: str, dialect: Dialect) -> float | None:
        """The value of a text in a column of numbers, dates or times."""
        if self.kinds[column] == FieldKind.DATE:
            return any_date_of(text, self.styles[column])
        if self.kinds[column] == FieldKind.TIME:
            return time_of(text)
        found = self._written(column, text, dialect)
        if found is None and column in self.limits:
            return limits.value(text, self.limits[column], lambda rest: self._written(column, rest, dialect))
        return found

    def _written(self, column: int, text: str, dialect: Dialect) -> float | None:
        notation = self.notations.get(column)
        if notation is not None:
            return notation.number(text)
        plain = number_of(text, dialect)  # or with a sign behind it, or in parentheses: 5-, (5)
        return plain if plain is not None else Notation(dialect.decimal, dialect.thousands).number(text)


@dataclass(frozen=True)
class Wanted:
    """The columns of a file that are wanted, and how their numbers were written when a model was made of them."""

    columns: tuple[str, ...]
    written: Mapping[str, str] = field(default_factory=dict)
    many: frozenset[str] = frozenset()  # of these all different texts are told apart, however many

    def called(self, names: Sequence[str]) -> list[str]:
        """The names of a file's columns as they are wanted: models made before names were put into one line have
        line breaks in theirs, which are compared without."""
        wanted, there = set(self.columns), set(names)
        broken = {tidy_name(name): name for name in wanted - there}
        return [name if name in wanted else broken.get(name, name) for name in names]

    def notation(self, name: str) -> Notation | None:
        return notation_from(self.written[name]) if name in self.written else None


@dataclass(frozen=True)
class Guess:
    """What a column seems to hold, and how that is written: the order of dates, the marks of numbers."""

    kind: FieldKind
    style: int = 0
    notation: Notation | None = None
    written: str = ""  # an example, of dates and times
    others: tuple[int, ...] = ()  # styles that all dates of the sample have as well
    among: str = ""  # an example of dates in another way, which tells itself


def guess_kind(
    name: str,
    cells: Sequence[str],
    dialect: Dialect,
    categorical: Sequence[str],
    numeric: Sequence[str],
    sure: bool,
    order: int | None = None,
    known: Notation | None = None,
) -> Guess:
    """The kind that (nearly) all cells of a sample have; a column without cells is one of numbers.

    `sure`: how numbers are written was given, and a decimal mark groups no digits; `order`: of dates, if one was.
    `known`: how the column's numbers were written in training, which holds for all cells that can be read so.
    """
    present = [cell for cell in cells if cell not in dialect.missing]
    if name in categorical:
        return Guess(FieldKind.LEVEL)
    dated_or_open = name not in numeric or order == LONG[0]  # the columns of a model are numbers, its dates as well
    if known is None and dated_or_open and (compact := _compact_dates(name, present, order)):
        return compact
    if known and present and all(known.number(cell) is not None for cell in present):
        plain = known == Notation(dialect.decimal, dialect.thousands)
        return Guess(FieldKind.NUMBER) if plain else Guess(FieldKind.MARKED, notation=known)
    plain_count = sum(number_of(cell, dialect) is not None for cell in present)
    if _nearly_all(present, plain_count):
        marked = notation_of(present, dialect.decimal, dialect.thousands) if plain_count < len(present) else None
        if marked and sum(marked.number(cell) is not None for cell in present) > plain_count:
            return Guess(FieldKind.MARKED, notation=marked)
        if not dialect.thousands and not sure:
            told = grouping((cell.lstrip("+-") for cell in present), dialect.decimal)
            if told is Grouping.YES:
                return Guess(FieldKind.MARKED, notation=Notation.grouped_by(dialect.decimal))
        return Guess(FieldKind.NUMBER)
    if dated := _dates(present, order):
        return dated
    if _nearly_all(present, sum(time_of(cell) is not None for cell in present)):
        return Guess(FieldKind.TIME, written="14:35")
    if notation := notation_of(present, dialect.decimal, dialect.thousands):
        return Guess(FieldKind.MARKED, notation=notation)
    if rest := without_words(present):
        guess = guess_kind(name, rest, dialect, categorical, numeric, sure, order, known)
        if guess.kind != FieldKind.LEVEL:
            return guess
    return Guess(FieldKind.NUMBER if name in numeric else FieldKind.LEVEL)


def _nearly_all(cells: Sequence[str], count: int) -> bool:
    return count == len(cells) or (count >= 20 and count >= (1 - ODD_SHARE) * len(cells))


PLAIN = pattern(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def number_of(text: str, dialect: Dialect) -> float | None:
    """The general reader of numbers: any length, any size; None for what is not a finite number."""
    text = text.strip()
    if dialect.thousands:
        mark = re.escape(dialect.thousands)
        if re.match(rf"[+-]?[1-9]\d{{0,2}}({mark}\d{{3}})+(?!\d|{mark})", text):
            text = text.replace(dialect.thousands, "")
    if dialect.decimal != ".":
        if "." in text:
            return None
        text = text.replace(dialect.decimal, ".")
    if not PLAIN.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


# ------------------------------------------------------------------ dates

FIRST = re.compile(r"0?1\D")
EXAMPLES = {len(text): text for text in ("20211231", "202112311435", "20211231143510")}  # of digits alone
LONGEST = 1000  # characters of a cell within which a date has a digit


def _dates(cells: Sequence[str], order: int | None) -> Guess | None:
    """How (nearly) all cells are dates, if they are, but for those that mean no day."""
    if not any(letter.isdigit() for letter in "".join(cells[:1])[:LONGEST]):
        return None
    cells = [cell for cell in cells if not dates.means_no_day(cell)]
    guess = _dates_of_one_style(cells, order)
    if guess is None or any(date_of(cell, guess.style) is None for cell in cells):
        return _dates_among_others(cells, order) or guess
    return guess


def _dates_of_one_style(cells: Sequence[str], order: int | None) -> Guess | None:
    """The style in which (nearly) all cells are dates: what is written in full first, then what has two digits a year.

    Where several orders fit, the first is taken and the others are kept: rows further down may tell.
    """
    for styles in (LONG, (NAMED,), (DateStyle.COMPACT,), SHORT):
        # A year in full tells nothing of two digits: beside 2019-01-03, 10.01.19 is no day of 2010.
        asked = [cell for cell in cells if date_of(cell, LONG[0]) is None] if styles is SHORT else cells
        counts: dict[int, int] = {style: sum(date_of(cell, style) is not None for cell in asked) for style in styles}
        fitting: list[int] = [style for style, count in counts.items() if _nearly_all(cells, count)]
        fitting.sort(key=lambda style: -counts[style])
        if styles is SHORT and len(fitting) > 1:
            fitting = _with_few_years(cells, fitting)
        fitting.sort(key=lambda style: order is not None and order_of(style) != order)
        if fitting:
            if styles is LONG and _are_buddhist(cells, fitting[0]):
                fitting = [style | DateStyle.BUDDHIST for style in fitting]
                counts = {style: sum(date_of(cell, style) is not None for cell in cells) for style in fitting}
            best = fitting[0]
            example = next(cell for cell in cells if date_of(cell, best) is not None)
            settled = order is not None and order_of(best) == order
            others = () if settled else tuple(s for s in fitting[1:] if counts[s] == counts[best])
            return Guess(FieldKind.DATE, best, written=rewritten(example, best), others=others)
    return None


def _are_buddhist(cells: Sequence[str], style: int) -> bool:
    """Whether nearly all dates have years as they are counted in Thailand."""
    years = [1970 + day / 365.2425 for cell in cells if (day := date_of(cell, style)) is not None]
    return sum(int(year) in BUDDHIST for year in years) >= (1 - ODD_SHARE) * len(years)


def _dates_among_others(cells: Sequence[str], order: int | None) -> Guess | None:
    """Where some dates tell themselves, the style of all others: `2021-05-02` among `2. 5. 2021`."""
    ways = {style: cell for style in TELLING for cell in cells if date_of(cell, style) is not None}
    rest = [cell for cell in cells if all(date_of(cell, style) is None for style in TELLING)]
    if not ways or (not rest and len(ways) < 2):
        return None
    if not rest:
        return Guess(FieldKind.DATE, LONG[0], written=rewritten(ways[LONG[0]], LONG[0]), among=ways[NAMED])
    guess = _dates(rest, order)
    if guess is None:
        return None
    told = [day for style in TELLING for cell in cells if (day := date_of(cell, style)) is not None]
    within = [style for style in (guess.style, *guess.others) if _all_within(rest, style, min(told), max(told))]
    if len(within) == 1 and within[0] != guess.style:
        others = (guess.style, *(style for style in guess.others if style != within[0]))
        guess = replace(guess, style=within[0], others=others, written=rewritten(guess.written, within[0]))
    return replace(guess, among=ways.get(LONG[0], ways.get(NAMED, "")))


def _all_within(cells: Sequence[str], style: int, first: float, last: float) -> bool:
    """Whether dates, read so, lie between two days, as those of one column do."""
    return all((day := date_of(cell, style)) is not None and first <= day <= last for cell in cells)


def _compact_dates(name: str, cells: Sequence[str], order: int | None) -> Guess | None:
    """Eight digits that are dates, year first, or more with a time, but for those that mean no day (00000000).

    A number is one by chance in one of thirty cases: three different are enough, or a given order, or a name of dates.
    """
    size = len(cells[0]) if cells else 0
    if size not in EXAMPLES or not all(len(cell) == size and cell.isascii() and cell.isdecimal() for cell in cells):
        return None
    days = [cell for cell in cells if not dates.means_no_day(cell)]
    if not all("1850" <= cell[:4] <= "2150" and date_of(cell, DateStyle.COMPACT) is not None for cell in days):
        return None
    if len(set(days)) < 3 and not (days and (order == LONG[0] or dates.is_called_one(name))):
        return None
    return Guess(FieldKind.DATE, DateStyle.COMPACT, written=EXAMPLES[size])


def _with_few_years(cells: Sequence[str], styles: Sequence[int]) -> list[int]:
    """The styles by how many years they make of the cells: days differ more than years do, so many years are wrong."""
    first_of_month = len(cells) >= 20 and all(FIRST.match(cell) for cell in cells)
    if first_of_month:  # 01-12-13, 01-01-14: no year, or all would be of one
        styles = [style for style in styles if order_of(style) != LONG[0]] or styles
    years = {style: len({int(day // 365.25) for cell in cells if (day := date_of(cell, style))}) for style in styles}
    least = min(years.values())
    enough = len(cells) >= 20
    return sorted((s for s in styles if not enough or years[s] <= 2 * least), key=years.__getitem__)


def given_orders(entries: Iterable[str], names: Sequence[str]) -> dict[str, int]:
    """The order of dates that was given for a column, under "" that for all others."""
    try:
        return dates.orders_given(entries, names)
    except ValueError as error:
        raise ConfigError(
            f"Expected dates to be one of {', '.join(dates.ORDERS)}, or COLUMN= and one of them, got '{error}'. "
            "Correct it.",
            knobs=["dates"],
        ) from None


def given_limits(entries: Sequence[str], names: Sequence[str], all_here: bool) -> dict[str, str]:
    """How limits such as <0.5 are read by column, under "" those of all others; columns may be absent from a file to
    predict."""
    try:
        return limits.given(entries, names, all_here)
    except ValueError as error:
        raise ConfigError(
            f"Expected limits to be one of {', '.join(limits.WAYS)}, or COLUMN= and one of them, got '{error}'. "
            "Correct it.",
            knobs=["limits"],
        ) from None


def agreeing(guesses: Sequence[Guess]) -> list[Guess]:
    """The same, with dates that could be read in several orders read like those of other columns that tell."""
    dated = [guess for guess in guesses if guess.kind == FieldKind.DATE]
    told = {order_of(guess.style) for guess in dated if not guess.others and not guess.style & DateStyle.NAMED}
    found = []
    for guess in guesses:
        better = next((style for style in guess.others if order_of(style) in told), None)
        if guess.others and order_of(guess.style) not in told and better is not None:
            others = (guess.style, *(style for style in guess.others if style != better))
            guess = replace(guess, style=better, others=others, written=rewritten(guess.written, better))
        found.append(guess)
    return found


def date_notes(names: Sequence[str], guesses: Sequence[Guess], orders: Mapping[str, int]) -> list[str]:
    """What to say of dates before all rows are read: years of two digits, and an order that was given and is not so."""
    dated = {name: guess for name, guess in zip(names, guesses, strict=True) if guess.kind == FieldKind.DATE}
    short = {name: g.written for name, g in dated.items() if g.style & DateStyle.SHORT_YEARS}
    other = [
        dates.not_so(name, orders[name], guess.written) for name, guess in dated.items()
        if name in orders and order_of(guess.style) != orders[name] and not guess.style & DateStyle.NAMED
    ]  # fmt: skip
    compact = {n: g.written for n, g in dated.items() if g.style & DateStyle.COMPACT and n not in orders}
    mixed = [dates.mixed_note(name, guess.written, guess.among) for name, guess in dated.items() if guess.among]
    thai = [dates.buddhist_note(name, g.written) for name, g in dated.items() if g.style & DateStyle.BUDDHIST]
    return [*dates.written_notes(short), *thai, *(dates.compact_note(*one) for one in compact.items()), *mixed, *other]


def encoded_marks(notation: Notation, encoding: str) -> Iterator[tuple[bytes, MarkRole]]:
    """A notation's marks as the kernel meets them, longer ones first; without those that the encoding does not have."""
    roles = {
        MarkRole.GROUP: notation.group_marks,
        MarkRole.MINUS: (*MINUSES, *notation.debits),
        MarkRole.DROPPED: notation.dropped,
    }
    found: list[tuple[bytes, MarkRole]] = []
    for role, texts in roles.items():
        for text in texts:
            with contextlib.suppress(UnicodeEncodeError):  # in part it would be another mark: , of ,–
                found.append((text.encode(encoding), role))
    return iter(sorted(found, key=lambda mark: -len(mark[0])))


def _without(values: Mapping[int, Any], columns: Container[int]) -> dict[int, Any]:
    return {i: value for i, value in values.items() if i not in columns}
