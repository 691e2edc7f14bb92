"""The requests that workers answer about byte ranges and blocks; each holds all it needs and may be redone."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.block_reader import BlockReport, read_range
from shoal.data.dataset import Block, Dataset
from shoal.data.encoding import Encoding
from shoal.data.files import Source
from shoal.data.parquet_reader import read_row_group
from shoal.data.recipes.remaking import at_hand, where_to
from shoal.data.splits import Split
from shoal.data.terms import MISSING_LEVEL, Offset, Product, Shaped
from shoal.data_pipeline import Chunk, design_rows
from shoal.kernels.lines_kernel import interval_lines, prediction_lines
from shoal.lazy.classes import dataclass
from shoal.losses.layers import NetworkMean, RowMean, expected
from shoal.losses.multinomial import Multinomial
from shoal.metrics import Residuals
from shoal.models import Array
from shoal.solve.conformal import between
from shoal.solve.least_squares import Standardisation, stack, triangle
from shoal.solve.moments import Merger, Moments, merge_all
from shoal.words import date_text
from shoal.worker import Worker

CALIBRATION_ROWS = 1_000_000  # test rows whose residuals are kept for prediction intervals: 8 MB
CALIBRATION_SEED = 0xCA11  # its own: the split's would keep none, or all
LOCATED = 1000  # rows without a prediction that are told one by one
QR_BYTES = 16 << 20  # rows that are factored at a time: QR gains from tall blocks more than from the cache


@functools.lru_cache(maxsize=4)
def opened(directory: str) -> Dataset:
    return at_hand(Path(directory))


@dataclass(frozen=True)
class ReadRange:
    """Read the rows that start in a byte range into a block file; `exact` is the first one's place, if known."""

    source: Source
    begin: int
    end: int
    exact: int | None
    target: str
    residues: int
    place: str = ""  # what the block is called where the folder of the target is not seen

    def answer(self, worker: Worker) -> BlockReport:
        target = where_to(self.target, self.place, self.source) if worker.apart else self.target
        return read_range(self.source, self.begin, self.end, self.exact, target, self.residues, worker.scratch)


@dataclass(frozen=True)
class ReadRowGroup:
    """Read one row group of a Parquet file into a block file."""

    source: Source
    group: int
    target: str
    residues: int
    place: str = ""

    def answer(self, worker: Worker) -> BlockReport:
        target = where_to(self.target, self.place, self.source) if worker.apart else self.target
        return read_row_group(self.source, self.group, target, self.residues)


@dataclass(frozen=True)
class BlockRequest:
    """What requests about the rows of a block have in common."""

    directory: str
    block: Block
    encoding: Encoding
    split: Split

    @property
    def dataset(self) -> Dataset:
        return opened(self.directory)

    @property
    def place(self) -> str:
        return self.block.place

    def chunks(self) -> list[Chunk]:
        return list(design_rows(self.encoding, self.dataset, self.block))


@dataclass(frozen=True)
class SumMoments(BlockRequest):
    """Moments of (terms..., target) over the training rows and over the test rows."""

    def answer(self, worker: Worker) -> tuple[Moments, Moments]:
        width = len(self.encoding.terms) + 1
        sums = Merger(), Merger()
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            rows, weight = np.column_stack((chunk.X, chunk.y)), chunk.weight
            test = self.split.is_test(chunk.row)
            for merger, chosen in zip(sums, (~test, test), strict=True):
                if weight is not None and chosen.any():
                    merger.add(Moments.weighted(rows[chosen], weight[chosen]))
                elif chosen.any():
                    merger.add(Moments.of(rows if chosen.all() else rows[chosen]))
        train, held = (merger.total() if merger else Moments.empty(width) for merger in sums)
        return train, held


