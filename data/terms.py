"""Terms: the numbers that a design row is made of, and the columns of the file they need; rows are in `encoding`."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.models import Array

MISSING_LEVEL = "__missing__"


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


Factor = Number | Indicator | Level


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


Term = Number | Indicator | Level | Product


def square_name(column: str) -> str:
    return f"{column}^2"


def pair_name(left: str, right: str) -> str:
    return f"{left}:{right}"


def term_from(found: Mapping[str, Any]) -> Term:
    """A term as a model file has it."""
    if found["type"] == "product":
        return Product(_factor_from(found["left"]), _factor_from(found["right"]))
    return _factor_from(found)


def _factor_from(found: Mapping[str, Any]) -> Factor:
    kinds: dict[str, type[Number] | type[Indicator] | type[Level]] = {
        "number": Number, "indicator": Indicator, "level": Level,
    }  # fmt: skip
    return kinds[found["type"]](**{name: value for name, value in found.items() if name != "type"})
