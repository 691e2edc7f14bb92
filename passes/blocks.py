"""The requests that workers answer about byte ranges and blocks; each holds all it needs and may be redone."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.block_reader import BlockReport, read_range
from shoal.data.dataset import Block, Dataset
from shoal.data.encoding import Encoding
from shoal.data.files import Source
from shoal.data.parquet_reader import read_row_group
from shoal.data.splits import Split, training_rows
from shoal.data_pipeline import Chunk, design_rows
from shoal.metrics import Residuals
from shoal.models import Array
from shoal.solve.least_squares import Standardisation, stack, triangle
from shoal.solve.moments import Merger, Moments
from shoal.worker import Worker

CALIBRATION_ROWS = 1_000_000  # test rows whose residuals are kept for prediction intervals: 8 MB
CALIBRATION_SEED = 0xCA11  # its own: the split's would keep none, or all
QR_BYTES = 16 << 20  # rows that are factored at a time: QR gains from tall blocks more than from the cache


@functools.lru_cache(maxsize=4)
def opened(directory: str) -> Dataset:
    return Dataset(Path(directory))


@dataclass(frozen=True)
class ReadRange:
    """Read the rows that start in a byte range into a block file; `exact` is the first one's place, if known."""

    source: Source
    begin: int
    end: int
    exact: int | None
    target: str
    residues: int

    def answer(self, worker: Worker) -> BlockReport:
        return read_range(self.source, self.begin, self.end, self.exact, self.target, self.residues, worker.scratch)


@dataclass(frozen=True)
class ReadRowGroup:
    """Read one row group of a Parquet file into a block file."""

    source: Source
    group: int
    target: str
    residues: int

    def answer(self, worker: Worker) -> BlockReport:
        return read_row_group(self.source, self.group, self.target, self.residues)


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

    def chunks(self) -> list[Chunk]:
        return list(design_rows(self.encoding, self.dataset, self.block))


@dataclass(frozen=True)
class SumMoments(BlockRequest):
    """Moments of (terms..., target) over the training rows and over the test rows."""

    def answer(self, worker: Worker) -> tuple[Moments, Moments]:
        width = len(self.encoding.terms) + 1
        sums = Merger(), Merger()
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            rows = np.column_stack((chunk.X, chunk.y))
            test = self.split.is_test(chunk.row)
            for merger, chosen in zip(sums, (~test, test), strict=True):
                if chosen.any():
                    merger.add(Moments.of(rows if chosen.all() else rows[chosen]))
        train, held = (merger.total() if merger else Moments.empty(width) for merger in sums)
        return train, held


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
            waiting.append(self.units.apply(chunk.X[train], chunk.y[train]))
            if sum(piece.nbytes for piece in waiting) > QR_BYTES:
                yield np.concatenate(waiting)
                waiting = []
        if waiting:
            yield np.concatenate(waiting)


