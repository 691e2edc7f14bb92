"""What is done about a lost worker: replaced, done without, or the end of the run; no process is known here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Loss:
    """What is known when a worker is lost."""

    rank: int
    in_a_row: int  # losses of this rank since it last did any work
    others: int  # members that live


Decision = Literal["replace", "go on", "stop"]


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
