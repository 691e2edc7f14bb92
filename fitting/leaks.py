"""Columns that alone (nearly) determine the target; what else is said of a file is in `inspection`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.columns import base_encoding, choose_columns
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.data.terms import Level, Number
from shoal.data_pipeline import design_rows
from shoal.models import Array
from shoal.passes.blocks import BlockRequest
from shoal.passes.spreads import SpreadPool, SumSpreads
from shoal.settings.config import RunConfig
from shoal.settings.limits import MOST_EXACT
from shoal.solve.moments import Moments
from shoal.worker import Worker

LEAK = 1e-6  # a column that leaves less than this share of the target's variance is suspected of knowing it


@dataclass(frozen=True, eq=False)
class AgainstTarget:
    """Of p terms: their means (p,), scatters (p,), and cross = sum (x - mean)(y - mean) (p,); y's own scatter."""

    n: float
    mean: Array
    spread: Array
    cross: Array
    total: float

    @classmethod
    def of(cls, moments: Moments) -> AgainstTarget:
        scatter = moments.scatter
        return cls(moments.n, moments.mean, np.diag(scatter)[:-1], scatter[:-1, -1], float(scatter[-1, -1]))


@dataclass(frozen=True)
class CrossTarget(BlockRequest):
    """Sums of (x - mean)(y - mean) over the rows of a block, for the means (p + 1,) of all."""

    mean: Array

    def answer(self, worker: Worker) -> Array:
        total = np.zeros(len(self.encoding.terms))
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            total += (chunk.y - self.mean[-1]) @ (chunk.X - self.mean[:-1])
        return total


def leaks_of(coordinator: Coordinator, dataset: Dataset, config: RunConfig) -> set[str]:
    """From the sums of all pairs where columns are few; else from two passes that need no such matrix."""
    base = base_encoding(choose_columns(dataset, config), config)
    if len(base.terms) <= MOST_EXACT:
        return leak_columns(AgainstTarget.of(coordinator.moments(dataset, base, Split())[0]), base)
    pool, places = SpreadPool(len(base.terms) + 1), (str(dataset.directory), dataset.blocks)
    for part in coordinator.swept("measuring", [SumSpreads(places[0], b, base, Split()) for b in places[1]]):
        pool.add(part)
    found = pool.total()
    cross = np.zeros(len(base.terms))
    requests = [CrossTarget(places[0], block, base, Split(), found.mean) for block in places[1]]
    for part in coordinator.swept("comparing with the target", requests):
        cross += part
    return leak_columns(AgainstTarget(found.n, found.mean, found.scatter[:-1], cross, float(found.scatter[-1])), base)


def leak_columns(sums: AgainstTarget, base: Encoding) -> set[str]:
    """By a line, or level by level where levels are few."""
    if sums.n < 10 or not sums.total > 0:
        return set()
    found, explained = set(), dict.fromkeys(base.known, 0.0)
    for i, term in enumerate(base.terms):
        if isinstance(term, Number) and sums.spread[i] > 0:
            if 1 - sums.cross[i] ** 2 / (sums.spread[i] * sums.total) < LEAK:
                found.add(term.column)
        elif isinstance(term, Level) and sums.mean[i] > 0:
            explained[term.column] += sums.cross[i] ** 2 / (sums.n * sums.mean[i])
    for name, part in explained.items():
        if len(base.known[name]) < sums.n / 5 and 1 - part / sums.total < LEAK:
            found.add(name)
    return found
