"""What steers a training: its phase, the knobs that may change meanwhile, and who is told; who turns them is in
`training`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

from shoal.lazy.classes import dataclass
from shoal.steps.optimizers import StepRule
from shoal.steps.policy import Policy

Kind = Literal["gradient", "local", "full"]  # what workers compute of a task: see `passes.gradient_loop`


class Phase(NamedTuple):
    """A stretch of a run: who may go on, how gradients become steps, and what workers compute."""

    name: Literal["steps", "finish"]
    policy: Policy
    rule: StepRule
    kind: Kind


@dataclass
class Steering:
    """Knobs that the server reads at every step; only the conductor of the run writes them."""

    rate_at: Callable[[float], float]  # the learning rate at an epoch, with fractions
    seed: int
    batch_size: int
    local_steps: int = 1
    clip: float = 0.0
    compression: str = "none"
    share: float = 0.1
    tamed: bool = False  # take shorter steps with staler gradients
    prefetch: int = 2
    tight: bool = False


class Observer(Protocol):
    """Who is told what the server does; it records, stops, steers and says what comes after a phase."""

    def stepped(self, now: float) -> None: ...

    def ticked(self, now: float) -> None: ...

    def phase_ended(self, now: float) -> None:
        """Nothing is left to do: `begin` another phase, or `finish`."""

    def happened(self, kind: str, text: str, rank: int | None = None, **data: Any) -> None: ...
