"""The sweeps of a fit on machines that are not here: a request for each block of the table, for what it would cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from shoal.engines.simulated import SimulatedEngine
from shoal.engines.virtual import NoCosts, Surroundings
from shoal.lazy.classes import dataclass
from shoal.planning.constants import Constants, SweepTimes
from shoal.planning.rehearsal import Machines
from shoal.planning.sample import PlannedTable
from shoal.settings.limits import block_bytes
from shoal.worker import Worker

MOST = 4096  # requests that are followed one by one; of more, each stands for several


@dataclass(frozen=True)
class Pretended:
    """A request that takes as long as another would."""

    seconds: float
    down: int
    up: int
    merging: float

    def answer(self, worker: Worker) -> None:
        return None


class PretendedCosts(NoCosts):
    def request(self, request: Any, report: Any) -> tuple[float, int, int, float]:
        assert isinstance(request, Pretended)
        return request.seconds, request.down, request.up, request.merging


@dataclass(frozen=True)
class SweptTime:
    """What some sweeps take, one after another."""

    seconds: float
    nbytes: int
    worked: float
    merged: float  # seconds of the coordinator


def swept(table: PlannedTable, constants: Constants, sweeps: Sequence[SweepTimes], machines: Machines) -> SweptTime:
    around = Surroundings(PretendedCosts(), machines.network, machines.stragglers, seed=machines.seed)
    blocks = max(1, math.ceil(table.nbytes / block_bytes(table.columns)))
    times = table.rows / max(1, constants.rows)
    nbytes, worked, merged = 0, 0.0, 0.0
    with SimulatedEngine(machines.nodes, around) as engine:
        for sweep in sweeps:
            each = min(blocks, MOST)
            several = blocks / each  # reports of several blocks are still several
            down, up = (int(part * several / max(1, sweep.requests)) for part in (sweep.down, sweep.up))
            merging = sweep.merging * several / max(1, sweep.requests)
            request = Pretended(sweep.seconds * times / each, down, up, merging)
            for _ in engine.sweep([request] * each):
                pass
            nbytes += each * (down + up)
            worked += each * request.seconds
            merged += each * merging
        return SweptTime(engine.clock.now, nbytes, worked, merged)
