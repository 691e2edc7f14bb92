"""The flat vector in the server's own process: one parameter shard, which is what one machine needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.models import Array
from shoal.parameters.stepping import VectorStep
from shoal.passes.board import ServerBoard
from shoal.steps.clipping import clipped
from shoal.steps.optimizers import SGD, StepRule
from shoal.steps.placement import ParameterPiece


class OwnParameters:
    """Weights, the gradient of the last step, and the step rule with what it remembers."""

    def __init__(self, board: ServerBoard, start: Array, pieces: Sequence[ParameterPiece]) -> None:
        self.w: Array = np.array(start, np.float64)
        self.gradient: Array = np.zeros_like(self.w)
        self.rule: StepRule = SGD(len(self.w))
        self._board = board
        self._ends = tuple(piece.end for piece in pieces)

    def begin(self, rule: StepRule) -> None:
        """Another rule, from here on."""
        self.rule = rule

    def put(self, w: Array) -> None:
        """Other weights."""
        self.w = np.array(w, np.float64)

    def forget(self) -> None:
        """What the rule remembers is of another objective."""
        self.rule.reset()

    def apply(self, step: VectorStep, version: int) -> None:
        """From the weights of a version to those of the next, by updates in the slots."""
        total = self._board.touched(step.shards, step.encodings, step.factors)
        if total is None:
            total = step.total(self._board.collect(step.shards, step.encodings))
        self.gradient = step.gradient(total)
        if step.local_steps:
            moved = self.w + total / step.total_rows
            self.w = step.penalty.prox(moved, step.shrink) if step.shrink else moved
        else:
            gradient = clipped(self.gradient, step.clip, self._ends)
            self.w = self.rule.step(self.w, gradient, step.rate, step.penalty.prox)

    def publish(self, version: int) -> None:
        self._board.publish(self.rule.query(self.w), version)

    def tick(self) -> None:
        """A look at what may have happened meanwhile."""

    def state(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint needs: `weights`, and `rule.NAME` of what the rule remembers."""
        return {f"rule.{name}": array for name, array in self.rule.state().items()} | {"weights": self.w.copy()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """The weights; the rule is given with its phase."""
        self.put(arrays["weights"])

    def release(self) -> None:
        """Give back what belongs to others."""
