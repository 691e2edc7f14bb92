"""Numbers or dates that are written in several ways within one column, which is why it is one of texts: said, never
decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shoal.data.notation.dates import is_date
from shoal.data.notation.numbers import marks_of
from shoal.lazy.patterns import pattern
from shoal.words import listed

SHARE = 0.9  # of the cells that have to be numbers of some way of writing
_SHORT = pattern(r"[+-]?[$€£]? ?\d+([.,]\d+)? ?(k|K|T|Tsd\.?|m|M|Mio\.?|Mill\.?|mn|bn|B|Mrd\.?)")
FEW_WORDS, SEVERAL = 4, 3  # different words behind numbers that may be units, each of them in several cells
_WORDED = pattern(r"\d{1,9}([.,]\d+)? (?P<word>[^\W\d_]{2,16}\.?)")
_MARKS = pattern(r"(?<=\d)[-/.年년]")
_BARE = pattern(r"-?\d+([.,]\d+)?")
_PLAIN = pattern(r"[+-]?[$€£]? ?\d+([.,]\d+)?")


def mixture_note(name: str, cells: Sequence[str]) -> str:
    """Why a column of texts has numbers nearly everywhere; nothing if it does not, or if it cannot be told."""
    start = f"Column '{name}' is read as text: "
    if shown := _marks(cells):
        return f"{start}its numbers have different units or currencies ({shown}). Write all of them in one."
    if shown := _words(cells):
        return f"{start}its numbers have different words behind them ({shown}). If these are units, write all in one."
    if shown := _shortened(cells):
        return f"{start}some of its numbers are shortened ({shown}). Write them out."
    if shown := _decimals(cells):
        return f"{start}its numbers have points and commas as decimal marks ({shown}). Write all of them with one."
    if shown := _dates(cells):
        return f"{start}its dates are written in several ways ({shown}). Write all of them in one."
    return ""


def numeric_note(name: str, cells: Sequence[str]) -> str:
    """Why a column that was said to be one of numbers cannot be read as such; nothing if it cannot be told."""
    if all(map(_BARE.fullmatch, cells)):  # as most columns of numbers are: looking for marks costs more
        return ""
    if shown := _marks(cells) or _words(cells):
        return (
            f"Column '{name}' is to be one of numbers, but they have different units ({shown}) and cannot be read so. "
            "Write all of them in one."
        )
    return ""


def _words(cells: Sequence[str]) -> str:
    """Examples of whole numbers with a few plain words behind them, as units are and names of streets are not."""
    found = [shape for cell in cells if (shape := _WORDED.fullmatch(cell))]
    example = {shape["word"]: shape[0] for shape in reversed(found)}
    often = Counter(shape["word"] for shape in found)
    if len(found) < SHARE * len(cells) or not 1 < len(often) <= FEW_WORDS or min(often.values()) < SEVERAL:
        return ""
    return listed([f"'{example[word]}'" for word, _ in often.most_common()], 4)


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


def _dates(cells: Sequence[str]) -> str:
    """Examples of dates that begin with the year and of others, or with different marks between their parts."""
    way: dict[str, str] = {}
    dates = 0
    for cell in cells:
        if is_date(cell):
            dates += 1
            year_first, marks = cell[:4].isdigit(), "".join(dict.fromkeys(_MARKS.findall(cell)))
            way.setdefault(f"{year_first}{marks}", cell)
    return listed([f"'{cell}'" for cell in way.values()], 4) if len(way) > 1 and dates >= SHARE * len(cells) else ""