def stored_moments(dataset: Dataset, base: Encoding, split: Split) -> tuple[Moments, Moments] | None:
    """From the sums made while reading, if all columns are complete numbers and the split fits their cells.

    Without a target in the encoding, of the terms alone.
    """
    names = [*(term.name for term in base.terms), *([base.target] if base.target else [])]
    columns = [dataset.columns.get(name) for name in names]
    if dataset.manifest.bad_count or base.known or split.fraction or base.yes is not None or base.weights:
        return None
    if base.drop_missing and any(dataset.columns[name].missing for name in base.present):
        return None
    if any(c is None or not c.is_number or c.missing for c in columns):
        return None
    cells = dataset.cells
    if not cells or (split.every and len(cells) % split.every):
        return None
    slots = [c.slot for c in columns if c is not None]
    test = [r for r in range(len(cells)) if split.every and r % split.every == 0]
    train = [r for r in range(len(cells)) if r not in test]
    empty = Moments.empty(len(slots))
    return (
        merge_all(cells[r].take(slots) for r in train),
        merge_all(cells[r].take(slots) for r in test) if test else empty,
    )


@dataclass(frozen=True)
class SumTriangle(BlockRequest):
    """The triangle of the standardised training rows."""

    units: Standardisation

    def answer(self, worker: Worker) -> Array:
        total: Array | None = None
        for rows in self._pieces():
            part = triangle(rows)
            total = part if total is None else stack(total, part)
        width = len(self.encoding.terms) + 1 + int(self.units.intercept)
        return np.zeros((width, width)) if total is None else total

    def _pieces(self) -> Iterator[Array]:
        """The rows in pieces of a few MB."""
        waiting: list[Array] = []
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            train = ~self.split.is_test(chunk.row)
            rows = self.units.apply(chunk.X[train], chunk.y[train])
            if chunk.weight is not None:
                rows *= np.sqrt(chunk.weight[train])[:, None]
            waiting.append(rows)
            if sum(piece.nbytes for piece in waiting) > QR_BYTES:
                yield np.concatenate(waiting)
                waiting = []
        if waiting:
            yield np.concatenate(waiting)


