"""Which records of a long series to show: few, evenly spread, with the extremes of the loss; nothing is kept here.

A bucket of level k stands for 4^k records in a row and says where among them the loss is lowest and highest. Level 0
is the records themselves. A store writes a bucket once, when it is full; so nothing is ever rewritten, the newest
records are covered by smaller buckets, and a series of any length is read through a few thousand buckets at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple


class Bucket(NamedTuple):
    """The places of the lowest and the highest loss (the first one of equals), and these. All NaN: the first place."""

    low: int
    low_loss: float
    high: int
    high_loss: float


LOW_LOSS, HIGH_LOSS = itemgetter(1), itemgetter(3)  # by place: a chart asks thousands of times

# Full buckets first <= number < stop of a level. Bucket b of level k covers places b * 4^k to (b + 1) * 4^k - 1.
_Look = Callable[[int, int, int], Sequence[Bucket]]


def merged(buckets: Sequence[Bucket]) -> Bucket:
    if len(buckets) == 1:
        return buckets[0]
    known = [bucket for bucket in buckets if bucket[1] == bucket[1]]
    if not known:
        return buckets[0]
    low, high = min(known, key=LOW_LOSS), max(known, key=HIGH_LOSS)
    return Bucket(low[0], low[1], high[2], high[3])


def newly_full(look: _Look, before: int, after: int) -> Iterator[tuple[int, int, list[Bucket]]]:
    """Level, first number and buckets that became full as the series grew from `before` to `after` records.

    Store what is yielded before asking for more: a level is made of the one below it.
    """
    level = 1
    while (first := before >> 2 * level) < (stop := after >> 2 * level):
        parts = look(level - 1, 4 * first, 4 * stop)
        yield level, first, [merged(parts[i : i + 4]) for i in range(0, len(parts), 4)]
        level += 1


def pieces(start: int, stop: int, level: int) -> list[tuple[int, int, int]]:
    """(level, first, stop) of full buckets that cover the places start to stop in order, none above `level`."""
    if level == 0:
        return [(0, start, stop)] if start < stop else []
    size = 4**level
    first, last = -(-start // size), stop // size
    if first >= last:
        return pieces(start, stop, level - 1)
    return [*pieces(start, first * size, level - 1), (level, first, last), *pieces(last * size, stop, level - 1)]


def chosen(look: _Look, start: int, stop: int, points: int) -> list[int]:
    """At most `points` of the places start to stop, increasing: first, last, and both extremes of equal stretches."""
    length = stop - start
    if length <= points:
        return list(range(start, stop))
    if points < 1:
        return []
    level = 0
    while length >= 2 * points * 4**level:
        level += 1
    buckets = [bucket for piece in pieces(start, stop, level) for bucket in look(*piece)]
    if points < 4:
        whole = merged(buckets)
        return sorted(list(dict.fromkeys([stop - 1, start, whole.low, whole.high]))[:points])
    stretches = (points - 2) // 2
    places = {start, stop - 1}
    for _, stretch in groupby(buckets, key=lambda bucket: (bucket.low - start) * stretches // length):
        extremes = merged(list(stretch))
        places |= {extremes.low, extremes.high}
    return sorted(places)


def spread(count: int, points: int) -> list[int]:
    """At most `points` of the places 0 to count, evenly spread, with the last and the first one."""
    if count <= points:
        return list(range(count))
    if points < 2:
        return [count - 1][: max(points, 0)]
    return [i * (count - 1) // (points - 1) for i in range(points)]
