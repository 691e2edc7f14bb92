"""Plug-ins that give advice: a checkpoint strategy, a recovery handler, a cache policy; their names are in
pyproject.toml."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shoal.library.cache_policies import CachedItem, CachePolicy
from shoal.steps.checkpointing import CheckpointMoment, CheckpointStrategy
from shoal.steps.failure import Decision, Loss, RecoveryHandler, RunFailure, Verdict


class EachEpoch(CheckpointStrategy):
    """A checkpoint at the end of every epoch, and of those the first and the last two."""

    def __init__(self) -> None:
        self._epoch = 0

    def due(self, moment: CheckpointMoment) -> bool:
        before, self._epoch = self._epoch, int(moment.epoch)
        return self._epoch > before

    def kept(self, steps: Sequence[int]) -> Collection[int]:
        return {steps[0], *steps[-2:]}


class StopFirst(RecoveryHandler):
    """Ends the work at the first lost worker, and lets the run go on with new ones, twice; a full disk is given up."""

    def worker_lost(self, loss: Loss) -> Decision:
        return "stop"

    def run_failed(self, failure: RunFailure) -> Verdict:
        return "retry" if failure.reason == "worker_failed" and failure.failures <= 2 else "give up"


class ShardsFirst(CachePolicy):
    """What takes the least time to make again goes first: shards before data sets, small ones before large ones."""

    def order(self, items: Sequence[CachedItem]) -> Sequence[CachedItem]:
        return sorted(items, key=lambda item: (item.kind != "shards", item.bytes))
