"""Requests about the rows of each fold's cell: moments, medians of training rows, sizes of groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from block_requests import BlockRequest, opened
from datasets import Block
from design import Split, training_rows
from folds import Folds
from models import Array
from moments import Moments, merge_all
from worker import Worker


@dataclass(frozen=True)
class SumCells(BlockRequest):
    """Moments of (terms..., target) over the training rows of each cell, and over the test rows."""

    folds: Folds

    def answer(self, worker: Worker) -> list[Moments]:
        width, count = len(self.encoding.terms) + 1, self.folds.choice.cells
        parts: list[list[Moments]] = [[Moments.empty(width)] for _ in range(count + 1)]
        for chunk in self.encoding.chunks(self.dataset, self.block):
            rows = np.column_stack((chunk.X, chunk.y))
            cell = self.folds.of(self.dataset, self.block, chunk.row)
            cell = np.where(self.split.is_test(chunk.row), count, cell)
            for i in np.unique(cell[cell >= 0]):
                parts[i].append(Moments.of(rows[cell == i]))
        return [merge_all(part) for part in parts]


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
