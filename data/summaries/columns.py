"""Columns summed up: what they were like in training, and in rows to predict by the same bins; how far these are
apart is in `results.answers.drift`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from shoal.data.dataset import Dataset
from shoal.data.terms import MISSING_LEVEL
from shoal.models import Array
from shoal.results.answers.drift import SeenColumn
from shoal.results.model import TrainingColumn

MOST_ROWS = 4_000  # that are looked at, from all over a table
MOST_BLOCKS = 8  # that they are taken from: each is proven when it is opened
MOST_COLUMNS = 200  # of a model
BINS, LEVELS = 10, 20  # of numbers, and the commonest of texts
DIGITS = 6  # of shares

ColumnCells = Array | Sequence[str | None]  # of one column: numbers with NaN for none, or texts


def sampled(dataset: Dataset, names: Sequence[str]) -> dict[str, ColumnCells]:
    """Some rows of a data set by column, evenly from all over it: the same whoever looks, and however many workers.

    None of one whose rows are on other machines: there they stay.
    """
    if dataset.manifest.scattered:
        return {}
    blocks = [block for block in dataset.blocks if block.rows]
    places = np.linspace(0, len(blocks) - 1, min(MOST_BLOCKS, len(blocks))).astype(int).tolist()
    chosen = [blocks[place] for place in dict.fromkeys(places)]
    here = [name for name in names if name in dataset.columns]
    numbers: dict[str, list[Array]] = {name: [] for name in here if dataset.columns[name].is_number}
    texts: dict[str, list[str | None]] = {name: [] for name in here if name not in numbers}
    for block in chosen:
        step = max(1, -(-block.rows * len(chosen) // MOST_ROWS))
        rows = np.arange(0, block.rows, step)
        rows = np.setdiff1d(rows, block.bad) if block.bad else rows
        if numbers:
            slots = [dataset.columns[name].slot for name in numbers]
            values = dataset.numbers(block)[rows][:, slots]
            for name, own in zip(numbers, values.T, strict=True):
                numbers[name].append(own)
        for name, found in texts.items():
            column = dataset.columns[name]
            codes = dataset.codes(block, column.slot)[rows].tolist()
            found += [column.levels[code] if code >= 0 else None for code in codes]
    return {**{name: np.concatenate([np.zeros(0), *parts]) for name, parts in numbers.items()}, **texts}


def training_columns(dataset: Dataset, names: Sequence[str]) -> dict[str, TrainingColumn]:
    """Of the first columns of a model, in rows from all over the table that it was fitted to, test rows among them.

    None where rows are gone, as those of a table in memory are once it is fitted.
    """
    if not dataset.is_whole():
        return {}
    cells = sampled(dataset, names[:MOST_COLUMNS])
    return {name: _of_texts(own) if isinstance(own, list) else _of_numbers(own) for name, own in cells.items()}


def _of_numbers(cells: ColumnCells) -> TrainingColumn:
    values = np.asarray(cells, float)
    there = values[np.isfinite(values)]
    missing = 1 - len(there) / len(values) if len(values) else 0.0
    if not len(there):
        return TrainingColumn(len(values), round(missing, DIGITS))
    edges = sorted({*np.quantile(there, np.linspace(0, 1, BINS + 1)[1:-1], method="lower").tolist()})
    shares = np.bincount(np.searchsorted(edges, there, side="left"), minlength=len(edges) + 1) / len(there)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(there.mean()), float(there.std())
    whole = np.isfinite(mean) and np.isfinite(deviation)
    return TrainingColumn(
        len(values), round(missing, DIGITS), tuple(np.round(shares, DIGITS).tolist()), tuple(edges),
        mean=mean if whole else None, deviation=deviation if whole else None,
    )  # fmt: skip


def _of_texts(cells: Sequence[str | None]) -> TrainingColumn:
    counts = Counter(cell for cell in cells if cell is not None)
    rows, common = sum(counts.values()), counts.most_common(LEVELS)
    missing = 1 - rows / len(cells) if cells else 0.0
    shares = [count / rows for _, count in common]
    last = max(0.0, 1 - sum(shares)) if rows else 0.0
    return TrainingColumn(
        len(cells), round(missing, DIGITS), tuple(round(share, DIGITS) for share in (*shares, last)),
        levels=tuple(level for level, _ in common),
    )  # fmt: skip


def tallied(
    training: Mapping[str, TrainingColumn], cells: Mapping[str, Sequence[float | str | None] | Array],
    known: Mapping[str, Sequence[str]],
) -> dict[str, SeenColumn]:  # fmt: skip
    """Rows to predict by the bins of training; `known` are all levels that the model knows, with or without a share."""
    found = {}
    for name, before in training.items():
        if name in cells and before.shares:
            own = cells[name]
            texts = before.levels is not None
            found[name] = _texts_seen(before, own, known.get(name, ())) if texts else _numbers_seen(before, own)
    return found


def _numbers_seen(before: TrainingColumn, cells: Sequence[float | str | None] | Array) -> SeenColumn:
    values = np.array(cells, float)
    there = values[np.isfinite(values)]
    bins = np.bincount(np.searchsorted(before.edges, there, side="left"), minlength=len(before.shares))
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(there.mean()) if len(there) else 0.0
        squares = float(((there - mean) ** 2).sum())
    whole = np.isfinite(mean) and np.isfinite(squares)
    return SeenColumn(
        len(values), len(values) - len(there), tuple(bins.tolist()), 0, mean if whole else 0.0,
        squares if whole else 0.0,
    )  # fmt: skip


def _texts_seen(
    before: TrainingColumn, cells: Sequence[float | str | None] | Array, known: Sequence[str]
) -> SeenColumn:
    counts = Counter(cells)
    missing = counts.pop(None, 0) + counts.pop(MISSING_LEVEL, 0)
    levels, rows = before.levels or (), sum(counts.values())
    own = [counts.get(level, 0) for level in levels]
    there = set(known)
    unknown = sum(count for level, count in counts.items() if level not in there)
    return SeenColumn(rows + missing, missing, (*own, rows - sum(own)), unknown)