@dataclass(frozen=True)
class Sums:
    """What one pass over the rows says about a model: residuals of train and test, Xs'r of the training rows."""

    train: Residuals
    test: Residuals
    gradient: Array
    unseen: int
    calibration: tuple[Array, ...] = ()  # |residuals| of test rows, of a random part of them where there are many

    def merge(self, other: Sums) -> Sums:
        return Sums(
            self.train.merge(other.train),
            self.test.merge(other.test),
            self.gradient + other.gradient,
            self.unseen + other.unseen,
            self.calibration + other.calibration,
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
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            X = chunk.X - centre if far else chunk.X
            residual = chunk.y - at_centre - X @ self.coef
            sums = sums.merge(self._sums(X, chunk, residual, self.centre - centre))
        return sums

    def _sums(self, X: Array, chunk: Chunk, residual: Array, centre: Array) -> Sums:
        calibration: tuple[Array, ...] = ()
        if not self.split.tests:
            train, held = Residuals.of(chunk.y, residual), Residuals.none()
        else:
            test = self.split.is_test(chunk.row)
            train, held = (Residuals.of(chunk.y[rows], residual[rows]) for rows in (~test, test))
            calibration = self._calibration(chunk.row[test], residual[test])
            residual = np.where(test, 0.0, residual)
        gradient = (residual @ X - float(residual.sum()) * centre) / self.scale
        return Sums(train, held, gradient, chunk.unseen, calibration)

    def _calibration(self, rows: npt.NDArray[np.int64], residual: Array) -> tuple[Array, ...]:
        """By a hash of their index where there are many: the same rows, whoever looks at which block."""
        share = CALIBRATION_ROWS / max(1.0, self.split.share * self.dataset.rows)
        if share < 1:
            residual = residual[Split(seed=CALIBRATION_SEED).hashed(rows) < share]
        return (np.abs(residual),) if len(residual) else ()


@dataclass(frozen=True)
class Predict:
    """Predictions for every row of a block, NaN for rows that could not be read, and how many had unseen levels."""

    directory: str
    block: Block
    encoding: Encoding
    coef: Array
    intercept: float

    def answer(self, worker: Worker) -> tuple[Array, int]:
        dataset = opened(self.directory)
        chunks = design_rows(self.encoding, dataset, self.block, with_target=False)
        parts, unseen = [np.zeros(0)], 0
        for chunk in chunks:
            parts.append(chunk.X @ self.coef + self.intercept)
            unseen += chunk.unseen
        predictions = np.concatenate(parts)
        predictions[list(self.block.bad)] = np.nan
        return predictions, unseen


class Lines(NamedTuple):
    """Predictions of a block as text: how many rows, how many of them without one, how many with unseen levels."""

    text: bytes
    rows: int
    empty: int
    unseen: int


@dataclass(frozen=True)
class PredictLines:
    """Predictions as lines `row,prediction`, and with a width also `lower,upper`: writing numbers takes longer than
    finding them, so that it is done by all workers."""

    of: Predict
    width: float | None

    def answer(self, worker: Worker) -> Lines:
        predictions, unseen = self.of.answer(worker)
        text = "".join(self._lines(predictions.tolist())).encode()
        return Lines(text, len(predictions), int(np.isnan(predictions).sum()), unseen)

    def _lines(self, predictions: list[float]) -> Iterator[str]:
        rows, width = enumerate(predictions, self.of.block.first), self.width
        if width is None:
            return (f"{row},{p!r}\n" if p == p else f"{row},\n" for row, p in rows)
        return (f"{row},{p!r},{p - width!r},{p + width!r}\n" if p == p else f"{row},,,\n" for row, p in rows)


@dataclass(frozen=True)
class Probe:
    """A column and the leading bits that its value of some rank is known to have."""

    column: str
    known_bits: int
    prefix: int


@dataclass(frozen=True)
class CountKeys:
    """For each probe: how often each next 16 bits of the ordered key come in the training rows that fit so far."""

    directory: str
    block: Block
    target: str
    split: Split
    probes: tuple[Probe, ...]

    def answer(self, worker: Worker) -> npt.NDArray[np.int64]:
        dataset = opened(self.directory)
        kept = training_rows(dataset, self.block, self.target, self.split)
        numbers = dataset.numbers(self.block)
        counts = np.zeros((len(self.probes), 1 << 16), np.int64)
        for count, probe in zip(counts, self.probes, strict=True):
            values = numbers[:, dataset.columns[probe.column].slot][kept]
            keys = ordered_keys(values[~np.isnan(values)])
            if probe.known_bits:
                keys = keys[keys >> np.uint64(64 - probe.known_bits) == probe.prefix]
            count += np.bincount((keys >> np.uint64(48 - probe.known_bits)) & np.uint64(0xFFFF), minlength=1 << 16)
        return counts


def ordered_keys(values: Array) -> npt.NDArray[np.uint64]:
    """Whole numbers in the order of the doubles: the bits, turned round for negative numbers."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    top = np.uint64(1 << 63)
    return np.where(bits & top, ~bits, bits | top)


def value_of_key(key: int) -> float:
    bits = np.uint64(key)
    top = np.uint64(1 << 63)
    return float((bits ^ top if bits & top else ~bits).view(np.float64))
