"""The shape of a column to predict: central moments of its values and of their logarithms, from one pass over it."""

from __future__ import annotations

import math

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Block, Dataset
from shoal.data.splits import target_values
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.passes.blocks import opened
from shoal.worker import Worker

SKEWED, STRAIGHTER = 1.0, 0.75  # skewness of positive numbers, and the share of it that their logarithms may have
ENOUGH = 30  # rows from which on a shape is believed


@dataclass(frozen=True)
class CentralSums:
    """n, mean, and the sums of squares and of cubes of what lies about it."""

    n: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    cubes: float = 0.0

    @classmethod
    def of(cls, values: Array) -> CentralSums:
        if not len(values):
            return cls()
        mean = float(values.mean())
        off = values - mean
        return cls(float(len(values)), mean, float((off**2).sum()), float((off**3).sum()))

    def merge(self, other: CentralSums) -> CentralSums:
        """Chan, Golub and LeVeque's update, and Terriberry's for cubes."""
        a, b, n = self.n, other.n, self.n + other.n
        if not a or not b:
            return other if not a else self
        d = other.mean - self.mean
        squares = self.squares + other.squares + d * d * a * b / n
        cubes = self.cubes + other.cubes + d**3 * a * b * (a - b) / n**2
        cubes += 3 * d * (a * other.squares - b * self.squares) / n
        return CentralSums(n, self.mean + d * b / n, squares, cubes)

    @property
    def variance(self) -> float:
        return self.squares / self.n if self.n else 0.0

    @property
    def skewness(self) -> float:
        """0 where nothing varies, or where the sums are beyond what a double holds."""
        spread = self.variance**1.5
        found = self.cubes / self.n / spread if spread > 0 and math.isfinite(spread) else 0.0
        return found if math.isfinite(found) else 0.0


@dataclass(frozen=True)
class TargetShape:
    """Of all values, and of the logarithms of those above 0."""

    values: CentralSums
    logs: CentralSums

    @classmethod
    def of(cls, y: Array) -> TargetShape:
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(CentralSums.of(y), CentralSums.of(np.log(y[y > 0])))

    @property
    def has_long_tail(self) -> bool:
        """Whether positive numbers are skewed, and much less so as logarithms: what multiplies suits them."""
        skewness = self.values.skewness
        enough = self.values.n >= ENOUGH and self.logs.n == self.values.n
        return enough and skewness > SKEWED and abs(self.logs.skewness) < STRAIGHTER * skewness

    def merge(self, other: TargetShape) -> TargetShape:
        return TargetShape(self.values.merge(other.values), self.logs.merge(other.logs))


@dataclass(frozen=True)
class ShapeOfTarget:
    """What a block says of it."""

    directory: str
    block: Block
    target: str

    def answer(self, worker: Worker) -> TargetShape:
        y = target_values(opened(self.directory), self.block, self.target)
        return TargetShape.of(y[np.isfinite(y)])


def shape_of(coordinator: Coordinator, dataset: Dataset, target: str) -> TargetShape:
    total = TargetShape(CentralSums(), CentralSums())
    requests = [ShapeOfTarget(str(dataset.directory), block, target) for block in dataset.blocks]
    for part in coordinator.swept("looking at the target", requests):
        total = total.merge(part)
    return total
