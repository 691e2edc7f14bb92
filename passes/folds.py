"""Requests about the rows of each fold's cell: moments, medians of training rows, sizes of groups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from shoal.data.columns import weighted_median
from shoal.data.dataset import Block
from shoal.data.splits import Split, Yes, hashed_index, row_weights, target_values, training_rows
from shoal.data_pipeline import design_rows
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.passes.blocks import BlockRequest, opened
from shoal.solve.least_squares import stack
from shoal.solve.moments import Merger, Moments
from shoal.whatif.folds import Folds
from shoal.worker import Worker

BUCKET_SEED = 0x5EED  # its own, so that buckets do not follow folds or test rows that are drawn by a hash as well


@dataclass(frozen=True)
class CellRequest(BlockRequest):
    """What requests about the rows of each cell have in common."""

    folds: Folds

    def parts(self, count: int, buckets: int = 1) -> Iterator[tuple[int, Array, Array | None]]:
        """Some rows (terms..., target) at a time with their weights, if they have some, and the part that they are in:
        `buckets` parts a cell, then test rows.

        Rows of a cell go to its buckets by a hash of their index: a random share of the cell each.
        """
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            rows = np.column_stack((chunk.X, chunk.y))
            cell = self.folds.of(self.dataset, self.block, chunk.row)
            part = np.where(cell < 0, -1, cell * buckets)
            if buckets > 1:
                part[cell >= 0] += bucket_of(chunk.row[cell >= 0], buckets)
            part[self.split.is_test(chunk.row)] = count * buckets
            order = np.argsort(part, kind="stable")
            found, starts = np.unique(part[order], return_index=True)
            for i, one in zip(found, np.split(order, starts[1:]), strict=True):
                if i >= 0:
                    yield int(i), rows[one], None if chunk.weight is None else chunk.weight[one]

    def gathered(self, count: int) -> Iterator[tuple[int, Array, Array | None]]:
        """The same for whole cells, with the rows of one together until they are as many as columns: of wide tables a
        few come at a time, and a matrix of all pairs for each few takes longer than what is in it."""
        waiting: dict[int, list[tuple[Array, Array | None]]] = {}
        for i, rows, weight in self.parts(count):
            waiting.setdefault(i, []).append((rows, weight))
            if sum(len(some) for some, _ in waiting[i]) >= rows.shape[1]:
                yield i, *_together(waiting.pop(i))
        for i in sorted(waiting):
            yield i, *_together(waiting[i])


def _together(pieces: list[tuple[Array, Array | None]]) -> tuple[Array, Array | None]:
    rows, weights = [one for one, _ in pieces], [one for _, one in pieces if one is not None]
    return np.concatenate(rows), np.concatenate(weights) if weights else None


def bucket_of(rows: npt.NDArray[np.int64], buckets: int) -> npt.NDArray[np.int64]:
    return (hashed_index(rows, BUCKET_SEED) % np.uint64(buckets)).astype(np.int64)


@dataclass(frozen=True)
class SumCells(CellRequest):
    """Moments of (terms..., target) over the training rows of each bucket of each cell, and over the test rows."""

    buckets: int = 1

    def answer(self, worker: Worker) -> list[Moments]:
        count = self.folds.choice.cells
        mergers = [Merger() for _ in range(count * self.buckets + 1)]
        for i, rows, weight in self.gathered(count) if self.buckets == 1 else self.parts(count, self.buckets):
            mergers[i].add(Moments.of(rows) if weight is None else Moments.weighted(rows, weight))
        nothing = Moments.empty(len(self.encoding.terms) + 1)
        return [merger.total() if merger else nothing for merger in mergers]


@dataclass(frozen=True)
class FactorCells(CellRequest):
    """The triangle of the rows [1, (terms..., target) - origin] of each cell."""

    origin: Array

    def answer(self, worker: Worker) -> list[Array]:
        count, q = self.folds.choice.cells, len(self.origin)
        found: list[Array] = [np.zeros((q + 1, q + 1)) for _ in range(count + 1)]
        for i, rows, weight in self.gathered(count):
            own = np.column_stack((np.ones(len(rows)), rows - self.origin))
            found[i] = stack(found[i], own if weight is None else own * np.sqrt(weight)[:, None])
        return found[:-1]


@dataclass(frozen=True)
class TakeRows(CellRequest):
    """The training rows (terms..., target) themselves, and the cell of each; with test rows as one cell more."""

    with_test: bool = False

    def answer(self, worker: Worker) -> tuple[Array, npt.NDArray[np.int64]]:
        count = self.folds.choice.cells
        found = [(i, rows) for i, rows, _ in self.parts(count) if i < count or self.with_test]
        nothing = np.zeros((0, len(self.encoding.terms) + 1))
        cells = [np.full(len(rows), i, np.int64) for i, rows in found]
        return np.concatenate([nothing, *(rows for _, rows in found)]), np.concatenate([np.zeros(0, np.int64), *cells])


@dataclass(frozen=True)
class FoldMedians:
    """The medians of a column over the training rows of each fold, and of all folds together; NaN: no value there.

    Holds the whole column: the medians of many overlapping sets come from one sorting.
    """

    directory: str
    column: str
    target: str
    split: Split
    folds: Folds
    weights: str = ""  # the column that says how often each row counts

    def answer(self, worker: Worker) -> Array:
        values, cells, weights = self._rows()
        order = np.argsort(values, kind="stable")
        values, cells = values[order], cells[order]
        choice = self.folds.choice
        parts = [np.isin(cells, choice.training_cells(fold)) for fold in range(choice.count)]
        parts.append(cells >= 0)
        if self.weights:
            weights = weights[order]
            return np.array([weighted_median(values[part], weights[part]) for part in parts])
        return np.array([_middle(values[part]) for part in parts])

    def _rows(self) -> tuple[Array, npt.NDArray[np.int64], Array]:
        dataset = opened(self.directory)
        slot = dataset.columns[self.column].slot
        values: list[Array] = [np.zeros(0)]
        cells: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
        weights: list[Array] = [np.zeros(0)]
        for block in dataset.blocks:
            column = np.asarray(dataset.numbers(block)[:, slot])
            kept = training_rows(dataset, block, self.target, self.split) & ~np.isnan(column)
            values.append(column[kept])
            cells.append(self.folds.of(dataset, block, block.first + np.flatnonzero(kept)))
            if self.weights:
                weights.append(row_weights(dataset, block, self.weights)[kept])
        return np.concatenate(values), np.concatenate(cells), np.concatenate(weights)


@dataclass(frozen=True)
class FoldQuantiles(FoldMedians):
    """The values (folds, shares) below which these shares of a column's values in the training rows of each fold lie,
    as `passes.quantiles` has them for all training rows: weights are not looked at."""

    shares: tuple[float, ...] = ()

    def answer(self, worker: Worker) -> Array:
        values, cells, _ = self._rows()
        order = np.argsort(values, kind="stable")
        values, cells, choice = values[order], cells[order], self.folds.choice
        parts = [values[np.isin(cells, choice.training_cells(fold))] for fold in range(choice.count)]
        return np.array([np.quantile(p, self.shares) if len(p) else np.full(len(self.shares), np.nan) for p in parts])


def _middle(values: Array) -> float:
    n = len(values)
    return float(values[(n - 1) // 2] / 2 + values[n // 2] / 2) if n else float("nan")


@dataclass(frozen=True)
class CountClasses:
    """The training rows of a block whose target is no, and yes; or each of several classes."""

    directory: str
    block: Block
    target: str
    yes: Yes
    split: Split
    weights: str = ""

    def answer(self, worker: Worker) -> tuple[int, ...]:
        dataset = opened(self.directory)
        kept = training_rows(dataset, self.block, self.target, self.split)
        if self.weights:
            kept = kept & (row_weights(dataset, self.block, self.weights) > 0)
        y = target_values(dataset, self.block, self.target, self.yes)[kept]
        classes = len(self.yes) if isinstance(self.yes, tuple) else 2
        return tuple(int((y == place).sum()) for place in range(classes))


@dataclass(frozen=True)
class CountValues:
    """The values of a column in the training rows of a block, how often each comes, and how many are missing.

    Rows without a weight above 0 do not count; the others once, or, where weights repeat rows, as often as theirs says.
    """

    directory: str
    block: Block
    column: str
    target: str
    split: Split
    weights: str = ""
    repeats: bool = False

    def answer(self, worker: Worker) -> tuple[Array, npt.NDArray[np.int64], int]:
        dataset = opened(self.directory)
        kept = training_rows(dataset, self.block, self.target, self.split)
        times = np.ones(self.block.rows, np.int64)
        if self.weights:
            weights = row_weights(dataset, self.block, self.weights)
            kept, times = kept & (weights > 0), weights.astype(np.int64) if self.repeats else times
        column, times = dataset.columns[self.column], times[kept]
        if not column.is_number:
            codes = dataset.codes(self.block, column.slot)[kept]
            there, found = codes >= 0, np.arange(len(column.levels), dtype=float)
            place = codes[there].astype(np.intp)
        else:
            values = dataset.numbers(self.block)[kept, column.slot]
            there = ~np.isnan(values)
            found, place = np.unique(values[there], return_inverse=True)
        counts = np.bincount(place, times[there], len(found)).astype(np.int64)
        return found, counts, int(times[~there].sum())
