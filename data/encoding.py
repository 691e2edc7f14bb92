"""Design columns: how stored columns become the numbers that a model is fitted to, the same for every row it sees.

An `Encoding` is a plain list of terms and can be written into a model file. Two encodings of the same columns differ
by a linear map (`matrix_between`), so moments summed once serve every imputation and coding.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Block, Column, Dataset
from shoal.data.products import Chosen, chosen_products
from shoal.data.terms import MISSING_LEVEL, Factor, Indicator, Level, Number, Product, Term, term_from
from shoal.errors import ConfigError, DataError
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.solve.moments import Moments
from shoal.utils import listed

__all__ = [
    "LARGEST", "MISSING_LEVEL", "Choice", "Chunk", "Encoding", "Factor", "Indicator", "Level", "Number", "Product",
    "Split", "Term", "base_encoding", "choose_columns", "design_encoding", "encoding_from", "fills_for", "hashed_index",
    "mapped", "matrix_between", "small_medians", "training_rows",
]  # fmt: skip

LARGEST = 1e140  # sums of squares of greater values overflow
CHUNK_BYTES = 2 << 20  # rows that are worked on at a time: they stay in the cache


@dataclass(frozen=True)
class Split:
    """Which rows are kept for testing, by their index in the file."""

    every: int = 0
    fraction: float = 0.0
    seed: int = 0

    def is_test(self, index: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        if self.every:
            return np.asarray(index % self.every == 0)
        if self.fraction:
            return self.hashed(index) < self.fraction
        return np.zeros(len(index), bool)

    def hashed(self, index: npt.NDArray[np.int64]) -> Array:
        """A number in [0, 1) for each row, the same whenever it is asked for."""
        return _uniform(index, self.seed)

    @property
    def tests(self) -> bool:
        return bool(self.every or self.fraction)

    @property
    def share(self) -> float:
        """Of the rows that are kept for testing, about."""
        return 1 / self.every if self.every else self.fraction


def hashed_index(index: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.uint64]:
    """64 random bits for each row index: SplitMix64, so that it needs no order and no state."""
    with np.errstate(over="ignore"):
        z = (index.astype(np.uint64) + np.uint64(seed % 2**32) * np.uint64(0x632BE59BD9B4E019)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def _uniform(index: npt.NDArray[np.int64], seed: int) -> Array:
    """A number in [0, 1) for each row index."""
    return np.asarray((hashed_index(index, seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


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


def training_rows(dataset: Dataset, block: Block, target: str, split: Split) -> npt.NDArray[np.bool_]:
    """Which rows of a block have a target and are not kept for testing."""
    y = dataset.numbers(block)[:, dataset.columns[target].slot]
    index = np.arange(block.first, block.first + block.rows)
    return ~np.isnan(y) & ~split.is_test(index)


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


# ------------------------------------------------------------------ which columns


class Choice(NamedTuple):
    """The columns a model is to use, and what was left out and why."""

    numbers: list[Column]
    texts: list[Column]
    notes: list[str]
    products: tuple[Chosen, ...] = ()


def choose_columns(dataset: Dataset, config: RunConfig) -> Choice:
    """The features that the config asks for; what cannot be used is left out and said, or refused if it was named."""
    columns = dataset.columns
    for name in (config.target, *config.features, *config.exclude):
        if name not in columns:
            raise ConfigError(f"Expected a column of the file, got '{name}'. The columns are: {listed(list(columns))}.")
    target = columns[config.target]
    if not target.is_number:
        shown = ", ".join(repr(level) for level in target.levels[:3])
        raise ConfigError(
            f"Expected a column of numbers as target, got '{config.target}' with values such as {shown}. "
            "Choose a numeric column."
        )
    if target.missing >= dataset.rows - dataset.manifest.bad_count:
        raise DataError(f"The target '{config.target}' has no value in any row. Choose another column.")
    if _too_large(target):
        raise DataError(
            f"The target '{config.target}' has values beyond {LARGEST:g}, which cannot be squared. Scale it."
        )
    wanted = dict.fromkeys(config.features) or [name for name in columns if name != config.target]
    chosen = [columns[name] for name in wanted if name not in config.exclude]
    notes: list[str] = []
    numbers = [c for c in chosen if c.is_number and _usable(c, dataset.rows - dataset.manifest.bad_count, notes)]
    texts = [c for c in chosen if not c.is_number and _few_levels(c, config, notes)]
    return Choice(numbers, texts, notes, tuple(chosen_products(config, columns, [*numbers, *texts], LARGEST)))


def _usable(column: Column, rows: int, notes: list[str]) -> bool:
    if column.missing >= rows:
        notes.append(f"Column '{column.name}' has no value in any row and is left out.")
        return False
    if _too_large(column):
        notes.append(f"Column '{column.name}' has values beyond {LARGEST:g}, which cannot be squared, and is left out.")
        return False
    return True


def _too_large(column: Column) -> bool:
    return max(abs(column.minimum or 0.0), abs(column.maximum or 0.0)) > LARGEST


def _few_levels(column: Column, config: RunConfig, notes: list[str]) -> bool:
    if not column.levels:
        notes.append(f"Column '{column.name}' has no value in any row and is left out.")
        return False
    if len(column.levels) <= config.max_levels and not column.more_levels:
        return True
    count = f"more than {len(column.levels)}" if column.more_levels else str(len(column.levels))
    notes.append(
        f"Text column '{column.name}' has {count} different values and is left out "
        f"(limit: max_levels = {config.max_levels})."
    )
    return False


def base_encoding(choice: Choice, config: RunConfig) -> Encoding:
    """The encoding that moments are summed in: everything that any imputation or coding can be made from."""
    dropping = config.impute == "drop"
    numbers = [Number(c.name, _inside(c)) for c in choice.numbers]
    indicators = [Indicator(c.name) for c in choice.numbers if c.missing and not dropping]
    levels = [Level(c.name, level) for c in choice.texts for level in _all_levels(c, dropping)]
    known = {c.name: tuple(_all_levels(c, dropping)) for c in choice.texts}
    plain: list[Factor] = [*numbers, *indicators, *levels]
    factors = {name: [term for term in plain if term.column == name] for name in {term.column for term in plain}}
    products = [term for pair in choice.products for term in _base_products(pair, factors)]
    return Encoding((*plain, *products), known, config.target, dropping)


def _base_products(pair: Chosen, factors: Mapping[str, list[Factor]]) -> list[Product]:
    """What a square or an interaction follows from, whatever stands in for missing values.

    A square needs itself only: where a value is missing it is the square of what stands in, times the indicator.
    """
    left, right = factors[pair.left.name], factors[pair.right.name]
    if pair.is_square:
        return [Product(left[0], left[0])]
    return [Product(a, b) for a in left for b in right]


def _inside(column: Column) -> float:
    """A value among the column's, so that filling with it disturbs no sum; 0 would, far from the data."""
    if column.minimum is None or column.maximum is None:
        return 0.0
    return column.minimum / 2 + column.maximum / 2


