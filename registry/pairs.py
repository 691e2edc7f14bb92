"""What workers are asked when two models are compared: by how much each is off in every row of a block, as sums of the
differences; what the sums say is in `comparing`."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block
from shoal.data.encoding import Encoding
from shoal.data_pipeline import design_rows
from shoal.lazy.classes import dataclass
from shoal.losses.layers import RowMean, expected
from shoal.models import Array
from shoal.passes.blocks import opened
from shoal.worker import Worker

LEAST_SHARE = 1e-15  # a probability below which a row loses no more: a certain model that is wrong once is not out

RowLossName = Literal["squared", "log", "pinball"]


@dataclass(frozen=True)
class PairedSums:
    """Of rows that both predict: how many, the losses of each, and the differences with their squares."""

    rows: int = 0
    first: float = 0.0
    second: float = 0.0
    mean: float = 0.0  # of the differences, second less first
    squares: float = 0.0  # of their distances from that mean

    def merge(self, other: PairedSums) -> PairedSums:
        rows = self.rows + other.rows
        if not rows:
            return self
        apart, share = other.mean - self.mean, other.rows / rows
        return PairedSums(
            rows, self.first + other.first, self.second + other.second, self.mean + apart * share,
            self.squares + other.squares + apart * apart * self.rows * share,
        )  # fmt: skip


@dataclass(frozen=True)
class ModelRows:
    """One model on a block: its encoding has the target as the loss takes it."""

    directory: str
    block: Block
    encoding: Encoding
    coef: Array
    intercept: float | Array
    mean: RowMean | None

    def losses(self, by: RowLossName, quantile: float) -> tuple[npt.NDArray[np.int64], Array]:
        """Rows by their index in the file, and what each loses."""
        rows, found = [np.zeros(0, np.int64)], list[Array]([np.zeros(0)])
        for chunk in design_rows(self.encoding, opened(self.directory), self.block):
            with np.errstate(over="ignore", invalid="ignore"):
                lost = _lost(chunk.y, expected(chunk.X, self.coef, self.intercept, self.mean), by, quantile)
            there = np.isfinite(lost)
            rows.append(chunk.row[there])
            found.append(lost[there])
        return np.concatenate(rows), np.concatenate(found)


def _lost(y: Array, mean: Array, by: RowLossName, quantile: float) -> Array:
    if by == "squared":
        return np.asarray((y - mean) ** 2)
    if by == "pinball":
        away = y - mean
        return np.asarray(np.maximum(quantile * away, (quantile - 1) * away))
    if mean.ndim == 1:
        share = np.where(y > 0.5, mean, 1 - mean)
    else:
        place = np.nan_to_num(y, nan=0.0).astype(int)
        share = np.where(np.isnan(y), np.nan, mean[np.arange(len(y)), place])
    return np.asarray(-np.log(np.maximum(share, LEAST_SHARE)))


@dataclass(frozen=True)
class ComparePair:
    """Ask for the sums of one block of rows, which both models may have read into data sets of their own."""

    first: ModelRows
    second: ModelRows
    by: RowLossName
    quantile: float = 0.5

    def answer(self, worker: Worker) -> PairedSums:
        own, lost = self.first.losses(self.by, self.quantile)
        others, lost_by_other = self.second.losses(self.by, self.quantile)
        _, left, right = np.intersect1d(own, others, assume_unique=True, return_indices=True)
        if not len(left):
            return PairedSums()
        one, two = lost[left], lost_by_other[right]
        away = two - one
        mean = float(away.mean())
        return PairedSums(len(one), float(one.sum()), float(two.sum()), mean, float(((away - mean) ** 2).sum()))
