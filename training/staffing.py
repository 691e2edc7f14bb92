"""How many workers a run has: as many as a person says, or by what helps; who they are is the server's to know."""

from __future__ import annotations

from shoal.coordinator import ParameterServer
from shoal.engines.base import Engine
from shoal.steps.scaling import Scaler
from shoal.training.recorder import Recorder


class Staffing:
    """`count` is how many there are or are about to be; a checkpoint keeps it, so that a resumed run has as many."""

    def __init__(self, server: ParameterServer, engine: Engine, recorder: Recorder, by_person: bool) -> None:
        self.by_person = by_person  # then nothing is decided here
        self.count = len(server.hired)
        self._server, self._engine, self._recorder = server, engine, recorder
        self._rows_before, self._scaled = 0, 0.0
        self._scaler = Scaler(engine.most())

    def look(self) -> None:
        server = self._server
        self.count = len(server.hired) + sum(not member.leaving for member in server.policy.members.values())

    def scale(self, now: float) -> None:
        """With `workers: auto`: more while that helps, fewer when others need the machine."""
        server, host = self._server, self._recorder.host
        done, self._rows_before = server.rows_done - self._rows_before, server.rows_done
        span, self._scaled = now - self._scaled, now
        if self.by_person or not server.elastic or host is None or server.hired or server.policy.paused:
            return
        workers = len(server.workers)
        self._scaler.most = self._engine.most()
        # What others do on this machine is no matter to workers that are elsewhere.
        others = max(0.0, host.cpu * self._scaler.most - self._recorder.busy) if self._engine.maps else 0.0
        advice = self._scaler.advice(now, workers, done / max(span, 1e-9), others)
        if advice > 0:
            server.hire(server.free_rank())
        elif advice < 0 and workers > 1:
            server.dismiss(max(server.workers))
