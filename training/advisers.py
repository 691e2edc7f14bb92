"""What plug-ins decide of a run: when checkpoints are due and which stay; by the knobs where none says anything.

How plug-ins are found and kept from doing harm is in `plugins`; what is done with their advice, with who asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from shoal import plugins
from shoal.settings.config import RunConfig
from shoal.steps.checkpointing import CheckpointMoment, CheckpointStrategy

NO_CONFIG = RunConfig()


class Advisers:
    """Those that the settings of a run name; without any, nothing is searched for."""

    def __init__(self, config: RunConfig = NO_CONFIG, warn: Callable[[str], None] = lambda text: None) -> None:
        name, group = config.checkpoint_strategy, plugins.CHECKPOINT_STRATEGIES
        self._strategy = plugins.guarded(group, name, CheckpointStrategy, warn) if name else None

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
