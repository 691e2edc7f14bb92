"""What all networks have in common as something that a gradient run minimises: a mean loss of rows without an optimum
that is known; where the rows come from is in `module_rows` and `table_network`."""

from __future__ import annotations

import math

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data_pipeline import Shards
from shoal.models import Array
from shoal.networks.step_model import StepsOfModule
from shoal.settings.config import RunConfig
from shoal.training.objectives.base import UNKNOWN, Bounds, DistanceToOptimum, ParameterPart, UsualWork

USUAL = UsualWork(shards=8, batch=32, local_steps=8)
WATCHED = 4096  # rows whose score is followed, and training rows that statistics of batches are of


class NetworkObjective:
    """F(w) = 1/n sum_i loss(module(x_i; w), y_i), w all parameters that learn, one after the other."""

    convex = scores_cheaply = evenly_curved = knows_loss = penalised = False
    condition: float | None = None
    scale = alpha = 0.0
    at_start = math.inf  # a loss may begin near its best, or below 0: only what is not finite has lost its way
    usual = USUAL
    watches = "test rows"

    def __init__(
        self, config: RunConfig, model: StepsOfModule, precision: str, parts: tuple[tuple[str, int], ...], n: float
    ) -> None:
        self.config, self.model, self.precision, self.n = config, model, precision, n
        self.parts = tuple(ParameterPart(*part) for part in parts)
        self._shards: Shards | None = None

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def start(self) -> Array:
        return self.model.live.start.copy()

    def set_alpha(self, alpha: float) -> StepsOfModule:
        return self.model

    def bounds(self, coordinator: Coordinator, shards: Shards) -> Bounds | None:
        return None

    def loss(self, w: Array, value: float | None = None) -> float:
        return math.nan if value is None else value / max(self.n, 1)

    def away(self, w: Array) -> DistanceToOptimum:
        return UNKNOWN

    def away_by_rows(self, w: Array, gradient: Array, value: float) -> DistanceToOptimum:
        return UNKNOWN

    def nonzeros(self, w: Array) -> int:
        return int(np.count_nonzero(w))
