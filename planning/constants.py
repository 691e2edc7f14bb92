"""What things take on this machine, in seconds of the processor: so it does not count what else the machine is doing.

    gradients    of a row, of a call, of a task        the server    of a message, a step, a shard of a step
    sweeps       of a row and a report, for each kind of request that a fit makes

How machines that are not here differ is not known here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from shoal.data_pipeline import Shards
from shoal.engines.base import Engine, Instruction, Server
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.engines.simulated import SimulatedEngine, Stepwise
from shoal.errors import WorkerFailed
from shoal.lazy.classes import dataclass
from shoal.models import LinearModel
from shoal.passes.gradient_loop import Assignment
from shoal.planning.conducting import conductor_for
from shoal.planning.miniature import loop_for
from shoal.planning.sample import ReadyTable
from shoal.settings.config import RunConfig
from shoal.training.objectives.base import Bounds
from shoal.training.resolving import resolve
from shoal.worker import Request, Worker, pack

FROM_MEMORY = 32 << 20  # bytes of rows that gradients are timed on: more than the nearer caches hold
ROUNDS = 40  # of runs that are timed
MESSAGES = 70  # rounds whose messages are timed ...
SEVERAL = 8  # ... with so many shards
BATCH = 16  # rows of a shard in them
LOCAL = 8  # steps of a shard by itself that are timed
REPEATS = 7
TIMES = 3  # that a short run is made: the least of them has been disturbed the least
Step = Callable[[Any], Any]  # from work to its update
now = time.thread_time


@dataclass
class SweepTimes:
    """One sweep of a fit: the kind of its requests, and what they took."""

    kind: str
    requests: int = 0
    seconds: float = 0.0
    merging: float = 0.0
    down: int = 0
    up: int = 0


class TimedEngine(InlineEngine):
    """Answers in this process, and keeps account of every sweep."""

    def __init__(self) -> None:
        super().__init__()
        self.sweeps: list[SweepTimes] = []

    def sweep(self, requests: Iterable[Request]) -> Iterator[Any]:
        times: SweepTimes | None = None
        for request in requests:
            if times is None:
                times = SweepTimes(type(request).__name__)
                self.sweeps.append(times)
            started = now()
            (report,) = super().sweep([request])
            done = now()
            times.requests += 1
            times.seconds += done - started
            times.down += sum(map(len, pack(request)))
            times.up += sum(map(len, pack(report)))
            started = now()
            yield report
            times.merging += now() - started


@dataclass(frozen=True)
class Constants:
    """All of it; `sweeps` are of a table with so many `rows`, before training and in an exact fit."""

    row: float
    call: float
    local: float  # of a step that a shard takes by itself
    task: dict[str, float]  # by compression
    message: float
    step: float
    shard: float  # of a step
    record: float  # of a step that is put on record, after its answers
    pipe: float  # of a worker for its messages of a round
    spread: float
    rows: int
    preparing: tuple[SweepTimes, ...]
    copying: tuple[SweepTimes, ...]
    scoring: tuple[SweepTimes, ...]
    solving: float
    facts: dict[str, float] = field(default_factory=dict)


def measure(
    ready: ReadyTable, engine: TimedEngine, preparing: Sequence[SweepTimes], compressions: Iterable[str]
) -> Constants:
    """`engine` is that of the coordinator with which the table was made ready, in these sweeps."""
    objective = ready.objective
    begun = len(engine.sweeps)
    sample = ready.shards(1)
    copying = tuple(engine.sweeps[begun:])
    begun = len(engine.sweeps)
    prepared, units = objective.prepared, objective.units
    w = objective.best.w if objective.best is not None else np.zeros(objective.width)
    ready.coordinator.score(
        prepared.dataset, prepared.encoding, prepared.split, *objective.raw(w), units.centre, units.scale
    )
    scoring = tuple(engine.sweeps[begun:])
    started = now()
    objective.set_alpha(objective.alpha)
    solving = now() - started
    row, call, spread = _gradients(ready, sample)
    tasks = {name: _task(ready, name, row, call) for name in compressions}
    local = _task(ready, "none", row, 0.0, LOCAL) / LOCAL
    message, step, shard, record = _server(ready)
    sending, pipe = _messages(ready)
    return Constants(
        row, call, local, tasks, message + sending, step, shard, record, pipe, spread, int(objective.n),
        tuple(preparing), copying, scoring, solving,
    )  # fmt: skip


def _times(action: Callable[[], Any], repeats: int = REPEATS) -> list[float]:
    found = []
    for _ in range(repeats):
        started = now()
        action()
        found.append(now() - started)
    return found


def _gradients(ready: ReadyTable, sample: Shards) -> tuple[float, float, float]:
    """Seconds of a row and of a call, and how much calls of one size differ: standard deviation of the logarithm."""
    X, y = sample.open(0)
    bytes_of_all = ready.table.rows * X.itemsize * (X.shape[1] + 1)
    rows = max(len(y), min(bytes_of_all, FROM_MEMORY) // (X.itemsize * (X.shape[1] + 1)))
    large, target = np.resize(X, (rows, X.shape[1])), np.resize(y, rows)
    w = np.zeros(X.shape[1])
    few = min(64, rows)
    LinearModel.gradient(large, target, w)
    whole = _times(lambda: LinearModel.gradient(large, target, w))
    calls = _times(lambda: [LinearModel.gradient(large[:few], target[:few], w) for _ in range(50)])
    row = float(np.median(whole)) / rows
    call = max(0.0, float(np.median(calls)) / 50 - row * few)
    spread = float(np.std(np.log(np.maximum(whole, 1e-9))))
    return row, call, min(spread, 0.3)


def _task(ready: ReadyTable, compression: str, row: float, call: float, steps: int = 0) -> float:
    """Seconds that a task takes a worker beside the call: to find its rows, to write its update; or, with steps of its
    shard's own, all of it but the rows."""

    def once() -> float:
        spent, tasks = 0.0, 0

        def timed(done: Step) -> Step:
            def step(work: Assignment) -> Any:
                nonlocal spent, tasks
                started = now()
                update = done(work)
                spent += now() - started
                tasks += len(work.tasks)
                return update

            return step

        _short_run(ready, 1, 16, compression, BATCH, timed, steps=steps)
        return spent / max(1, tasks)

    return max(0.0, min(once() for _ in range(TIMES)) - call - row * BATCH * max(1, steps))


