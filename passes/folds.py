"""Requests about the rows of each fold's cell: moments, medians of training rows, sizes of groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block
from shoal.data.splits import Split, hashed_index, training_rows
from shoal.data_pipeline import design_rows
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

    def parts(self, count: int, buckets: int = 1) -> Iterator[tuple[int, Array]]:
        """Some rows (terms..., target) at a time, with the part they are in: `buckets` parts a cell, then test rows.

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
                    yield int(i), rows[one]


def bucket_of(rows: npt.NDArray[np.int64], buckets: int) -> npt.NDArray[np.int64]:
    return (hashed_index(rows, BUCKET_SEED) % np.uint64(buckets)).astype(np.int64)


@dataclass(frozen=True)
class SumCells(CellRequest):
    """Moments of (terms..., target) over the training rows of each bucket of each cell, and over the test rows."""

    buckets: int = 1

    def answer(self, worker: Worker) -> list[Moments]:
        count = self.folds.choice.cells
        mergers = [Merger() for _ in range(count * self.buckets + 1)]
        for i, rows in self.parts(count, self.buckets):
            mergers[i].add(Moments.of(rows))
        nothing = Moments.empty(len(self.encoding.terms) + 1)
        return [merger.total() if merger else nothing for merger in mergers]


@dataclass(frozen=True)
class FactorCells(CellRequest):
    """The triangle of the rows [1, (terms..., target) - origin] of each cell."""

    origin: Array

    def answer(self, worker: Worker) -> list[Array]:
        count, q = self.folds.choice.cells, len(self.origin)
        found: list[Array] = [np.zeros((q + 1, q + 1)) for _ in range(count + 1)]
        for i, rows in self.parts(count):
            found[i] = stack(found[i], np.column_stack((np.ones(len(rows)), rows - self.origin)))
        return found[:-1]


@dataclass(frozen=True)
class TakeRows(CellRequest):
    """The training rows (terms..., target) themselves, and the cell of each; for small tables."""

    def answer(self, worker: Worker) -> tuple[Array, npt.NDArray[np.int64]]:
        count = self.folds.choice.cells
        found = [(i, rows) for i, rows in self.parts(count) if i < count]
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

    def answer(self, worker: Worker) -> Array:
        values, cells = self._rows()
        order = np.argsort(values, kind="stable")
        values, cells = values[order], cells[order]
        choice = self.folds.choice
        chosen = [choice.training_cells(fold) for fold in range(choice.count)]
        return np.array([_middle(values[np.isin(cells, part)]) for part in chosen] + [_middle(values[cells >= 0])])

    def _rows(self) -> tuple[Array, npt.NDArray[np.int64]]:
        dataset = opened(self.directory)
        slot = dataset.columns[self.column].slot
        values: list[Array] = [np.zeros(0)]
        cells: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
        for block in dataset.blocks:
            column = np.asarray(dataset.numbers(block)[:, slot])
            kept = training_rows(dataset, block, self.target, self.split) & ~np.isnan(column)
            values.append(column[kept])
            cells.append(self.folds.of(dataset, block, block.first + np.flatnonzero(kept)))
        return np.concatenate(values), np.concatenate(cells)


def _middle(values: Array) -> float:
    n = len(values)
    return float(values[(n - 1) // 2] / 2 + values[n // 2] / 2) if n else float("nan")


@dataclass(frozen=True)
class CountValues:
    """The values of a number column in the training rows of a block, how often each comes, and how many are missing."""

    directory: str
    block: Block
    column: str
    target: str
    split: Split

    def answer(self, worker: Worker) -> tuple[Array, npt.NDArray[np.int64], int]:
        dataset = opened(self.directory)
        kept = training_rows(dataset, self.block, self.target, self.split)
        column = dataset.columns[self.column]
        if not column.is_number:
            codes = dataset.codes(self.block, column.slot)[kept]
            counts = np.bincount(codes[codes >= 0], minlength=len(column.levels))
            return np.arange(len(counts), dtype=float), counts, int((codes < 0).sum())
        values = dataset.numbers(self.block)[kept, column.slot]
        found, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        return found, counts, int(np.isnan(values).sum())
