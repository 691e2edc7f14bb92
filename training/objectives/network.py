"""What all networks have in common as something that a gradient run minimises: a mean loss of rows without an optimum
that is known; where the rows come from is in `module_rows` and `table_network`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch

from shoal.coordinator import Coordinator
from shoal.data_pipeline import Shards
from shoal.fitting.own_metrics import MetricRows
from shoal.models import Array
from shoal.networks.computing import computing_for
from shoal.networks.step_model import ModuleModel, StepsOfModule
from shoal.networks.table_model import LayersModel
from shoal.settings.config import RunConfig
from shoal.training.objectives.base import UNKNOWN, Bounds, DistanceToOptimum, ParameterPart, UsualWork

AnyModule = TypeVar("AnyModule", bound=ModuleModel | LayersModel)
USUAL = UsualWork(shards=8, batch=32, local_steps=8)
WATCHED = 4096  # rows whose score is followed, and training rows that statistics of batches are of


def suited(config: RunConfig, model: AnyModule, precision: str, batch: int) -> tuple[AnyModule, tuple[str, ...]]:
    """The model as it can be computed here, by what the knobs ask for, and what is to be said of it."""
    computing, notes = computing_for(config, precision, batch, torch.cuda)
    made = replace(model, computing=computing)
    if computing.checkpointing and not made.live.keeps_less:
        notes += ("gradient_checkpointing is not used: the module has no torch.nn.Sequential of two layers or more.",)
    if why := made.live.uncompiled():
        notes += (f"compile_mode is not used: PyTorch could not compile the network here ({why}).",)
        made = replace(model, computing=computing.without_compiling)
    return made, notes


class NetworkObjective:
    """F(w) = 1/n sum_i loss(module(x_i; w), y_i), w all parameters that learn, one after the other."""

    convex = scores_cheaply = evenly_curved = knows_loss = penalised = False
    condition: float | None = None
    scale = alpha = 0.0
    at_start = math.inf  # a loss may begin near its best, or below 0: only what is not finite has lost its way
    usual = USUAL
    watches = "test rows"

    def __init__(
        self,
        config: RunConfig,
        model: ModuleModel | LayersModel,
        precision: str,
        parts: tuple[tuple[str, int], ...],
        n: float,
    ) -> None:
        self.config, self.precision, self.n = config, precision, n
        self.model, self.notes = suited(config, model, precision, config.batch_size or self.usual.batch)
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

    def predicted(self, w: Array) -> MetricRows | None:
        """There are none of modules, whose outputs mean what their loss makes of them."""
        return None

    def nonzeros(self, w: Array) -> int:
        return int(np.count_nonzero(w))
