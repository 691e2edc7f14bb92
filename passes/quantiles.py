"""Quantiles and medians of columns over the training rows, exact in as many passes whatever the number of rows; and the
base encoding of a model, whose bins and splines have their borders there. And the rows that decide where a line that is
a quantile goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from shoal.data.columns import ColumnChoice, base_encoding
from shoal.data.dataset import Block, Dataset
from shoal.data.encoding import Encoding
from shoal.data.shapes.asked import quantiles_for
from shoal.data.splits import Split, Yes, row_weights, training_rows
from shoal.data_pipeline import design_rows
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.passes.arrays import RangeRequest
from shoal.passes.blocks import BlockRequest, calibrates, opened
from shoal.passes.losses import LossRequest
from shoal.settings.config import RunConfig
from shoal.settings.limits import POLISHED_CELLS
from shoal.solve.conformal import OutsideLines
from shoal.solve.pinball import Near, Sides
from shoal.worker import Worker

Swept = Callable[[str, Sequence[Any]], Iterator[Any]]  # (stage, requests) -> their reports, in order
_Side = Literal["left", "right"]
RowIndex = npt.NDArray[np.int64]  # which rows some are


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
    weights: str = ""  # the column that says how often each row counts

    def answer(self, worker: Worker) -> npt.NDArray[Any]:
        dataset = opened(self.directory)
        kept = training_rows(dataset, self.block, self.target, self.split)
        weights = row_weights(dataset, self.block, self.weights)[kept] if self.weights else None
        numbers = dataset.numbers(self.block)
        counts = np.zeros((len(self.probes), 1 << 16), np.int64 if weights is None else np.float64)
        for count, probe in zip(counts, self.probes, strict=True):
            values = numbers[:, dataset.columns[probe.column].slot][kept]
            there = ~np.isnan(values)
            keys, own = ordered_keys(values[there]), None if weights is None else weights[there]
            if probe.known_bits:
                fits = keys >> np.uint64(64 - probe.known_bits) == probe.prefix
                keys, own = keys[fits], None if own is None else own[fits]
            next_bits = (keys >> np.uint64(48 - probe.known_bits)) & np.uint64(0xFFFF)
            count += np.bincount(next_bits, own, minlength=1 << 16)
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


def base_for(
    swept: Swept,
    dataset: Dataset,
    config: RunConfig,
    split: Split,
    choice: ColumnChoice,
    yes: Yes = None,
) -> Encoding:
    """The encoding that moments are summed in; rows are read only where borders are asked for."""
    asked = {(name, part): shares for name, parts in choice.parts.items() for part in parts
             if (shares := quantiles_for(part))}  # fmt: skip
    wanted: dict[str, list[float]] = {}
    for (name, _), shares in asked.items():
        wanted[name] = sorted({*wanted.get(name, []), *shares})
    found = quantiles(swept, dataset, wanted, config.target, split) if wanted else {}
    borders = {(name, part): [found[name][share] for share in shares if share in found[name]]
               for (name, part), shares in asked.items()}  # fmt: skip
    return base_encoding(choice, config, yes, borders)


def medians(
    swept: Swept, dataset: Dataset, columns: Sequence[str], target: str, split: Split, weights: str = ""
) -> dict[str, float]:
    """The medians of the training rows. With weights, a value counts as often as that of its row says."""
    sides: tuple[_Side, _Side] = ("left", "right")
    asked = [(name, side) for name in columns for side in sides]

    def halves(totals: Array) -> list[float]:
        found: list[float] = (totals / 2).tolist()
        return found

    values = _values_at(swept, "finding medians", dataset, asked, halves, target, split, weights)
    pairs = {name: (values[2 * i], values[2 * i + 1]) for i, name in enumerate(columns)}
    return {name: low / 2 + high / 2 for name, (low, high) in pairs.items() if not math.isnan(low)}


def quantile_of(swept: Swept, dataset: Dataset, name: str, share: float, split: Split, weights: str = "") -> float:
    """The value of a target at which the count of the training rows reaches this share of them, by weight; NaN where
    there is none."""

    def level(totals: Array) -> list[float]:
        return [share * float(totals[0])]

    return _values_at(swept, "finding a quantile", dataset, [(name, "left")], level, name, split, weights)[0]


def quantiles(
    swept: Swept, dataset: Dataset, wanted: Mapping[str, Sequence[float]], target: str, split: Split
) -> dict[str, dict[float, float]]:
    """Of each column the values below which these shares of its values in the training rows lie, in between two of
    them by a straight line; none of a column without values."""
    if dataset.rows * len(wanted) <= POLISHED_CELLS:
        return {name: _sorted(_values(dataset, name, target, split), shares) for name, shares in wanted.items()}
    asked = [(name, share) for name, shares in wanted.items() for share in shares]
    places: list[float] = []

    def ranks(totals: Array) -> list[float]:
        places.extend(share * max(0.0, float(totals[2 * i]) - 1) for i, (_, share) in enumerate(asked))
        return [float(rank) for place in places for rank in (math.floor(place), math.ceil(place))]

    twice: list[tuple[str, _Side]] = [(name, "right") for name, _ in asked for _ in range(2)]
    values = _values_at(swept, "finding quantiles", dataset, twice, ranks, target, split)
    found: dict[str, dict[float, float]] = {name: {} for name in wanted}
    for i, (name, share) in enumerate(asked):
        low, high = values[2 * i], values[2 * i + 1]
        if not math.isnan(low):
            found[name][share] = low + (high - low) * (places[i] - math.floor(places[i]))
    return found


def _values(dataset: Dataset, name: str, target: str, split: Split) -> Array:
    slot = dataset.columns[name].slot
    parts = [dataset.numbers(b)[training_rows(dataset, b, target, split), slot] for b in dataset.blocks]
    values = np.concatenate(parts)
    return np.asarray(values[~np.isnan(values)])


def _sorted(values: Array, shares: Sequence[float]) -> dict[float, float]:
    return dict(zip(shares, np.quantile(values, shares).tolist(), strict=True)) if len(values) else {}


def _values_at(
    swept: Swept, stage: str, dataset: Dataset, asked: Sequence[tuple[str, _Side]],
    levels: Callable[[Array], list[float]], target: str, split: Split, weights: str = "",
) -> list[float]:  # fmt: skip
    """For each column and side the value at which the count of smaller ones reaches (left) or passes (right) its level,
    which follows from the totals; NaN where there is none.

    Each of four passes counts the next 16 bits of the values' ordered keys among those that fit what is known so far.
    """
    probes = [Probe(name, 0, 0) for name, _ in asked]
    left: list[float] = []
    totals = np.zeros(len(asked))
    for step in range(4):
        requests = [CountKeys(str(dataset.directory), b, target, split, tuple(probes), weights) for b in dataset.blocks]
        counts = np.asarray(sum(swept(stage, requests)))  # one at a time: half a MB a probe
        if step == 0:
            totals = counts.sum(axis=1)
            left = levels(totals)
        for i, probe in enumerate(probes):
            below = np.cumsum(counts[i])
            bits = int(np.searchsorted(below, left[i], side=asked[i][1]))
            if (there := np.flatnonzero(counts[i])).size:  # sums of weights are rounded: stay where some are
                bits = min(max(bits, int(there[0])), int(there[-1]))
            left[i] -= below[bits - 1].item() if bits else 0
            probes[i] = Probe(probe.column, probe.known_bits + 16, (probe.prefix << 16) | min(bits, 0xFFFF))
    return [value_of_key(probe.prefix) if totals[i] else math.nan for i, probe in enumerate(probes)]


# ------------------------------------------------------------------ rows beside a line that is a quantile

SKETCHED = 4096  # residuals of a block, in order, that tell how they are spread


def sides_of(X: Array, r: Array, weight: Array | None, row: RowIndex, quantile: float, width: float) -> Sides:
    """Of some rows with residuals r."""
    c = np.ones(len(r)) if weight is None else weight
    close = np.abs(r) <= width
    g = np.where(close, 0.0, c * np.where(r < 0, quantile - 1, quantile))
    near = Near(X[close], r[close], c[close], row[close])
    return Sides(near, np.append(g.sum(), g @ X))


def changed_of(X: Array, r: Array, to: Array, weight: Array | None, row: RowIndex, width: float) -> Near:
    """Of some rows with residuals r at one line and `to` at another."""
    chosen = (np.abs(r) > width) & (r * to < 0)
    c = np.ones(len(r)) if weight is None else weight
    return Near(X[chosen], r[chosen], c[chosen], row[chosen])


@dataclass(frozen=True)
class FindSides(LossRequest):
    """The training rows near a line, and the sums of the others."""

    quantile: float
    width: float

    def answer(self, worker: Worker) -> Sides:
        p = len(self.coef)
        parts = [Sides(Near.none(p), np.zeros(p + 1))]
        for chunk, X, eta in self.scored():
            train = ~self.split.is_test(chunk.row)
            weight = None if chunk.weight is None else chunk.weight[train]
            r = (chunk.y - eta)[train]
            parts.append(sides_of(X[train], r, weight, chunk.row[train], self.quantile, self.width))
        return Sides.together(parts)


@dataclass(frozen=True)
class FindChanged(LossRequest):
    """The training rows beyond `width` of a line that are on another side of a second one."""

    width: float
    to_coef: Array
    to_at_centre: float

    def answer(self, worker: Worker) -> Near:
        parts = [Near.none(len(self.coef))]
        for chunk, X, eta in self.scored():
            train = ~self.split.is_test(chunk.row)
            weight = None if chunk.weight is None else chunk.weight[train]
            y, X = chunk.y[train], X[train]
            to = y - (X @ self.to_coef + self.to_at_centre)
            parts.append(changed_of(X, y - eta[train], to, weight, chunk.row[train], self.width))
        return Near.together(parts)


@dataclass(frozen=True)
class SketchResiduals(LossRequest):
    """Residuals (k,) of the training rows in order and what each stands for (k,); of many, means of as many each."""

    def answer(self, worker: Worker) -> tuple[Array, Array]:
        residuals: list[Array] = [np.zeros(0)]
        weights: list[Array] = [np.zeros(0)]
        for chunk, _, eta in self.scored():
            train = ~self.split.is_test(chunk.row)
            residuals.append((chunk.y - eta)[train])
            weights.append(np.ones(len(residuals[-1])) if chunk.weight is None else chunk.weight[train])
        r, c = np.concatenate(residuals), np.concatenate(weights)
        order = np.argsort(r, kind="stable")
        r, c = r[order], c[order]
        if len(r) <= SKETCHED:
            return r, c
        starts = np.arange(SKETCHED) * len(r) // SKETCHED
        total = np.add.reduceat(c, starts)
        return np.add.reduceat(r * c, starts) / total, total


@dataclass(frozen=True)
class SumKernel(LossRequest):
    """The sum of Epanechnikov's kernel over the training rows, 3/4 (1 - (r/h)^2) where |r| < h."""

    bandwidth: float

    def answer(self, worker: Worker) -> float:
        total = 0.0
        for chunk, _, eta in self.scored():
            u = np.where(self.split.is_test(chunk.row), 2.0, (chunk.y - eta) / self.bandwidth)
            kernel = np.where(np.abs(u) <= 1, 0.75 * (1 - u**2), 0.0)
            total += float(kernel.sum() if chunk.weight is None else kernel @ chunk.weight)
        return total


