"""One run on machines that are not here: costs of the table that is asked for, weights that are really trained, and
what came of it."""

from __future__ import annotations

from dataclasses import field, replace

from shoal.data_pipeline import Shards
from shoal.engines.simulated import SimulatedEngine
from shoal.engines.virtual import Chain, Failures, Network, NoCosts, Stragglers, Surroundings, TimeSpent
from shoal.lazy.classes import dataclass
from shoal.metrics import Event
from shoal.passes.gradient_loop import Assignment, Update
from shoal.planning.conducting import EventsOnly, conductor_for
from shoal.planning.constants import Constants
from shoal.planning.miniature import loop_for
from shoal.planning.sample import ReadyTable
from shoal.settings.config import RunConfig
from shoal.settings.limits import USUAL_SHARDS
from shoal.training.conductor import Conductor
from shoal.training.objectives.base import Bounds
from shoal.training.recorder import FIRST
from shoal.training.resolving import WorkCosts, batch_and_steps, resolve

HEAD, ENTRY = 300, 40  # bytes of a message beside weights and updates, and of each task in it
CALLS = 60_000  # gradients of steps that are computed at most; of what remains it is known what it takes
ROOM = 1 << 30  # bytes of a batch at most


@dataclass(frozen=True)
class Machines:
    """Nodes of one worker each, what is between them and the server, and what may befall them."""

    nodes: int
    network: Network
    message: float | None = None  # seconds of the server for each message; as measured where it is None
    stragglers: Stragglers = field(default_factory=Stragglers)
    failures: Failures = field(default_factory=Failures)
    seed: int = 0