def calibrates(split: Split, rows: int, index: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of some test rows of a table of so many rows are kept for prediction intervals: by a hash of their index
    where there are many, the same whoever looks at which block."""
    share = CALIBRATION_ROWS / max(1.0, split.share * rows)
    return np.ones(len(index), bool) if share >= 1 else Split(seed=CALIBRATION_SEED).hashed(index) < share


@dataclass(frozen=True)
class Sums:
    """What one pass over the rows says about a model: residuals of train and test, Xs'r of the training rows."""

    train: Residuals
    test: Residuals
    gradient: Array
    unseen: int
    calibration: tuple[Array, ...] = ()  # |residuals| of test rows, of a random part of them where there are many
    calibration_weights: tuple[Array, ...] = ()  # of those rows, where they have some

    def merge(self, other: Sums) -> Sums:
        return Sums(
            self.train.merge(other.train),
            self.test.merge(other.test),
            self.gradient + other.gradient,
            self.unseen + other.unseen,
            self.calibration + other.calibration,
            self.calibration_weights + other.calibration_weights,
        )


@dataclass(frozen=True)
class Score(BlockRequest):
    """Residuals and gradient at given coefficients."""

    coef: Array
    intercept: float
    centre: Array
    scale: Array

    def answer(self, worker: Worker) -> Sums:
        sums = Sums(Residuals.none(), Residuals.none(), np.zeros_like(self.coef), 0)
        # Columns that lie many spreads away from zero are centred first, or the gradient would lose as many digits.
        far = float(np.abs(self.centre / self.scale).max(initial=0.0)) > 10
        centre = self.centre if far else np.zeros_like(self.centre)
        at_centre = self.intercept + float(centre @ self.coef)
        with np.errstate(over="ignore", invalid="ignore"):  # numbers of a damaged block, which is refused at its end
            for chunk in design_rows(self.encoding, self.dataset, self.block, proving=True):
                X = chunk.X - centre if far else chunk.X
                residual = chunk.y - at_centre - X @ self.coef
                sums = sums.merge(self._sums(X, chunk, residual, self.centre - centre))
        return sums

    def _sums(self, X: Array, chunk: Chunk, residual: Array, centre: Array) -> Sums:
        calibration: tuple[tuple[Array, ...], tuple[Array, ...]] = (), ()
        weight = chunk.weight
        if not self.split.tests:
            train, held = Residuals.of(chunk.y, residual, weight), Residuals.none()
        else:
            test = self.split.is_test(chunk.row)
            train, held = (
                Residuals.of(chunk.y[rows], residual[rows], None if weight is None else weight[rows])
                for rows in (~test, test)
            )
            calibration = self._calibration(chunk.row[test], residual[test], None if weight is None else weight[test])
            residual = np.where(test, 0.0, residual)
        if weight is not None:
            residual = residual * weight
        gradient = (residual @ X - float(residual.sum()) * centre) / self.scale
        return Sums(train, held, gradient, chunk.unseen, *calibration)

    def _calibration(
        self, rows: npt.NDArray[np.int64], residual: Array, weight: Array | None
    ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        kept = calibrates(self.split, self.dataset.rows, rows)
        residual, weight = residual[kept], None if weight is None else weight[kept]
        if not len(residual):
            return (), ()
        return (np.abs(residual),), () if weight is None else (weight,)


@dataclass(frozen=True)
class Predict:
    """Predictions for every row of a block, NaN for rows that could not be read, and how many had unseen levels."""

    directory: str
    block: Block
    encoding: Encoding
    coef: Array  # (p,), or (K, p) of several classes, whose probabilities (rows, K) are predicted
    intercept: float | Array
    loss: RowMean | None = None  # of another loss than squares: its mean is predicted

    def answer(self, worker: Worker) -> tuple[Array, int]:
        dataset = opened(self.directory)
        chunks = design_rows(self.encoding, dataset, self.block, with_target=False)
        parts, unseen = list[Array]([np.zeros((0, *self.coef.shape[:-1]))]), 0
        for chunk in chunks:
            parts.append(expected(chunk.X, self.coef, self.intercept, self.loss))
            unseen += chunk.unseen
        predictions = np.concatenate(parts)
        predictions[list(self.block.bad)] = np.nan
        return predictions, unseen

    def unknown(self) -> dict[str, dict[str, int]]:
        """By column: the levels that no term is meant for, and in how many rows."""
        return unknown_levels(self.encoding, opened(self.directory), self.block)


def unknown_levels(encoding: Encoding, dataset: Dataset, block: Block) -> dict[str, dict[str, int]]:
    """By column: the levels that no term is meant for, and in how many of a block's rows; unread rows do not count."""
    read = np.ones(block.rows, bool)
    read[list(block.bad)] = False
    found: dict[str, dict[str, int]] = {}
    for name in encoding.known:
        column = dataset.columns[name]
        levels, codes = [*column.levels, MISSING_LEVEL], dataset.codes(block, column.slot)[read]
        counts = np.bincount(np.where(codes < 0, len(levels) - 1, codes), minlength=len(levels)).tolist()
        rows = {level: n for level, n in zip(levels, counts, strict=True) if n and not encoding.knows(name, level)}
        found |= {name: rows} if rows else {}
    return found


def undefined_shapes(encoding: Encoding, row: Mapping[str, float]) -> list[str]:
    """What has no value in a row: a logarithm or a root of a number that has none, or what is added to its score."""
    factors = (f for term in encoding.terms for f in (term.factors if isinstance(term, Product) else (term,)))
    shaped = dict.fromkeys(factor for factor in factors if isinstance(factor, (Shaped, Offset)))
    return list(dict.fromkeys(
        f"{term.name} has no value, as {term.column} is {_told(row[term.column])}"
        for term in shaped if np.isnan(term.of(np.array([row[term.column]])))[0]
    ))  # fmt: skip


def _told(value: float) -> str:
    return "missing" if np.isnan(value) else f"{value:g}"


class Lines(NamedTuple):
    """Predictions of a block as text: how many rows, how many of them without one, how many with unseen levels."""

    text: bytes
    rows: int
    empty: int
    unseen: int
    unknown: dict[str, dict[str, int]]  # by column: the levels that are unseen, and in how many rows
    undefined: tuple[tuple[int, str], ...] = ()  # rows with a shape without a value, and which; the first of them


def as_field(name: str) -> str:
    """As CSV has it: in quotes where the text has a comma, a quote or an end of line."""
    return '"' + name.replace('"', '""') + '"' if any(mark in name for mark in ',"\r\n') else name


@dataclass(frozen=True)
class PredictLines:
    """Predictions as lines `row,prediction`, and with a width also `lower,upper`: writing numbers takes longer than
    finding them, so that it is done by all workers. With two classes `row,prediction,probability`: the second class
    from the threshold on, and its probability; with several the likeliest, and the probabilities of all. Days since
    1970 are written as dates, with `times` or without, where that is not None."""

    of: Predict
    width: float | None
    classes: tuple[str, ...] = ()
    times: bool | None = None
    threshold: float = 0.5
    spread: str = ""  # how the width was measured, see `RowLoss.interval`
    lines: tuple[Predict, ...] = ()  # two, that the ends are taken from in place of a width, moved apart by it

    def answer(self, worker: Worker) -> Lines:
        predictions, unseen = self.of.answer(worker)
        loss = None if isinstance(self.of.loss, Multinomial | NetworkMean) else self.of.loss
        if predictions.ndim > 1:
            text = "".join(self._class_lines(predictions)).encode()
        elif self.lines and self.width is not None:
            low, high = (line.answer(worker)[0] for line in self.lines)
            text = self._between(predictions, *between(low, high, self.width))
        elif self.width is not None and loss is not None and loss.spread_is != "even":
            text = interval_lines(
                predictions, self.of.block.first, *loss.interval(predictions, self.width, self.spread)
            )
        elif self.times is None:
            fields = tuple(map(as_field, (*self.classes, "|".join(self.classes)) if self.classes else ()))
            text = prediction_lines(predictions, self.of.block.first, self.width, fields, self.threshold)
        else:
            beside = () if self.width is None else (predictions - self.width, predictions + self.width)
            text = "".join(self._date_lines(self.times, predictions, *beside)).encode()
        predictions = predictions if predictions.ndim == 1 else predictions[:, 0]
        empty = int(np.isnan(predictions).sum())
        undefined = tuple(self._undefined(predictions)) if empty > len(self.of.block.bad) else ()
        unknown = self.of.unknown() if unseen else {}
        return Lines(text, len(predictions), empty, unseen, unknown, undefined)

    def _undefined(self, predictions: Array) -> Iterator[tuple[int, str]]:
        """Why rows that could be read have no prediction: some value has no logarithm or root."""
        dataset, block = opened(self.of.directory), self.of.block
        slots = [column.name for column in dataset.number_columns]
        for place in np.setdiff1d(np.flatnonzero(np.isnan(predictions)), block.bad)[:LOCATED].tolist():
            values = dict(zip(slots, dataset.numbers(block)[place], strict=True))
            yield block.first + place, "; ".join(undefined_shapes(self.of.encoding, values))

    def _class_lines(self, shares: Array) -> Iterator[str]:
        """The likeliest of several classes, the probability of each, and with a width the set of those that are
        usual, the likeliest among them."""
        likeliest, usual = shares.argmax(axis=1).tolist(), 1 - shares <= (self.width or 0.0)
        for row, (place, own) in enumerate(zip(likeliest, shares.tolist(), strict=True)):
            if own[0] != own[0]:
                cells = ["", *("" for _ in own), *([""] if self.width is not None else [])]
            else:
                cells = [as_field(self.classes[place]), *map(repr, own)]
                if self.width is not None:
                    kept = [name for k, name in enumerate(self.classes) if k == place or usual[row, k]]
                    cells.append(as_field("|".join(kept)))
            yield f"{row + self.of.block.first},{','.join(cells)}\n"

    def _between(self, *columns: Array) -> bytes:
        """Predictions and both ends, as numbers or dates; a row without a prediction has no ends."""
        if self.times is not None:
            return "".join(self._date_lines(self.times, *columns)).encode()
        return interval_lines(columns[0], self.of.block.first, *columns[1:])

    def _date_lines(self, times: bool, *columns: Array) -> Iterator[str]:
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for row, found in enumerate(rows, self.of.block.first):
            dates = ("" if day != day else date_text(day if times else round(day), times) for day in found)
            yield f"{row},{','.join(dates)}\n"
