"""Design columns: how stored columns become the numbers that a model is fitted to, the same for every row it sees.

An `Encoding` is a plain list of terms and can be written into a model file. Two encodings of the same columns differ
by a linear map (`matrix_between`), so moments summed once serve every imputation and coding.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block, Dataset
from shoal.data.terms import MISSING_LEVEL, Factor, Indicator, Level, Number, Product, Term, term_from
from shoal.models import Array
from shoal.settings.limits import CHUNK_BYTES
from shoal.solve.moments import Moments


class Chunk(NamedTuple):
    """Some encoded rows: X (n, terms), y (n,) or NaN without a target, and their indices in the file."""

    X: Array
    y: Array
    row: npt.NDArray[np.int64]
    unseen: int


@dataclass(frozen=True)
class Encoding:
    """The terms in order, and which levels each text column is known to have."""

    terms: tuple[Term, ...]
    known: Mapping[str, tuple[str, ...]]
    target: str = ""
    drop_missing: bool = False

    @property
    def names(self) -> list[str]:
        return [term.name for term in self.terms]

    @property
    def columns(self) -> list[str]:
        """All columns of the file that a term needs, each once."""
        return list(dict.fromkeys(column for term in self.terms for column in term.columns))

    def owned_by(self, column: str) -> npt.NDArray[np.bool_]:
        """Which terms need a column of the file: they go with it."""
        return np.array([column in term.columns for term in self.terms], bool)

    def chunks(self, dataset: Dataset, block: Block, with_target: bool = True) -> Iterator[Chunk]:
        """The block's rows, encoded a few at a time; rows without a target are left out if it is asked for."""
        return _Encoder(self, dataset, block, with_target).chunks()

    def as_list(self) -> list[dict[str, Any]]:
        return [term.as_dict() for term in self.terms]


def matrix_between(base: Encoding, wanted: Encoding) -> tuple[npt.NDArray[np.intp], Array | None]:
    """How `wanted` follows from `base`: its columns of base, and, where fills differ, the matrix A of wanted = A base.

    A missing value is x + fill * m with m its indicator; so another fill is (fill' - fill) * m more, and a product of
    two such sums is the sum of their products.
    """
    places = {term.key: i for i, term in enumerate(base.terms)}
    columns = np.array([places[term.key] for term in wanted.terms], np.intp)
    A = np.zeros((len(wanted.terms), len(base.terms)))
    for i, term in enumerate(wanted.terms):
        for key, weight in term.less(base.terms[columns[i]], places).items():
            A[i, places[key]] += weight
    differs = bool(A.any())
    A[np.arange(len(columns)), columns] += 1.0
    return columns, A if differs else None


