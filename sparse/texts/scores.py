"""What texts add to the scores of rows, by the codes that a block has for them; so no worker needs a column a level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block, Dataset
from shoal.data.terms import MISSING_LEVEL
from shoal.data_pipeline import design_rows
from shoal.fitting.model_file import SavedModel
from shoal.lazy.classes import dataclass
from shoal.metrics import Residuals
from shoal.models import Array
from shoal.passes.blocks import Predict, Score, Sums, opened
from shoal.sparse.texts.models import can_split, has_many, split_model
from shoal.worker import Worker


class Added(NamedTuple):
    """Of a text column of a block: what each of its own codes adds, the last two serve -2 and -1; NaN: unknown."""

    name: str
    slot: int
    by_code: Array


def added(dataset: Dataset, block: Block, by_level: Mapping[str, Array]) -> tuple[Added, ...]:
    """From what levels add, those of a column in their order and last no value."""
    columns = [dataset.columns[name] for name in by_level]
    return tuple(
        Added(column.name, column.slot, by_level[column.name][dataset.level_map(block, column.slot)])
        for column in columns
    )  # -1, no value, takes the last entry


def sums_of(dataset: Dataset, block: Block, parts: Sequence[Added]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """What all columns together add to each row of a block, and which rows have an unknown level."""
    total, unknown = np.zeros(block.rows), np.zeros(block.rows, bool)
    for part in parts:
        own = part.by_code[dataset.own_codes(block, part.slot)]
        unknown |= np.isnan(own)
        total += np.nan_to_num(own)
    return total, unknown


@dataclass(frozen=True)
class ScoreTexts(Score):
    """Residuals of rows to whose scores texts add as well; there is no gradient among the sums."""

    texts: tuple[Added, ...]

    def answer(self, worker: Worker) -> Sums:
        sums = Sums(Residuals.none(), Residuals.none(), np.zeros_like(self.coef), 0)
        more, unknown = sums_of(self.dataset, self.block, self.texts)
        at_centre, none = self.intercept + float(self.centre @ self.coef), np.zeros_like(self.coef)
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            rows = chunk.row - self.block.first
            X = chunk.X - self.centre  # columns that lie far from zero lose no digits
            part = self._sums(X, chunk, chunk.y - at_centre - X @ self.coef - more[rows], none)
            sums = sums.merge(replace(part, gradient=none, unseen=chunk.unseen + int(unknown[rows].sum())))
        return sums


@dataclass(frozen=True)
class PredictTexts(Predict):
    """Predictions of a linear model to whose scores texts add as well."""

    texts: tuple[Added, ...] = ()

    def answer(self, worker: Worker) -> tuple[Array, int]:
        predictions, unseen = super().answer(worker)
        more, unknown = sums_of(opened(self.directory), self.block, self.texts)
        unknown[list(self.block.bad)] = False
        return predictions + more, unseen + int(unknown.sum())

    def unknown(self) -> dict[str, dict[str, int]]:
        dataset, found = opened(self.directory), super().unknown()
        read = np.ones(self.block.rows, bool)
        read[list(self.block.bad)] = False
        for part in self.texts:
            codes = dataset.own_codes(self.block, part.slot)[read]
            counts = np.bincount(np.where(codes < 0, len(part.by_code) - 1, codes), minlength=len(part.by_code))
            places, levels = dataset.level_map(self.block, part.slot), dataset.columns[part.name].levels
            own: dict[str, int] = {}
            for code in np.flatnonzero((counts > 0) & np.isnan(part.by_code)).tolist():
                level = levels[places[code]] if places[code] >= 0 else MISSING_LEVEL
                own[level] = own.get(level, 0) + int(counts[code])
            found |= {part.name: own} if own else {}
        return found


def predict_requests(model: SavedModel, dataset: Dataset) -> list[Predict]:
    """One for each block."""
    place = str(dataset.directory)
    apart = any(dataset.columns[name].apart for name in model.texts)
    if not (has_many(model) or (apart and can_split(model))):
        return [Predict(place, block, *model.fitted) for block in dataset.blocks]
    split = split_model(model)
    adds = split.by_level(dataset)
    return [
        PredictTexts(place, block, *split.dense.fitted, texts=added(dataset, block, adds)) for block in dataset.blocks
    ]
