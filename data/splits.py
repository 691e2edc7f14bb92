"""Which rows are kept for testing, by their index in the file alone; who sums them is in `passes`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block, Dataset
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


def training_rows(dataset: Dataset, block: Block, target: str, split: Split) -> npt.NDArray[np.bool_]:
    """Which rows of a block have a target and are not kept for testing."""
    y = dataset.numbers(block)[:, dataset.columns[target].slot]
    index = np.arange(block.first, block.first + block.rows)
    return ~np.isnan(y) & ~split.is_test(index)
