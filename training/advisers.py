"""What plug-ins decide of a run: checkpoints, and what is done about losses; by the knobs where none says anything.

How plug-ins are found and kept from doing harm is in `plugins`; what is done with their advice, with who asks for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar, get_args

from shoal import plugins
from shoal.errors import TrainingError
from shoal.settings.config import RunConfig
from shoal.steps.checkpointing import CheckpointMoment, CheckpointStrategy
from shoal.steps.failure import Decision, FailurePolicy, Loss, LossPolicy, RecoveryHandler, RunFailure
from shoal.storage.base import Fenced
from shoal.training.checkpoints import Checkpoints

T = TypeVar("T")
NO_CONFIG = RunConfig()


class Advisers:
    """Those that the settings of a run name; without any, nothing is searched for."""

    def __init__(self, config: RunConfig = NO_CONFIG, warn: Callable[[str], None] = lambda text: None) -> None:
        strategy, recovery = config.checkpoint_strategy, config.recovery
        self._strategy = self._recovery = None
        self._warn, self._retries = warn, config.retries
        if strategy:
            self._strategy = plugins.guarded(plugins.CHECKPOINT_STRATEGIES, strategy, CheckpointStrategy, warn)
        if recovery:
            self._recovery = plugins.guarded(plugins.RECOVERY_HANDLERS, recovery, RecoveryHandler, warn)

    def due(self, seconds: float, since: float, moment: Callable[[], CheckpointMoment]) -> bool:
        """Whether a checkpoint is due `since` seconds after the last; `seconds` is the knob, 0 for none."""
        said = self._strategy.ask("due", moment()) if self._strategy else None
        return bool(seconds) and since >= seconds if said is None else bool(said)

    def kept(self, steps: Sequence[int]) -> set[int] | None:
        """The rounds whose checkpoints stay, among these; None where the knobs say so."""
        said = self._strategy.ask("kept", tuple(steps)) if self._strategy else None
        if said is None or self._strategy is None:
            return None
        if not isinstance(said, Collection) or not all(isinstance(step, int) for step in said):
            self._strategy.leave_out(f"has to say which rounds it keeps, such as {{0, 120}}, and said {said!r}")
            return None
        return {*said} & {*steps}

    def after_losses(self, own: FailurePolicy) -> LossPolicy:
        """What is done about lost workers; `own` is what the knobs say."""
        return AdvisedPolicy(own, self._recovery, self._warn) if self._recovery else own

    def persist(self, attempt: Callable[[str], T], again: str, checkpoints: Checkpoints) -> T:
        """What an attempt comes to, which is told why it goes on; another where a handler wants one after a failure."""
        for failures in itertools.count(1):
            try:
                return attempt(again)
            except Fenced:
                raise  # the run is in other hands
            except TrainingError as error:
                if self._recovery is None:
                    raise
                newest = checkpoints.newest()
                failure = RunFailure(str(error.reason), str(error), failures, newest.step if newest else None)
                if not (again := self._goes_on(failure)):
                    raise
                self._warn(again)
        raise AssertionError  # it counts without end

    def _goes_on(self, failure: RunFailure) -> str:
        """Who says that a run which failed is to go on, in words; empty where it ends."""
        said = self._recovery.ask("run_failed", failure) if self._recovery else None
        if said is None or self._recovery is None:
            return ""
        name = self._recovery.name
        if said not in ("retry", "give up"):
            self._recovery.leave_out(f"has to answer 'retry' or 'give up', and said {said!r}")
        elif said == "retry" and failure.failures <= self._retries:
            tries = f"try {failure.failures} of {self._retries}"
            return f"The run failed, and the recovery handler '{name}' lets it go on ({tries}): {failure.text}"
        elif said == "retry":
            self._warn(f"The recovery handler '{name}' would let the run go on; retries allows {self._retries}.")
        return ""


class AdvisedPolicy:
    """As a recovery handler says, or by the knobs where it says nothing."""

    def __init__(self, own: FailurePolicy, handler: plugins.Guarded, warn: Callable[[str], None]) -> None:
        self._own, self._handler, self._warn = own, handler, warn
        self._said: object = None

    @property
    def restarts(self) -> int:
        return self._own.restarts

    def decide(self, loss: Loss) -> Decision:
        said = self._said = self._handler.ask("worker_lost", loss)
        if said is not None and said not in get_args(Decision):
            self._handler.leave_out(f"has to answer 'replace', 'go on' or 'stop', and said {said!r}")
            said = self._said = None
        if said is None:
            return self._own.decide(loss)
        if said == "go on" and not loss.others:
            said = self._said = "stop"  # nobody is left who could
        self._warn(f"The recovery handler '{self._handler.name}' says of worker {loss.rank}, which is gone: {said}.")
        decision: Decision = said
        return decision

    def why(self, in_a_row: int) -> str:
        if self._said is None:
            return self._own.why(in_a_row)
        return f"the recovery handler '{self._handler.name}' says so"
