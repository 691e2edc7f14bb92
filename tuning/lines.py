"""What rows are asked about a line of one fold: the sums of a Newton step, the rows near it, those that change sides,
and what all lines of a path are worth. Where the lines lead is in `robust`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from shoal.data_pipeline import design_rows
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.models import Array, Bools
from shoal.passes.blocks import BlockRequest
from shoal.passes.losses import curved
from shoal.passes.quantiles import changed_of, sides_of
from shoal.solve.newton import Curvature
from shoal.solve.pinball import Near, Sides
from shoal.whatif.folds import Folds
from shoal.worker import Worker


class LineRows(NamedTuple):
    """Some rows: z less the centre, targets, weights (None: all alike), and which they are."""

    Z: Array
    y: Array
    weight: Array | None
    row: npt.NDArray[np.int64]

    def take(self, chosen: Bools) -> LineRows:
        if chosen.all():
            return self
        weight = None if self.weight is None else self.weight[chosen]
        return LineRows(self.Z[chosen], self.y[chosen], weight, self.row[chosen])

    def residual(self, coef: Array) -> Array:
        return np.asarray(self.y - (self.Z @ coef[1:] + coef[0]))


class LineWorth(NamedTuple):
    """Sums of losses (m,) over the training rows and over the test rows of a fold."""

    fitted: Array
    tested: Array


class LineQuestion(Protocol):
    """Of the training rows and the test rows of a fold; answers about blocks are put together in their order."""

    def of(self, trained: LineRows, tested: LineRows, /) -> Any: ...

    def together(self, parts: list[Any], /) -> Any: ...


@dataclass(frozen=True, eq=False)
class StepSums:
    """The sums of a Newton step at coef (q + 1,) for rows (1, z)."""

    loss: RowLoss
    coef: Array

    def of(self, trained: LineRows, tested: LineRows) -> Curvature:
        eta = trained.Z @ self.coef[1:] + self.coef[0]
        return curved(self.loss, trained.Z, trained.y, eta, np.ones(len(eta), bool), trained.weight)

    def together(self, parts: list[Curvature]) -> Curvature:
        total = Curvature.none(len(self.coef) - 1)
        for part in parts:
            total = total.merge(part)
        return total


@dataclass(frozen=True, eq=False)
class NearLine:
    """Rows within `width` of a line, and the sums of the others."""

    coef: Array
    quantile: float
    width: float

    def of(self, trained: LineRows, tested: LineRows) -> Sides:
        r = trained.residual(self.coef)
        return sides_of(trained.Z, r, trained.weight, trained.row, self.quantile, self.width)

    def together(self, parts: list[Sides]) -> Sides:
        return Sides.together(parts)


@dataclass(frozen=True, eq=False)
class ChangedSides:
    """Rows beyond `width` of a line that are on another side of a second one."""

    coef: Array
    width: float
    to: Array

    def of(self, trained: LineRows, tested: LineRows) -> Near:
        r = trained.residual(self.coef), trained.residual(self.to)
        return changed_of(trained.Z, *r, trained.weight, trained.row, self.width)

    def together(self, parts: list[Near]) -> Near:
        return Near.together(parts)


@dataclass(frozen=True, eq=False)
class WorthOfLines:
    """What lines (q + 1, m) are worth, each by a loss of its own."""

    losses: Sequence[RowLoss]
    coef: Array

    def of(self, trained: LineRows, tested: LineRows) -> LineWorth:
        return LineWorth(*(self._summed(rows) for rows in (trained, tested)))

    def _summed(self, rows: LineRows) -> Array:
        eta = rows.Z @ self.coef[1:] + self.coef[0]
        values = (loss.at(rows.y, eta[:, i]).value for i, loss in enumerate(self.losses))
        return np.array([float(v.sum() if rows.weight is None else rows.weight @ v) for v in values])

    def together(self, parts: list[LineWorth]) -> LineWorth:
        return LineWorth(*(np.sum(column, axis=0) for column in zip(*parts, strict=True)))


class FoldQuestion(NamedTuple):
    """A question, and the cells that its fold trains on and is tested on."""

    trains: Bools
    tests: Bools
    asked: LineQuestion


@dataclass(frozen=True)
class AskLines(BlockRequest):
    """Ask the rows of a block, which are read once for all folds."""

    folds: Folds
    centre: Array
    questions: tuple[FoldQuestion, ...]

    def answer(self, worker: Worker) -> list[list[Any]]:
        """Of each question one answer, or none where the block has no rows."""
        found: list[list[Any]] = [[] for _ in self.questions]
        held = self.folds.choice.cells
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            cell = np.where(self.split.is_test(chunk.row), held, self.folds.of(self.dataset, self.block, chunk.row))
            known = cell >= 0  # the others are in no fold
            rows = LineRows(chunk.X - self.centre, chunk.y, chunk.weight, chunk.row).take(known)
            cell = cell[known]
            for own, (trains, tests, asked) in zip(found, self.questions, strict=True):
                own.append(asked.of(rows.take(trains[cell]), rows.take(tests[cell])))
        return [
            [question.asked.together(own)] if own else [] for question, own in zip(self.questions, found, strict=True)
        ]