def _server(ready: ReadyTable) -> tuple[float, float, float, float]:
    """Seconds of a message, of a step, of a step for each shard, and of a step that is put on record."""
    few, many = 8, 64
    one = _served(ready, 1, few)
    each = _served(ready, few, few)
    more = _served(ready, 1, many)
    message = max(0.0, (each - one) / (few - 1))
    shard = max(0.0, (more - one) / (many - few))
    step = max(0.0, one - message - few * shard)
    record = max(0.0, _served(ready, 1, few, recording=True) - one)
    return message, step, shard, record


def _served(ready: ReadyTable, workers: int, shards: int, recording: bool = False) -> float:
    """Seconds of the server in a round."""

    def once() -> float:
        timed: list[_TimedServer] = []

        def watched(server: Server) -> Server:
            timed.append(_TimedServer(server))
            return timed[0]

        rounds = _short_run(ready, workers, shards, "none", BATCH, watch=watched, recording=recording)
        return timed[0].seconds / max(1, rounds)

    return min(once() for _ in range(TIMES))


def _short_run(
    ready: ReadyTable, workers: int, shards: int, compression: str, batch: int,
    timed: Callable[[Step], Step] = lambda done: done,
    watch: Callable[[Server], Server] = lambda server: server, recording: bool = False,
    steps: int = 0,
) -> int:  # fmt: skip
    """Some rounds of few rows by simulated workers; how many they were."""
    with SimulatedEngine(workers) as engine:
        return _trained(
            ready, engine, engine.clock, shards, ROUNDS, compression, batch, timed, watch, recording, steps
        )  # fmt: skip


def _trained(
    ready: ReadyTable, engine: Engine, clock: Callable[[], float], shards: int, rounds: int, compression: str = "none",
    batch: int = BATCH, timed: Callable[[Step], Step] = lambda done: done,
    watch: Callable[[Server], Server] = lambda server: server, recording: bool = False, steps: int = 0,
) -> int:  # fmt: skip
    sample, workers = ready.shards(shards), engine.workers
    planned = ready.planned(sample, shards, shards * batch * rounds)
    mode = "local" if steps else "sync"
    config: RunConfig = replace(
        ready.objective.config, solver="gradient", mode=mode, compression=compression, workers=workers, shards=shards,
        epochs=1, tolerance=0.0, checkpoint_seconds=0.0, max_seconds=0.0, patience=0, batch_size=batch, callbacks=(),
    )  # fmt: skip
    bounds = Bounds(ready.objective.top_of_gram() or 1.0, planned.largest_row)
    resolved = resolve(
        config, planned, ready.precision, batch, max(1, steps), bounds, ready.objective.scale, planned.width
    )
    conductor = conductor_for(config, resolved, ready.objective, engine, planned, clock, recording)
    conductor.begin()
    loop: Stepwise = loop_for(ready.whole, sample, planned, conductor.server.board)
    engine.run_workers(
        _TimedLoop(loop, timed) if isinstance(engine, SimulatedEngine) else loop, watch(conductor.server)
    )
    conductor.server.release()
    return conductor.server.version


