"""What a gradient run minimises, as everyone in it knows it: parameters in one flat vector with named parts, what
workers compute of a batch, loss and scores of rows, and the optimum where it is known; no step and no worker.

Server, policy, step rules, compression, conductor, checkpoints and pages see nothing else of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.cache import digest
from shoal.data.dataset import Dataset
from shoal.data_pipeline import Shards
from shoal.fitting.exact import Prepared
from shoal.fitting.own_metrics import MetricRows
from shoal.fitting.reports import Trained
from shoal.models import Array, StepModel
from shoal.results.fit import GradientTraining
from shoal.settings.config import RunConfig

SAME_COEFFICIENTS = 0.1  # of the square root of the tolerance: how close the weights have to be, not only the objective


class DistanceToOptimum(NamedTuple):
    """How far weights are from the optimum; None where that is not known.

    objective:    (F(w) - F*) / (F(start) - F*), or an upper bound of it;
    coefficients: max |w - w*| / max |w*|, where w* is known and unique;
    slope:        the largest |dF/dw_j|, as a share of that at the start.
    """

    objective: float | None
    coefficients: float | None
    slope: float | None

    def within(self, tolerance: float) -> bool:
        """Whether this is the optimum: by objective and coefficients, or by the slope where only that is known.

        Where columns nearly depend on one another the objective can be within any tolerance while the coefficients
        are far off, so it alone does not count.
        """
        if self.objective is None:
            return self.slope is not None and self.slope <= tolerance
        near = self.coefficients is None or self.coefficients <= SAME_COEFFICIENTS * math.sqrt(tolerance)
        return self.objective <= tolerance and near

    @property
    def is_known(self) -> bool:
        return any(part is not None for part in self)


UNKNOWN = DistanceToOptimum(None, None, None)


class ParameterPart(NamedTuple):
    """So many numbers of the flat vector, and what they are; parts follow one another."""

    name: str
    size: int


class Bounds(NamedTuple):
    """What steps have to be short enough for: the largest eigenvalue of the mean loss of all rows, and the largest of
    a row alone."""

    top: float
    row: float


class UsualWork(NamedTuple):
    """Shards, rows of a batch and steps of a local round where nobody names them and measuring would say little."""

    shards: int
    batch: int
    local_steps: int
    row_bytes: int = 0  # of a row as it is kept, where that is not all of its columns


class Concluded(NamedTuple):
    """What a last pass over the rows says of the parameters that a run ended with."""

    away: DistanceToOptimum | None  # where it knows better than the run did
    described: Callable[[GradientTraining, Sequence[str]], Trained]


class OneCoefficientAColumn(ABC):
    """Of an objective whose parameters are the coefficients of its columns and nothing else, and begin at 0."""

    @property
    @abstractmethod
    def width(self) -> int: ...

    @property
    def size(self) -> int:
        return self.width

    @property
    def parts(self) -> tuple[ParameterPart, ...]:
        return (ParameterPart("coefficients", self.width),)

    @property
    def start(self) -> Array:
        return np.zeros(self.width)


class Objective(Protocol):
    """F(w) = 1/n sum over the training rows of one run of c_i loss_i(w)  +  penalty(w)."""

    @property
    def config(self) -> RunConfig: ...

    @property
    def identity(self) -> dict[str, Any]:
        """Of a checkpoint: which rows, columns and parts its parameters belong to."""
        ...

    @property
    def n(self) -> float:
        """Rows, or what their weights come to."""
        ...

    @property
    def width(self) -> int:
        """Columns of a row."""
        ...

    @property
    def parts(self) -> tuple[ParameterPart, ...]:
        """What the flat vector of parameters is made of."""
        ...

    @property
    def size(self) -> int:
        """Parameters in all."""
        ...

    @property
    def start(self) -> Array:
        """The parameters (size,) that a run begins with."""
        ...

    @property
    def model(self) -> StepModel:
        """What workers compute of a batch, and the penalty that the server knows."""
        ...

    @property
    def alpha(self) -> float: ...

    @property
    def penalised(self) -> bool:
        """Whether alpha means anything."""
        ...

    def set_alpha(self, alpha: float, /) -> StepModel:
        """Another strength of the penalty: another optimum."""
        ...

    # ---------------------------------------------------------------- rows, and how they curve it

    def shards(self, coordinator: Coordinator, count: int, dtype: str, /) -> Shards:
        """The rows as workers take them."""
        ...

    def meet(self, coordinator: Coordinator, shards: Shards, /) -> None:
        """Look at the rows once they are there: all else here may ask for them."""
        ...

    def bounds(self, coordinator: Coordinator, shards: Shards, /) -> Bounds | None:
        """None where nothing is known of how it is curved: then rates are those that are usual."""
        ...

    @property
    def convex(self) -> bool:
        """Whether full passes lead to an optimum."""
        ...

    @property
    def usual(self) -> UsualWork | None:
        """What `auto` stands for where that is not measured."""
        ...

    @property
    def precision(self) -> str | None:
        """What `auto` stands for, where it is not decided by size and condition."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of how it is computed here; told when the run begins, and with its result."""
        ...

    @property
    def evenly_curved(self) -> bool:
        """Whether the bounds hold everywhere; else about start and optimum only."""
        ...

    @property
    def condition(self) -> float | None:
        """The condition number of the columns, where it is known."""
        ...

    @property
    def scale(self) -> float:
        """The largest |dF/dw_j| at the start, without a penalty: the size of what steps are made of."""
        ...

    # ---------------------------------------------------------------- how good parameters are

    @property
    def at_start(self) -> float:
        """F at the start."""
        ...

    @property
    def knows_loss(self) -> bool:
        """Whether `loss` and `away` need no pass over the rows to be exact."""
        ...

    def loss(self, w: Array, value: float | None = None, /) -> float:
        """F(w); `value` is what the losses of all rows come to there, asked for where they are not known."""
        ...

    def away(self, w: Array, /) -> DistanceToOptimum:
        """Without a look at the rows; `UNKNOWN` where that cannot be said."""
        ...

    def away_by_rows(self, w: Array, gradient: Array, value: float, /) -> DistanceToOptimum:
        """From a pass over the rows at w, whose mean gradient and summed value these are."""
        ...

    def score(self, w: Array, /) -> float | None:
        """Of the rows that it watches, the higher the better, 1 the best; None where there is none."""
        ...

    def predicted(self, w: Array, /) -> MetricRows | None:
        """Test rows that are at hand, and what these parameters say of them; None where there are none."""
        ...

    @property
    def watches(self) -> str:
        """Which rows the score is of: test rows, or training rows that are kept from steps."""
        ...

    @property
    def scores_cheaply(self) -> bool:
        """Whether rounds may ask for the score; else epochs do."""
        ...

    def nonzeros(self, w: Array, /) -> int:
        """Weights of columns that are not 0."""
        ...

    def conclude(self, coordinator: Coordinator, w: Array, /) -> Concluded:
        """A last pass over the rows, and the model that comes of it."""
        ...


def table_identity(prepared: Prepared, parts: Sequence[ParameterPart]) -> dict[str, Any]:
    """Of what is about the rows and columns of a table."""
    dataset = prepared.dataset
    return {
        "content": dataset.manifest.content, "header": header_of(dataset),
        "columns": prepared.encoding.names, "parts": [list(part) for part in parts],
    }  # fmt: skip


def header_of(dataset: Dataset) -> str:
    """The names of a file's columns, in their order: its `content` is that of the rows alone."""
    return digest([column.name for column in dataset.manifest.columns])
