"""What a chart is made of: two axes, series, and words for those who do not see it. No colours, no pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from shoal.lazy.classes import dataclass

RowsOf = Literal["train", "test"]  # of the rows


@dataclass(frozen=True)
class Axis:
    """What it measures, of which column, and the ends of what there is to see; `room`: some more on both sides."""

    what: str
    of: str
    low: float
    high: float
    room: bool = True


@dataclass(frozen=True)
class Dots:
    """Rows, each at its place; `what` names the upright value."""

    part: RowsOf
    name: str
    x: Sequence[float]
    y: Sequence[float]
    rows: Sequence[int]
    what: str


@dataclass(frozen=True)
class Curve:
    """Means with twice their standard errors up and down."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float]


@dataclass(frozen=True)
class Bars:
    """How often; those of one chart stand on top of each other."""

    part: RowsOf
    name: str
    edges: Sequence[float]
    counts: Sequence[int]


@dataclass(frozen=True)
class Density:
    """How many rows are in each cell of a grid, by y and x, with the same edges both ways."""

    name: str
    edges: Sequence[float]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Guide:
    """A dashed line that the eye compares with: where x equals y, where y is 0, or where x is 0."""

    where: Literal["diagonal", "level", "upright"]
    name: str = ""


@dataclass(frozen=True)
class Chart:
    """Series are drawn in this order, the last on top."""

    x: Axis
    y: Axis
    series: tuple[Dots | Curve | Bars | Density | Guide, ...]
    alt: str