@dataclass(frozen=True)
class _TimedLoop:
    loop: Stepwise
    timed: Callable[[Step], Step]

    def answer(self, worker: Worker) -> None:
        self.loop.answer(worker)

    def begin(self, worker: Worker) -> Step:
        return self.timed(self.loop.begin(worker))


class _TimedServer:
    """A server, and the seconds that it takes to take in updates and to answer."""

    def __init__(self, server: Server) -> None:
        self._server, self.seconds = server, 0.0

    @property
    def finished(self) -> bool:
        return self._server.finished

    @property
    def patience(self) -> float:
        return self._server.patience

    def joined(self, rank: int, pid: int, now: float) -> Sequence[Instruction]:
        return self._server.joined(rank, pid, now)

    def pushed(self, rank: int, update: Any, now: float) -> Sequence[Instruction]:
        started = time.thread_time()
        try:
            return self._server.pushed(rank, update, now)
        finally:
            self.seconds += time.thread_time() - started

    def digest(self, now: float) -> Sequence[Instruction]:
        started = time.thread_time()
        try:
            return self._server.digest(now)
        finally:
            self.seconds += time.thread_time() - started

    def lost(self, rank: int, failure: WorkerFailed, now: float) -> Sequence[Instruction]:
        return self._server.lost(rank, failure, now)

    def left(self, rank: int, now: float) -> Sequence[Instruction]:
        return self._server.left(rank, now)

    def tick(self, now: float) -> Sequence[Instruction]:
        return self._server.tick(now)


@dataclass(frozen=True)
class ProcessorTime:
    """Asks a worker process for the seconds of the processor that it has used."""

    def answer(self, worker: Worker) -> float:
        return time.process_time()


def _messages(ready: ReadyTable) -> tuple[float, float]:
    """Seconds of the server and of a worker process for the messages of a round, waking up included: what a round of
    few rows takes them with a process that really is one, beyond what it takes them without."""
    with SimulatedEngine(1) as simulated:
        without = _least(_alone(ready, simulated) for _ in range(TIMES))
    with ProcessEngine(1, preload=["shoal.planning.miniature"]) as engine:
        _trained(ready, engine, time.monotonic, SEVERAL, ROUNDS)  # what is done once is done
        with_one = _least(_by_messages(ready, engine) for _ in range(TIMES))
    return max(0.0, with_one[0] - without[0]), max(0.0, with_one[1] - without[1])


def _least(pairs: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Of the server and of the worker, each by itself."""
    server, worker = zip(*pairs, strict=True)
    return min(server), min(worker)


def _alone(ready: ReadyTable, engine: SimulatedEngine) -> tuple[float, float]:
    """Seconds of server and worker in a round without messages."""
    spent = 0.0

    def timed(done: Step) -> Step:
        def step(work: Assignment) -> Any:
            nonlocal spent
            started = now()
            update = done(work)
            spent += now() - started
            return update

        return step

    servers: list[_TimedServer] = []

    def watched(server: Server) -> Server:
        servers.append(_TimedServer(server))
        return servers[-1]

    rounds = max(1, _trained(ready, engine, engine.clock, SEVERAL, MESSAGES, timed=timed, watch=watched))
    return servers[0].seconds / rounds, spent / rounds


def _by_messages(ready: ReadyTable, engine: ProcessEngine) -> tuple[float, float]:
    """The same with a worker process."""
    (before,) = engine.sweep([ProcessorTime()])
    started = now()
    rounds = max(1, _trained(ready, engine, time.monotonic, SEVERAL, MESSAGES))
    server = now() - started
    (after,) = engine.sweep([ProcessorTime()])
    return server / rounds, (after - before) / rounds
