"""A worker that takes long to come: one that computes is waited for, one that does not is killed; on our clock."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.coordinator import ParameterServer
from shoal.data_pipeline import Shards
from shoal.engines.base import Kill
from shoal.engines.inline import InlineEngine
from shoal.models import LinearModel, NoPenalty
from shoal.steps.failure import FailurePolicy
from shoal.steps.steering import Steering


class Coming(InlineEngine):
    """Says of its worker whether it computes."""

    computes = True

    def works(self, rank: int) -> bool:
        return self.computes


class Deaf:
    def stepped(self, now: float) -> None: ...

    def ticked(self, now: float) -> None: ...

    def phase_ended(self, now: float) -> None: ...

    def happened(self, kind: str, text: str, rank: int | None = None, **data: Any) -> None: ...


def test_a_worker_that_still_imports_is_waited_for() -> None:
    shards = Shards("/nowhere", (4,), 2, "float64", 0, 1.0, (0,), 0)
    engine = Coming()
    server = ParameterServer(
        engine,
        shards,
        LinearModel(NoPenalty()),
        np.zeros(2),
        Steering(lambda epoch: 0.1, 0, 2),
        FailurePolicy(),
        Deaf(),
    )
    server.pause()
    try:
        kills = {now: [one for one in server.tick(float(now)) if isinstance(one, Kill)] for now in range(0, 200, 5)}
        assert not any(kills.values()), "it computed all the time"
        engine.computes = False
        late = [now for now in range(200, 260, 5) if any(isinstance(one, Kill) for one in server.tick(float(now)))]
        assert len(late) == 1
        assert 200 <= late[0] <= 230
    finally:
        server.release()
        engine.close()