def _all_levels(column: Column, dropping: bool) -> list[str]:
    levels = [*column.levels, *([MISSING_LEVEL] if column.missing and not dropping else [])]
    return list(dict.fromkeys(levels))  # a file may have that very text as a level


def design_encoding(
    base: Encoding, config: RunConfig, fills: Mapping[str, float], train_mean: Array
) -> tuple[Encoding, list[str]]:
    """The encoding that the model is fitted in, from what the training rows hold (their mean in base terms)."""
    share = dict(zip(base.names, train_mean, strict=True))
    notes: list[str] = []
    terms: list[Term] = []
    for term in base.terms:
        if isinstance(term, Number):
            empty = share.get(Indicator(term.column).name) == 1.0
            if empty:
                notes.append(f"Column '{term.column}' has no value in the training rows and is left out.")
            else:
                # A column that is complete here may have gaps where predictions are wanted.
                usual = config.fill if config.impute == "constant" else float(share[term.name])
                terms.append(replace(term, fill=fills.get(term.column, usual)))
        elif isinstance(term, Indicator) and config.indicators:
            terms.append(term)
    known = {}
    for column in base.known:
        levels = sorted(
            t.level for t in base.terms if isinstance(t, Level) and t.column == column and share[t.name] > 0
        )
        known[column] = tuple(levels)
        kept = levels[1:] if config.coding == "drop_first" else levels
        terms += [Level(column, level) for level in kept]
    terms += _design_products(base, terms, share)
    return Encoding(tuple(terms), known, base.target, base.drop_missing), notes


def _design_products(base: Encoding, terms: Sequence[Term], share: Mapping[str, float]) -> Iterator[Product]:
    """The products of terms that the design has, with its fills; without levels that never come together."""
    factors = {term.key: term for term in terms if not isinstance(term, Product)}
    for term in base.terms:
        if not isinstance(term, Product) or term.helps:
            continue
        left, right = (factors.get(factor.key) for factor in term.factors)
        if left is None or right is None:
            continue
        if isinstance(left, Level) and isinstance(right, Level) and not share[term.name] > 0:
            continue
        yield Product(left, right)


def fills_for(base: Encoding, config: RunConfig, mean: Array, medians: Mapping[str, float]) -> dict[str, float]:
    """What stands in for missing numbers; `mean` is that of (base terms..., target) over the training rows."""
    with_missing = [t.column for t in base.terms if isinstance(t, Indicator)]
    if config.impute == "median":
        return {name: medians[name] for name in with_missing if name in medians}
    if config.impute == "mean":
        return _means(base, mean)
    return dict.fromkeys(with_missing, config.fill)


def _means(base: Encoding, train_mean: Array) -> dict[str, float]:
    """The means of the values that are there: a filled column's mean less what the fill contributes."""
    mean = dict(zip(base.names, train_mean, strict=False))
    found = {}
    for term in base.terms:
        if not isinstance(term, Number):
            continue
        share = mean.get(Indicator(term.column).name)
        if share is not None and share < 1:
            found[term.column] = term.fill + (mean[term.name] - term.fill) / (1 - share)
    return found


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


def small_medians(dataset: Dataset, columns: Sequence[str], target: str, split: Split) -> dict[str, float]:
    """Medians of complete columns over the training rows, by sorting: for data sets that fit into memory with ease."""
    slots = [dataset.columns[name].slot for name in columns]
    parts = [dataset.numbers(b)[training_rows(dataset, b, target, split)][:, slots] for b in dataset.blocks]
    return dict(zip(columns, np.median(np.concatenate(parts), axis=0).tolist(), strict=True))


def encoding_from(terms: Sequence[Mapping[str, Any]], known: Mapping[str, Sequence[str]]) -> Encoding:
    """An encoding as a model file has it."""
    return Encoding(tuple(map(term_from, terms)), {name: tuple(levels) for name, levels in known.items()})
