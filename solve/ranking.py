"""How well scores tell yes from no, from rows in order of their score: areas, thresholds, calibration; sees no file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.models import Array, Floats
from shoal.results.outcome import TENTH, CalibrationBin, ThresholdCurve

RANKED_ROWS = 200_000  # rows up to which every score is ranked; of more, scores are rounded down to GRID first
GRID = 2.0**-12
MOST_PLACES = 2**20  # of scores on a grid that are counted place by place
POINTS = 200  # thresholds that are kept of a curve
BINS = 10  # of calibration, with about as many rows each
NORMAL = 1.959963984540054  # the quantile behind 95 %


def grid_for(rows: int) -> float:
    """What scores of so many rows are rounded down to before they are ranked; 0 for not at all."""
    return GRID if rows > RANKED_ROWS else 0.0


def tallied(place: npt.NDArray[np.intp], weights: Array, count: int) -> Floats:
    """The sum of weights at each of `count` places."""
    return np.asarray(np.bincount(place, weights, count), np.float64)


class Ranked(NamedTuple):
    """Scores of rows in order, each once, and how many rows of no and of yes have it."""

    eta: Floats
    no: Floats
    yes: Floats
    grid: float = 0.0  # what scores are whole multiples of; 0 where they are not

    @classmethod
    def rows(cls, y: Array, eta: Array, grid: float, weight: Array | None = None) -> Ranked:
        """As they come, for `together`. With a grid, scores are rounded down to multiples of it: then they are few,
        whatever the number of rows."""
        scores = np.floor(eta / grid) * grid if grid else eta
        no, yes = (1.0 - y, y) if weight is None else (weight * (1.0 - y), weight * y)
        scores, no, yes = (np.asarray(part, np.float64) for part in (scores, no, yes))
        return cls(scores, no, yes, grid)

    @classmethod
    def of(cls, y: Array, eta: Array, grid: float, weight: Array | None = None) -> Ranked:
        return cls.together([cls.rows(y, eta, grid, weight)])

    @classmethod
    def together(cls, parts: Sequence[Ranked]) -> Ranked:
        if not parts:
            return cls(np.zeros(0), np.zeros(0), np.zeros(0))
        eta, no, yes = (np.concatenate([part[k] for part in parts]) for k in range(3))
        grid = parts[0].grid
        low, high = (float(eta.min()), float(eta.max())) if len(eta) else (0.0, 0.0)
        if not grid or not len(eta) or not (high - low) / grid < MOST_PLACES:
            values, place = np.unique(eta, return_inverse=True)
            return cls(values, tallied(place, no, len(values)), tallied(place, yes, len(values)), grid)
        place = ((eta - low) / grid).astype(np.intp)  # counting them is quicker than putting them in order
        there = np.flatnonzero(np.bincount(place))
        no, yes = (tallied(place, part, there[-1] + 1)[there] for part in (no, yes))
        return cls(np.asarray(low + there * grid, np.float64), no, yes, grid)


def area_under_roc(no: Array, yes: Array) -> float | None:
    """The chance that a yes row has a higher score than a no row, ties counted half; by rows (k,) in rising order."""
    P, N = float(yes.sum()), float(no.sum())
    if not P or not N:
        return None
    below = np.cumsum(no) - no
    return float(yes @ (below + no / 2)) / (P * N)


def average_precision(no: Array, yes: Array) -> float | None:
    """The sum of (recall gained at a score) * (precision from that score up), as scikit-learn has it."""
    P = float(yes.sum())
    if not P:
        return None
    hits, alarms = np.cumsum(yes[::-1]), np.cumsum(no[::-1])
    return float((yes[::-1] * hits / np.maximum(hits + alarms, 1e-300)).sum()) / P


def threshold_curve(p: Array, no: Array, yes: Array) -> ThresholdCurve:
    """Hits and alarms at some 200 thresholds: the probabilities of about evenly many rows, 0.5 among them, and those
    between which the tenth of rows with the highest ends, so that its lift is exact."""
    hits, alarms = np.cumsum(yes[::-1])[::-1], np.cumsum(no[::-1])[::-1]
    at = np.unique(np.searchsorted(np.cumsum(yes + no), np.linspace(0, 1, POINTS) * float((yes + no).sum())))
    at = at[at < len(p)]
    half = np.searchsorted(p, 0.5)  # the first at or above it
    tenth = int(np.searchsorted(-(hits + alarms), -TENTH * float((yes + no).sum()), "right"))
    kept = sorted({*at.tolist(), *(int(i) for i in (half, tenth - 1, tenth) if 0 <= i < len(p))})
    thresholds = [0.5 if i == half else float(p[i]) for i in kept]
    return ThresholdCurve(
        _rows(yes.sum()), _rows(no.sum()), tuple(thresholds), tuple(_rows(hits[i]) for i in kept),
        tuple(_rows(alarms[i]) for i in kept),
    )  # fmt: skip


def _rows(count: Any) -> int:
    """A number of rows; weighted ones are rounded for the eye."""
    return round(float(count))


def calibration(p: Array, no: Array, yes: Array) -> tuple[CalibrationBin, ...]:
    """What was said and what came, for tenths of the rows; equal scores are in one of them."""
    rows = yes + no
    upto = np.cumsum(rows)
    if not len(upto):
        return ()
    part = np.minimum(((upto - rows / 2) * BINS / upto[-1]).astype(int), BINS - 1)
    found = []
    for b in range(BINS):
        own = part == b
        n = float(rows[own].sum())
        if n:
            share = float(yes[own].sum()) / n
            low, high = wilson(share, n)
            found.append(CalibrationBin(round(n), float(rows[own] @ p[own]) / n, share, low, high))
    return tuple(found)


def wilson(share: float, n: float) -> tuple[float, float]:
    """The 95 % interval of a share of n rows (Wilson 1927), which holds its level for few rows too."""
    z2 = NORMAL**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = NORMAL * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)
