"""From a data set to what answers every question about penalties and folds: the moments of cells, and fold medians."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split, Yes
from shoal.data.terms import Indicator
from shoal.errors import ConfigError, DataError, OutOfMemory
from shoal.fitting.exact import check_bad_rows, check_rows
from shoal.fitting.wide import is_wide
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.passes.folds import CountClasses, CountValues, FactorCells, FoldMedians, FoldQuantiles, SumCells, TakeRows
from shoal.passes.quantiles import base_for
from shoal.passes.weights import weighted, weighting_of
from shoal.settings.config import RunConfig
from shoal.settings.limits import SOLVING, memory_for_exact
from shoal.settings.when import CLASSES
from shoal.solve.least_squares import ENOUGH_DIGITS, digits, stack
from shoal.solve.moments import Merger, Moments, merge_all, plan_cells
from shoal.utils import available_memory
from shoal.whatif.cells import CellMoments, Factors
from shoal.whatif.fold_borders import WIDEST, with_own_borders
from shoal.whatif.folds import ClassRanks, FoldChoice, Folds, by_group, by_time, time_starts
from shoal.whatif.study import Buckets, RowSample, Study
from shoal.whatif.wide_choice import WideCells
from shoal.worker import Request

FEW_ROWS = 5_000  # up to here all rows are kept, and resampling draws rows
BUCKETS = 200  # random parts of the rows that resampling draws from, else
FEW_BUCKETS = 50  # with fewer an interval's width would be off by more than a tenth
SPARE_DIGITS = 1.0  # folds may be somewhat worse off than all rows together


def sum_cells(coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice) -> CellMoments:
    """One pass over cached blocks (none where the sums were made while the file was read), and one over each column
    with gaps; one more where columns nearly depend on one another."""
    table = FoldTable.of(coordinator, dataset, config, choice)
    return table.cell_moments(*table.cells())


def wide_cells(coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice) -> WideCells | None:
    """The rows themselves, where columns are so many that these are the quicker way."""
    if not is_wide(dataset, config):
        return None
    table = FoldTable.of(coordinator, dataset, config, choice, planned=False)
    found = list(coordinator.swept("taking rows", table.requests(TakeRows, True)))
    rows, cells = (np.concatenate(parts) for parts in zip(*found, strict=True))
    check_rows(float((cells < choice.cells).sum()), config)
    medians = _medians(coordinator, dataset, table.base, config, table.split, table.folds)
    return WideCells(config, table.base, choice, rows, cells, medians, table.shared)


def make_study(coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice) -> Study:
    """The same, with what resampling draws from."""
    table = FoldTable.of(coordinator, dataset, config, choice)
    small = dataset.rows <= FEW_ROWS and not config.weights  # rows are drawn one by one, and count alike
    buckets = 1 if small else table.buckets_per_cell()
    parts = table.summed(buckets)
    cells, held = _apart(parts, buckets)
    found = table.cell_moments(cells, held)
    sample: Buckets | RowSample | None = None
    if small:
        sample = table.rows()
    elif buckets > 1:
        sample = Buckets.of(parts[:-1], merge_all(cells).mean)
    return Study(found, tuple(table.notes), dataset.manifest.content, sample)


def _apart(parts: list[Moments], buckets: int) -> tuple[list[Moments], Moments]:
    """The cells from their buckets, and the test rows."""
    *training, held = parts
    if buckets == 1:
        return training, held
    return [merge_all(training[i : i + buckets]) for i in range(0, len(training), buckets)], held


@dataclass(frozen=True, eq=False)
class FoldTable:
    """A data set with the columns and folds that are asked for, and the workers that sum over it."""

    coordinator: Coordinator
    dataset: Dataset
    config: RunConfig
    base: Encoding
    split: Split
    folds: Folds
    notes: list[str]
    shared: tuple[str, ...] = ()  # what is said, in the notes too, where all folds have the same borders

    @classmethod
    def of(
        cls, coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice, planned: bool = True,
        yes: Yes = None, widest: int = WIDEST,
    ) -> FoldTable:  # fmt: skip
        """`planned`: with room for the sums of all pairs of columns. `yes`: the target's value that counts as 1.
        `widest`: how many terms there may be where folds have borders of their own."""
        check_bad_rows(dataset, config)
        split = Split(config.test_every, config.test_fraction, config.seed)
        columns = choose_columns(dataset, config)
        weighting = weighting_of(coordinator.swept, dataset, config, split, columns.names)
        base = weighted(base_for(coordinator.swept, dataset, config, split, columns, yes), weighting)
        if not base.terms:
            why = " ".join((*columns.notes, "Choose other features."))
            raise DataError(f"No column is left to predict from. {why}")
        folds = _settled(coordinator, dataset, config, choice, split, yes)
        quantiles = functools.partial(_quantiles, coordinator, dataset, config, split, folds)
        base, shared = with_own_borders(base, columns, config, choice.count, quantiles, widest)
        if planned:
            _check_room(len(base.terms), choice)
        notes = [*([weighting.note] if weighting else []), *columns.notes, *shared]
        return cls(coordinator, dataset, config, base, split, folds, notes, tuple(shared))

    def requests(self, kind: Callable[..., Request], *more: Any) -> list[Request]:
        place = str(self.dataset.directory)
        return [kind(place, block, self.base, self.split, self.folds, *more) for block in self.dataset.blocks]

    def cells(self) -> tuple[list[Moments], Moments]:
        """The moments of each cell, and of the test rows; from the sums made while reading, where they are there."""
        return _stored(self.dataset, self.base, self.split, self.folds.choice) or _apart(self.summed(1), 1)

    def summed(self, buckets: int) -> list[Moments]:
        """The moments of each bucket of each cell, and of the test rows."""
        mergers = [Merger() for _ in range(self.folds.choice.cells * buckets + 1)]
        for parts in self.coordinator.swept("summing folds", self.requests(SumCells, buckets)):
            for merger, part in zip(mergers, parts, strict=True):
                merger.add(part)
        return [merger.total() for merger in mergers]

    def buckets_per_cell(self) -> int:
        """So many that there are BUCKETS in all, if memory allows for that; 1, hence none, if it allows for few."""
        cells = self.folds.choice.cells
        wanted = -(-BUCKETS // cells)
        possible = plan_cells(len(self.base.terms) + 1, cells * wanted, available_memory() // 8) // cells
        return possible if possible * cells >= FEW_BUCKETS else 1

    def rows(self) -> RowSample:
        found = list(self.coordinator.swept("taking rows", self.requests(TakeRows)))
        return RowSample(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def cell_moments(self, cells: list[Moments], held: Moments, squares: bool = True) -> CellMoments:
        """`squares`: for least squares, whose digits are those of the sums or of triangles beside them."""
        check_rows(sum(cell.n for cell in cells), self.config)
        medians = _medians(self.coordinator, self.dataset, self.base, self.config, self.split, self.folds)
        used = {*self.base.columns, self.config.target}
        gaps = frozenset(name for name in used if self.dataset.columns[name].missing)
        whose = self.config, self.base, self.folds.choice
        found = CellMoments(*whose, tuple(cells), held, medians, gaps, said=self.shared)
        if not squares:
            return found
        _, whole = found.problem()
        if digits(whole) >= ENOUGH_DIGITS + SPARE_DIGITS:
            return found
        return dataclasses.replace(found, factors=self.factors(merge_all(cells).mean))

    def factors(self, origin: Array) -> Factors:
        total: list[Array] | None = None
        for parts in self.coordinator.swept("factoring folds", self.requests(FactorCells, origin)):
            total = parts if total is None else [stack(*pair) for pair in zip(total, parts, strict=True)]
        assert total is not None
        return Factors(origin, tuple(total))


def _check_room(columns: int, choice: FoldChoice) -> None:
    free = memory_for_exact(available_memory())
    fitting = plan_cells(columns + 1, choice.cells + 2, free, SOLVING, least=4)  # two folds
    if fitting < choice.cells + 2:
        raise OutOfMemory(
            f"Expected at most {fitting - 2} folds of {columns} columns in the memory that is free, "
            f"got {choice.count}. Choose fewer folds or columns."
        )


def _stored(dataset: Dataset, base: Encoding, split: Split, choice: FoldChoice) -> tuple[list[Moments], Moments] | None:
    """From the sums made while reading, if all columns are complete numbers and folds are unions of their cells."""
    names = [*(term.name for term in base.terms), base.target]
    columns = [dataset.columns.get(name) for name in names]
    if choice.by != "row" or split.tests or dataset.manifest.bad_count or base.known or base.weights:
        return None
    if base.yes is not None or base.offset is not None:
        return None
    if any(c is None or not c.is_number or c.missing for c in columns):
        return None
    stored = dataset.cells
    if not stored or len(stored) % choice.count:
        return None
    slots = [c.slot for c in columns if c is not None]
    cells = [merge_all(c.take(slots) for c in stored[r :: choice.count]) for r in range(choice.count)]
    return cells, Moments.empty(len(slots))


def _settled(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice, split: Split,
    yes: Yes = None,
) -> Folds:  # fmt: skip
    if choice.by in ("row", "hash"):
        return Folds(choice)
    if choice.by == "class":
        return Folds(choice, ranks=_class_ranks(coordinator, dataset, config, split, yes))
    column = dataset.columns.get(choice.column)
    if column is None:
        raise ConfigError(f"Expected a column of the file to make folds by, got '{choice.column}'. Check its name.")
    if choice.by == "time" and not column.is_number:
        raise ConfigError(f"Expected dates or numbers in '{choice.column}' to order rows by, got text.")
    if column.more_levels:
        raise ConfigError(f"'{choice.column}' has more different texts than are kept. Choose another column.")
    values, counts, missing = _counted(coordinator, dataset, config, choice, split)
    if choice.by == "group":
        return by_group(choice, values if column.is_number else None, counts, missing)
    ends = np.cumsum(counts)
    starts = np.searchsorted(ends, time_starts(int(counts.sum()), choice), side="right")
    return by_time(choice, values[starts])


def _class_ranks(coordinator: Coordinator, dataset: Dataset, config: RunConfig, split: Split, yes: Yes) -> ClassRanks:
    if config.model not in ("logistic", CLASSES):
        raise ConfigError(
            f"Expected a logistic or multinomial model for folds by class, got {config.model}: its target has no "
            "classes. Choose folds by row or hash."
        )
    how = config.target, yes, split, config.weights
    requests = [CountClasses(str(dataset.directory), block, *how) for block in dataset.blocks]
    counts = np.array(list(coordinator.swept("counting classes", requests)), np.int64).reshape(len(dataset.blocks), -1)
    totals = counts.sum(axis=0)
    before = np.cumsum(counts, axis=0) - counts + np.cumsum(totals) - totals
    starts = {block.first: tuple(own) for block, own in zip(dataset.blocks, before.tolist(), strict=True)}
    return ClassRanks(*how, starts)


def _counted(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice, split: Split
) -> tuple[np.ndarray, np.ndarray, int]:
    """The values of the folds' column, in order, how many training rows have each, and how many have none."""
    how = choice.column, config.target, split, config.weights, config.weights_are == "frequency"
    requests = [CountValues(str(dataset.directory), block, *how) for block in dataset.blocks]
    values, counts, missing = np.zeros(0), np.zeros(0, np.int64), 0
    for found, times, gaps in coordinator.swept("counting groups", requests):
        together = np.concatenate((values, found))
        values, place = np.unique(together, return_inverse=True)
        counts = np.bincount(place, weights=np.concatenate((counts, times))).astype(np.int64)
        missing += gaps
    return values, counts, missing


def _quantiles(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, split: Split, folds: Folds,
    wanted: Mapping[str, tuple[float, ...]],
) -> dict[str, Array]:  # fmt: skip
    """Of each column the values (folds, shares) below which these shares of each fold's training rows lie."""
    where = str(dataset.directory)
    requests = [FoldQuantiles(where, name, config.target, split, folds, shares=own) for name, own in wanted.items()]
    return dict(zip(wanted, coordinator.swept("finding borders of folds", requests), strict=True))


def _medians(
    coordinator: Coordinator, dataset: Dataset, base: Encoding, config: RunConfig, split: Split, folds: Folds
) -> tuple[dict[str, float], ...]:
    columns = [t.column for t in base.terms if isinstance(t, Indicator)] if config.impute == "median" else []
    requests = [
        FoldMedians(str(dataset.directory), name, config.target, split, folds, config.weights) for name in columns
    ]
    found: tuple[dict[str, float], ...] = tuple({} for _ in range(folds.choice.count + 1))
    for name, medians in zip(columns, coordinator.swept("finding medians", requests), strict=True):
        for place, value in zip(found, medians.tolist(), strict=True):
            if not math.isnan(value):
                place[name] = value
    return found
