"""What the columns of a text table hold: numbers, dates or levels, guessed from a sample; no file is read here."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from shoal.data.dialects import Dialect
from shoal.kernels.csv_kernel import DateOrder, FieldKind, library

ODD_SHARE = 0.05  # a column with more values than this that are not of its kind is of another kind


@dataclass(frozen=True)
class Layout:
    """The columns in file order: their names, how their fields are read, and how dates are written."""

    names: tuple[str, ...]
    kinds: tuple[FieldKind, ...]
    orders: tuple[int, ...]
    fixed: frozenset[int] = frozenset()  # columns whose kind was given: a value of another kind is a bad row

    @property
    def numbers(self) -> list[int]:
        """Columns that become doubles: numbers and dates."""
        return [i for i, kind in enumerate(self.kinds) if kind in (FieldKind.NUMBER, FieldKind.DATE)]

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
        return replace(self, kinds=kinds)


def guess_kind(
    name: str, cells: Sequence[str], dialect: Dialect, categorical: Sequence[str], numeric: Sequence[str]
) -> tuple[FieldKind, int]:
    """The kind that (nearly) all cells of a sample have; a column without cells is one of numbers."""
    present = [cell for cell in cells if cell not in dialect.missing]
    if name in categorical:
        return FieldKind.LEVEL, 0
    numbers = sum(number_of(cell, dialect) is not None for cell in present)
    if numbers == len(present) or (numbers >= 20 and numbers >= (1 - ODD_SHARE) * len(present)):
        return FieldKind.NUMBER, 0
    for order in DateOrder:
        dates = sum(is_date(cell, order) for cell in present)
        if dates == len(present) or (dates >= 20 and dates >= (1 - ODD_SHARE) * len(present)):
            return FieldKind.DATE, order
    return (FieldKind.NUMBER if name in numeric else FieldKind.LEVEL), 0


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
