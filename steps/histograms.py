"""How the numbers of each part of a model are spread, and those of its gradient: histograms that are small enough to be
put on record again and again. When that is worth its time is said here as well; drawing them belongs to the pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from shoal.models import Array

FEWEST_BINS, MOST_BINS = 8, 40
FEWEST = 20  # numbers of a model: of fewer, each is better looked at by itself
MOST = 1 << 17  # numbers of a part that are looked at, evenly spread over it where it has more
PARTS = 24  # the largest ones
PAUSE, LATER = 1.0, 0.02  # seconds between two of them at least, and as a share of the run: a long one has few hundreds


def histograms(parts: Iterable[tuple[str, int]], weights: Array, gradient: Array) -> list[dict[str, Any]]:
    """Of each part, in the order of the model: its name and size, and the histogram of either, None where nothing is
    finite."""
    places, first = [], 0
    for name, size in parts:
        places.append((name, size, first))
        first += size
    largest = sorted(sorted(places, key=lambda place: -place[1])[:PARTS], key=lambda place: place[2])
    return [
        {
            "name": name, "size": size,
            "weights": histogram(weights[start : start + size]),
            "gradient": histogram(gradient[start : start + size]),
        }
        for name, size, start in largest if size
    ]  # fmt: skip


def histogram(values: Array) -> dict[str, Any] | None:
    """`low`, `high` and the counts of bins of one width between them."""
    some = values[:: -(-len(values) // MOST)]
    some = some[np.isfinite(some)]
    if not len(some):
        return None
    bins = min(max(int(np.sqrt(len(some))), FEWEST_BINS), MOST_BINS)
    counts, edges = np.histogram(some, bins, _range(some))
    return {"low": float(edges[0]), "high": float(edges[-1]), "counts": counts.tolist()}


def _range(values: Array) -> tuple[float, float]:
    """Wide enough for bins that doubles can tell apart, where all values are one or nearly so."""
    low, high = float(values.min()), float(values.max())
    least = max(abs(low), abs(high)) * 1e-9 or 1e-9
    if high - low > least:
        return low, high
    return low - least, high + least


class HistogramTimes:
    """When it is time for another one, in a run that began at `began`: after an epoch, and at the end."""

    def __init__(self, began: float) -> None:
        self._began, self._last, self._epoch = began, -np.inf, -1

    def due(self, now: float, epoch: float, last: bool) -> bool:
        enough = now - self._last >= max(PAUSE, LATER * (now - self._began))
        if not last and not (enough and int(epoch) != self._epoch):
            return False
        self._last, self._epoch = now, int(epoch)
        return True
