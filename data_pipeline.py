"""What training feeds on: rows loaded from memory-mapped blocks and cleaned, their partitions, and their batches.

    file  --data.files, data.block_reader-->  blocks  --design_rows-->  X, y  --passes.shards-->  Shards  -->  Batches

How a file becomes blocks, and which columns become which terms, belongs to `data`; what is computed from rows, to
`passes`.
"""

from __future__ import annotations

import functools
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block, Dataset
from shoal.data.encoding import Encoding
from shoal.data.shapes.expression import Expression
from shoal.data.splits import row_weights, target_values
from shoal.data.terms import MISSING_LEVEL, Factor, Indicator, Level, Number, Offset, Product, Shaped
from shoal.files.checksums import RunningProof, file_of_size, mapped
from shoal.files.elsewhere import seen_folder
from shoal.files.read_ahead import ReadAhead, advise, bring_in
from shoal.lazy.classes import dataclass
from shoal.models import Array, Values
from shoal.settings.limits import CHUNK_BYTES

Rows = slice  # a method of that name hides the type
MAPPED = 256  # shards that a process keeps mapped: each holds a descriptor
ORDERS = 2048  # permutations of slices that a process remembers


# ------------------------------------------------------------------ loading and cleaning


class Chunk(NamedTuple):
    """Some encoded rows: X (n, terms), y (n,) or NaN without a target, their indices in the file, how much each
    counts (n,), where that differs, and what is added to its score (n,), if anything is."""

    X: Array
    y: Array
    row: npt.NDArray[np.int64]
    unseen: int
    weight: Array | None = None
    offset: Array | None = None


def design_rows(
    encoding: Encoding, dataset: Dataset, block: Block, with_target: bool = True, proving: bool = False,
    at_once: bool = False,
) -> Iterator[Chunk]:  # fmt: skip
    """A block's rows, mapped and cleaned a few at a time: missing values filled, levels coded, columns multiplied.
    `at_once`: all of them, where they need not be copied.

    With `proving`, the block may be proven on the way, which costs less: a damaged one is then refused after its last
    rows, and whoever asks for that is ready for any numbers until then.

    Rows without a target, or without a weight above 0, are left out if a target is asked for, and rows with gaps where
    the encoding says so.
    """
    return _Cleaning(encoding, dataset, block, with_target, proving).chunks(at_once)