@dataclass(frozen=True)
class SeeOutside(BlockRequest):
    """How far outside of two lines the test rows are; where there are many, some of them by a hash of their index."""

    coef: Array  # (2, p)
    intercept: Array  # (2,)

    def answer(self, worker: Worker) -> OutsideLines:
        parts = []
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            kept = self.split.is_test(chunk.row)
            kept[kept] = calibrates(self.split, self.dataset.rows, chunk.row[kept])
            low, high = (chunk.X[kept] @ self.coef.T + self.intercept).T
            y = chunk.y[kept]
            outside = np.maximum(np.minimum(low, high) - y, y - np.maximum(low, high))
            parts.append(OutsideLines(outside, high - low, None if chunk.weight is None else chunk.weight[kept]))
        return OutsideLines.together(parts)


@dataclass(frozen=True)
class RangeSides(RangeRequest):
    """The rows of a range of arrays X and Y (n, 1) near a line; or, with another line, those that change sides."""

    coef: Array
    at_centre: float
    centre: Array
    quantile: float
    width: float
    to: tuple[Array, float] | None = None

    def answer(self, worker: Worker) -> Sides:
        p, first = len(self.coef), self.start
        parts = [Sides(Near.none(p), np.zeros(p + 1))]
        for rows, y, weight in self.pieces(worker):
            X = np.asarray(rows, np.float64, order="C") - self.centre
            r, row = y[:, 0] - (X @ self.coef + self.at_centre), np.arange(first, first + len(X), dtype=np.int64)
            first += len(X)
            if self.to is None:
                parts.append(sides_of(X, r, weight, row, self.quantile, self.width))
            else:
                other = y[:, 0] - (X @ self.to[0] + self.to[1])
                parts.append(Sides(changed_of(X, r, other, weight, row, self.width), np.zeros(p + 1)))
        return Sides.together(parts)
