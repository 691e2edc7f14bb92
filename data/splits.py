"""Which rows have a target, and which are kept for testing, by their index in the file alone; who sums them is in
`passes`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block, Column, Dataset
from shoal.lazy.classes import dataclass
from shoal.models import Array

Bits = npt.NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # how far one state of SplitMix64 is from the next


@dataclass(frozen=True)
class Split:
    """Which rows are kept for testing, by their index in the file."""

    every: int = 0
    fraction: float = 0.0
    seed: int = 0

    def is_test(self, index: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        if self.every:
            return np.asarray(index % self.every == 0)
        if self.fraction:
            return self.hashed(index) < self.fraction
        return np.zeros(len(index), bool)

    def hashed(self, index: npt.NDArray[np.int64]) -> Array:
        """A number in [0, 1) for each row, the same whenever it is asked for."""
        return _uniform(index, self.seed)

    @property
    def tests(self) -> bool:
        return bool(self.every or self.fraction)

    @property
    def share(self) -> float:
        """Of the rows that are kept for testing, about."""
        return 1 / self.every if self.every else self.fraction


def hashed_index(index: npt.NDArray[np.int64], seed: int) -> Bits:
    """64 random bits for each row index; needs no order and no state."""
    with np.errstate(over="ignore"):
        stream = np.uint64(seed % 2**32) * np.uint64(0x632BE59BD9B4E019)
        return mixed((index.astype(np.uint64) + stream) * GOLDEN)


def mixed(state: Bits) -> Bits:
    """The output of SplitMix64 (Steele, Lea and Flood 2014) for each state: every bit depends on every other."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def _uniform(index: npt.NDArray[np.int64], seed: int) -> Array:
    """A number in [0, 1) for each row index."""
    return np.asarray((hashed_index(index, seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


Yes = str | float | tuple[str | float, ...] | None  # the value that counts as 1; or all, each counts as its place


def target_values(dataset: Dataset, block: Block, target: str, yes: Yes = None) -> Array:
    """The target of each row of a block, NaN where it is missing; with a value `yes`, 1 where it has that one, else 0;
    with several, the place of the one that it has, NaN for any other.

    Of a column of text without one: the places of its values in their order.
    """
    column = dataset.columns[target]
    if isinstance(yes, tuple):
        return _places(dataset, block, column, yes)
    if column.is_number:
        values = dataset.numbers(block)[:, column.slot]
        return values if yes is None else np.where(np.isnan(values), np.nan, values == yes)
    codes = dataset.codes(block, column.slot)
    wanted = codes if yes is None else codes == column.levels.index(str(yes))
    return np.where(codes < 0, np.nan, wanted)


def _places(dataset: Dataset, block: Block, column: Column, classes: tuple[str | float, ...]) -> Array:
    if not column.is_number:
        place = {name: float(at) for at, name in enumerate(classes)}
        table = np.array([*(place.get(level, np.nan) for level in column.levels), np.nan])
        return np.asarray(table[dataset.codes(block, column.slot)])  # code -1, missing, takes the last entry
    values, known = dataset.numbers(block)[:, column.slot], np.array(classes, float)
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[at] == values, at, np.nan)


def row_weights(dataset: Dataset, block: Block, column: str) -> Array:
    """How much each row of a block counts: 0 for one without a weight, which is left out like one of weight 0."""
    values = dataset.numbers(block)[:, dataset.columns[column].slot]
    return np.where(np.isnan(values), 0.0, values)


def training_rows(dataset: Dataset, block: Block, target: str, split: Split) -> npt.NDArray[np.bool_]:
    """Which rows of a block have a target and are not kept for testing."""
    y = target_values(dataset, block, target)
    index = np.arange(block.first, block.first + block.rows)
    return ~np.isnan(y) & ~split.is_test(index)


def shard_of(index: npt.NDArray[np.int64], seed: int, shards: int) -> npt.NDArray[np.uint64]:
    """The shard of each row index, by another stream of random bits than the one that chooses rows for testing."""
    with np.errstate(over="ignore"):
        stream = np.uint64(seed % 2**32 + 1) * np.uint64(0xD1B54A32D192ED03)
        bits = mixed(index.astype(np.uint64) * GOLDEN + stream)
    return (bits >> np.uint64(32)) * np.uint64(shards) >> np.uint64(32)
