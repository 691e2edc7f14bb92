"""Whether a line suits positive numbers better than their logarithms, by a table's first rows; no model is fitted."""

from __future__ import annotations

import numpy as np

from shoal.data.dataset import Dataset
from shoal.fitting.guidance.leaks import EXACT, PAIRED, SAMPLED, explained
from shoal.models import Array
from shoal.settings.config import RunConfig

STRAIGHT = 0.8  # share of the target's spread that a line has to explain before it is preferred
FEWER = 0.5  # and what it leaves, as a share of what a line through the logarithms leaves of theirs
ROWS = 5  # for each column, below which a line explains too much by chance


def is_straight(dataset: Dataset, config: RunConfig) -> bool:
    """Whether columns of numbers add up to the target: a model that lets them multiply would be far off at its end."""
    beside = {config.target, config.weights, config.offset, *config.exclude}
    names = [
        column.name for column in dataset.number_columns
        if column.name not in beside and (not config.features or column.name in config.features)
    ]  # fmt: skip
    if not names or not dataset.blocks:
        return False
    slots = [dataset.columns[name].slot for name in (*names, config.target)]
    rows = np.asarray(dataset.numbers(dataset.blocks[0])[:SAMPLED][:, slots])
    return adds_up(rows[:, :-1], rows[:, -1])


def adds_up(X: Array, y: Array) -> bool:
    """Of positive y (n,): whether a line through X (n, q) leaves far less of it than one through its logarithms; gaps
    of X are filled with means, columns that are y in other words are left out, and of very many columns those count
    that go with y most."""
    known = np.isfinite(y) & (y > 0)
    X, y = X[known], y[known]
    most = min(PAIRED, len(y) // ROWS)
    if not most:
        return False
    present = np.isfinite(X)
    means = np.where(present, X, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    X = np.where(present, X, means)
    alone, share = explained(X, y), np.maximum(explained(X, y), explained(X, np.log(y)))
    share[1 - alone < EXACT] = -1.0  # the target in another unit, say: it speaks for a line whatever the others do
    X = X[:, np.argsort(-share, kind="stable")[: min(most, int((share >= 0).sum()))]]
    line, logs = (_left(X, values) for values in (y, np.log(y)))
    return line < 1 - STRAIGHT and line < FEWER * logs


def _left(X: Array, y: Array) -> float:
    """The share of the spread of y (n,) that a line through X (n, q) leaves; all of it where that cannot be told."""
    centred, target = X - X.mean(axis=0), y - y.mean()
    spread = np.sqrt((centred**2).mean(axis=0))
    kept = (spread > 0) & np.isfinite(spread)
    total = float(target @ target)
    if not kept.any() or not 0 < total < np.inf:
        return 1.0
    units = centred[:, kept] / spread[kept]
    rest = target - units @ np.linalg.lstsq(units, target, rcond=None)[0]
    return float(rest @ rest) / total
