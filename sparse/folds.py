"""Files of sparse rows, fold by fold, as `whatif.rows_choice` chooses a penalty from them; zeros are never filled in.

Each fold is centred and scaled by its own training rows, as folds of a table of cells are.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.coordinator import Coordinator
from shoal.data.splits import Split, hashed_index
from shoal.errors import ConfigError, DataError, OutOfMemory
from shoal.fitting.exact import check_rows
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.settings.limits import SOLVING, memory_for_exact, sparse_bytes
from shoal.solve.moments import Moments
from shoal.solve.rows.sparse import SparseRows
from shoal.sparse.fit import LOGISTIC
from shoal.sparse.table import SparseTable, column_name, open_table
from shoal.utils import available_memory
from shoal.whatif.folds import FoldChoice
from shoal.whatif.rows_choice import FoldRows

WAYS = ("row", "hash", "class")
STORED = 20, 16, 24  # bytes of a value, a column and a row of all rows in one matrix
WEIGHTS = (
    40  # bytes of a weight at a point of the path: the weight, its place, both units, and while they are put together
)


@dataclass(frozen=True, eq=False)
class SparseCells:
    """All rows A (m, p) by rows (scipy's csr), their labels, and the cell of each (the last one: rows kept for
    testing); `there` (p,) are the indices of the columns that have a value in a training row."""

    config: RunConfig
    choice: FoldChoice
    A: Any
    labels: Array
    cells: npt.NDArray[np.int64]
    there: npt.NDArray[np.intp]

    @property
    def columns(self) -> list[str]:
        return []  # folds are made by none of them

    @property
    def tested(self) -> list[int]:
        having = set(np.unique(self.cells).tolist())
        found = [fold for fold in range(self.choice.count) if fold in having]
        if len(found) < 2:
            raise DataError(f"Expected rows in at least 2 folds, got some in {len(found)}. Choose fewer folds.")
        return found

    @property
    def target(self) -> Moments:
        return Moments.of(self.labels[self.cells < self.choice.cells, None])

    @property
    def held(self) -> Moments:
        kept = self.labels[self.cells == self.choice.cells, None]
        return Moments.of(kept) if len(kept) else Moments.empty(1)

    def parted(self, number: int | None) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which rows a fold trains on, and which it is tested by; None: all training rows, and those for testing."""
        last = self.choice.cells
        train = self.cells != last if number is None else (self.cells != number) & (self.cells != last)
        return train, self.cells == (last if number is None else number)

    def fold(self, number: int | None) -> FoldRows:
        train, test = self.parted(number)
        if not train.any():
            raise DataError(f"Fold {number} has no training rows. Choose fewer folds.")
        return FoldRows(self.rows(train), set(), partial(_error, self.A[test], self.labels[test]), self.named)

    def rows(self, train: npt.NDArray[np.bool_]) -> SparseRows:
        """Some of them, by which of all."""
        config, most = self.config, max(1, math.isqrt(memory_for_exact(available_memory()) // (8 * SOLVING)))
        with np.errstate(over="ignore", invalid="ignore"):
            rows = SparseRows.of(self.A[train], self.labels[train], config.intercept, config.standardize, most=most)
        if not (np.isfinite(rows.squares).all() and np.isfinite(rows.y_scatter)):
            raise DataError(
                "Expected values whose squares can be summed, got some over about 1e150. Divide them first."
            )
        return rows

    def named(self, used: npt.NDArray[np.bool_]) -> tuple[list[str], npt.NDArray[np.intp]]:
        """An answer has the columns with a weight somewhere on the path, as a model file has those with one."""
        columns = np.flatnonzero(used)
        return [column_name(index) for index in self.there[columns].tolist()], columns

    def planned(self, model: str, points: int, ratios: int) -> int:
        """Without an L1 part every column has a weight at every point."""
        mixed = model in ("lasso", "elasticnet")
        width = min(len(self.there), len(self.labels)) if mixed else len(self.there)
        need = 2 * self._open + WEIGHTS * width * points * ratios
        free = memory_for_exact(available_memory())
        if need > free:
            raise too_much(self.A.nnz, len(self.labels), len(self.there), points * ratios, need, free)
        return 2 + (free - need) // max(self._open, 1)

    @property
    def _open(self) -> int:
        """Bytes that a fold on its way holds."""
        return sparse_bytes(self.A.nnz, len(self.there), len(self.labels))


def sparse_cells(coordinator: Coordinator, config: RunConfig, choice: FoldChoice) -> tuple[SparseTable, SparseCells]:
    """All rows in one matrix of the columns that have a value in a training row."""
    from scipy.sparse import csr_array  # here: only sparse rows need it

    check_way(choice, config)
    table = open_table(coordinator, config)
    if choice.count > table.rows:
        raise ConfigError(
            f"Expected at most as many folds as rows, got {choice.count:,} folds of {table.rows:,} rows. "
            "5 or 10 are usual."
        )
    need, free = _bytes(STORED, table.values, table.columns, table.rows), memory_for_exact(available_memory())
    need += 2 * sparse_bytes(table.values, table.columns, table.rows)
    if need > free:
        raise too_much(table.values, table.rows, table.columns, 1, need, free)
    labels, cells, there = np.empty(table.rows), np.empty(table.rows, np.int64), np.zeros(table.columns, bool)
    indices, values = np.empty(table.values, np.int32), np.empty(table.values)
    starts = np.zeros(table.rows + 1, np.int64)
    split, row, value = Split(config.test_every, config.test_fraction, config.seed), 0, 0
    for part in table.parts():
        own, stored = slice(row, row + len(part.labels)), slice(value, value + len(part.values))
        index = np.arange(own.start, own.stop)
        cells[own] = np.where(split.is_test(index), choice.cells, _cell(choice, index))
        labels[own], indices[stored], values[stored] = part.labels, part.indices, part.values
        starts[own.start + 1 : own.stop + 1] = value + part.ends
        there[part.indices[np.repeat(cells[own] < choice.cells, part.counts)]] = True
        row, value = own.stop, stored.stop
    if choice.by == "class":  # as `whatif.folds.ClassRanks`: the rows of a label are counted on from those before
        training = np.flatnonzero(cells < choice.cells)
        cells[training[np.argsort(labels[training], kind="stable")]] = np.arange(len(training)) % choice.count
    check_rows(float((cells < choice.cells).sum()), config)
    A = csr_array((values, indices, starts), (table.rows, table.columns))
    columns = np.flatnonzero(there)
    return table, SparseCells(config, choice, A[:, columns], labels, cells, columns)


def check_way(choice: FoldChoice, config: RunConfig) -> None:
    ways = WAYS if config.model == LOGISTIC else WAYS[:2]
    if choice.by not in ways:
        raise ConfigError(
            f"Expected folds of these sparse rows by {' or '.join(ways)}, got '{choice.text}': such rows have no "
            "columns of groups or times, and labels of linear models are numbers. Choose one of these."
        )


def too_much(values: int, rows: int, columns: int, points: int, need: int, free: int) -> OutOfMemory:
    choice = f"among {points:,} penalties" if points > 1 else "a penalty"
    return OutOfMemory(
        f"Choosing {choice} for {values:,} values in {rows:,} rows and {columns:,} columns needs "
        f"{need / 1e6:,.0f} MB, but only {free / 1e6:,.0f} MB may be used. Use fewer alphas, fewer rows or more memory."
    )


def _bytes(each: tuple[int, int, int], values: int, columns: int, rows: int) -> int:
    return sum(held * count for held, count in zip(each, (values, columns, rows), strict=True))


def _cell(choice: FoldChoice, index: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """As `whatif.folds.Folds.of` has it for a table of cells; those by class are known when all labels are."""
    if choice.by in ("row", "class"):
        return np.asarray(index % choice.count)
    return np.asarray(hashed_index(index, choice.seed) % np.uint64(choice.count)).astype(np.int64)


def _error(A: Any, y: Array, coef: Array, intercept: float) -> float:
    """The mean squared error; 0 without rows."""
    residual = y - intercept - A @ coef
    return float(residual @ residual) / max(len(y), 1)
