"""What the columns of a text table hold: numbers, dates or levels, guessed from a sample; no file is read here."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from shoal.data.dialects import Dialect
from shoal.data.notation.numbers import ODD_SHARE, Notation, are_grouped, notation_of
from shoal.data.notation.words import without_words
from shoal.kernels.csv_kernel import DateOrder, FieldKind, library


@dataclass(frozen=True)
class Layout:
    """The columns in file order: their names, how their fields are read, and how dates and numbers are written."""

    names: tuple[str, ...]
    kinds: tuple[FieldKind, ...]
    orders: tuple[int, ...]
    fixed: frozenset[int] = frozenset()  # columns whose kind was given: a value of another kind is a bad row
    notations: Mapping[int, Notation] = field(default_factory=dict)  # of columns whose numbers have marks
    absent: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # texts that mean none in that column alone

    @property
    def numbers(self) -> list[int]:
        """Columns that become doubles: numbers and dates."""
        return [i for i, kind in enumerate(self.kinds) if kind not in (FieldKind.SKIP, FieldKind.LEVEL)]

    @property
    def levels(self) -> list[int]:
        return [i for i, kind in enumerate(self.kinds) if kind == FieldKind.LEVEL]

    def slots(self) -> npt.NDArray[np.int32]:
        """A column's place among those of its sort."""
        slots = np.zeros(len(self.kinds), np.int32)
        for group in (self.numbers, self.levels):
            slots[group] = np.arange(len(group))
        return slots

    def with_levels(self, columns: Sequence[int]) -> Layout:
        """The same, with these columns read as texts after all."""
        kinds = tuple(FieldKind.LEVEL if i in columns else kind for i, kind in enumerate(self.kinds))
        return replace(self, kinds=kinds, notations={i: n for i, n in self.notations.items() if i not in columns})

    def number(self, column: int, text: str, dialect: Dialect) -> float | None:
        """The value of a text in a column of numbers."""
        notation = self.notations.get(column)
        return number_of(text, dialect) if notation is None else notation.number(text)


@dataclass(frozen=True)
class Guess:
    """What a column seems to hold, and how that is written: the order of dates, the marks of numbers."""

    kind: FieldKind
    order: int = 0
    notation: Notation | None = None


def guess_kind(
    name: str, cells: Sequence[str], dialect: Dialect, categorical: Sequence[str], numeric: Sequence[str], sure: bool
) -> Guess:
    """The kind that (nearly) all cells of a sample have; a column without cells is one of numbers.

    `sure`: the decimal mark was given, and groups no digits whatever they look like.
    """
    present = [cell for cell in cells if cell not in dialect.missing]
    if name in categorical:
        return Guess(FieldKind.LEVEL)
    if _nearly_all(present, sum(number_of(cell, dialect) is not None for cell in present)):
        if not dialect.thousands and not sure and are_grouped((cell.lstrip("+-") for cell in present), dialect.decimal):
            other = "," if dialect.decimal == "." else "."
            return Guess(FieldKind.MARKED, notation=Notation(other, dialect.decimal))
        return Guess(FieldKind.NUMBER)
    for order in DateOrder:
        if _nearly_all(present, sum(is_date(cell, order) for cell in present)):
            return Guess(FieldKind.DATE, order)
    if notation := notation_of(present, dialect.decimal, dialect.thousands):
        return Guess(FieldKind.MARKED, notation=notation)
    if rest := without_words(present):
        guess = guess_kind(name, rest, dialect, categorical, numeric, sure)
        if guess.kind != FieldKind.LEVEL:
            return guess
    return Guess(FieldKind.NUMBER if name in numeric else FieldKind.LEVEL)


def _nearly_all(cells: Sequence[str], count: int) -> bool:
    return count == len(cells) or (count >= 20 and count >= (1 - ODD_SHARE) * len(cells))


def number_of(text: str, dialect: Dialect) -> float | None:
    """The general reader of numbers: any length, any size; None for what is not a finite number."""
    text = text.strip()
    if dialect.thousands:
        mark = re.escape(dialect.thousands)
        if re.match(rf"[+-]?\d{{1,3}}({mark}\d{{3}})+(?!\d|{mark})", text):
            text = text.replace(dialect.thousands, "")
    if dialect.decimal != ".":
        if "." in text:
            return None
        text = text.replace(dialect.decimal, ".")
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def is_date(text: str, order: int) -> bool:
    raw = text.encode()
    return bool(library().date_of(raw, len(raw), order, ctypes.byref(ctypes.c_double())))
