"""Terms: the numbers that a design row is made of, and the columns of the file they need; rows are in `encoding`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Mapping
from typing import Any

import numpy as np

from shoal.data.shapes.asked import ColumnShape
from shoal.data.shapes.expression import Expression, as_text, from_text
from shoal.lazy.classes import dataclass
from shoal.models import Array

MISSING_LEVEL = "__missing__"
RARE_LEVEL = "__rare__"  # with more lines around it where a file has that very text


TermKey = tuple[str, ...]  # which term it is, whatever stands in for missing values


class _OfOneColumn:
    """What terms of one column have in common; a product's factors are such terms."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the file that it needs, each once."""
        return (self.column,)

    def as_dict(self) -> dict[str, Any]:
        """As in a model file."""
        return {"type": type(self).__name__.lower(), **self.__dict__}

    def less(self, other: Term, known: Container[TermKey]) -> dict[TermKey, float]:
        """What it is more than the same term with other fills, in terms among `known`."""
        return {}


@dataclass(frozen=True)
class Number(_OfOneColumn):
    """The column's value, or `fill` where it is missing."""

    column: str
    fill: float
    helps: bool = False  # it is there so that means can be had from sums: the model has other shapes of the column

    @property
    def name(self) -> str:
        return self.column

    @property
    def key(self) -> TermKey:
        return ("number", self.column)

    def less(self, other: Term, known: Container[TermKey]) -> dict[TermKey, float]:
        missing = Indicator(self.column).key
        if not isinstance(other, Number) or self.fill == other.fill or missing not in known:
            return {}
        return {missing: self.fill - other.fill}

    def as_dict(self) -> dict[str, Any]:
        found = super().as_dict()
        return found if self.helps else {name: value for name, value in found.items() if name != "helps"}


@dataclass(frozen=True)
class Indicator(_OfOneColumn):
    """1 where the column is missing, else 0."""

    column: str

    @property
    def name(self) -> str:
        return f"{self.column}={MISSING_LEVEL}"

    @property
    def key(self) -> TermKey:
        return ("indicator", self.column)


@dataclass(frozen=True)
class Level(_OfOneColumn):
    """1 where the column has this level, else 0; the level `__missing__` stands for no value."""

    column: str
    level: str

    @property
    def name(self) -> str:
        return f"{self.column}={self.level}"

    @property
    def key(self) -> TermKey:
        return ("level", self.column, self.level)

    def holds(self, level: str) -> bool:
        """Whether it is 1 in rows with this level."""
        return level == self.level


@dataclass(frozen=True)
class Rare(Level):
    """1 where the column has none of the levels `kept`, else 0: those with few training rows, and all never seen.

    `level` is the name of the group, which no value of the file has; `grouped` are the values of the file in it.
    """

    kept: tuple[str, ...]
    grouped: tuple[str, ...]

    @property
    def key(self) -> TermKey:
        """That of the first level that it holds; the others are `less`."""
        return Level(self.column, self.grouped[0]).key

    def holds(self, level: str) -> bool:
        return level not in self._stay

    @functools.cached_property
    def _stay(self) -> frozenset[str]:
        return frozenset(self.kept)

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in super().as_dict().items() if name != "_stay"}

    def less(self, other: Term, known: Container[TermKey]) -> dict[TermKey, float]:
        return {Level(self.column, level).key: 1.0 for level in self.grouped[1:]}


@dataclass(frozen=True)
class HashedText(_OfOneColumn):
    """How often the text of the column, or with `how` words its words, falls into the column `bucket` of a hash with
    2^bits of them (`data.texts.hashing`); dense rows have no such term."""

    column: str
    how: str  # hash or words
    bits: int
    bucket: int

    @property
    def name(self) -> str:
        return f"{self.how}({self.column})={self.bucket}"

    @property
    def key(self) -> TermKey:
        return (self.how, self.column, str(self.bits), str(self.bucket))


@dataclass(frozen=True)
class Shaped(_OfOneColumn):
    """A shape of the column's value, such as its logarithm; of `fill` where it is missing."""

    column: str
    shape: ColumnShape
    fill: float
    fold: int | None = None  # whose training rows its borders are from, where folds have their own, see `fold_of`

    @property
    def name(self) -> str:
        return self.shape.name

    @property
    def key(self) -> TermKey:
        return ("shaped", self.column, self.shape.name, *([] if self.fold is None else [str(self.fold)]))

    @property
    def grows(self) -> bool:
        """Whether it goes on beyond the dates that were seen: their trend, or the year."""
        return self.name in (f"trend({self.column})", f"year({self.column})")

    @property
    def is_level(self) -> bool:
        """Whether it is 1 or 0, and with others of its group adds up to 1."""
        return bool(self.shape.group)

    def of(self, values: Array, known: dict[Expression, Array] | None = None) -> Array:
        """Of values of the column, NaN where they are missing; `known` as in `evaluate`, for the same fill."""
        return self.shape.of(np.where(np.isnan(values), self.fill, values), known)

    def as_dict(self) -> dict[str, Any]:
        own = {"expression": as_text(self.shape.expression), "equals": self.shape.equals}
        group = {"group": self.shape.group, "level": self.shape.level} if self.is_level else {}
        fold = {} if self.fold is None else {"fold": self.fold}
        return {"type": "shaped", "column": self.column, "name": self.name, **own, **group, "fill": self.fill, **fold}

    def less(self, other: Term, known: Container[TermKey]) -> dict[TermKey, float]:
        """Missing values are filled before they are shaped, so that another fill is another constant where they are."""
        missing = Indicator(self.column).key
        if not isinstance(other, Shaped) or self.fill == other.fill or missing not in known:
            return {}
        own, theirs = self.shape.of(np.array([self.fill, other.fill])).tolist()
        return {missing: own - theirs} if own != theirs else {}


