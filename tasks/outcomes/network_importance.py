"""What each column is worth to a network, from the rows: how much worse it does when a column is that of another row.

Two passes: one draws the rows that lend, one sums deviances. In a network no column has a part of its own in the
score, so that rows borrow the column itself and go through all layers again.
"""

from __future__ import annotations

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.data_pipeline import design_rows
from shoal.lazy.classes import dataclass
from shoal.losses.layers import NetworkMean
from shoal.models import Array
from shoal.passes.blocks import BlockRequest
from shoal.results.answers.importance import ColumnWorth
from shoal.tasks.outcomes.importance import CELLS, LENT, SEED, TIMES, owners_of, smallest, told
from shoal.worker import Worker

DRAWS, MOST_TIMES = 60_000, 30  # few rows borrow more often: their means would vary with the draw


@dataclass(frozen=True)
class LendRows(BlockRequest):
    """The rows with the smallest hashes: a uniform sample, whoever looks at which block."""

    of_test: bool
    count: int

    def answer(self, worker: Worker) -> tuple[Array, Array]:
        total: tuple[Array, Array] = np.zeros(0), np.zeros((0, len(self.encoding.terms)))
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            kept = self.split.is_test(chunk.row) == self.of_test
            keys = np.asarray(Split(seed=SEED).hashed(chunk.row[kept]), np.float64)
            total = smallest(total, (keys, chunk.X[kept]), self.count)
        return total


@dataclass(frozen=True)
class SumRowsBorrowed(BlockRequest):
    """Sums of rows, of deviances, and of deviances with each column borrowed (columns,)."""

    network: NetworkMean
    owners: tuple[tuple[int, ...], ...]
    of_test: bool
    lent: Array  # (rows, p)
    times: int  # that each row borrows from another one

    def answer(self, worker: Worker) -> Array:
        total = np.zeros(2 + len(self.owners))
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            kept = (self.split.is_test(chunk.row) == self.of_test) & np.isfinite(chunk.X).all(axis=1)
            X, y, row = chunk.X[kept], chunk.y[kept], chunk.row[kept]
            weight = np.ones(len(y)) if chunk.weight is None else chunk.weight[kept]
            total[0] += weight.sum()
            total[1] += weight @ self._deviance(y, X)
            for place, own in enumerate(map(list, self.owners)):
                for time in range(self.times):
                    other = np.asarray(Split(seed=SEED + 1 + place * self.times + time).hashed(row))
                    borrowed = X.copy()
                    borrowed[:, own] = self.lent[(other * len(self.lent)).astype(int)][:, own]
                    total[2 + place] += weight @ self._deviance(y, borrowed) / self.times
        return total

    def _deviance(self, y: Array, X: Array) -> Array:
        """Of a number the square of how far off it is."""
        scores, loss = self.network.scores(X), self.network.loss
        return (y - scores) ** 2 if loss is None else loss.deviance(y, scores, loss.at(y, scores).value)


def network_importance(
    coordinator: Coordinator, dataset: Dataset, encoding: Encoding, split: Split, network: NetworkMean, of_test: bool
) -> ColumnWorth:
    """By how much the mean deviance rises with each column borrowed; on test rows where the model has some."""
    width = len(encoding.terms)
    owners = owners_of(encoding, np.ones(width))
    count = max(16, min(LENT, CELLS // max(1, width)))
    where = [(str(dataset.directory), block, encoding, split) for block in dataset.blocks]
    lent: tuple[Array, Array] = np.zeros(0), np.zeros((0, width))
    for one in coordinator.swept("drawing rows", [LendRows(*at, of_test, count) for at in where]):
        lent = smallest(lent, one, count)
    total: Array = np.zeros(2 + len(owners))
    if len(lent[1]):
        places = tuple(at for _, at in owners)
        times = max(TIMES, min(MOST_TIMES, DRAWS // max(1, dataset.rows)))
        requests = [SumRowsBorrowed(*at, network, places, of_test, lent[1], times) for at in where]
        for sums in coordinator.swept("trying columns of other rows", requests):
            total = total + sums
    return told([name for name, _ in owners], total, of_test)
