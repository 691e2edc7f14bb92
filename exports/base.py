"""What a format is, and the model as formats see it: a sum over columns. Nothing about one format belongs here."""

from __future__ import annotations

import importlib
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shoal.data.terms import Indicator, Level, Number, Product
from shoal.errors import ConfigError, ResourceError
from shoal.exports.names import FORMATS
from shoal.fitting.model_file import SavedModel
from shoal.models import Array

ColumnValues = Mapping[str, Sequence[float | str | None]]  # by column; None where there is no value


@dataclass(frozen=True)
class NumberColumn:
    """coefficient * value; for a missing one coefficient * fill + if_missing."""

    name: str
    coefficient: float
    fill: float
    if_missing: float

    @property
    def matters(self) -> bool:
        return bool(self.coefficient or self.if_missing)


@dataclass(frozen=True)
class TextColumn:
    """levels[value], where `__missing__` stands for no value; 0 for a level that is not among them."""

    name: str
    levels: Mapping[str, float]

    @property
    def matters(self) -> bool:
        return any(self.levels.values())


FactorColumn = NumberColumn | TextColumn


@dataclass(frozen=True)
class ProductPart:
    """What one column gives times what another does; the same column twice for a square.

    The left one is a plain value, or 1 for one of its levels; coefficients are on the right.
    """

    left: FactorColumn
    right: FactorColumn


@dataclass(frozen=True)
class LinearForm:
    """prediction = intercept + what each column adds + what products of two columns add."""

    target: str
    kind: str  # linear, ridge, lasso or elasticnet
    source: str  # the name of the file that it was trained on
    intercept: float
    numbers: tuple[NumberColumn, ...]
    texts: tuple[TextColumn, ...]
    products: tuple[ProductPart, ...] = ()

    @property
    def columns(self) -> list[str]:
        return [*(column.name for column in self.numbers), *(column.name for column in self.texts)]

    def unused_name(self, wanted: str) -> str:
        """`wanted`, or it with a number where a column has that name, in whatever case."""
        taken = {name.casefold() for name in (*self.columns, self.target)}
        names = (wanted, *(f"{wanted}_{i}" for i in range(1, len(taken) + 2)))
        return next(name for name in names if name.casefold() not in taken)


def linear_form(model: SavedModel) -> LinearForm:
    terms = list(zip(model.encoding.terms, model.coef.tolist(), strict=True))
    # A fit that was never written to a file may have NumPy's floats, whose repr is not a number's.
    values = {term.column: (coef, float(term.fill)) for term, coef in terms if isinstance(term, Number)}
    missing = {term.column: coef for term, coef in terms if isinstance(term, Indicator)}
    levels = {name: dict.fromkeys(model.encoding.known.get(name, ()), 0.0) for name in model.texts}
    for term, coef in terms:
        if isinstance(term, Level):
            levels[term.column][term.level] = coef
    return LinearForm(
        model.target, model.report.model, model.file.data.file, model.intercept,
        tuple(NumberColumn(name, *values.get(name, (0.0, 0.0)), missing.get(name, 0.0)) for name in model.numbers),
        tuple(TextColumn(name, found) for name, found in levels.items()),
        tuple(_products([(term, coef) for term, coef in terms if isinstance(term, Product) and coef])),
    )  # fmt: skip


def _products(terms: list[tuple[Product, float]]) -> Iterator[ProductPart]:
    """One part for two numbers or a number and a text column; for two text columns one a level of the shorter one."""
    texts: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    mixed: dict[tuple[Number, str], dict[str, float]] = {}
    for term, coef in terms:
        left, right = term.factors if isinstance(term.left, Number) else term.factors[::-1]
        if isinstance(left, Level) and isinstance(right, Level):
            texts.setdefault((left.column, right.column), {})[left.level, right.level] = coef
        elif isinstance(left, Number) and isinstance(right, Level):
            mixed.setdefault((left, right.column), {})[right.level] = coef
        elif isinstance(left, Number) and isinstance(right, Number):
            yield ProductPart(_plain(left), NumberColumn(right.column, coef, float(right.fill), 0.0))
    for (number, column), levels in mixed.items():
        yield ProductPart(_plain(number), TextColumn(column, levels))
    for (first, second), values in texts.items():
        if len({a for a, _ in values}) > len({b for _, b in values}):
            first, second, values = second, first, {(b, a): coef for (a, b), coef in values.items()}
        for level in dict.fromkeys(a for a, _ in values):
            others = {b: coef for (a, b), coef in values.items() if a == level}
            yield ProductPart(TextColumn(first, {level: 1.0}), TextColumn(second, others))


def _plain(number: Number) -> NumberColumn:
    return NumberColumn(number.column, 1.0, float(number.fill), 0.0)


class Format(Protocol):
    """One way to write a model, and the way in which whoever receives it will run it."""

    @property
    def packages(self) -> tuple[str, ...]:
        """What it needs of the extra `export`."""
        ...

    @property
    def runtime(self) -> str:
        """What runs it, for the proof's sentence."""
        ...

    @property
    def use(self) -> str:
        """How to use it, for a person."""
        ...

    def write(self, model: SavedModel, out: Path) -> None: ...

    def run(self, path: Path, model: SavedModel, rows: ColumnValues) -> Array:
        """(rows,): predictions by nothing but the file at `path` and its own runtime."""
        ...


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise ConfigError(f"Expected one of the formats {', '.join(FORMATS)}, got '{name}'. Choose one of them.")
    found: Format = importlib.import_module(FORMATS[name][0]).FORMAT
    for package in found.packages:
        _require(package, name, found.packages)
    return found


def _require(package: str, name: str, wanted: Sequence[str]) -> None:
    try:
        importlib.import_module(package)
    except ImportError:  # the way that works for a checkout, pip, pipx and uv alike names the Python at work
        raise ResourceError(
            f"Expected the package {package}, which the format {name} is made and proven with; it is not installed. "
            f"Install it with: {shlex.quote(sys.executable)} -m pip install {' '.join(wanted)}"
        ) from None