Factor = Number | Indicator | Level | Shaped


@dataclass(frozen=True)
class Offset(_OfOneColumn):
    """What is added to the score of a row as it is, with a coefficient of 1: the column's value, or its logarithm; NaN
    where there is none. A model file has it among its terms, a fit beside them."""

    column: str
    log: bool

    @property
    def name(self) -> str:
        return f"offset(log({self.column}))" if self.log else f"offset({self.column})"

    @property
    def key(self) -> TermKey:
        return ("offset", self.column)

    @property
    def usual(self) -> float:
        """The value of the column that adds nothing."""
        return 1.0 if self.log else 0.0

    def of(self, values: Array) -> Array:
        if not self.log:
            return values
        found = np.full(np.shape(values), np.nan)
        return np.log(values, out=found, where=np.greater(values, 0))


@dataclass(frozen=True)
class Product:
    """One factor times another, after missing values are filled; a number times itself is its square."""

    left: Factor
    right: Factor

    @property
    def is_square(self) -> bool:
        return self.left == self.right

    @property
    def name(self) -> str:
        return square_name(self.left.name) if self.is_square else pair_name(self.left.name, self.right.name)

    @property
    def key(self) -> TermKey:
        return ("product", *self.left.key, *self.right.key)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the file that it needs, each once."""
        return tuple(dict.fromkeys((self.left.column, self.right.column)))

    @property
    def factors(self) -> tuple[Factor, Factor]:
        return self.left, self.right

    @property
    def helps(self) -> bool:
        """Whether it is there only so that other fills can be had from sums: a model has no such term."""
        return any(isinstance(factor, Indicator) for factor in self.factors)

    def of(self, value: Callable[[Factor], Array]) -> Array:
        """Its values in some rows, from those of its factors."""
        values: Array = value(self.left) * value(self.right)
        return values

    def as_dict(self) -> dict[str, Any]:
        return {"type": "product", "left": self.left.as_dict(), "right": self.right.as_dict()}

    def less(self, other: Term, known: Container[TermKey]) -> dict[TermKey, float]:
        """(a + da)(b + db) - a b; and for a square, as m x = fill m and m m = m, (fill'^2 - fill^2) m."""
        if not isinstance(other, Product):
            return {}
        if isinstance(self.left, Number) and isinstance(other.left, Number) and self.is_square:
            missing = self.left.less(other.left, known)
            return {key: more * (self.left.fill + other.left.fill) for key, more in missing.items()}
        left = {other.left.key: 1.0, **self.left.less(other.left, known)}
        right = {other.right.key: 1.0, **self.right.less(other.right, known)}
        found = {("product", *a, *b): left[a] * right[b] for a in left for b in right}
        del found[other.key]
        return found


DenseTerm = Number | Indicator | Level | Shaped | Product | Offset
Term = DenseTerm | HashedText


ALL_FOLDS = -1  # in place of a fold: borders from all training rows, beside those of folds


def fold_of(term: Term) -> int | None:
    """The fold whose training rows the borders of a term are from; None for a term that is the same in all."""
    if isinstance(term, Product):
        return next((fold for fold in map(fold_of, term.factors) if fold is not None), None)
    return term.fold if isinstance(term, Shaped) else None


def square_name(column: str) -> str:
    return f"{column}^2"


def pair_name(left: str, right: str) -> str:
    return f"{left}:{right}"


def term_from(found: Mapping[str, Any]) -> Term:
    """A term as a model file has it."""
    if found["type"] == "product":
        return Product(_factor_from(found["left"]), _factor_from(found["right"]))
    if found["type"] == "offset":
        return Offset(found["column"], found["log"])
    if found["type"] == "hashedtext":
        return HashedText(found["column"], found["how"], found["bits"], found["bucket"])
    return _factor_from(found)


_KINDS: dict[str, type[Number] | type[Indicator] | type[Level]] = {
    "number": Number, "indicator": Indicator, "level": Level,
}  # fmt: skip


def _factor_from(found: Mapping[str, Any]) -> Factor:
    if (kind := _KINDS.get(found["type"])) is not None:
        own = dict(found)
        del own["type"]
        return kind(**own)
    if found["type"] == "shaped":
        names = {name: found[name] for name in ("name", "equals", "group", "level") if name in found}
        shape = ColumnShape(expression=from_text(found["expression"]), **names)
        return Shaped(found["column"], shape, found["fill"], found.get("fold"))
    if found["type"] == "rare":
        return Rare(found["column"], found["level"], tuple(found["kept"]), tuple(found["grouped"]))
    raise KeyError(found["type"])
