"""Which squares and interactions a config asks for, checked against a file's columns; their terms are in `terms`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from shoal.data.dataset import Column
from shoal.data.terms import MISSING_LEVEL, pair_name, square_name
from shoal.errors import ConfigError, DataError
from shoal.lazy.classes import dataclass
from shoal.settings.config import RunConfig
from shoal.settings.limits import BLOCK_LEVELS, MOST_LEVELS
from shoal.settings.pairs import split_pair
from shoal.words import no_such_column


@dataclass(frozen=True)
class Chosen:
    """Two columns whose product is wanted; the same twice for a square."""

    left: Column
    right: Column

    @property
    def is_square(self) -> bool:
        return self.left.name == self.right.name

    @property
    def asked(self) -> str:
        """As a person would call it."""
        return f"the square of '{self.left.name}'" if self.is_square else f"'{self.left.name}:{self.right.name}'"

    @property
    def size(self) -> int:
        """How many columns it can become."""
        return _ways(self.left) * _ways(self.right)


def _ways(column: Column) -> int:
    return 1 if column.is_number else len(column.levels) + (1 if column.missing else 0)


def chosen_products(
    config: RunConfig, columns: Mapping[str, Column], usable: Sequence[Column], largest: float
) -> list[Chosen]:
    """Squares, then interactions, each once; ConfigError or DataError for what cannot be had.

    `usable` are the columns that the model has: a product without its columns themselves would be another model
    whenever a column is measured from another zero. `largest` is what a term may be so that it can be squared.
    """
    pairs = [(name, name) for name in config.squares]
    pairs += [split_pair(text, columns) for text in config.interactions]
    for text, (left, right) in zip(config.interactions, pairs[len(config.squares) :], strict=True):
        if left == right:
            raise ConfigError(f"Expected two different columns in '{text}'. For a square, name it in squares instead.")
    found: dict[frozenset[str], Chosen] = {}
    names = {column.name for column in usable}
    for left, right in pairs:
        for name in (left, right):
            _check_column(name, config, columns, names)
        found.setdefault(frozenset((left, right)), Chosen(columns[left], columns[right]))
    for chosen in found.values():
        _check_kind(chosen)
        _check_ungrouped(chosen, config)
        _check_size(chosen, config, largest)
    _check_names(found.values(), columns)
    return list(found.values())


def _check_column(name: str, config: RunConfig, columns: Mapping[str, Column], usable: Collection[str]) -> None:
    if name not in columns:
        raise ConfigError(no_such_column(name, list(columns)))
    if name == config.target:
        raise ConfigError(
            f"The target '{name}' is among the squares and interactions, but it is what is to be predicted. "
            "Take it out of them."
        )
    if name in usable:
        return
    column = columns[name]
    if not column.is_number and (len(column.levels) > config.max_levels or column.more_levels):
        count, limit = levels_said(column, config)
        way = "Take it out." if column.more_levels else "Raise max_levels, or take it out."
        raise ConfigError(
            f"Text column '{name}' has {count} different values ({limit}), so it cannot be in an interaction. {way}"
        )
    raise ConfigError(
        f"Expected columns that the model uses in squares and interactions, got '{name}', which is left out of it. "
        "Add it to the features, or take it out of squares and interactions."
    )


def levels_said(column: Column, config: RunConfig) -> tuple[str, str]:
    """How many different values a column has that has too many, and of which limit."""
    if not column.more_levels:
        return f"{len(column.levels):,}", f"limit: max_levels = {config.max_levels}"
    known = f"more than {len(column.levels):,}"
    if len(column.levels) > config.max_levels:
        return known, f"limit: max_levels = {config.max_levels}"
    limit = f"limit: {BLOCK_LEVELS:,} in 8 MB of the file and {MOST_LEVELS:,} in all"
    said = f"whatever max_levels = {config.max_levels} says; set it to unlimited to have all of them, kept sparse"
    return known, f"{limit}, {said}"


def _check_ungrouped(chosen: Chosen, config: RunConfig) -> None:
    texts = [column.name for column in (chosen.left, chosen.right) if not column.is_number]
    if config.min_level_rows and texts:
        raise ConfigError(
            f"Expected interactions of columns of numbers beside min_level_rows, got {chosen.asked} with the text "
            f"column '{texts[0]}'. Leave that interaction out, or set min_level_rows to 0.",
            knobs=["min_level_rows", "interactions"],
        )


def _check_kind(chosen: Chosen) -> None:
    if chosen.is_square and not chosen.left.is_number:
        shown = ", ".join(repr(level) for level in chosen.left.levels[:3])
        raise ConfigError(
            f"Expected columns of numbers to square, got '{chosen.left.name}' with values such as {shown}. "
            "Take it out of squares."
        )


def _check_size(chosen: Chosen, config: RunConfig, largest: float) -> None:
    if not chosen.left.is_number and not chosen.right.is_number and chosen.size > config.max_levels:
        raise ConfigError(
            f"The interaction {chosen.asked} has {chosen.size} combinations of levels "
            f"(limit: max_levels = {config.max_levels}). Raise max_levels, or leave the interaction out."
        )
    if _size(chosen.left, config) * _size(chosen.right, config) > largest:
        raise DataError(
            f"Values of {chosen.asked} can be beyond {largest:g}, and its sums need them squared once more, which is "
            "beyond all numbers. Scale the column, or leave it out of squares and interactions."
        )


def _size(column: Column, config: RunConfig) -> float:
    """The largest that a value of the column can be, filled ones included."""
    if not column.is_number:
        return 1.0
    filled = abs(config.fill) if config.impute == "constant" and column.missing else 0.0
    return max(abs(column.minimum or 0.0), abs(column.maximum or 0.0), filled)


def _check_names(products: Collection[Chosen], columns: Mapping[str, Column]) -> None:
    """A term is found by its name, so two of them cannot have the same one."""
    if not products:  # columns may have a million levels
        return
    taken = set(columns)
    for column in columns.values():
        taken.update(_names(column))
    for chosen in products:
        for name in _product_names(chosen):
            if name in taken:
                raise ConfigError(
                    f"The term '{name}' of {chosen.asked} would have the name of another column or term. "
                    "Rename a column of the file, or leave it out of squares and interactions."
                )
            taken.add(name)


def _names(column: Column) -> list[str]:
    """What its own terms are called."""
    levels = [MISSING_LEVEL] if column.is_number else [*column.levels, MISSING_LEVEL]
    return [f"{column.name}={level}" for level in dict.fromkeys(levels)]


def _product_names(chosen: Chosen) -> list[str]:
    """What its terms are called, those with an indicator included, which only sums have."""
    if chosen.is_square:
        return [square_name(chosen.left.name)]
    sides = [[c.name, *_names(c)] if c.is_number else _names(c) for c in (chosen.left, chosen.right)]
    return [pair_name(a, b) for a in sides[0] for b in sides[1]]
