"""A plan: all ways to a model on all numbers of nodes, from which number on more do not help, and why."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from shoal.coordinator import Coordinator
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.lazy.classes import dataclass
from shoal.planning.constants import Constants, TimedEngine, measure
from shoal.planning.exact import swept
from shoal.planning.machines import NETWORK, NODES, failures_of, network_of, stragglers_of
from shoal.planning.rehearsal import Machines, Rehearsed, rehearse
from shoal.planning.sample import PlannedTable, ReadyTable, SmallTable, made_up, prepared, taken_from
from shoal.settings.config import MODES, RunConfig
from shoal.utils import Progress, silent
from shoal.worker import Worker

WORTH_IT = 0.95  # of the seconds: what more nodes have to come to, or they do not help
EXACT = "exact"
MANY = 200  # nodes of all rehearsals together from which on processes are started for them
LIMITS = {
    "server": "the server: it takes in one message after another",
    "network": "the network: messages take longer than the work between them",
    "stragglers": "stragglers: all wait for the slowest",
    "data": "the data: there are too few rows for more",
    "staleness": "staleness: with more nodes gradients are older, and count for less",
    "": "",
}


@dataclass(frozen=True)
class PlanRequest:
    """What is asked: nodes, and what lies between and may befall them, as a person writes it."""

    nodes: tuple[int, ...] = NODES
    network: str = NETWORK
    stragglers: str = ""
    failures: str = ""
    modes: tuple[str, ...] = MODES
    compressions: tuple[str, ...] = ("none", "topk")
    seed: int = 0


@dataclass(frozen=True)
class Way:
    """One way to the model on one number of nodes."""

    way: str  # exact, or a mode
    compression: str
    nodes: int
    seconds: float  # of training, or of an exact fit's last pass and solution
    before: float  # of reading, and for gradient steps of copying rows
    rows_per_second: float
    nbytes: int
    node_hours: float
    waiting: float
    reached: bool  # the optimum
    chain: dict[str, float]
    batch_size: int = 0
    local_steps: int = 0
    shards: int = 0
    rounds: int = 0
    lost: int = 0

    @property
    def total(self) -> float:
        return self.before + self.seconds


@dataclass(frozen=True)
class Best:
    """Of one way: from how many nodes on more do not help, and what it takes there; what limits it."""

    way: str
    compression: str
    nodes: int
    enough: bool  # more do not help
    limit: str
    seconds: float
    total: float


def make_plan(config: RunConfig, asked: PlanRequest, progress: Progress = silent) -> dict[str, Any]:
    """`config.file` is a file, or a shape such as 2000000x50. All of it in plain values."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="shoal-plan-") as name, TimedEngine() as engine:
        folder = Path(name)
        progress("taking rows", 0.0)
        small = made_up(config.file, config, folder) or taken_from(config, folder)
        ready = prepared(small, Coordinator(engine, folder / "home"))
        progress("measuring", 0.0)
        constants = measure(ready, engine, tuple(engine.sweeps), asked.compressions)
        ways = list(_rehearsed(small, folder / "home", asked, constants, progress))
    return _told(ready, asked, constants, ways, time.perf_counter() - started)


def _rehearsed(
    small: SmallTable, home: Path, asked: PlanRequest, constants: Constants, progress: Progress
) -> Iterator[Way]:
    """All of them, by as many processes as there are cores where that is worth it."""
    kinds = [(EXACT, "none"), *((mode, c) for mode in asked.modes for c in asked.compressions)]
    requests = [
        RehearsalRequest(small, str(home), asked, constants, way, compression, nodes)
        for nodes in sorted(asked.nodes, reverse=True)  # the many take longest: nobody is left with them at the end
        for way, compression in kinds
    ]
    cores = os.cpu_count() or 1
    many = cores > 1 and sum(asked.nodes) * len(kinds) >= MANY
    found = []
    with ProcessEngine(cores) if many else InlineEngine() as engine:
        for done, way in enumerate(engine.sweep(requests), 1):
            progress("rehearsing", done / len(requests))
            found.append(way)
    yield from sorted(found, key=lambda way: way.nodes)


_tables: dict[str, ReadyTable] = {}  # by their home: a process reads a table once


@dataclass(frozen=True)
class RehearsalRequest:
    """One way on one number of nodes, rehearsed by whoever answers."""

    small: SmallTable
    home: str
    asked: PlanRequest
    constants: Constants
    way: str
    compression: str
    nodes: int

    def answer(self, worker: Worker) -> Way:
        if self.home not in _tables:
            _tables.clear()
            _tables[self.home] = prepared(self.small, Coordinator(InlineEngine(), Path(self.home)))
        rehearsals = _Rehearsals(_tables[self.home], self.asked, self.constants)
        return rehearsals.rehearsed(self.way, self.compression, self.nodes)


