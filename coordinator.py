"""The coordinator: gives blocks to workers and combines what they report, in block order, into one answer; and the
parameter server, which broadcasts weights, aggregates the gradients that workers push, and makes steps of them.
Both know the engine's protocol only, never a concrete engine; exact solvers and the course of a run do not belong here.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from shoal.data.cache import Cache
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding
from shoal.data.kinds import Wanted
from shoal.data.recipes.papers import lent
from shoal.data.splits import Split
from shoal.data_pipeline import Shards
from shoal.engines.base import Dismiss, Engine, Hire, Instruction, Kill, Send
from shoal.errors import DataError, EngineError, WorkerFailed
from shoal.metrics import Tally, WorkerTally
from shoal.models import Array, StepModel, TouchingModel
from shoal.parameters.shards import ShardedParameters
from shoal.parameters.stepping import VectorStep, steps_of
from shoal.passes.blocks import Predict, Score, SumMoments, Sums, SumTriangle, stored_moments
from shoal.passes.board import Board, ServerBoard
from shoal.passes.gradient_loop import Assignment, Part, Update
from shoal.passes.parcels import server_board
from shoal.passes.tables import reading_of
from shoal.settings.config import RunConfig
from shoal.solve.least_squares import Standardisation, stack
from shoal.solve.moments import Merger, Moments
from shoal.steps.failure import Loss, LossPolicy
from shoal.steps.optimizers import stale_rate, unbounded
from shoal.steps.placement import pieces_of
from shoal.steps.policy import Barrier, Member, Plan, Policy, Task
from shoal.steps.stale import Stale
from shoal.steps.steering import Kind, Observer, Phase, Steering
from shoal.tracing import spans
from shoal.utils import Progress, silent


class Coordinator:
    """Passes over files and data sets with the workers of one engine."""

    def __init__(self, engine: Engine, home: Path, progress: Progress = silent) -> None:
        self.engine, self.cache, self.progress = engine, Cache(home), progress

    def open(self, config: RunConfig, wanted: Wanted | None = None) -> Dataset:
        """The data set of a file, of the `wanted` columns: the cached one if the file is what it was, else read now."""
        return lent(reading_of(config, self.cache, self.engine.sweep, self.progress, wanted).dataset(), self.engine)

    def is_cached(self, config: RunConfig) -> bool:
        """Whether the file is there and still what it was when it was read."""
        return reading_of(config, self.cache, self.engine.sweep, self.progress).is_cached()

    def moments(self, dataset: Dataset, base: Encoding, split: Split) -> tuple[Moments, Moments]:
        """Moments of (terms..., target) over training rows and over test rows."""
        if (stored := stored_moments(dataset, base, split)) is not None:
            return stored
        train, test = Merger(), Merger()
        requests = [SumMoments(str(dataset.directory), block, base, split) for block in dataset.blocks]
        for of_train, of_test in self.swept("summing", requests):
            train.add(of_train)
            test.add(of_test)
        return train.total(), test.total()

    def triangle(self, dataset: Dataset, encoding: Encoding, split: Split, units: Standardisation) -> Array:
        """The triangle of all standardised training rows (TSQR)."""
        requests = [SumTriangle(str(dataset.directory), block, encoding, split, units) for block in dataset.blocks]
        total: Array | None = None
        for part in self.swept("factoring", requests):
            total = part if total is None else stack(total, part)
        if total is None:
            raise DataError("The file has no rows to fit a model to. Choose a file with rows.")
        return total

    def score(
        self, dataset: Dataset, encoding: Encoding, split: Split, coef: Array, intercept: float,
        centre: Array, scale: Array,
    ) -> Sums:  # fmt: skip
        """Residual sums of train and test, and the gradient, from the rows."""
        place, fitted = str(dataset.directory), (encoding, split, coef, intercept, centre, scale)
        requests = [Score(place, block, *fitted) for block in dataset.blocks]
        total: Sums = functools.reduce(Sums.merge, self.swept("scoring", requests))
        return total

    def predict(
        self, dataset: Dataset, encoding: Encoding, coef: Array, intercept: Any, loss: Any = None
    ) -> Iterator[tuple[Array, int]]:
        place = str(dataset.directory)
        return self.swept("predicting", [Predict(place, b, encoding, coef, intercept, loss) for b in dataset.blocks])

    def swept(self, stage: str, requests: Sequence[Any]) -> Iterator[Any]:
        """The reports of a sweep, with progress."""
        for i, report in enumerate(spans.traced(f"sweep: {stage}", self.engine.sweep(requests))):
            yield report
            self.progress(stage, (i + 1) / len(requests))


# ------------------------------------------------------------------ the parameter server


class ParameterServer:
    """Weights in shared memory with a version; gradients from slots; step rule and prox of the penalty.

    An engine wraps it (`engines.base.Server`). Who may go on is the policy's to say; what may change meanwhile is asked
    for by the verbs under "what a run may ask for", and by the steering, which the run writes and the server reads.
    """

    # Seconds: between two looks at clock and commands; from which on this process was held up; for all workers to come
    POLL, STALL, TOGETHER = 0.05, 1.0, 0.2  # at the start, since the first one would be given what others have at hand

    def __init__(
        self, engine: Engine, shards: Shards, model: StepModel, start: Array, steering: Steering,
        failure: LossPolicy, observer: Observer, parts: Sequence[tuple[str, int]] = (),
    ) -> None:  # fmt: skip
        self.shards, self.model, self.steering = shards, model, steering
        self.policy: Policy = Barrier(Plan(()), 0)  # nothing to do until a phase begins
        self.kind: Kind = "gradient"
        self.value, self.rows = 0.0, 0  # what the losses of so many rows came to at the last step
        self.version, self.rate, self.rows_done = 0, 0.0, 0  # rows since the run was started or resumed
        self.workers: dict[int, WorkerTally] = {}
        self.hired: dict[int, float] = dict.fromkeys(range(engine.workers), math.inf)
        self.elastic, self.here, self.finished, self.patience = engine.elastic, engine.maps, False, self.POLL
        self._engine, self._failure, self._observer = engine, failure, observer
        self._touches = isinstance(model, TouchingModel)
        self._tally, self._news, self._ticked, self._together = Tally(), False, math.inf, math.inf
        self._losses, self._slowed = dict[int, int](), dict[int, float]()
        self._orders, self._evicted = list[Instruction](), dict[int, str]()
        self._parts: dict[Task, tuple[Part, int]] = {}
        self._board = self._make_board(engine, len(shards.rows), len(start), shards.centre())
        pieces = pieces_of(parts or [("weights", len(start))])
        self.parameters = ShardedParameters(self._board, start, pieces, engine, failure.restarts, observer.happened)

    def _make_board(self, engine: Engine, shards: int, width: int, centre: Array | None) -> ServerBoard:
        return server_board(engine.allocate if engine.maps else None, shards, width, centre)

    @property
    def board(self) -> Board:
        """How workers take part in the exchange."""
        return self._board.shared

    def release(self) -> None:
        self.parameters.release()
        for shared in self._board.memory:
            self._engine.release(shared)

    # ---------------------------------------------------------------- what an engine tells

    def joined(self, rank: int, pid: int, now: float) -> list[Instruction]:
        again = rank in self._losses
        self.hired.pop(rank, None)
        self._evicted.pop(rank, None)
        self._slowed.pop(rank, None)  # that was another process
        self.workers[rank] = WorkerTally(pid, since=now)
        self.policy.join(rank)
        self._observer.happened(
            "restarted" if again else "joined", f"Worker {rank} is here (process {pid}).", rank, pid=pid
        )
        return self._instructions(now)

    def pushed(self, rank: int, update: Any, now: float) -> list[Instruction]:
        tasks = self.policy.pushed(rank, now)
        if tasks:
            self._losses[rank] = 0
            self._take_in(self.workers[rank], tasks, self._board.open(tasks, update))
        self._make_steps(now)
        return self._instructions(now)

    def digest(self, now: float) -> list[Instruction]:
        """What there is to do about steps that were made: record, judge, end. Workers are at the next one meanwhile."""
        self._tell_news(now)
        if not self.finished and (self.policy.finished or self.policy.closed) and self.policy.idle:
            self._observer.phase_ended(now)
        return self._instructions(now)

    def lost(self, rank: int, failure: WorkerFailed, now: float) -> list[Instruction]:
        redone = self.policy.gone(rank)
        self.workers.pop(rank, None)
        self.hired.pop(rank, None)
        self._losses[rank] = self._losses.get(rank, 0) + 1
        cause = self._evicted.pop(rank, failure.cause)
        self._observer.happened(
            "lost", f"Worker {rank} is gone: {cause}.", rank,
            signal=failure.signal, cause=cause, tasks_redone=len(redone),
        )  # fmt: skip
        others = len(self.hired) + sum(not member.leaving for member in self.policy.members.values())
        decision = self._failure.decide(Loss(rank, self._losses[rank], others, cause, failure.signal))
        if decision == "stop":
            raise EngineError(
                f"Worker {rank} was lost ({cause}) and is not replaced: {self._failure.why(self._losses[rank])}. "
                "Resume the run when the cause is mended."
            )
        if decision == "replace":
            self.hire(rank)
        self._make_steps(now)
        return self._instructions(now)

    def left(self, rank: int, now: float) -> list[Instruction]:
        self.policy.gone(rank)
        self.workers.pop(rank, None)
        self._observer.happened("left", f"Worker {rank} has left.", rank)
        return self._instructions(now)

    def tick(self, now: float) -> list[Instruction]:
        if now - self._ticked > self.STALL:  # this process was stopped or starved: that is no worker's fault
            self.policy.extend_leases(now - self._ticked)
        self._ticked, self._together = now, min(self._together, now + self.TOGETHER)
        self.parameters.tick()
        self._observer.ticked(now)
        for rank in self.policy.doubted(now):
            self.policy.look(rank, self._engine.works(rank), now)
        for rank in self.policy.overdue(now):
            self.evict(rank, f"it hung: no answer within {self.policy.lease_of(self.policy.members[rank]):.1f} s")
        for rank, since in self.hired.items():
            late = now - since > self._engine.start
            if late and not self._engine.works(rank):  # else it is coming: imports take minutes on a busy machine
                self.evict(rank, f"it did not start within {self._engine.start:.0f} s")
            self.hired[rank] = now if late else min(since, now)
        self._make_steps(now)
        return self.digest(now)

    # ---------------------------------------------------------------- what a run may ask for

    def begin(self, phase: Phase) -> None:
        """Another phase, with whoever is there."""
        phase.policy.succeed(self.policy)
        _, self.policy, rule, self.kind = phase
        self.parameters.begin(rule)
        full = self._full_rows = [min(n, self.steering.batch_size) for n in self.shards.rows]
        self._full_step = max(1, sum(full) if isinstance(self.policy, Barrier) else max(full))  # rows
        self.parameters.publish(self.version)

    def pause(self) -> None:
        """Give out no more work until `resume`."""
        self.policy.paused = True

    def resume(self) -> None:
        self.policy.paused = False

    def close(self) -> None:
        """Give out no more work for good; what is in workers' hands is still taken in."""
        self.policy.closed, self.policy.paused = True, False

    def finish(self, w: Array | None = None) -> None:
        """The end, with these weights or those that there are."""
        if w is not None:
            self.parameters.put(w)
        self.finished = True

    def retune(self, model: StepModel) -> None:
        """Another penalty; what the rule remembers is of another objective."""
        self.model = model
        self.parameters.forget()

    def bound(self, staleness: float) -> bool:
        """Another bound of staleness; False where updates are not applied as they come."""
        if not isinstance(self.policy, Stale):
            return False
        self.policy.bound = staleness
        return True

    def slow(self, rank: int, factor: float) -> None:
        """Let a worker take so many times as long as it has to."""
        self._slowed[rank] = factor
        self.policy.slow(rank, factor)

    def hire(self, rank: int) -> None:
        self.hired[rank] = math.inf  # its time runs from the next tick on
        self._orders.append(Hire(rank))

    def free_rank(self) -> int:
        return next(rank for rank in itertools.count() if rank not in self.workers and rank not in self.hired)

    def dismiss(self, rank: int) -> bool:
        """Let a worker go as soon as it has done what it is doing; not the last that stays."""
        return self.policy.leave(rank)

    def evict(self, rank: int, why: str, kill: bool = True) -> None:
        """Kill a worker, or know why it will be gone; its shards are handed on when it is."""
        if rank not in self._evicted:
            self._evicted[rank] = why
            self._orders += [Kill(rank)] * kill

    # ---------------------------------------------------------------- what a run may look at

    @property
    def w(self) -> Array:
        """The weights, until the next step."""
        return self.parameters.w

    @property
    def gradient_at(self) -> Array:
        """The point that the gradient of the last step is of."""
        return self._board.published(max(0, self.version - 1))

    @property
    def value_of_all(self) -> float:
        """What the losses of all rows come to, guessed from those of the last step."""
        return self.value / max(self.rows, 1) * self.shards.total

    def take_tally(self) -> Tally:
        """What was done since this was last asked."""
        tally, self._tally = self._tally, Tally()
        return tally

    # ---------------------------------------------------------------- updates become steps

    def _take_in(self, worker: WorkerTally, tasks: Sequence[Task], update: Update) -> None:
        for task, plain in zip(tasks, update.parts, strict=True):
            part = Part(*plain)
            self._parts[task] = part, update.version
            worker.rows += part.rows
        worker.busy += update.read + update.compute
        worker.staleness = self.version - update.version
        self._tally.read += update.read
        self._tally.compute += update.compute

    def _tell_news(self, now: float) -> None:
        if self._news:
            self._news = False
            self._observer.stepped(now)

    def _make_steps(self, now: float) -> None:
        """Every step that can be made. The last one is left for `digest`, so that workers need not wait for that."""
        while not self.finished and (tasks := self.policy.due()):
            self._tell_news(now)
            started = time.perf_counter()
            self._apply(tasks)
            self.policy.applied(tasks)
            self.parameters.publish(self.version)
            self._tally.apply += time.perf_counter() - started
            self._news = True

    @unbounded
    def _apply(self, tasks: Sequence[Task]) -> None:
        parts, versions = zip(*(self._parts.pop(task) for task in tasks), strict=True)
        rows, value = sum(part.rows for part in parts), sum(part.value for part in parts)
        self.rows_done += rows
        sent, behind = sum(part.nbytes for part in parts), len(tasks) * self.version - sum(versions)
        self._tally.count(rows, len(tasks), 8 * len(self.w) * len(tasks), sent, behind)
        self.value, self.rows = value, rows
        self.rate = self.steering.rate_at(self.policy.progress)
        if self.steering.tamed:
            self.rate = stale_rate(self.rate, self.version - min(versions))
        rate = self.rate if self.kind == "local" else self.rate * self._share_of_a_step(rows)
        self.parameters.apply(self._vector_step(tasks, parts, rate), self.version)
        self.version += 1

    def _vector_step(self, tasks: Sequence[Task], parts: Sequence[Part], rate: float) -> VectorStep:
        """What becomes of the updates that are in their slots."""
        local, shards, counts = self.kind == "local", tuple(t.shard for t in tasks), tuple(p.rows for p in parts)
        left = rate * steps_of(counts, [self._full_rows[s] for s in shards]) if local and self._touches else 0.0
        return VectorStep(
            shards, self._board.take(tasks), counts, rate, self.steering.local_steps if local else 0,
            self.steering.clip, self.model.penalty, left,
        )  # fmt: skip

    def _share_of_a_step(self, rows: int) -> float:
        """Less than 1 for the last batches of an epoch, where they have fewer rows: each row is to count as much as
        any other, and the rate is only safe for batches of full size."""
        return 1.0 if self.kind == "full" else min(1.0, rows / self._full_step)

    def _instructions(self, now: float) -> list[Instruction]:
        orders, self._orders = self._orders, []
        if self.finished or (self.hired and now < self._together):
            return orders
        orders += (Dismiss(m.rank) for m in self.policy.departing())
        return orders + [Send(m.rank, self._work(m)) for m in self.policy.grants(self.version, now)]

    def _work(self, member: Member) -> Any:
        knobs = self.steering
        sides = self._board.hand_out(member.tasks, knobs.compression, knobs.share)
        local = self.kind == "local"
        assignment = Assignment(
            tuple(map(tuple, member.tasks)), sides, self.kind, knobs.seed, knobs.batch_size, knobs.local_steps,
            knobs.rate_at(self.policy.progress) if local else 0.0, self.model if local and not self._touches else None,
            knobs.compression, knobs.share,
            knobs.prefetch, knobs.tight, self._slowed.get(member.rank, 1.0),
        )  # fmt: skip
        return self._board.seal(member.tasks, assignment)

    # ---------------------------------------------------------------- checkpoints

    def state(self, whole: bool = True) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain values and arrays to go on from with the same bits; not `whole`: without what parameter shards have."""
        arrays = (self.parameters.state() if whole else self.parameters.counts()) | self._board.state()
        return {"version": self.version, "policy": self.policy.state(), "kind": self.kind}, arrays

    def restore(self, version: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.version = version
        self.parameters.restore(arrays)
        self._board.restore(arrays)
