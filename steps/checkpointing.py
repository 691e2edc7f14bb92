"""When a checkpoint is due and which stay: by the knobs of a run, or as a plug-in says; no file is known here."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shoal.lazy.classes import dataclass


@dataclass(frozen=True)
class CheckpointMoment:
    """A run after a round, as one has to know it to say whether a checkpoint is due."""

    round: int
    epoch: float  # passes over the training rows, with a fraction
    seconds: float  # since the run began
    since: float  # seconds since the last checkpoint was begun, or the run
    took: float  # seconds that all checkpoints together took so far
    loss: float | None  # as it was last put on record, and the score of test rows
    score: float | None


class CheckpointStrategy:
    """Leaves everything to the knobs: one of a plug-in overrides what it wants to say itself."""

    def due(self, moment: CheckpointMoment) -> bool | None:
        """Whether to write one now, asked after every round; None: by `checkpoint_seconds`."""
        return None

    def kept(self, steps: Sequence[int]) -> Collection[int] | None:
        """Which of these rounds keep their checkpoint, in order, asked after each that was written; None: by
        `keep_checkpoints`. The newest stays in any case: it is what a run goes on from."""
        return None
