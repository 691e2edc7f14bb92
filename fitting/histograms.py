"""Counts for the eye: how the values of a number column spread, and which levels of a text column are frequent."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shoal.models import Array, Integers

BINS = 20  # bars of a small histogram, of equal width from the smallest value to the largest
TOP = 10  # levels that are named with their counts


def histogram(values: Array, low: float | None, high: float | None) -> Integers:
    """How many of the values (none missing) fall into each bin; a column of one value, or of none, has one bin."""
    if low is None or high is None or low == high:
        return np.array([len(values)], np.int64)
    if not (math.isfinite(low) and math.isfinite(high)):
        return np.zeros(0, np.int64)
    if not math.isfinite(high - low):  # the width of such a range is no double
        values, low, high = values / 4, low / 4, high / 4
    return _counts(values, low, high)


def _counts(values: Array, low: float, high: float) -> Integers:
    counts: Integers = histograms(values[np.newaxis], np.array([low]), np.array([high]))[0]
    return counts


def histograms(values: Array, low: Array, high: Array) -> Integers:
    """`np.histogram(row, BINS, (low, high))[0]` of each row by the same arithmetic, without what it looks at for any
    arguments: for few values, as very many columns have, that is most of its time. `low` is less than `high`."""
    low, high = low[:, np.newaxis], high[:, np.newaxis]
    edges = np.arange(BINS + 1) * ((high - low) / BINS) + low
    edges[:, -1:] = high
    places = ((values - low) / (high - low) * BINS).astype(np.intp)
    places[places == BINS] -= 1
    places -= values < np.take_along_axis(edges, places, 1)
    places += (values >= np.take_along_axis(edges, places + 1, 1)) & (places != BINS - 1)
    places += BINS * np.arange(len(values))[:, np.newaxis]
    return np.bincount(places.ravel(), minlength=BINS * len(values)).reshape(-1, BINS)


def level_counts(codes: npt.NDArray[np.int32], levels: int) -> Integers:
    """How often each level comes; a code below zero means missing."""
    return np.bincount(codes[codes >= 0], minlength=levels).astype(np.int64)


def most_frequent(levels: Sequence[str], counts: Integers) -> list[tuple[str, int]]:
    """The levels that come most often, with their counts; of equal ones, the first in order."""
    first = np.argsort(-counts, kind="stable")[:TOP]
    return [(levels[i], int(counts[i])) for i in first if counts[i]]
