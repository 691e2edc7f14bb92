"""What each column is worth to a model of another loss, from the rows: how much worse it does when a column's part of
the score is that of another row. Two passes: one draws the rows whose parts are lent, one sums deviances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.data.terms import Offset, pair_name
from shoal.data_pipeline import design_rows
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.losses.multinomial import Multinomial
from shoal.models import Array
from shoal.passes.blocks import BlockRequest
from shoal.results.answers.importance import PERMUTATION, ColumnWorth
from shoal.worker import Worker

LENT = 512  # rows whose parts are lent to others
CELLS = 4_000_000  # parts that are lent at most: fewer rows of very many columns
TIMES = 3  # that each row borrows from another one
SEED = 7919  # of the rows that lend, so that they are not those of a split
Owner = tuple[str, tuple[int, ...]]  # a column of the file, or a pair, and the places of its terms


def owners_of(encoding: Encoding, coef: Array) -> list[Owner]:
    """Columns with a weight, each with its terms; products are their own. What is added as it is has no weight."""
    places: dict[tuple[str, ...], list[int]] = {}
    for place, term in enumerate(encoding.terms):
        if not isinstance(term, Offset):
            places.setdefault(term.columns, []).append(place)
    named = ((pair_name(*own) if len(own) > 1 else own[0], tuple(at)) for own, at in places.items())
    return [(name, at) for name, at in named if coef[..., list(at)].any()]


@dataclass(frozen=True)
class PartsRequest(BlockRequest):
    """Rows of a block with what each column adds to their score, or to that of each of several classes."""

    coef: Array  # (p,), or (K, p)
    owners: tuple[tuple[int, ...], ...]
    of_test: bool

    def parts(self, X: Array) -> Array:
        """(n, columns), or (n, columns, K)"""
        found = [X[:, list(own)] @ self.coef[..., list(own)].T for own in self.owners]
        return np.stack(found, axis=1) if found else np.zeros((len(X), 0, *self.coef.shape[:-1]))


@dataclass(frozen=True)
class LendParts(PartsRequest):
    """The parts of the rows with the smallest hashes: a uniform sample, whoever looks at which block."""

    count: int

    def answer(self, worker: Worker) -> tuple[Array, Array]:
        total = nothing_lent(len(self.owners), self.coef)
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            kept = self.split.is_test(chunk.row) == self.of_test
            keys = np.asarray(Split(seed=SEED).hashed(chunk.row[kept]), np.float64)
            total = smallest(total, (keys, self.parts(chunk.X[kept])), self.count)
        return total


def nothing_lent(columns: int, coef: Array) -> tuple[Array, Array]:
    return np.zeros(0), np.zeros((0, columns, *coef.shape[:-1]))


def smallest(a: tuple[Array, Array], b: tuple[Array, Array], count: int) -> tuple[Array, Array]:
    keys, parts = np.concatenate((a[0], b[0])), np.concatenate((a[1], b[1]))
    kept = np.argsort(keys, kind="stable")[:count]
    return keys[kept], parts[kept]


@dataclass(frozen=True)
class SumBorrowed(PartsRequest):
    """Sums of rows, of deviances, and of deviances with each column borrowed (columns,)."""

    intercept: float | Array
    loss: RowLoss | Multinomial
    lent: Array  # (rows, columns), or (rows, columns, K)

    def answer(self, worker: Worker) -> Array:
        total = np.zeros(2 + len(self.owners))
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            eta = chunk.X @ self.coef.T + self.intercept
            finite = np.isfinite(eta if eta.ndim == 1 else eta.sum(axis=1))
            kept = (self.split.is_test(chunk.row) == self.of_test) & finite
            y, eta, row = chunk.y[kept], eta[kept], chunk.row[kept]
            weight = np.ones(len(y)) if chunk.weight is None else chunk.weight[kept]
            own = self.parts(chunk.X[kept])
            total[0] += weight.sum()
            total[1] += weight @ self._deviance(y, eta)
            for place in range(own.shape[1]):
                for time in range(TIMES):
                    other = Split(seed=SEED + 1 + place * TIMES + time).hashed(row)
                    drawn = self.lent[(np.asarray(other) * len(self.lent)).astype(int), place]
                    total[2 + place] += weight @ self._deviance(y, eta - own[:, place] + drawn) / TIMES
        return total

    def _deviance(self, y: Array, eta: Array) -> Array:
        if isinstance(self.loss, Multinomial):
            return 2 * self.loss.at(y.astype(np.intp), eta).value
        return self.loss.deviance(y, eta, self.loss.at(y, eta).value)


def importance(
    coordinator: Coordinator, dataset: Dataset, encoding: Encoding, split: Split, coef: Array,
    intercept: float | Array, loss: RowLoss | Multinomial, of_test: bool,
) -> ColumnWorth:  # fmt: skip
    """By how much the mean deviance rises with each column borrowed; on test rows where the model has some."""
    owners = owners_of(encoding, coef)
    names, places = [name for name, _ in owners], tuple(at for _, at in owners)
    count = max(16, min(LENT, CELLS // max(1, len(owners) * coef.size // coef.shape[-1])))
    lent = nothing_lent(len(owners), coef)
    where = [(str(dataset.directory), block, encoding, split, coef, places, of_test) for block in dataset.blocks]
    for one in coordinator.swept("drawing rows", [LendParts(*at, count) for at in where]):
        lent = smallest(lent, one, count)
    total: Array = np.zeros(2 + len(owners))
    if len(lent[1]):
        requests = [SumBorrowed(*at, intercept, loss, lent[1]) for at in where]
        for sums in coordinator.swept("trying columns of other rows", requests):
            total = total + sums
    return told(names, total, of_test)


def told(names: Sequence[str], total: Array, of_test: bool) -> ColumnWorth:
    n, deviance = max(float(total[0]), 1e-300), float(total[1])
    rises = dict(zip(names, ((total[2:] - deviance) / n).tolist(), strict=True))
    ordered = dict(sorted(rises.items(), key=lambda item: -item[1]))
    rows = "test" if of_test else "training"
    return ColumnWorth(method=PERMUTATION, part=rows, rows=round(n), error=deviance / n, rises=ordered)