class _Encoder:
    """One encoding on one block: names resolved to places once, rows encoded chunk by chunk."""

    def __init__(self, encoding: Encoding, dataset: Dataset, block: Block, with_target: bool) -> None:
        self.encoding, self.dataset, self.block = encoding, dataset, block
        self.numbers = dataset.numbers(block)
        self.target = dataset.columns[encoding.target].slot if with_target and encoding.target else None
        number_terms = [(i, t) for i, t in enumerate(encoding.terms) if isinstance(t, Number)]
        self.places = [i for i, _ in number_terms]
        self.slots = [dataset.columns[t.column].slot for _, t in number_terms]
        self.fills = np.array([t.fill for _, t in number_terms])
        self.indicators = [
            (i, dataset.columns[t.column].slot) for i, t in enumerate(encoding.terms) if isinstance(t, Indicator)
        ]
        self.levels = {name: self._level_table(name) for name in encoding.known}
        self.products = [(i, t) for i, t in enumerate(encoding.terms) if isinstance(t, Product)]
        self.has_missing = any(dataset.columns[t.column].missing for _, t in number_terms)
        self.drop_slots = sorted({*self.slots, *(s for _, s in self.indicators)}) if encoding.drop_missing else []

    def _level_table(self, name: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.intp]]:
        """The rows' codes, and for each code the term it sets (-1: none, it is the left-out level; -2: not known)."""
        column = self.dataset.columns[name]
        terms = {t.level: i for i, t in enumerate(self.encoding.terms) if isinstance(t, Level) and t.column == name}
        known = set(self.encoding.known[name])
        levels = [*column.levels, MISSING_LEVEL]
        table = np.array([terms.get(lv, -1) if lv in known else -2 for lv in levels], np.intp)
        return self.dataset.codes(self.block, column.slot), table

    def chunks(self) -> Iterator[Chunk]:
        step = max(256, CHUNK_BYTES // (8 * max(1, len(self.encoding.terms))))
        for start in range(0, self.block.rows, step):
            yield self._chunk(slice(start, min(start + step, self.block.rows)))

    def _chunk(self, rows: slice) -> Chunk:
        numbers = self.numbers[rows]
        index = np.arange(self.block.first + rows.start, self.block.first + rows.stop)
        y = numbers[:, self.target] if self.target is not None else np.full(len(numbers), np.nan)
        X, unseen = self._encode(numbers, rows)
        unseen[[bad - rows.start for bad in self.block.bad if rows.start <= bad < rows.stop]] = False
        kept = self._kept(numbers, rows, y)
        if kept is None:
            return Chunk(X, np.asarray(y), index, int(unseen.sum()))
        return Chunk(X[kept], np.asarray(y[kept]), index[kept], int(unseen[kept].sum()))

    def _kept(self, numbers: Array, rows: slice, y: Array) -> npt.NDArray[np.bool_] | None:
        """The rows that count, or None if all do."""
        kept = np.ones(len(numbers), bool)
        if self.target is not None:
            kept &= ~np.isnan(y)
        if self.drop_slots:
            kept &= ~np.isnan(numbers[:, self.drop_slots]).any(axis=1)
        if self.encoding.drop_missing:
            for codes, _ in self.levels.values():
                kept &= codes[rows] >= 0
        return None if kept.all() else kept

    def _encode(self, numbers: Array, rows: slice) -> tuple[Array, npt.NDArray[np.bool_]]:
        unseen = np.zeros(len(numbers), bool)
        if len(self.places) == len(self.encoding.terms) and not self.has_missing:
            return _columns(numbers, self.slots), unseen
        order: Literal["C", "F"] = "F" if self.products else "C"  # products are written column by column
        X = np.zeros((len(numbers), len(self.encoding.terms)), order=order)
        if self.places:
            values = numbers[:, self.slots]
            X[:, self.places] = np.where(np.isnan(values), self.fills, values)
        for i, slot in self.indicators:
            X[:, i] = np.isnan(numbers[:, slot])
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

    def _factor(self, numbers: Array, rows: slice, factor: Factor) -> Array:
        """The values of a factor of products, whether it is a term itself or not."""
        column = self.dataset.columns[factor.column]
        if isinstance(factor, Level):
            levels = [*column.levels, MISSING_LEVEL]
            table = np.array([level == factor.level for level in levels], float)
            return np.asarray(table[self.levels[factor.column][0][rows]])
        values = numbers[:, column.slot]
        if isinstance(factor, Indicator):
            return np.isnan(values).astype(float)
        return np.where(np.isnan(values), factor.fill, values)


def _columns(numbers: Array, slots: Sequence[int]) -> Array:
    """Some columns; a view where they stand side by side."""
    if slots and slots == list(range(slots[0], slots[-1] + 1)):
        return numbers[:, slots[0] : slots[-1] + 1]
    return np.asarray(numbers[:, slots])


def mapped(train: Moments, base: Encoding, encoding: Encoding) -> Moments:
    """The moments of (design columns..., target) from those of (base columns..., target)."""
    columns, A = matrix_between(base, encoding)
    if A is None:
        return train.take([*columns, len(base.terms)])
    with_target = np.zeros((len(A) + 1, len(base.terms) + 1))
    with_target[:-1, :-1] = A
    with_target[-1, -1] = 1.0
    shift = np.zeros(len(A) + 1)
    return train.map(with_target, shift)


def encoding_from(terms: Sequence[Mapping[str, Any]], known: Mapping[str, Sequence[str]]) -> Encoding:
    """An encoding as a model file has it."""
    return Encoding(tuple(map(term_from, terms)), {name: tuple(levels) for name, levels in known.items()})