class _Cleaning:
    """One encoding on one block: names resolved to places once, rows encoded chunk by chunk."""

    def __init__(
        self, encoding: Encoding, dataset: Dataset, block: Block, with_target: bool, proving: bool = False
    ) -> None:
        self.encoding, self.dataset, self.block = encoding, dataset, block
        self.proof: RunningProof | None = None
        if proving and self._needs_numbers_only():
            self.numbers, self.proof = dataset.numbers_to_prove(block)
        else:
            self.numbers = dataset.numbers(block)
        with_target = with_target and bool(encoding.target)
        if with_target and self.proof:
            self.target: Array | None = self.numbers[:, dataset.columns[encoding.target].slot]
        else:
            self.target = target_values(dataset, block, encoding.target, encoding.yes) if with_target else None
        column = dataset.columns.get(encoding.target)
        self.gaps = column is None or not column.is_number or column.missing > 0 or isinstance(encoding.yes, tuple)
        self.gaps |= dataset.manifest.bad_count > 0  # rows that could not be read are without any value
        weighted = with_target and bool(encoding.weights)
        scale = encoding.weight_scale
        self.weights = scale * row_weights(dataset, block, encoding.weights) if weighted else None
        own = encoding.offset if with_target else None
        self.offset = own.of(self.numbers[:, dataset.columns[own.column].slot]) if own else None
        self.offsets = [
            (i, t, dataset.columns[t.column].slot) for i, t in enumerate(encoding.terms) if isinstance(t, Offset)
        ]
        number_terms = [(i, t) for i, t in enumerate(encoding.terms) if isinstance(t, Number)]
        self.places = [i for i, _ in number_terms]
        self.slots = [dataset.columns[t.column].slot for _, t in number_terms]
        self.fills = np.array([t.fill for _, t in number_terms])
        self.indicators = [
            (i, dataset.columns[t.column].slot) for i, t in enumerate(encoding.terms) if isinstance(t, Indicator)
        ]
        self.levels = {name: self._level_table(name) for name in encoding.known}
        self.shaped = [(i, t) for i, t in enumerate(encoding.terms) if isinstance(t, Shaped)]
        self.products = [(i, t) for i, t in enumerate(encoding.terms) if isinstance(t, Product)]
        self.has_missing = any(dataset.columns[t.column].missing for _, t in number_terms)
        slots = {
            *self.slots,
            *(s for _, s in self.indicators),
            *(dataset.columns[t.column].slot for _, t in self.shaped),
        }
        self.drop_slots = sorted(slots) if encoding.drop_missing else []
        needed = encoding.present if encoding.drop_missing else ()
        self.present = [dataset.own_codes(block, dataset.columns[name].slot) for name in needed]

    def _needs_numbers_only(self) -> bool:
        """Whether what is read of the block is its numbers as they are, which any bytes are."""
        encoding, columns = self.encoding, self.dataset.columns
        if encoding.known or encoding.weights or encoding.offset or not encoding.target:
            return False
        plain = columns[encoding.target].is_number and encoding.yes is None
        return plain and all(isinstance(term, (Number, Indicator)) for term in encoding.terms)

    def _level_table(self, name: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.intp]]:
        """The rows' codes, and for each code the term it sets (-1: none, it is the left-out level; -2: not known)."""
        column = self.dataset.columns[name]
        terms = {t.level: i for i, t in enumerate(self.encoding.terms) if isinstance(t, Level) and t.column == name}
        known, group = set(self.encoding.known[name]), self.encoding.rare.get(name)
        levels = [*column.levels, MISSING_LEVEL]
        if group:
            terms = dict.fromkeys(filter(group.holds, levels), terms[group.level]) | terms
            known.update(levels)
        table = np.array([terms.get(lv, -1) if lv in known else -2 for lv in levels], np.intp)
        return self.dataset.codes(self.block, column.slot), table

    def chunks(self, at_once: bool = False) -> Iterator[Chunk]:
        step = max(256, CHUNK_BYTES // (8 * max(1, len(self.encoding.terms))))
        step = max(1, self.block.rows) if at_once and self._as_they_are and _side_by_side(self.slots) else step
        for start in range(0, self.block.rows, step):
            rows = slice(start, min(start + step, self.block.rows))
            if self.proof:
                self.proof.upto(8 * rows.stop * self.numbers.shape[1])
            yield self._chunk(rows)
        if self.proof:
            self.proof.finish()

    def _chunk(self, rows: slice) -> Chunk:
        numbers = self.numbers[rows]
        index = np.arange(self.block.first + rows.start, self.block.first + rows.stop)
        y = self.target[rows] if self.target is not None else np.full(len(numbers), np.nan)
        X, unseen = self._encode(numbers, rows)
        unseen[[bad - rows.start for bad in self.block.bad if rows.start <= bad < rows.stop]] = False
        kept = self._kept(numbers, rows, y)
        weight = None if self.weights is None else self.weights[rows]
        offset = None if self.offset is None else self.offset[rows]
        if kept is None:
            return Chunk(X, np.asarray(y), index, int(unseen.sum()), weight, offset)
        weight, offset = (None if values is None else values[kept] for values in (weight, offset))
        return Chunk(X[kept], np.asarray(y[kept]), index[kept], int(unseen[kept].sum()), weight, offset)

    def _kept(self, numbers: Array, rows: slice, y: Array) -> npt.NDArray[np.bool_] | None:
        """The rows that count, or None if all do."""
        kept = np.ones(len(numbers), bool)
        if self.target is not None and self.gaps:
            kept &= ~np.isnan(y)
        if self.weights is not None:
            kept &= self.weights[rows] > 0
        if self.offset is not None:
            kept &= ~np.isnan(self.offset[rows])
        if self.drop_slots:
            kept &= ~np.isnan(numbers[:, self.drop_slots]).any(axis=1)
        if self.encoding.drop_missing:
            for codes in (*(codes for codes, _ in self.levels.values()), *self.present):
                kept &= codes[rows] >= 0
        return None if kept.all() else kept

    def _encode(self, numbers: Array, rows: slice) -> tuple[Array, npt.NDArray[np.bool_]]:
        unseen = np.zeros(len(numbers), bool)
        if self._as_they_are:
            return _columns(numbers, self.slots), unseen
        order: Literal["C", "F"] = "F" if self.products or self.shaped else "C"  # these are written column by column
        X = np.zeros((len(numbers), len(self.encoding.terms)), order=order)
        if self.places:
            values = numbers[:, self.slots]
            X[:, self.places] = np.where(np.isnan(values), self.fills, values)
        if self.shaped:
            shape = self._shaping(numbers)
            for i, shaped in self.shaped:
                X[:, i] = shape(shaped)
        for i, slot in self.indicators:
            X[:, i] = np.isnan(numbers[:, slot])
        for i, offset, slot in self.offsets:
            X[:, i] = offset.of(numbers[:, slot])
        for codes, table in self.levels.values():
            place = table[codes[rows]]  # code -1, missing, takes the last entry
            unseen |= place == -2
            set_ = np.flatnonzero(place >= 0)
            X[set_, place[set_]] = 1.0
        if self.products:
            factors = functools.cache(functools.partial(self._factor, numbers, rows))
            for i, term in self.products:
                X[:, i] = term.of(factors)
        return X, unseen

    @property
    def _as_they_are(self) -> bool:
        """Whether all terms are numbers of the file."""
        return len(self.places) == len(self.encoding.terms) and not self.has_missing

    def _shaping(self, numbers: Array) -> Callable[[Shaped], Array]:
        """The values of shapes in some rows; what those of one column have in common is computed once."""
        known: defaultdict[tuple[str, float], dict[Expression, Array]] = defaultdict(dict)

        def values(term: Shaped) -> Array:
            column = np.ascontiguousarray(numbers[:, self.dataset.columns[term.column].slot])
            return term.of(column, known[term.column, term.fill])

        return values

    def _factor(self, numbers: Array, rows: slice, factor: Factor) -> Array:
        """The values of a factor of products, whether it is a term itself or not."""
        column = self.dataset.columns[factor.column]
        if isinstance(factor, Level):
            levels = [*column.levels, MISSING_LEVEL]
            table = np.array([factor.holds(level) for level in levels], float)
            return np.asarray(table[self.levels[factor.column][0][rows]])
        values = numbers[:, column.slot]
        if isinstance(factor, Indicator):
            return np.isnan(values).astype(float)
        if isinstance(factor, Shaped):
            return factor.of(values)
        return np.where(np.isnan(values), factor.fill, values)


def _columns(numbers: Array, slots: Sequence[int]) -> Array:
    """Some columns; a view where they stand side by side."""
    if _side_by_side(slots):
        return numbers[:, slots[0] : slots[-1] + 1]
    return np.asarray(numbers[:, slots])


def _side_by_side(slots: Sequence[int]) -> bool:
    return bool(slots) and list(slots) == list(range(slots[0], slots[-1] + 1))


# ------------------------------------------------------------------ partitions


@dataclass(frozen=True)
class Shards:
    """The standardised training rows in shard files: X (rows[s], width), then y (rows[s],), shuffled within each.

    Where more than the target is known of a row, y is (rows[s], k), and `beside` names its columns.
    largest_row = max c_i ||x_i||^2 over the training rows, c_i what a row counts for: 1, or its weight over their mean.
    `held` has rows kept for testing, in the same units.
    """

    directory: str
    rows: tuple[int, ...]
    width: int
    dtype: str
    held_rows: int
    largest_row: float
    checksums: tuple[int, ...]  # of the files of the shards
    held_checksum: int
    scattered: bool = False  # among machines without a common disk; each has those shards that it was asked about
    beside: tuple[str, ...] = ("target",)

    @property
    def total(self) -> int:
        return sum(self.rows)

    def open(self, shard: int) -> tuple[Values, Values]:
        """X (n, p) and y (n,), read-only and mapped, proven when this process first asks; cheap to ask for again."""
        shape = self.rows[shard], self.width, len(self.beside)
        return _mapped(self.path(shard), *shape, self.dtype, self.checksums[shard])

    def path(self, shard: int) -> str:
        return shard_path(seen_folder(self.directory) if self.scattered else self.directory, shard)

    def held(self) -> tuple[Values, Values] | None:
        if not self.held_rows:
            return None
        shape = self.held_rows, self.width, len(self.beside)
        return _mapped(held_path(self.directory), *shape, self.dtype, self.held_checksum)

    def centre(self) -> Array | None:
        """Of sparse rows (width,), which are stored without it; None of rows that are stored as they are."""
        return None

    def steps(self, batch_size: int) -> int:
        """Steps of an epoch: those of the longest shard."""
        return -(-max(self.rows) // batch_size)

    def slice(self, seed: int, epoch: int, shard: int, step: int, batch_size: int) -> Rows | None:
        """The rows of that batch, or None where this shard has no such step; every epoch has each row once."""
        rows = self.rows[shard]
        count = -(-rows // batch_size)
        if step >= count:
            return None
        first = int(_order(seed, epoch, shard, count)[step]) * batch_size
        return Rows(first, min(first + batch_size, rows))

    def check_sizes(self) -> None:
        """Whether every file has the size that its rows need; what is in it is proven when it is mapped."""
        paths = [] if self.scattered else [shard_path(self.directory, shard) for shard in range(len(self.rows))]
        sizes = dict(zip(paths, self.rows, strict=False)) | {held_path(self.directory): self.held_rows}
        row = (self.width + len(self.beside)) * np.dtype(self.dtype).itemsize
        for path, rows in sizes.items():
            file_of_size(path, rows * row)


def shard_path(directory: str, shard: int) -> str:
    return os.path.join(directory, f"shard-{shard:06d}.bin")


def held_path(directory: str) -> str:
    return os.path.join(directory, "held.bin")


def _mapped(path: str, rows: int, width: int, beside: int, dtype: str, checksum: int) -> tuple[Values, Values]:
    """A look at the file each time: one that was made anew is mapped anew, one cut short is no SIGBUS later."""
    size = rows * (width + beside) * np.dtype(dtype).itemsize
    return _map(path, rows, width, beside, dtype, size, checksum, file_of_size(path, size))


@functools.lru_cache(MAPPED)
def _map(
    path: str, rows: int, width: int, beside: int, dtype: str, size: int, checksum: int, identity: tuple[int, int]
) -> tuple[Values, Values]:
    values = mapped(path, size, checksum).view(dtype) if rows else np.empty(0, dtype)
    y = values[rows * width :]
    return values[: rows * width].reshape(rows, width), y if beside == 1 else y.reshape(rows, beside)


@functools.lru_cache(ORDERS)
def _order(seed: int, epoch: int, shard: int, count: int) -> npt.NDArray[np.uint32]:
    return np.random.default_rng((seed, epoch, shard)).permutation(count).astype(np.uint32)


# ------------------------------------------------------------------ batches


class Batches:
    """The batches of some shards as one worker takes them: mapped, read ahead, in memory when they are handed out."""

    def __init__(
        self, shards: Shards, opened: Callable[[int], tuple[Values, Values]] | None = None, queue: int = 0
    ) -> None:
        """`opened`: in place of `shards.open`, where shards may have to be made first; `queue`: the most batches that
        were asked for ahead and not taken yet, 0 for no such bound."""
        self.shards, self._open_shard = shards, opened or shards.open
        self.seconds = 0.0  # that reading took
        self._opened: dict[int, tuple[Values, Values]] = {}
        self._present: set[tuple[int, int]] = set()  # batches whose pages were brought in
        self._ahead = ReadAhead(queue)

    def whole(self, shard: int, tight: bool = False) -> tuple[Values, Values]:
        """All rows of a shard."""
        X, y = self._open(shard)
        return self._brought_in(X, y, shard, Rows(0, len(y)), tight)

    def batch(
        self, seed: int, epoch: int, shard: int, step: int, batch_size: int, ahead: int = 0, tight: bool = False
    ) -> tuple[Values, Values]:
        """The rows of one batch, none where the shard has no such step; the system is told of `ahead` more.

        `tight`: memory is short, nothing is brought in beforehand, and pages may go as soon as they were read.
        """
        X, y = self._open(shard)
        rows = self.shards.slice(seed, epoch, shard, step, batch_size)
        if rows is None:
            return X[:0], y[:0]
        if (shard, rows.start) in self._present and not tight:
            return X[rows], y[rows]
        last = min(step + ahead, -(-len(y) // batch_size) - 1)
        for later in self._ahead.wanted(shard, (seed, epoch, batch_size), step, last):
            following = self.shards.slice(seed, epoch, shard, later, batch_size)
            if following is not None:
                advise(X[following], "MADV_WILLNEED")
        return self._brought_in(X, y, shard, rows, tight)

    def _open(self, shard: int) -> tuple[Values, Values]:
        if shard not in self._opened:
            self._opened[shard] = self._open_shard(shard)
        return self._opened[shard]

    def _brought_in(self, X: Values, y: Values, shard: int, rows: Rows, tight: bool) -> tuple[Values, Values]:
        """The rows, in memory: the time this takes is reading, not computing."""
        started = time.perf_counter()
        X, y = X[rows], y[rows]
        if tight:
            self._present.clear()
            advise(X, "MADV_SEQUENTIAL")
        elif (shard, rows.start) not in self._present:
            self._present.add((shard, rows.start))
            bring_in(X)
        self.seconds += time.perf_counter() - started
        return X, y
