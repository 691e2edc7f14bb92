"""Numbers that are written in several ways within one column, which is why it is one of texts: said, never decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shoal.data.notation.numbers import marks_of
from shoal.lazy.patterns import pattern
from shoal.words import listed

SHARE = 0.9  # of the cells that have to be numbers of some way of writing
_SHORT = pattern(r"[+-]?[$€£]? ?\d+([.,]\d+)? ?(k|K|T|Tsd\.?|m|M|Mio\.?|Mill\.?|mn|bn|B|Mrd\.?)")
_PLAIN = pattern(r"[+-]?[$€£]? ?\d+([.,]\d+)?")


def mixture_note(name: str, cells: Sequence[str]) -> str:
    """Why a column of texts has numbers nearly everywhere; nothing if it does not, or if it cannot be told."""
    start = f"Column '{name}' is read as text: "
    if shown := _marks(cells):
        return f"{start}its numbers have different units or currencies ({shown}). Write all of them in one."
    if shown := _shortened(cells):
        return f"{start}some of its numbers are shortened ({shown}). Write them out."
    if shown := _decimals(cells):
        return f"{start}its numbers have points and commas as decimal marks ({shown}). Write all of them with one."
    return ""


def _marks(cells: Sequence[str]) -> str:
    """Examples of numbers with different marks, each of them a usual one."""
    found: Counter[str] = Counter()
    example: dict[str, str] = {}
    for cell in cells:
        mark = marks_of(cell)
        if mark is not None:
            found[mark] += 1
            example.setdefault(mark, cell)
    del found[""]
    if len(found) < 2 or found.total() < SHARE * len(cells):
        return ""
    return listed([f"'{example[mark]}'" for mark, _ in found.most_common()], 4)


def _shortened(cells: Sequence[str]) -> str:
    short = [cell for cell in dict.fromkeys(cells) if _SHORT.fullmatch(cell)]
    fitting = sum(bool(_SHORT.fullmatch(cell) or _PLAIN.fullmatch(cell)) for cell in cells)
    return listed([f"'{cell}'" for cell in short], 3) if short and fitting >= SHARE * len(cells) else ""


def _decimals(cells: Sequence[str]) -> str:
    plain = [cell for cell in cells if _PLAIN.fullmatch(cell)]
    points, commas = ([cell for cell in plain if mark in cell] for mark in ".,")
    if not points or not commas or len(plain) < SHARE * len(cells):
        return ""
    return listed([f"'{points[0]}'", f"'{commas[0]}'"])
