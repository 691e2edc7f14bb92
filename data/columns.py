"""Which columns of a data set a model uses, and the encodings that follow from them: one that moments are summed in,
and the one that the model is fitted in. What an encoding is stands in `encoding`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from shoal.data.dataset import Column, Dataset
from shoal.data.encoding import Encoding, compared_with, grouped_levels, spelled_levels
from shoal.data.notation.words import per_column
from shoal.data.products import Chosen, chosen_products, levels_said
from shoal.data.shapes.asked import Borders, check_fill, check_parts, levels_of, placeholders, shapes_of
from shoal.data.splits import Split, Yes, row_weights, training_rows
from shoal.data.terms import MISSING_LEVEL, Factor, HashedText, Indicator, Level, Number, Offset, Product, Shaped, Term
from shoal.errors import ConfigError, DataError, Remedy
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.settings.levels import levels_by_column, split_level
from shoal.settings.limits import MOST_CLASSES, check_dense
from shoal.settings.transforms import PLAIN, ColumnPart, parts_by_column
from shoal.settings.when import CLASSES, TEXT_TARGETS
from shoal.words import did_you_mean, listed, no_such_column

NO_ROW = 1e-12  # share of the rows that is none but for rounding
LARGEST = 1e140  # sums of squares of greater values overflow


class ColumnChoice(NamedTuple):
    """The columns a model is to use, and what was left out and why."""

    numbers: list[Column]
    texts: list[Column]
    notes: list[str]
    products: tuple[Chosen, ...] = ()
    parts: Mapping[str, tuple[ColumnPart, ...]] = MappingProxyType({})  # of columns that are not used as they are

    @property
    def names(self) -> list[str]:
        return [column.name for column in (*self.numbers, *self.texts)]

    @property
    def dates(self) -> list[str]:
        return [column.name for column in self.numbers if column.is_date]


def choose_columns(dataset: Dataset, config: RunConfig, sparse: bool = False) -> ColumnChoice:
    """The features that the config asks for; what cannot be used is left out and said, or refused if it was named.

    `sparse`: they are for a fit that never fills in zeros; others have no way for what only such a fit can have."""
    columns = dataset.columns
    if not sparse:
        check_dense(config)
    beside = [name for name in (config.weights, config.offset) if name]
    check_names(dataset, config)
    check_also_missing(config.also_missing, dataset)
    target = columns[config.target]
    if not target.is_number and config.model not in TEXT_TARGETS:
        raise _no_numbers(target)
    if target.missing >= dataset.rows - dataset.manifest.bad_count:
        raise DataError(f"The target '{config.target}' has no value in any row. Choose another column.")
    if _too_large(target):
        raise DataError(
            f"The target '{config.target}' has values beyond {LARGEST:g}, which cannot be squared. Scale it."
        )
    wanted = dict.fromkeys(config.features) or [name for name in columns if name not in (config.target, *beside)]
    chosen = [columns[name] for name in wanted if name not in config.exclude]
    parts = parts_by_column(config.transform, columns)
    _check_references(config, columns, parts)
    notes: list[str] = []
    numbers = [c for c in chosen if c.is_number and _usable(c, dataset.rows - dataset.manifest.bad_count, notes)]
    texts = [c for c in chosen if not c.is_number and _few_levels(c, config, notes)]
    _check_transforms(config, columns, parts, {column.name for column in numbers})
    products = chosen_products(config, columns, [*numbers, *texts], LARGEST)
    return ColumnChoice(numbers, texts, notes, tuple(products), parts)


def check_names(dataset: Dataset, config: RunConfig) -> None:
    """Refuse a target or another column that the table does not have."""
    beside = filter(None, (config.weights, config.offset))
    for name in (config.target, *config.features, *config.exclude, *beside):
        if name not in dataset.columns:
            raise ConfigError(_no_column(name, dataset))


def check_also_missing(entries: Sequence[str], dataset: Dataset) -> None:
    """Refuse `COLUMN=TEXT` of a column that is misspelt; where no column is like it, all of it may be a text."""
    known = [*dataset.columns, *dataset.manifest.left_out]
    for entry in per_column(entries, known)[1]:
        name, mark, _ = entry.partition("=")
        if mark and did_you_mean(name, known):
            raise ConfigError(no_such_column(name, list(dataset.columns)), knobs=["also_missing"])


def _no_column(name: str, dataset: Dataset) -> str:
    if why := dataset.manifest.left_out.get(name):
        return (
            f"Column '{name}' is left out of the table: {why}. Add it there, leave such files out, or choose another "
            "column."
        )
    return no_such_column(name, list(dataset.columns))


def _no_numbers(target: Column) -> ConfigError:
    shown = ", ".join(repr(level) for level in target.levels[:3])
    expected = f"Expected a column of numbers as target, got '{target.name}' with values such as {shown}."
    if len(target.levels) == 2:
        return ConfigError(expected, Remedy.set("For two values such as yes and no, fit them", "model", "logistic"))
    if len(target.levels) <= MOST_CLASSES:
        return ConfigError(expected, Remedy.set(f"For its {len(target.levels)} classes, fit them", "model", CLASSES))
    return ConfigError(f"{expected} Choose a numeric column.")


def _check_transforms(
    config: RunConfig, columns: Mapping[str, Column], parts: Mapping[str, tuple[ColumnPart, ...]], used: Collection[str]
) -> None:
    """Refuse shapes that columns cannot have, or of columns that the model does not use."""
    for name, own in parts.items():
        check_parts(columns[name], own)
        if name not in used:
            why = "is the target" if name == config.target else "is left out of it"
            raise ConfigError(
                f"Expected columns that the model uses in transform, got '{name}', which {why}. Take it out of "
                "transform, or add it to the features.", knobs=["transform"],
            )  # fmt: skip
        if columns[name].missing and config.impute == "constant":
            check_fill(columns[name], own, config.fill)
        if name in config.squares and ColumnPart(PLAIN) not in own:
            raise ConfigError(
                f"Expected '{name}' as it is beside its square, got it in transform without. Add +{PLAIN} to its "
                "transform, or take it out of squares.", knobs=["squares", "transform"],
            )  # fmt: skip


def _check_references(
    config: RunConfig, columns: Mapping[str, Column], parts: Mapping[str, tuple[ColumnPart, ...]]
) -> None:
    shaped = {part.of(name): levels_of(part) for name, own in parts.items() for part in own}
    for text in spelled_levels(config.reference, config.one_spelling, columns):
        found = split_level(text, {**columns, **shaped})
        if found is None:
            raise ConfigError(no_such_column(text.partition("=")[0], list(columns)), knobs=["reference"])
        if found[0] not in columns:
            levels = shaped[found[0]]
            if levels is not None and found[1] not in levels:
                there = listed(levels, 24) if levels else "no levels"
                raise ConfigError(
                    f"Expected a level of {found[0]} to compare with, got '{found[1]}'. It has {there}.",
                    knobs=["reference"],
                )
            continue
        column, level = columns[found[0]], found[1]
        known = [*column.levels, *([MISSING_LEVEL] if column.missing else [])]
        if column.is_number or (level not in known and not column.more_levels):
            there = "numbers" if column.is_number else listed([f"'{one}'" for one in known])
            raise ConfigError(
                f"Expected one of the texts of '{column.name}' to compare with, got '{level}'."
                f"{did_you_mean(level, known)} It holds {there}.", knobs=["reference"],
            )  # fmt: skip


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
    count, limit = levels_said(column, config)
    notes.append(f"Text column '{column.name}' has {count} different values and is left out ({limit}).")
    return False


def widest(choice: ColumnChoice, config: RunConfig) -> int:
    """How many terms the base encoding has, at most: without a look at the rows."""
    made = {(c.name, part): placeholders(c, part) for c in choice.numbers for part in choice.parts.get(c.name, ())}
    return len(base_encoding(choice, config, borders=made).terms)


def base_encoding(
    choice: ColumnChoice, config: RunConfig, yes: Yes = None, borders: Borders = MappingProxyType({})
) -> Encoding:
    """The encoding that moments are summed in: everything that any imputation or coding can be made from.

    `yes` is the value of the target that counts as 1, for a target that is no number. `borders` are those of bins and
    splines, from the training rows (`passes.quantiles`).
    """
    dropping = config.impute == "drop"
    numbers = [Number(c.name, _inside(c), helps=not _is_plain(choice, c)) for c in choice.numbers]
    shaped = [
        Shaped(c.name, shape, _inside(c)) for c in choice.numbers for part in choice.parts.get(c.name, ())
        for shape in shapes_of(c, part, borders)
    ]  # fmt: skip
    indicators = [Indicator(c.name) for c in choice.numbers if c.missing and not dropping]
    levels = [Level(c.name, level) for c in choice.texts for level in _all_levels(c, dropping)]
    known = {c.name: tuple(_all_levels(c, dropping)) for c in choice.texts}
    plain: list[Factor] = [*numbers, *shaped, *indicators, *levels]
    factors: defaultdict[str, list[Factor]] = defaultdict(list)
    for term in plain:
        if not (isinstance(term, Number) and term.helps):
            factors[term.column].append(term)
    products = [term for pair in choice.products for term in _base_products(pair, factors)]
    if shaped:
        _check_names([*plain, *products])
    offset = Offset(config.offset, config.offset_as == "exposure") if config.offset else None
    return Encoding((*plain, *products), known, config.target, dropping, yes, weights=config.weights, offset=offset)


def _is_plain(choice: ColumnChoice, column: Column) -> bool:
    return column.name not in choice.parts or ColumnPart(PLAIN) in choice.parts[column.name]


def _check_names(terms: Sequence[Term]) -> None:
    """A term is found by its name, so two of them cannot have the same one."""
    taken: set[str] = set()
    for term in terms:
        if term.name in taken:
            raise ConfigError(
                f"Two columns of the model would be called '{term.name}'. Rename a column of the file, or use it as it "
                "is.", knobs=["transform"],
            )  # fmt: skip
        taken.add(term.name)


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
    base: Encoding, config: RunConfig, fills: Mapping[str, float], train_mean: Array, rows: float
) -> tuple[Encoding, list[str]]:
    """The encoding that the model is fitted in, from what so many training rows hold (their mean in base terms)."""
    share = dict(zip(base.names, train_mean, strict=True))
    notes: list[str] = []
    terms: list[Term] = []
    stands_in: dict[str, float] = {}  # of columns that have a value
    groups: dict[str, list[Shaped]] = {}
    for term in base.terms:
        if isinstance(term, Number):
            empty = share.get(Indicator(term.column).name) == 1.0
            if empty:
                notes.append(f"Column '{term.column}' has no value in the training rows and is left out.")
                continue
            # A column that is complete here may have gaps where predictions are wanted.
            usual = config.fill if config.impute == "constant" else float(share[term.name])
            stands_in[term.column] = fills.get(term.column, usual)
            if not term.helps:
                terms.append(replace(term, fill=stands_in[term.column]))
        elif isinstance(term, Shaped) and term.column in stands_in:
            shaped = replace(term, fill=stands_in[term.column])
            if not term.is_level:
                terms.append(shaped)
            elif _share_of(shaped, term, share) > NO_ROW:
                groups.setdefault(term.shape.group, []).append(shaped)
        elif isinstance(term, Indicator) and config.indicators:
            terms.append(term)
    said = spelled_levels(config.reference, config.one_spelling, base.known)
    wanted = levels_by_column(said, {**base.known, **groups})
    compared: dict[str, str] = {}
    for group, own in groups.items():
        gone = compared_with([term.shape.level for term in own], config.coding, wanted.get(group))
        terms += [term for term in own if term.shape.level != gone]
        compared |= {group: gone} if gone is not None else {}
    known: dict[str, tuple[str, ...]] = {}
    most: dict[str, str] = {}
    for column in base.known:
        found = [t for t in base.terms if isinstance(t, Level) and t.column == column]
        levels = known[column] = tuple(sorted(term.level for term in found if share[term.name] > 0))
        counts = {level: float(share[Level(column, level).name]) * rows for level in levels}
        if levels:
            most[column] = max(levels, key=counts.__getitem__)
        grouped = grouped_levels(column, counts, base.known[column], config.min_level_rows, wanted.get(column))
        notes += [grouped.note] if grouped.note else []
        named = [term.level for term in grouped.terms]
        gone = compared_with(named, config.coding, wanted.get(column), grouped.rare)
        terms += [term for term in grouped.terms if term.level != gone]
        compared |= {column: gone} if gone is not None and gone == grouped.rare else {}
    terms += _design_products(base, terms, share)
    return replace(base, terms=tuple(terms), known=known, usual=most, compared=compared), notes


def _share_of(wanted: Shaped, base: Shaped, share: Mapping[str, float]) -> float:
    """Of the rows in which a level of a shape is 1, with another fill than sums were made with."""
    missing = Indicator(base.column)
    more = wanted.less(base, (missing.key,)).get(missing.key, 0.0)
    return float(share[base.name]) + (more * float(share[missing.name]) if missing.name in share else 0.0)


def _design_products(base: Encoding, terms: Sequence[Term], share: Mapping[str, float]) -> Iterator[Product]:
    """The products of terms that the design has, with its fills; without levels that never come together."""
    factors = {term.key: term for term in terms if not isinstance(term, (Product, Offset, HashedText))}
    for term in base.terms:
        if not isinstance(term, Product) or term.helps:
            continue
        left, right = (factors.get(factor.key) for factor in term.factors)
        if left is None or right is None:
            continue
        if _is_level(left) and _is_level(right) and not share[term.name] > 0:
            continue
        yield Product(left, right)


def _is_level(factor: Factor) -> bool:
    return isinstance(factor, Level) or (isinstance(factor, Shaped) and factor.is_level)


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


def small_medians(
    dataset: Dataset, columns: Sequence[str], target: str, split: Split, weights: str = ""
) -> dict[str, float]:
    """Medians of complete columns over the training rows, by sorting: for data sets that fit into memory with ease."""
    slots = [dataset.columns[name].slot for name in columns]
    kept = [training_rows(dataset, b, target, split) for b in dataset.blocks]
    rows = np.concatenate([dataset.numbers(b)[own][:, slots] for b, own in zip(dataset.blocks, kept, strict=True)])
    if not weights:
        at = [(len(rows) - 1) // 2, len(rows) // 2]  # `np.median` would import masked arrays, which takes its time
        return dict(zip(columns, (np.partition(rows, at, axis=0)[at] / 2).sum(axis=0).tolist(), strict=True))
    own_weights = np.concatenate(
        [row_weights(dataset, b, weights)[own] for b, own in zip(dataset.blocks, kept, strict=True)]
    )
    return {name: weighted_median(values, own_weights) for name, values in zip(columns, rows.T, strict=True)}


def weighted_median(values: Array, weights: Array) -> float:
    """The middle of the values where half of the weight is reached, as if each came as often as its weight says; NaN
    where nothing has a weight."""
    order = np.argsort(values, kind="stable")
    order = order[weights[order] > 0]
    if not len(order):
        return float("nan")
    upto = np.cumsum(weights[order])
    half = float(upto[-1]) / 2
    low, high = (int(np.searchsorted(upto, half, side)) for side in ("left", "right"))
    return float(values[order[low]] / 2 + values[order[min(high, len(order) - 1)]] / 2)
