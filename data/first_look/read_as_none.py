"""Codes of two letters of which one is read as no value: Naples is NA, among the other provinces of Italy."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shoal.data.dialects import Dialect, split
from shoal.data.kinds import Guess
from shoal.kernels.csv_kernel import FieldKind
from shoal.lazy.patterns import pattern
from shoal.words import NA

CODES = 3  # different ones at least
LINES = 100  # with NA in them that are looked at
_CODE = pattern("[A-Z]{2}")


def codes_without_na(
    guesses: Sequence[Guess], rows: Sequence[Sequence[str]], text: bytes, dialect: Dialect
) -> frozenset[int]:
    """Columns whose texts are such codes, and in which NA stands as well; `text`: where `rows` are from, and more."""
    if NA not in dialect.missing:
        return frozenset()
    found = []
    for j, guess in enumerate(guesses):
        present = {row[j] for row in rows if row[j] not in dialect.missing} if guess.kind == FieldKind.LEVEL else set()
        if len(present) >= CODES and all(map(_CODE.fullmatch, present)):
            found.append(j)
    if not found:
        return frozenset()
    quote, mark = (re.escape(sign.encode()) for sign in (dialect.quote or '"', dialect.delimiter))
    cell = re.compile(rb"(?m)^(?:.*%b)?%b?NA%b?(?:%b.*)?\r?$" % (mark, quote, quote, mark))
    lines = [line[0] for line, _ in zip(cell.finditer(text), range(LINES), strict=False)]
    seen = [*rows, *(split(b"\n".join(lines) + b"\n", dialect, True) if lines else [])]
    return frozenset(j for j in found if any(len(row) > j and row[j] == NA for row in seen))
