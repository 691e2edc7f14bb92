"""What a format is, and the model as formats see it: a sum over columns. Nothing about one format belongs here."""

from __future__ import annotations

import importlib
import math
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from shoal.data.shapes.expression import Expression, X, is_step, parts_of
from shoal.data.terms import Indicator, Level, Number, Offset, Product, Rare, Shaped
from shoal.errors import ConfigError, ResourceError, StateError
from shoal.exports.names import FORMATS
from shoal.fitting.model_file import SavedModel
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.results.model import WITH_DATES

ColumnValues = Mapping[str, Sequence[float | str | None]]  # by column; None where there is no value


HIGHEST = 700.0  # e to a higher power is no double


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
    """levels[value], where `__missing__` stands for no value; `other` for a level that is not among them."""

    name: str
    levels: Mapping[str, float]
    other: float = 0.0

    @property
    def matters(self) -> bool:
        return any(self.levels.values()) or bool(self.other)


@dataclass(frozen=True)
class ShapedColumn:
    """coefficient * expression of the value, or of `fill` for a missing one; with `levels`, levels[expression], and 0
    for what is not among them."""

    name: str
    fill: float
    expression: Expression
    coefficient: float = 1.0
    levels: Mapping[float, float] = field(default_factory=dict)


FactorColumn = NumberColumn | TextColumn | ShapedColumn


@dataclass(frozen=True)
class ProductPart:
    """What one column gives times what another does; the same column twice for a square.

    The left one is a plain value, or 1 for one of its levels; coefficients are on the right.
    """

    left: FactorColumn
    right: FactorColumn


@dataclass(frozen=True)
class LinearForm:
    """prediction = intercept + what each column adds, as it is and in other shapes, + what products of two columns add;
    with a link, the mean that such a sum is the score of: 1 / (1 + e^-sum), or e^sum, with sums beyond HIGHEST cut."""

    target: str
    kind: str  # linear, ridge, lasso or elasticnet; with the word that rows were weighted
    source: str  # the name of the file that it was trained on
    intercept: float
    numbers: tuple[NumberColumn, ...]
    texts: tuple[TextColumn, ...]
    shapes: tuple[ShapedColumn, ...] = ()
    products: tuple[ProductPart, ...] = ()
    dates: str = "days"  # since 1970 UTC
    link: str = "identity"  # the sum is the prediction itself; logit: its log odds; log: its logarithm
    classes: tuple[str, ...] = ()  # of a probability: no, then yes

    @property
    def columns(self) -> list[str]:
        return [*(column.name for column in self.numbers), *(column.name for column in self.texts)]

    def unused_name(self, wanted: str) -> str:
        """`wanted`, or it with a number where a column has that name, in whatever case."""
        taken = {name.casefold() for name in (*self.columns, self.target)}
        names = (wanted, *(f"{wanted}_{i}" for i in range(1, len(taken) + 2)))
        return next(name for name in names if name.casefold() not in taken)


def check_steps(model: SavedModel) -> None:
    """Refuse a model whose columns take steps of plug-ins: no other language has them."""
    for term in model.encoding.terms:
        for factor in term.factors if isinstance(term, Product) else (term,):
            if isinstance(factor, Shaped) and any(
                isinstance(part, tuple) and is_step(part[0]) for part in parts_of(factor.shape.expression)
            ):
                raise StateError(
                    f"Expected a model whose columns other languages can have; '{factor.column}' is used as "
                    f"{factor.name}, which is a plug-in's. Predict with Shoal, or fit it without that step."
                )


def linear_form(model: SavedModel) -> LinearForm:
    check_steps(model)
    weighted = "weighted " if model.file.config.get("weights") else ""
    terms = list(zip(model.encoding.terms, model.coef.tolist(), strict=True))
    # A fit that was never written to a file may have NumPy's floats, whose repr is not a number's.
    values = {term.column: (coef, float(term.fill)) for term, coef in terms if isinstance(term, Number)}
    missing = {term.column: coef for term, coef in terms if isinstance(term, Indicator)}
    known = {**model.encoding.known, **{name: term.kept for name, term in model.encoding.rare.items()}}
    levels = {name: dict.fromkeys(known.get(name, ()), 0.0) for name in model.texts}
    other = {term.column: coef for term, coef in terms if isinstance(term, Rare)}
    for term, coef in terms:
        if isinstance(term, Level) and not isinstance(term, Rare):
            levels[term.column][term.level] = coef
    return LinearForm(
        model.target, f"{weighted}{model.report.model}", model.file.data.file, model.intercept,
        tuple(NumberColumn(name, *values.get(name, (0.0, 0.0)), missing.get(name, 0.0)) for name in model.numbers),
        tuple(TextColumn(name, found, other.get(name, 0.0)) for name, found in levels.items()),
        (*_shapes([(term, coef) for term, coef in terms if isinstance(term, Shaped) and coef]),
         *(_offset(term) for term, _ in terms if isinstance(term, Offset))),
        tuple(_products([(term, coef) for term, coef in terms if isinstance(term, Product) and coef])),
        "seconds" if model.file.version < WITH_DATES else "days",
        *((model.outcome.link, model.outcome.classes) if model.outcome else ()),
    )  # fmt: skip


