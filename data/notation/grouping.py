"""Whether a point or comma among digits groups thousands or is a decimal mark, told from the numbers of a column."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterable, Sequence

MANY = 8  # grouped numbers beside whole ones: by chance no decimals have three digits each
APART = 1000**0.5  # whole numbers so much larger than the others are nearer to these as thousands


class Grouping(enum.Enum):
    """What the numbers of a column say of a mark."""

    NO = "a decimal mark, or none at all"
    OPEN = "either"
    YES = "thousands"


def grouping(cores: Iterable[str], mark: str) -> Grouping:
    """What numbers without sign and currency say: 1.5, 0.125 and 1234 that points are decimal ones, 1.234 nothing.

    Whole numbers beside 1.234 speak for thousands, since decimals would have zeros there: 950 beside 1.234 does, and
    7 beside many numbers of three digits behind the point; 2 beside 1.125 leaves it open.
    """
    marked, whole = [], []
    for core in cores:
        if mark in core:
            if not is_grouped(core, mark):
                return Grouping.NO
            marked.append(core)
        elif not core.isdecimal() or len(core) > 3:
            return Grouping.NO
        else:
            whole.append(int(core))
    if not marked:
        return Grouping.NO
    if any(core.count(mark) > 1 for core in marked) or (whole and len(marked) >= MANY):
        return Grouping.YES
    decimals = [float(core.replace(mark, ".")) for core in marked]
    apart = bool(whole) and _middle(whole) > APART * _middle(decimals)
    return Grouping.YES if apart else Grouping.OPEN


def other_mark(mark: str) -> str:
    """Of point and comma, the decimal mark where the other one groups digits."""
    return "," if mark == "." else "."


def _middle(numbers: Sequence[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]


def is_grouped(core: str, mark: str) -> bool:
    """Whether a mark stands where one between thousands would: 1.234, 12.345.678, not 0.125 or 1.5."""
    return _groups(mark).fullmatch(core) is not None


@functools.cache
def _groups(mark: str) -> re.Pattern[str]:
    return re.compile(rf"[1-9]\d{{0,2}}({re.escape(mark)}\d{{3}})+")