class _Rehearsals:
    def __init__(self, ready: ReadyTable, asked: PlanRequest, constants: Constants) -> None:
        self.ready, self.constants, self.config = ready, constants, ready.objective.config
        network, message = network_of(asked.network)
        self._usual = Machines(
            1, network, message, stragglers_of(asked.stragglers, constants.spread), failures_of(asked.failures),
            asked.seed,
        )  # fmt: skip

    def rehearsed(self, way: str, compression: str, nodes: int) -> Way:
        machines = replace(self._usual, nodes=nodes)
        return self._exact(machines) if way == EXACT else self._steps(way, compression, machines)

    def _exact(self, machines: Machines) -> Way:
        table, constants = self.ready.table, self.constants
        reading = swept(table, constants, constants.preparing, machines)
        scoring = swept(table, constants, constants.scoring, machines)
        seconds = scoring.seconds + constants.solving
        total = reading.seconds + seconds
        worked = reading.worked + scoring.worked
        nbytes = reading.nbytes + scoring.nbytes
        spent = {
            "work": worked / machines.nodes, "network": nbytes / machines.network.bandwidth,
            "slow": 0.0, "server": reading.merged + scoring.merged + constants.solving,
        }  # fmt: skip
        return Way(
            EXACT, "none", machines.nodes, seconds, reading.seconds, table.rows / max(total, 1e-12),
            nbytes, machines.nodes * total / 3600,
            max(0.0, 1 - worked / max(machines.nodes * total, 1e-12)), True, spent,
        )  # fmt: skip

    def _steps(self, mode: str, compression: str, machines: Machines) -> Way:
        config = replace(self.config, mode=mode, compression=compression)
        found: Rehearsed = rehearse(self.ready, config, self.constants, machines)
        sweeps = (*self.constants.preparing, *self.constants.copying)
        before = swept(self.ready.table, self.constants, sweeps, machines)
        return Way(
            mode, compression, machines.nodes, found.seconds, before.seconds, found.rows_per_second,
            found.nbytes + before.nbytes, machines.nodes * (found.seconds + before.seconds) / 3600, found.waiting,
            found.converged, found.chain._asdict(), found.batch_size, found.local_steps, found.shards, found.rounds,
            found.lost,
        )  # fmt: skip


# ------------------------------------------------------------------ what is said of it


def best_of(ways: Sequence[Way]) -> Best:
    """The fewest nodes from which no larger number that was tried is faster by a twentieth; `ways` are of one kind."""
    ways = sorted(ways, key=lambda way: way.nodes)
    place = next(i for i, way in enumerate(ways) if all(later.total > WORTH_IT * way.total for later in ways[i + 1 :]))
    way, enough = ways[place], place + 1 < len(ways)
    limit = limit_of(way, ways[place + 1]) if enough else ""
    return Best(way.way, way.compression, way.nodes, enough, limit, way.seconds, way.total)


def limit_of(way: Way, more: Way) -> str:
    """What keeps `more` nodes from helping: the part that the longest chain of events is made of there."""
    chain = more.chain
    grown = {part: chain[part] for part in ("network", "server", "slow")}
    largest = max(grown, key=lambda part: grown[part])
    if chain["work"] >= sum(grown.values()):
        return "staleness" if way.way in ("ssp", "async") else "data"
    if way.way == "ssp" and more.waiting > 0.5 and chain["work"] >= grown[largest]:
        return "staleness"
    return {"slow": "stragglers"}.get(largest, largest)


def _told(
    ready: ReadyTable, asked: PlanRequest, constants: Constants, ways: Sequence[Way], took: float
) -> dict[str, Any]:
    kinds = dict.fromkeys((way.way, way.compression) for way in ways)
    best = [best_of([way for way in ways if (way.way, way.compression) == kind]) for kind in kinds]
    table: PlannedTable = ready.table
    return {
        "table": {"name": table.name, "rows": table.rows, "columns": table.columns, "bytes": table.nbytes},
        "sample": {"rows": int(ready.objective.n), "columns": ready.objective.width, "whole": ready.whole},
        "network": asked.network, "stragglers": asked.stragglers, "failures": asked.failures, "seed": asked.seed,
        "tolerance": ready.objective.config.tolerance or 1e-6, "precision": ready.precision,
        "constants": {
            "gradient_rows_per_second": 1 / max(constants.row, 1e-15), "seconds_of_a_call": constants.call,
            "seconds_of_a_task": constants.task, "seconds_of_a_message": constants.message,
            "seconds_of_a_step": constants.step, "seconds_of_a_step_for_each_shard": constants.shard,
            "spread": constants.spread, "seconds_of_solving": constants.solving,
            "reading_bytes_per_second": _reading(ready, constants),
        },
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None, "seconds": took,
        "ways": [{**asdict(way), "total": way.total} for way in ways],
        "best": [{**asdict(one), "limit_said": LIMITS[one.limit]} for one in best],
    }  # fmt: skip


def _reading(ready: ReadyTable, constants: Constants) -> float:
    seconds = sum(sweep.seconds for sweep in constants.preparing)
    return ready.table.nbytes * constants.rows / max(1, ready.table.rows) / max(seconds, 1e-12)
