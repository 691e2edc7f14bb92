"""A module as server and workers of a gradient run know it; PyTorch is imported when the first batch is computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from shoal.data_pipeline import Shards
from shoal.lazy.classes import dataclass
from shoal.models import Array, NoPenalty, Values, proximal_step
from shoal.networks.computing import PLAIN, Computing
from shoal.passes.shards import opened_shard
from shoal.worker import Worker

if TYPE_CHECKING:
    from shoal.networks.live import LiveModule, RowSums


class StepsOfModule(ABC):
    """What steps ask of a module that `live` finds or makes in this process."""

    computing: Computing

    @property
    @abstractmethod
    def live(self) -> LiveModule:
        """The module in this process."""

    @property
    def penalty(self) -> NoPenalty:
        return NoPenalty()

    def seed(self, *place: int) -> None:
        self.live.seed(*place)

    def gradient(self, X: Values, y: Values, w: Array) -> tuple[Array, float]:
        return self.live.gradient(X, y, w)

    def update(self, w: Array, direction: Array, step: float | Array, shrink: float | Array | None = None) -> Array:
        return proximal_step(w, direction, step, self.penalty.prox, shrink)


@dataclass(frozen=True)
class ModuleModel(StepsOfModule):
    """The module of a document (see `stored`), in some precision; small enough to be sent with every message."""

    file: str
    precision: str
    computing: Computing = PLAIN

    @property
    def live(self) -> LiveModule:
        from shoal.networks.live import live  # here: whoever only sends it around needs no PyTorch

        return live(self.file, self.precision, self.computing)


@dataclass(frozen=True)
class ModuleSums:
    """The request for what the rows of one shard come to at w."""

    shards: Shards
    shard: int
    model: ModuleModel
    w: Array
    statistics: dict[str, Any]

    def answer(self, worker: Worker) -> RowSums:
        X, y = opened_shard(worker, self.shards, self.shard)
        return self.model.live.sums(X, y, self.w, self.statistics)


@dataclass(frozen=True)
class ThinnedShard:
    """Every so many-th row of a shard, for whoever does not have it."""

    shards: Shards
    shard: int
    every: int

    def answer(self, worker: Worker) -> tuple[Values, Values]:
        X, y = opened_shard(worker, self.shards, self.shard)
        return X[:: self.every].copy(), y[:: self.every].copy()
