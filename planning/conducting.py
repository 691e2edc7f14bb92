"""The conductor of a run without a folder: nothing is recorded, saved or asked for; where its clock comes from is the
engine's business."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shoal.coordinator import ParameterServer
from shoal.data_pipeline import Shards
from shoal.engines.base import Engine
from shoal.metrics import Event
from shoal.results.fit import Resolved
from shoal.settings.config import RunConfig
from shoal.storage.memory import MemoryStorage
from shoal.training.callbacks import Callbacks
from shoal.training.checkpoints import Checkpoints
from shoal.training.conductor import Conductor
from shoal.training.objectives.base import Objective
from shoal.training.recorder import Recorder
from shoal.training.session import Session


class EventsOnly(Recorder):
    """Keeps the events of a run and no round: they are not looked at, and cost more than the run."""

    on_event: Callable[[Event], None] | None = None

    @property
    def affordable(self) -> bool:
        return False

    def event(self, event: Event) -> None:
        self.events.append(event)
        if self.on_event is not None:
            self.on_event(event)

    def tick(self, server: ParameterServer, now: float) -> bool:
        return False


def conductor_for(
    config: RunConfig, resolved: Resolved, objective: Objective, engine: Engine, shards: Shards,
    clock: Callable[[], float], recording: bool = False,
) -> Conductor:  # fmt: skip
    storage = MemoryStorage()
    nowhere = Checkpoints(Path("/nonexistent"))  # none are due: `checkpoint_seconds` is 0
    session = Session(storage, nowhere, Callbacks((), _ignore), lambda level, text: None, lambda standing: None)
    recorder = (Recorder if recording else EventsOnly)(storage, objective, clock, _ignore)
    return Conductor(config, resolved, objective, engine, shards, session, recorder, clock)


def _ignore(text: str) -> None:
    return None
