"""A column of weights before a model is fitted: whether rows can count so, what they come to, and what that means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from shoal.data.dataset import Block, Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split, training_rows
from shoal.errors import ConfigError, DataError, Remedy
from shoal.lazy.classes import dataclass
from shoal.passes.blocks import opened
from shoal.passes.quantiles import Swept
from shoal.settings.config import RunConfig
from shoal.solve.moments import Moments
from shoal.words import no_such_column, plural
from shoal.worker import Worker


class WeightsSeen(NamedTuple):
    """Of all rows with a target: how many have no weight or 0, the smallest, and whether all are whole numbers. Of the
    training rows among them that a model is fitted to: how many there are, and the sum of their weights. And how many
    are kept for testing."""

    without: int
    smallest: float
    whole: bool
    rows: int
    total: float
    test_rows: int

    def merge(self, other: WeightsSeen) -> WeightsSeen:
        return WeightsSeen(
            self.without + other.without, min(self.smallest, other.smallest), self.whole and other.whole,
            self.rows + other.rows, self.total + other.total, self.test_rows + other.test_rows,
        )  # fmt: skip


@dataclass(frozen=True)
class LookAtWeights:
    """Ask for `WeightsSeen` of one block."""

    directory: str
    block: Block
    column: str
    target: str
    split: Split
    whole: tuple[str, ...] = ()  # columns without a value of which a row is left out

    def answer(self, worker: Worker) -> WeightsSeen:
        dataset = opened(self.directory)
        with_target = training_rows(dataset, self.block, self.target, Split())
        weights = dataset.numbers(self.block)[:, dataset.columns[self.column].slot][with_target]
        index = self.block.first + np.flatnonzero(with_target)
        there = weights[~np.isnan(weights)]
        test, kept = self.split.is_test(index), weights > 0
        for column in (dataset.columns[name] for name in self.whole):
            if column.is_number:
                kept &= ~np.isnan(dataset.numbers(self.block)[with_target, column.slot])
            else:
                kept &= dataset.codes(self.block, column.slot)[with_target] >= 0
        trained = weights[kept & ~test]
        return WeightsSeen(
            int(len(weights) - (there != 0).sum()), float(there.min(initial=np.inf)),
            bool((there == np.floor(there)).all()), len(trained), float(trained.sum()), int((kept & test).sum()),
        )  # fmt: skip


class Weighting(NamedTuple):
    """How the rows of a fit are weighted: by which column, with which meaning, and what it holds."""

    column: str
    repeats: bool  # a row stands for so many equal ones (frequency); else it counts for so much (importance)
    seen: WeightsSeen

    @property
    def note(self) -> str:
        """One sentence for reports."""
        gone = self.seen.without
        left = (
            f" {plural(gone, 'row')} without a weight above 0 {'is' if gone == 1 else 'are'} left out." if gone else ""
        )
        if self.repeats:
            return (
                f"Rows are weighted by '{self.column}' as frequencies: each stands for so many equal rows, and numbers "
                f"of rows and standard errors count all {self.seen.total:,.0f} of them.{left}"
            )
        return (
            f"Rows are weighted by '{self.column}' as importance: a row counts for so much in the fit and in scores, "
            f"with a mean of 1, and standard errors rest on {self.seen.rows:,} rows.{left}"
        )

    @property
    def scale(self) -> float:
        """What weights are multiplied by: importance has a mean of 1 over the training rows, whatever its unit, so that
        the sum of weights is the number of rows in either meaning, and a penalty is as strong."""
        return 1.0 if self.repeats else self.seen.rows / self.seen.total

    def counted(self, train: Moments) -> Moments:
        """Moments of all training rows: their weights come to the number of rows, but for the rounding of sums."""
        return replace(train, n=float(round(train.n)))


def weighted(encoding: Encoding, weighting: Weighting | None) -> Encoding:
    """An encoding of rows that are weighted so."""
    return replace(encoding, weight_scale=weighting.scale) if weighting else encoding


def weighting_of(
    swept: Swept, dataset: Dataset, config: RunConfig, split: Split, columns: Sequence[str]
) -> Weighting | None:
    """One pass over the column of weights; None where rows all count alike. `columns` are those that predict."""
    name = config.weights
    if not name:
        return None
    if name not in dataset.columns:
        raise ConfigError(no_such_column(name, list(dataset.columns)), knobs=["weights"])
    column = dataset.columns[name]
    if not column.is_number or column.is_date:
        what = "dates" if column.is_date else f"text such as {', '.join(map(repr, column.levels[:3]))}"
        raise ConfigError(
            f"Expected numbers in '{name}' to weight rows by, got {what}. Choose another column.", knobs=["weights"]
        )
    whole = tuple(columns) if config.impute == "drop" else ()
    whole = (*whole, config.offset) if config.offset else whole
    place = str(dataset.directory)
    requests = [LookAtWeights(place, block, name, config.target, split, whole) for block in dataset.blocks]
    seen = reduce(WeightsSeen.merge, swept("looking at weights", requests))
    if seen.smallest < 0:
        raise DataError(
            f"Expected weights of 0 or more in '{name}', got {seen.smallest:g} as the smallest. "
            "Correct the file or choose another column."
        )
    if not seen.total > 0:
        raise DataError(
            f"No training row has a weight above 0 in '{name}': there is nothing to fit. Choose another column."
        )
    repeats = config.weights_are == "frequency"
    if repeats and not seen.whole:
        raise ConfigError(
            f"Expected whole numbers in '{name}', which say how many rows each one stands for, got others.",
            Remedy.set("If they say how much a row counts, say so", "weights_are", "importance"),
            knobs=["weights", "weights_are"],
        )
    return Weighting(name, repeats, seen)
