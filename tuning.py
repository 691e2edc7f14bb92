"""From a data set to what answers every question about penalties and folds: the moments of cells, and fold medians."""

from __future__ import annotations

import math

import numpy as np

from config import RunConfig
from coordinator import Coordinator
from cross_validation import CellMoments
from datasets import Dataset
from design import Encoding, Indicator, Split, base_encoding, choose_columns
from errors import ConfigError
from fitting import check_bad_rows, check_rows
from fold_requests import CountValues, FoldMedians, SumCells
from folds import FoldChoice, Folds, by_group, by_time, time_starts
from moments import Merger, Moments, merge_all, plan_cells
from utils import available_memory


def sum_cells(coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice) -> CellMoments:
    """One pass over cached blocks (none where the sums were made while the file was read), and one over each column
    with gaps."""
    check_bad_rows(dataset, config)
    split = Split(config.test_every, config.test_fraction, config.seed)
    base = base_encoding(choose_columns(dataset, config), config)
    plan_cells(len(base.terms) + 1, choice.cells + 2, available_memory() // 4)
    folds = _settled(coordinator, dataset, config, choice, split)
    cells, held = _stored(dataset, base, split, choice) or _summed(coordinator, dataset, base, split, folds)
    check_rows(sum(cell.n for cell in cells), config)
    medians = _medians(coordinator, dataset, base, config, split, folds)
    return CellMoments(config, base, choice, tuple(cells), held, medians)


def _summed(
    coordinator: Coordinator, dataset: Dataset, base: Encoding, split: Split, folds: Folds
) -> tuple[list[Moments], Moments]:
    mergers = [Merger() for _ in range(folds.choice.cells + 1)]
    requests = [SumCells(str(dataset.directory), block, base, split, folds) for block in dataset.blocks]
    for parts in coordinator.swept("summing folds", requests):
        for merger, part in zip(mergers, parts, strict=True):
            merger.add(part)
    *cells, held = (merger.total() for merger in mergers)
    return cells, held


def _stored(dataset: Dataset, base: Encoding, split: Split, choice: FoldChoice) -> tuple[list[Moments], Moments] | None:
    """From the sums made while reading, if all columns are complete numbers and folds are unions of their cells."""
    names = [*(term.name for term in base.terms), base.target]
    columns = [dataset.columns.get(name) for name in names]
    if choice.by != "row" or split.tests or dataset.manifest.bad_count or base.known:
        return None
    if any(c is None or not c.is_number or c.missing for c in columns):
        return None
    stored = dataset.cells
    if not stored or len(stored) % choice.count:
        return None
    slots = [c.slot for c in columns if c is not None]
    cells = [merge_all(c.take(slots) for c in stored[r :: choice.count]) for r in range(choice.count)]
    return cells, Moments.empty(len(slots))


def _settled(coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice, split: Split) -> Folds:
    if choice.by in ("row", "hash"):
        return Folds(choice)
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


def _counted(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice, split: Split
) -> tuple[np.ndarray, np.ndarray, int]:
    """The values of the folds' column, in order, how many training rows have each, and how many have none."""
    requests = [CountValues(str(dataset.directory), b, choice.column, config.target, split) for b in dataset.blocks]
    values, counts, missing = np.zeros(0), np.zeros(0, np.int64), 0
    for found, times, gaps in coordinator.swept("counting groups", requests):
        together = np.concatenate((values, found))
        values, place = np.unique(together, return_inverse=True)
        counts = np.bincount(place, weights=np.concatenate((counts, times))).astype(np.int64)
        missing += gaps
    return values, counts, missing


def _medians(
    coordinator: Coordinator, dataset: Dataset, base: Encoding, config: RunConfig, split: Split, folds: Folds
) -> tuple[dict[str, float], ...]:
    columns = [t.column for t in base.terms if isinstance(t, Indicator)] if config.impute == "median" else []
    requests = [FoldMedians(str(dataset.directory), name, config.target, split, folds) for name in columns]
    found: tuple[dict[str, float], ...] = tuple({} for _ in range(folds.choice.count + 1))
    for name, medians in zip(columns, coordinator.swept("finding medians", requests), strict=True):
        for place, value in zip(found, medians.tolist(), strict=True):
            if not math.isnan(value):
                place[name] = value
    return found
