"""Plug-ins that give advice: a checkpoint strategy; pyproject.toml gives them their names."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shoal.steps.checkpointing import CheckpointMoment, CheckpointStrategy


class EachEpoch(CheckpointStrategy):
    """A checkpoint at the end of every epoch, and of those the first and the last two."""

    def __init__(self) -> None:
        self._epoch = 0

    def due(self, moment: CheckpointMoment) -> bool:
        before, self._epoch = self._epoch, int(moment.epoch)
        return self._epoch > before

    def kept(self, steps: Sequence[int]) -> Collection[int]:
        return {steps[0], *steps[-2:]}
