"""Plug-ins that give advice: a checkpoint strategy, a recovery handler; pyproject.toml gives them their names."""

from __future__ import annotations

from collections.abc import Collection, Sequence

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
