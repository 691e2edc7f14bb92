"""Which columns of a data set a model uses, and the encodings that follow from them: one that moments are summed in,
and the one that the model is fitted in. What an encoding is stands in `encoding`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shoal.data.dataset import Column, Dataset
from shoal.data.encoding import Encoding
from shoal.data.products import Chosen, chosen_products
from shoal.data.splits import Split, training_rows
from shoal.data.terms import MISSING_LEVEL, Factor, Indicator, Level, Number, Product, Term
from shoal.errors import ConfigError, DataError
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.words import no_such_column

LARGEST = 1e140  # sums of squares of greater values overflow


class ColumnChoice(NamedTuple):
    """The columns a model is to use, and what was left out and why."""

    numbers: list[Column]
    texts: list[Column]
    notes: list[str]
    products: tuple[Chosen, ...] = ()


def choose_columns(dataset: Dataset, config: RunConfig) -> ColumnChoice:
    """The features that the config asks for; what cannot be used is left out and said, or refused if it was named."""
    columns = dataset.columns
    for name in (config.target, *config.features, *config.exclude):
        if name not in columns:
            raise ConfigError(no_such_column(name, list(columns)))
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
    return ColumnChoice(numbers, texts, notes, tuple(chosen_products(config, columns, [*numbers, *texts], LARGEST)))


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


def base_encoding(choice: ColumnChoice, config: RunConfig) -> Encoding:
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


def small_medians(dataset: Dataset, columns: Sequence[str], target: str, split: Split) -> dict[str, float]:
    """Medians of complete columns over the training rows, by sorting: for data sets that fit into memory with ease."""
    slots = [dataset.columns[name].slot for name in columns]
    parts = [dataset.numbers(b)[training_rows(dataset, b, target, split)][:, slots] for b in dataset.blocks]
    return dict(zip(columns, np.median(np.concatenate(parts), axis=0).tolist(), strict=True))
