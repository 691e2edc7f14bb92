"""Numbers of which only a limit is known, `<0,5` below what can be measured, `>200` above: what is read of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from shoal.lazy.patterns import pattern

WAYS = ("limit", "half", "missing")  # the number itself, half of it where it is one below, or none
SIGNS = {"<": "<", "<=": "≤", "=<": "≤", "≤": "≤", ">": ">", ">=": "≥", "=>": "≥", "≥": "≥"}
TOLD = {f"{sign}…" for sign in SIGNS.values()}  # how many different ones are counted together
_LIMIT = pattern(r"(?P<sign><=?|>=?|=[<>]|[≤≥])[\s\u00a0]*(?P<rest>[-+]?[.,]?\d[\d.,'\u2019\s]*(?:[^\d-][^\d]{0,15})?)")


def parts(text: str) -> tuple[str, str] | None:
    """The sign and the number of a limit, as they are written; None for what is none."""
    found = _LIMIT.fullmatch(text.strip()) if text[:1] in "<>=≤≥ \u00a0" and len(text) <= 60 else None
    return (SIGNS[found["sign"]], found["rest"]) if found else None


def told_as(text: str) -> str:
    """`<…` for `<0,5` and all others below a limit; a text that is none as it is."""
    found = parts(text)
    return f"{found[0]}…" if found else text


def without_sign(text: str) -> str:
    found = parts(text)
    return found[1] if found else text


def value(text: str, way: str, number: Callable[[str], float | None]) -> float | None:
    """What a limit is read as, not a number where it counts as missing; None for what is no limit."""
    found = parts(text)
    known = number(found[1]) if found else None
    if not found or known is None:
        return None
    if way == "missing":
        return math.nan
    return known / 2 if way == "half" and found[0] in "<≤" and known > 0 else known


def given(entries: Iterable[str], names: Sequence[str], all_here: bool = True) -> dict[str, str]:
    """What `half` or `COLUMN=half` say: the way by column, and under "" that of all others.

    Raises `ValueError` with an entry that says neither; with a column that is not there where `all_here` are.
    """
    found: dict[str, str] = {}
    for entry in entries:
        column, _, way = entry.rpartition("=")
        if way not in WAYS or (column and column not in names and all_here):
            raise ValueError(entry)
        found[column] = way
    return found


def limit_notes(names: Sequence[str], ways: Mapping[str, str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """What limits in the rows that were looked at are read as."""
    for j, name in enumerate(names if ways else ()):
        way = ways.get(name, ways.get(""))
        cell = next((row[j] for row in rows if way and parts(row[j])), None)
        if cell and way:
            half = way == "half" and parts(cell) and cell.strip()[0] in "<≤="
            meant = "missing" if way == "missing" else "half of the number" if half else "the number itself"
            yield f"Limits in '{name}', such as '{cell}', are read as {meant}."