class TrainingCosts(NoCosts):
    """What the work of a training costs, by constants; `full` rows of a full pass stand for one that is counted."""

    def __init__(
        self, constants: Constants, config: RunConfig, columns: int, shards: int, stretch: float, full: float,
        message: float | None,
    ) -> None:  # fmt: skip
        self._c, self._width, self._shards = constants, columns, shards
        self._task, self._stretch, self._full = constants.task[config.compression], stretch, full
        self._waits = config.mode in ("sync", "local")  # a step for all shards
        self.message = constants.message if message is None else message
        self._together = shards  # updates that make a step
        self._steps = 0

    def down(self, work: Assignment) -> int:
        self._together = 1 if work.kind == "gradient" and not self._waits else self._shards
        return 8 * self._width + HEAD + ENTRY * len(work.tasks)

    def up(self, update: Update) -> int:
        sent = sum(nbytes for _, _, nbytes in update.parts)
        return int(sent * self._stretch) + HEAD + ENTRY * len(update.parts)

    def work(self, work: Assignment, update: Update) -> float:
        rows: float = sum(part[0] for part in update.parts) * (self._full if work.kind == "full" else 1.0)
        if work.kind == "local":  # at the end of an epoch a shard has fewer steps to take
            taken: int = sum(-(-part[0] // max(1, work.batch_size)) for part in update.parts)
            calls: float = taken * self._c.local
        else:
            calls = len(work.tasks) * self._c.call
        return rows * self._c.row * self._stretch + calls + len(work.tasks) * self._task + self._c.pipe

    def taking(self, update: Update) -> float:
        return self.message

    def step(self) -> float:
        return self._c.step + self._together * self._c.shard * self._stretch

    def digest(self) -> float:
        self._steps += 1
        return self._c.record if self._steps <= FIRST else 0.0


@dataclass(frozen=True)
class Rehearsed:
    """What a training would take on some machines."""

    seconds: float
    rows_per_second: float
    nbytes: int
    waiting: float  # share of the workers' time
    chain: Chain
    converged: bool
    rounds: int
    batch_size: int
    local_steps: int
    shards: int
    lost: int
    worked: float  # seconds of all workers
    served: float


def rehearse(ready: ReadyTable, config: RunConfig, constants: Constants, machines: Machines) -> Rehearsed:
    """A run of this config, in its mode and with its compression, to the optimum."""
    shards = shards_for(config, machines.nodes, ready)
    sample = ready.shards(shards)
    planned = ready.planned(sample, shards, ready.table.rows)
    shards = len(planned.rows)
    stretch = ready.table.columns / max(1, planned.width)
    costs = TrainingCosts(constants, config, ready.table.columns, shards, stretch, 1.0, machines.message)
    config = replace(
        config, solver="gradient", workers=machines.nodes, shards=shards, checkpoint_seconds=0.0, max_seconds=0.0,
        patience=0, callbacks=(), tolerance=config.tolerance or 1e-6, engine="processes",
    )  # fmt: skip
    batch, local = _batch(config, planned, costs, constants, machines, stretch)
    fewer, times = _fewer(ready, sample, planned, config.epochs, batch, shards)
    costs = TrainingCosts(constants, config, ready.table.columns, shards, stretch, times, machines.message)
    around = Surroundings(costs, machines.network, machines.stragglers, machines.failures, machines.seed)
    bounds = Bounds(ready.objective.top_of_gram() or 1.0, planned.largest_row)
    resolved = resolve(config, planned, ready.precision, batch, local, bounds, ready.objective.scale, planned.width)
    with SimulatedEngine(machines.nodes, around) as engine:
        conductor = conductor_for(config, resolved, ready.objective, engine, fewer, engine.clock)
        assert isinstance(conductor.recorder, EventsOnly)
        steps = _EndOfSteps(engine, conductor)
        conductor.recorder.on_event = steps.note
        conductor.begin()
        loop = loop_for(ready.whole, sample, fewer, conductor.server.board, config.mode == "sync")
        engine.run_workers(loop, conductor.server)
        conductor.server.release()
        return _found(engine.account, conductor, steps, machines.nodes, times, batch, local, shards)


def shards_for(config: RunConfig, nodes: int, ready: ReadyTable) -> int:
    """As many as are usual, or one for each node: with fewer, some would have nothing to do."""
    return max(1, min(config.shards or max(USUAL_SHARDS, nodes), max(1, ready.table.rows // 2)))


def _batch(
    config: RunConfig, planned: Shards, costs: TrainingCosts, constants: Constants, machines: Machines, stretch: float
) -> tuple[int, int]:
    """As a run on these machines would choose them."""
    if config.batch_size and (config.local_steps or config.mode != "local"):
        return config.batch_size, max(1, config.local_steps)
    network = machines.network
    each = costs.message + (8 * planned.width * stretch + HEAD) * 2 / network.bandwidth
    workers = machines.nodes if config.mode in ("sync", "local") else 1
    message = 2 * network.latency + workers * each + costs.step()
    room = int(ROOM / (8 * 4 * planned.width * stretch))
    work = WorkCosts(constants.row * stretch, message, machines.nodes, room)
    return batch_and_steps(config, planned, work, planned.width)


def _fewer(
    ready: ReadyTable, sample: Shards, planned: Shards, epochs: int, batch: int, shards: int
) -> tuple[Shards, float]:
    """The table with so few rows that not too many gradients are computed, and how many of its rows one stands for."""
    calls = max(1, epochs) * planned.total / batch
    if ready.whole or calls <= CALLS:
        return planned, 1.0
    rows = max(shards * 2 * batch, int(planned.total * CALLS / calls))
    return (planned, 1.0) if rows >= planned.total else (ready.planned(sample, shards, rows), planned.total / rows)


class _EndOfSteps:
    """When the steps were over and full passes began, and what had been done by then; zeros where they never did."""

    def __init__(self, engine: SimulatedEngine, conductor: Conductor) -> None:
        self._engine, self._conductor = engine, conductor
        self.seconds, self.rows = 0.0, 0

    def note(self, event: Event) -> None:
        if event.kind == "phase":
            self.seconds, self.rows = self._engine.clock.now, self._conductor.server.rows_done


def _found(
    account: TimeSpent, conductor: Conductor, steps: _EndOfSteps, nodes: int, times: float, batch: int, local: int,
    shards: int,
) -> Rehearsed:  # fmt: skip
    # Steps that were left out took as long as those that were not; rows of full passes were charged in full.
    left_out = (times - 1) * steps.seconds
    server = conductor.server
    rows = server.rows_done * (times if steps.seconds else 1.0)
    seconds = account.seconds + left_out
    grown = seconds / max(account.seconds, 1e-12)
    waiting = max(0.0, 1 - account.worked / max(nodes * account.seconds, 1e-12))
    return Rehearsed(
        seconds, rows / max(seconds, 1e-12), int(account.nbytes * (grown if steps.seconds else 1.0)), waiting,
        account.chain, bool(conductor.away.within(conductor.config.tolerance)), int(server.version * grown), batch,
        local, shards, account.lost, account.worked * grown, account.served * grown,
    )  # fmt: skip
