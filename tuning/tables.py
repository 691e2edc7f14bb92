"""From a file to the folds of a model of another loss, and sweeps over its blocks; points go down in `follow`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.encoding import matrix_between
from shoal.data.splits import Split
from shoal.errors import DataError
from shoal.fitting.losses.rows import FAR
from shoal.fitting.summing import FoldTable
from shoal.fitting.targets import check_numbers, check_offset, check_range, look_at, offset_notes, two_values
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.losses.named import loss_for
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.settings.when import ROBUST_LOSSES
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import merge_all
from shoal.tuning.designs import FoldDesign, common_centre
from shoal.tuning.follow import PathFollower
from shoal.tuning.points import AskPoints, PointsAsked, PointsSaid, fold_tables, together
from shoal.tuning.robust import RobustFollower
from shoal.whatif.cells import CellMoments
from shoal.whatif.folds import FoldChoice

WHOLE = FoldChoice(1)  # all rows as one cell: a path without folds


@dataclass(eq=False)
class Sweeps:
    """Sweeps over the blocks of a file, with what is left to do told to whoever watches."""

    coordinator: Coordinator
    table: FoldTable
    loss: RowLoss
    centre: Array
    count: int = field(default=0, init=False)

    def __call__(self, asked: PointsAsked) -> PointsSaid:
        self.count += 1
        points = sum(lot.coef.shape[1] for lot in asked.lots)
        stage = f"sweep {self.count}: {points:,} points" if points else f"sweep {self.count}: curvatures"
        requests = self.table.requests(AskPoints, self.loss, self.centre, asked)
        return together(asked, self.coordinator.swept(stage, requests))


@dataclass(frozen=True, eq=False)
class LossTable:
    """The folds of a table, ready to be followed; `tested` are those that have rows."""

    config: RunConfig
    choice: FoldChoice
    cells: CellMoments
    tested: list[int]
    follower: PathFollower | RobustFollower
    notes: tuple[str, ...]

    @classmethod
    def of(cls, coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice) -> LossTable:
        """Looks at the target, sums the moments of each cell, and gives every fold a design of its own."""
        loss = loss_for(config)
        check_numbers(dataset.columns.get(config.target), loss)
        split = Split(config.test_every, config.test_fraction, config.seed)
        repeats = config.weights_are == "frequency"
        seen = look_at(coordinator, dataset, config.target, split, config.weights, repeats)
        yes = None
        if loss.target == "two":
            yes = two_values(dataset, config, seen).yes
        else:
            check_range(dataset.columns[config.target], loss, seen)
        check_offset(dataset, config)
        table = FoldTable.of(coordinator, dataset, config, choice, yes=yes)
        cells = table.cell_moments(*table.cells(), squares=False)
        tested = cells.tested if choice.count > 1 else []
        designs = designs_of(cells, tested)
        centre = common_centre(designs, merge_all(cells.cells).mean[:-1], FAR)
        notes = (*table.notes, *offset_notes(table.base))
        if config.model in ROBUST_LOSSES:
            return cls(config, choice, cells, tested, RobustFollower(coordinator, table, loss, designs, centre), notes)
        sweeps = Sweeps(coordinator, table, loss, centre)
        return cls(config, choice, cells, tested, PathFollower(sweeps, loss, designs, centre, choice.cells), notes)


def designs_of(cells: CellMoments, tested: Sequence[int]) -> list[FoldDesign]:
    """Of each fold, and of all training rows."""
    choice, held = cells.choice, len(cells.cells)
    folds: list[int | None] = [*tested, None]
    trains = [cells.training_cells(fold) for fold in folds]
    tests = [[held] if fold is None else [choice.test_cell(fold)] for fold in folds]
    found = []
    for fold, (trained, test) in zip(folds, fold_tables(trains, tests, held), strict=True):
        encoding, moments = cells.training(fold)
        if not encoding.terms:
            raise DataError(f"No column is left in the training rows of fold {fold}. Choose fewer folds.")
        columns, A = matrix_between(cells.base, encoding)
        units = Standardisation.of(moments, cells.config.intercept, cells.config.standardize)
        n = cells.held.n if fold is None else cells.cells[choice.test_cell(fold)].n
        keys = tuple(encoding.names)  # those of splines with borders of their own are each other's nearest
        balanced = _balanced(cells.config, float(moments.mean[-1]))
        found.append(FoldDesign(tuple(encoding.names), keys, A, columns, moments, units, trained, test, n, balanced))
    return found


def _balanced(config: RunConfig, mean: float) -> tuple[float, float] | None:
    """What rows of no and of yes count for, by the share of yes among the training rows of the fold itself."""
    if config.class_weight != "balanced" or not 0 < mean < 1:
        return None
    return 0.5 / (1 - mean), 0.5 / mean


def columns_that_rest(designs: Sequence[FoldDesign]) -> tuple[set[str], set[str]]:
    """The columns that do not vary over all training rows, and those that do not over the ones of some fold."""
    *folds, whole = [
        {name for name, still in zip(one.names, one.units.constant.tolist(), strict=True) if still} for one in designs
    ]
    return whole, set().union(*folds) - whole


def as_mean(sums: Array, n: float) -> Array:
    """A mean over rows; 0 where there are none."""
    return np.asarray(sums / n) if n > 0 else np.zeros_like(sums)