def column_forms(model: SavedModel) -> tuple[LinearForm, ...]:
    """Each design column of a network by itself, as a sum over the columns of the file that it is made of."""
    found = []
    for place in range(len(model.encoding.terms)):
        form = linear_form(replace(model, coef=np.eye(len(model.encoding.terms))[place]))
        numbers = tuple(one for one in form.numbers if one.coefficient or one.if_missing)
        texts = tuple(one for one in form.texts if one.other or any(one.levels.values()))
        found.append(replace(form, intercept=0.0, numbers=numbers, texts=texts))
    return tuple(found)


def class_forms(model: SavedModel) -> tuple[LinearForm, ...]:
    """The score of each of several classes; their probabilities are e^score, divided by the sum of all of these."""
    return tuple(linear_form(model.of_class(place)) for place in range(len(model.coef)))


def _offset(term: Offset) -> ShapedColumn:
    """Added as it is, with no value that stands in: a row without it has no prediction."""
    return ShapedColumn(term.column, math.nan, ("log", X) if term.log else X)


def _shapes(terms: list[tuple[Shaped, float]]) -> Iterator[ShapedColumn]:
    """One for each number; one for all levels of a group, which are values of one expression."""
    groups: dict[tuple[str, float, Expression], dict[float, float]] = {}
    for term, coef in terms:
        if term.shape.equals is None:
            yield _shaped(term, coef)
        else:
            own = groups.setdefault((term.column, float(term.fill), term.shape.expression), {})
            own[term.shape.equals] = coef
    yield from (ShapedColumn(*key, levels=levels) for key, levels in groups.items())


def _shaped(term: Shaped, coef: float = 1.0) -> ShapedColumn:
    shape, fill = term.shape, float(term.fill)
    if shape.equals is None:
        return ShapedColumn(term.column, fill, shape.expression, coef)
    return ShapedColumn(term.column, fill, shape.expression, levels={shape.equals: coef})


def _products(terms: list[tuple[Product, float]]) -> Iterator[ProductPart]:
    """One part for two numbers or a number and a text column; for two text columns one a level of the shorter one."""
    texts: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    mixed: dict[tuple[Number | Shaped, str], dict[str, float]] = {}
    for term, coef in terms:
        left, right = term.factors if isinstance(term.left, (Number, Shaped)) else term.factors[::-1]
        if isinstance(left, Level) and isinstance(right, Level):
            texts.setdefault((left.column, right.column), {})[left.level, right.level] = coef
        elif isinstance(left, (Number, Shaped)) and isinstance(right, Level):
            mixed.setdefault((left, right.column), {})[right.level] = coef
        elif isinstance(left, (Number, Shaped)) and isinstance(right, (Number, Shaped)):
            yield ProductPart(_weighted(left), _weighted(right, coef))
    for (factor, column), levels in mixed.items():
        yield ProductPart(_weighted(factor), TextColumn(column, levels))
    for (first, second), values in texts.items():
        if len({a for a, _ in values}) > len({b for _, b in values}):
            first, second, values = second, first, {(b, a): coef for (a, b), coef in values.items()}
        for level in dict.fromkeys(a for a, _ in values):
            others = {b: coef for (a, b), coef in values.items() if a == level}
            yield ProductPart(TextColumn(first, {level: 1.0}), TextColumn(second, others))


def _weighted(factor: Number | Shaped, coef: float = 1.0) -> NumberColumn | ShapedColumn:
    return (
        _shaped(factor, coef)
        if isinstance(factor, Shaped)
        else NumberColumn(factor.column, coef, float(factor.fill), 0.0)
    )


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
        """(rows,): predictions by nothing but the file at `path` and its own runtime; (rows, K): of several classes."""
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
