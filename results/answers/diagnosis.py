"""How well a model predicts the rows of a table, small whatever their number: what pages and reports draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.lazy.classes import dataclass
from shoal.results.answers.importance import ColumnWorth
from shoal.results.fit import FitScores
from shoal.results.plain import plain, read


@dataclass(frozen=True)
class RowEnds:
    """The smallest, or the largest, of all rows."""

    actual: float
    predicted: float
    residual: float


@dataclass(frozen=True)
class ComparedRows:
    """Some rows of the table, by their numbers from 0; `test` tells those that were kept for testing."""

    row: tuple[int, ...]
    actual: tuple[float, ...]
    predicted: tuple[float, ...]
    test: tuple[bool, ...]
    residual: tuple[float, ...]


@dataclass(frozen=True)
class RowGrid:
    """How many training and test rows lie in each cell of actual by predicted."""

    edges: tuple[float, ...]
    train: tuple[tuple[int, ...], ...]
    test: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class RowBars:
    """How many training and test rows have a residual between each two edges."""

    edges: tuple[float, ...]
    train: tuple[int, ...]
    test: tuple[int, ...]

    @property
    def counted(self) -> int:
        return sum(self.train) + sum(self.test)


@dataclass(frozen=True)
class RankedResidual:
    """The residual that a share of all rows lies below."""

    rank: float
    value: float


@dataclass(frozen=True)
class PredictionBin:
    """Rows of similar prediction: their number, their mean prediction and residual, and how sure that is."""

    rows: int
    predicted: float
    residual: float
    spread: float
    standard_error: float


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Of the rows that a model was trained on (`own_data`), told apart into training and test rows, or of others."""

    target: str
    own_data: bool
    rows: int
    rows_left_out: int = 0
    unseen_levels: int = 0
    train: FitScores
    test: FitScores
    low: RowEnds
    high: RowEnds
    sample: ComparedRows
    largest: ComparedRows
    grid: RowGrid
    histogram: RowBars
    quantiles: tuple[RankedResidual, ...]
    curve: tuple[PredictionBin, ...]
    loss: str = ""  # other than squares: residuals are those whose squares sum to the deviance
    classes: tuple[str, ...] = ()
    importance: ColumnWorth | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_sampled(self) -> bool:
        return len(self.sample.row) < self.rows

    @property
    def beyond(self) -> int:
        """Rows whose residuals lie further out than the bars do."""
        return self.rows - self.histogram.counted

    @property
    def at(self) -> dict[float, float]:
        """Residuals by the share of rows that lies below them."""
        return {one.rank: one.value for one in self.quantiles}

    def as_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = plain(self)
        return said

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Diagnosis:
        """Raises `Malformed` where a value is not what it should be."""
        return read(cls, values)
