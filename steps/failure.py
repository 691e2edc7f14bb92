"""What is done about a lost worker, and about a run that failed: by the knobs, or as a plug-in says; no process is
known here."""

from __future__ import annotations

from typing import Literal, Protocol

from shoal.lazy.classes import dataclass


@dataclass(frozen=True)
class Loss:
    """What is known when a worker is lost."""

    rank: int
    in_a_row: int  # losses of this rank since it last did any work
    others: int  # members that live
    cause: str = ""  # in words
    signal: int | None = None  # that its process was killed by


Decision = Literal["replace", "go on", "stop"]


class LossPolicy(Protocol):
    """Who is asked once a loss."""

    @property
    def restarts(self) -> int: ...

    def decide(self, loss: Loss, /) -> Decision: ...

    def why(self, in_a_row: int, /) -> str:
        """Why a run stopped, after that was decided."""
        ...


@dataclass(frozen=True)
class FailurePolicy:
    """What to do about a lost worker: one small object, asked once a loss."""

    on_loss: Literal["retry", "fewer", "stop"] = "retry"
    restarts: int = 3

    def decide(self, loss: Loss) -> Decision:
        if self.on_loss == "stop":
            return "stop"
        if self.on_loss == "retry" and loss.in_a_row <= self.restarts:
            return "replace"
        return "go on" if loss.others else "stop"

    def why(self, in_a_row: int) -> str:
        """Why a run stopped."""
        if self.on_loss == "stop":
            return "on_worker_loss is 'stop'"
        if self.on_loss == "fewer":
            return "on_worker_loss is 'fewer', and no other is left"
        times = "once" if in_a_row == 1 else f"{in_a_row} times in a row"
        return f"it was lost {times}, and no other is left"


@dataclass(frozen=True)
class RunFailure:
    """What is known when a run cannot go on: why, for programs and for people, and how often that was so."""

    reason: str  # a word of `errors.Reason`, such as worker_failed or out_of_disk
    text: str
    failures: int  # of this process, this one included
    round: int | None  # of the checkpoint that it would go on from; None: it would begin anew


Verdict = Literal["retry", "give up"]


class RecoveryHandler:
    """Leaves everything to the knobs: one of a plug-in overrides what it wants to decide itself."""

    def worker_lost(self, loss: Loss) -> Decision | None:
        """What to do about it; None: by `on_worker_loss` and `restarts`."""
        return None

    def run_failed(self, failure: RunFailure) -> Verdict | None:
        """Whether to go on from the newest checkpoint, at most `retries` times; None: give up."""
        return None
