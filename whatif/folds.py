"""Which fold a row is in: by its index, by a hash of it, by class, by a group, or by time. What is fitted is elsewhere.

Rows are sorted into *cells*, and a fold is a choice of cells: to train on all but one, or (by time) on all before it.
So sums over the rows of each cell answer for every fold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block, Dataset
from shoal.data.splits import Split, Yes, hashed_index, row_weights, target_values
from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.settings.when import CLASSES

WAYS = ("row", "hash", "class", "group", "time")
Cells = npt.NDArray[np.int64]


def usual_way(test_every: int, model: str = "") -> str:
    """Where nobody says how: of a target of classes each fold has its share; every k-th row kept for testing would
    leave some folds by row without any."""
    if model in ("logistic", CLASSES):
        return "class"
    return "hash" if test_every else "row"


@dataclass(frozen=True)
class FoldChoice:
    """What a person asks for: how many folds, and by what."""

    count: int = 10
    by: str = "row"
    column: str = ""
    seed: int = 0

    @classmethod
    def parse(cls, count: object, text: str, seed: int = 0) -> FoldChoice:
        """From `row`, `hash`, `class`, `group:COLUMN` or `time:COLUMN`."""
        by, colon, column = text.partition(":")
        if by not in WAYS or (by in ("group", "time")) != bool(column) or (colon and not column):
            raise ConfigError(
                f"Expected folds by row, hash, class, group:COLUMN or time:COLUMN, got '{text}'. Choose one."
            )
        if isinstance(count, bool) or not isinstance(count, Integral):
            raise ConfigError(f"Expected a whole number of folds, got {count!r}. 5 or 10 are usual.")
        if count < 2:
            raise ConfigError(f"Expected at least 2 folds, got {count}. 5 or 10 are usual.")
        return cls(int(count), by, column, seed)

    @property
    def text(self) -> str:
        """By what, as `parse` takes it."""
        return f"{self.by}:{self.column}" if self.column else self.by

    @property
    def cells(self) -> int:
        return self.count + (self.by == "time")

    def training_cells(self, fold: int) -> list[int]:
        return list(range(fold + 1)) if self.by == "time" else [c for c in range(self.count) if c != fold]

    def test_cell(self, fold: int) -> int:
        return fold + 1 if self.by == "time" else fold


@dataclass(frozen=True)
class ClassRanks:
    """The place of each training row among those of its class, in the order of the file; the rows of each class are
    counted on from those before. Every k-th of them makes a fold: folds differ by one row at most, and so does any
    class."""

    target: str
    yes: Yes
    split: Split
    weights: str  # rows without a weight above 0 do not count
    starts: Mapping[int, tuple[int, ...]]  # by the first row of a block: where its rows of no, of yes, ... begin

    def of(self, dataset: Dataset, block: Block) -> Cells:
        """Of all rows of a block; -1 for those that do not count."""
        index = np.arange(block.first, block.first + block.rows)
        y = target_values(dataset, block, self.target, self.yes)
        counted = ~np.isnan(y) & ~self.split.is_test(index)
        if self.weights:
            counted &= row_weights(dataset, block, self.weights) > 0
        ranks = np.full(block.rows, -1, np.int64)
        for value, start in enumerate(self.starts[block.first]):
            own = np.flatnonzero(counted & (y == value))
            ranks[own] = start + np.arange(len(own))
        return ranks


@dataclass(frozen=True)
class Folds:
    """The choice with what the data add to it: the cell of each group, the moments in time where cells begin, or the
    places of rows in their class."""

    choice: FoldChoice
    values: Array | None = None  # group by a number: all values in order; time: the first moment of each later cell
    cells: Cells | None = None  # group: the cell of each value or level; the last is that of a missing one
    ranks: ClassRanks | None = None

    def of(self, dataset: Dataset, block: Block, rows: npt.NDArray[np.int64]) -> Cells:
        """The cells of some rows of a block, by their index in the file; -1: in none (a missing time)."""
        choice = self.choice
        if choice.by == "row":
            return np.asarray(rows % choice.count)
        if choice.by == "hash":
            return np.asarray(hashed_index(rows, choice.seed) % np.uint64(choice.count)).astype(np.int64)
        local = rows - block.first
        if choice.by == "class":
            assert self.ranks is not None
            ranks = self.ranks.of(dataset, block)[local]
            return np.where(ranks < 0, -1, ranks % choice.count)
        column = dataset.columns[choice.column]
        if not column.is_number:
            assert self.cells is not None
            return np.asarray(self.cells[dataset.codes(block, column.slot)[local]])  # -1, missing, is the last one
        values = dataset.numbers(block)[local, column.slot]
        assert self.values is not None
        if choice.by == "time":
            found = np.searchsorted(self.values, values, side="right")
            return np.where(np.isnan(values), -1, found)
        assert self.cells is not None
        place = np.searchsorted(self.values, values)  # NaN comes after all others
        return np.asarray(self.cells[place])


def balanced(counts: Sequence[int] | npt.NDArray[np.int64], folds: int) -> Cells:
    """The fold of each group: the largest first, always to the fold with the fewest rows so far (as GroupKFold)."""
    sizes = np.asarray(counts)
    order = np.argsort(sizes, kind="stable")[::-1]
    rows, cells = np.zeros(folds, np.int64), np.zeros(len(sizes), np.int64)
    for group in order:
        lightest = int(np.argmin(rows))
        rows[lightest] += sizes[group]
        cells[group] = lightest
    return cells


def by_group(choice: FoldChoice, values: Array | None, counts: npt.NDArray[np.int64], missing: int) -> Folds:
    """From how many training rows each group has; missing values are a group of their own."""
    present = int((counts > 0).sum()) + bool(missing)
    if present < choice.count:
        raise ConfigError(
            f"Expected at least {choice.count} groups in column '{choice.column}' for {choice.count} folds, got "
            f"{present}. Choose fewer folds or another column."
        )
    found = balanced(np.append(counts[counts > 0], missing) if missing else counts[counts > 0], choice.count)
    cells = np.zeros(len(counts) + 1, np.int64)
    cells[:-1][counts > 0] = found[: int((counts > 0).sum())]
    cells[-1] = found[-1] if missing else 0
    return Folds(choice, values, cells)


def time_starts(rows: int, choice: FoldChoice) -> list[int]:
    """The rank of the first row of each cell but the first: k tests of equal size at the end (as TimeSeriesSplit)."""
    size = rows // (choice.count + 1)
    if size < 1:
        raise ConfigError(
            f"Expected at least {choice.count + 1} rows with a time for {choice.count} folds, got {rows}. "
            "Choose fewer folds."
        )
    return list(range(rows - choice.count * size, rows, size))


def by_time(choice: FoldChoice, starts: Array) -> Folds:
    """From the moments at which cells begin; rows of the same moment stay together."""
    if len(np.unique(starts)) < len(starts):
        raise ConfigError(
            f"Too many rows have the same time in '{choice.column}' for {choice.count} folds: one would be empty. "
            "Choose fewer folds or another column."
        )
    return Folds(choice, np.asarray(starts, float))
