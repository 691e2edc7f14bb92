"""What a worker does in training: read weights, compute gradients of the shards it is given, put them into their slots.

It keeps nothing that matters: whoever is given the same tasks writes the same bytes. Who is given what, and what
becomes of the gradients, is the parameter server's business.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from shoal.data_pipeline import Batches, Shards
from shoal.lazy.classes import dataclass
from shoal.models import Array, DrawingModel, StepModel, TouchedSums, TouchingModel, Values
from shoal.passes.board import Board, Exchange
from shoal.passes.shards import opened_shard
from shoal.steps.compression import Compression, Touched, encode_with_feedback, fed_back, make_compression
from shoal.steps.optimizers import unbounded
from shoal.steps.policy import Task
from shoal.steps.steering import Kind
from shoal.worker import Worker


@dataclass(frozen=True)
class Assignment:
    """Work for one worker: all that it needs to know besides the shards and the board."""

    tasks: tuple[tuple[int, ...], ...]  # plain numbers: they are packed in a tenth of the time
    sides: tuple[int, ...]  # of the residuals of each task's shard that are to be read
    kind: Kind
    seed: int
    batch_size: int
    local_steps: int
    rate: float  # of local steps
    model: StepModel | None  # of local steps: its penalty may be another by now
    compression: str
    share: float
    prefetch: int  # batches to read ahead
    tight: bool  # memory is short: nothing is brought in beforehand, and pages may go as soon as they were read
    slow: float  # factor by which to be slower than possible: a straggler on request


class Part(NamedTuple):
    """What came out of one task; the update itself is in the shard's slot."""

    rows: int
    value: float  # what the losses of the rows come to at the weights that were read
    nbytes: int


@dataclass(frozen=True)
class Update:
    """What a worker says when it has done its tasks; `parts` are those of `Part` in plain tuples."""

    version: int
    parts: tuple[tuple[Any, ...], ...]
    read: float  # seconds
    compute: float


@dataclass(frozen=True)
class GradientLoop:
    """The request that `Engine.run_workers` lets every worker answer."""

    shards: Shards
    board: Board
    model: StepModel
    queue: int = 0  # the most batches that a worker has asked the disk for and not taken yet; 0 for no such bound

    def answer(self, worker: Worker) -> None:
        done = self.begin(worker)
        work = worker.store.join()
        while work is not None:
            work = worker.store.push_pull(done(work))

    def begin(self, worker: Worker) -> Callable[[Any], Any]:
        """What turns work as it is sent into an update as it is sent, for an engine that carries the two itself."""
        exchange = self.board.joined_by(worker)
        opened = functools.partial(opened_shard, worker, self.shards)
        training = TrainingWorker(self.shards, exchange, self.model, opened, self.queue)
        return lambda work: exchange.carry(work, training.done)


class TrainingWorker:
    """One worker in one training."""

    def __init__(
        self, shards: Shards, exchange: Exchange, model: StepModel,
        opened: Callable[[int], tuple[Values, Values]] | None = None, queue: int = 0,
    ) -> None:  # fmt: skip
        self.shards, self.exchange, self.model = shards, exchange, model
        self.batches = Batches(shards, opened, queue)
        self._compressions: dict[tuple[str, float], Compression] = {}
        self._draws = isinstance(model, DrawingModel)
        centre = shards.centre()
        self._sparse = Touched(len(centre), centre) if centre is not None else None

    @unbounded
    def done(self, work: Assignment) -> Update:
        started = time.perf_counter()
        self.batches.seconds = 0.0
        version, w = self.exchange.weights()
        tasks = (Task(*numbers) for numbers in work.tasks)
        parts = tuple(tuple(self._part(work, task, side, w)) for task, side in zip(tasks, work.sides, strict=True))
        took = time.perf_counter() - started
        if work.slow > 1:
            time.sleep((work.slow - 1) * took)
            took *= work.slow
        return Update(version, parts, self.batches.seconds, took - self.batches.seconds)

    def _part(self, work: Assignment, task: Task, side: int, w: Array) -> Part:
        compression, slot = self._compression(work, len(w)), self.exchange.slot(task.shard)
        if self._sparse is not None:
            sums, rows, value = self._touched(work, task, w)
            if work.compression == "none":
                return Part(rows, value, self._sparse.encode_sums(sums, slot))
            update = self._sparse.vector(sums)
        elif work.kind == "local":
            update, rows, value = self._local(work, task, w)
        else:
            update, rows, value = self._gradient(work, task, w)
        if work.kind == "local":
            update *= fed_back(compression.kept)  # the steps of a round may go all the way, so M may be the identity
        if work.compression == "none":
            return Part(rows, value, compression.encode(update, slot))
        old, new = self.exchange.residuals(task.shard, side)
        return Part(rows, value, encode_with_feedback(compression, update, old, new, slot))

    def _gradient(self, work: Assignment, task: Task, w: Array) -> tuple[Array, int, float]:
        X, y = self._rows(work, task, task.step)
        if self._draws:
            self._seed(self.model, work, task, task.step)
        gradient, value = self.model.gradient(X, y, w)
        return gradient, len(y), value

    def _local(self, work: Assignment, task: Task, w: Array) -> tuple[Array, int, float]:
        """Some steps of the shard's own; the update is how far they went."""
        own, total, value = w, 0, 0.0
        model = work.model or self.model
        full = min(work.batch_size, self.shards.rows[task.shard])
        for step in range(task.step * work.local_steps, (task.step + 1) * work.local_steps):
            X, y = self._rows(work, task, step)
            if not len(y):
                break
            if self._draws:
                self._seed(model, work, task, step)
            gradient, loss = model.gradient(X, y, own)
            # A short last batch makes a short step: each row counts as much as any other.
            own = model.update(own, gradient, work.rate / full, work.rate * len(y) / full)
            total, value = total + len(y), value + loss
        return own - w, total, value

    def _touched(self, work: Assignment, task: Task, w: Array) -> tuple[TouchedSums, int, float]:
        """The same of sparse rows, by the coordinates that they touch; the penalty is left to the server."""
        assert isinstance(self.model, TouchingModel)
        assert self._sparse is not None
        if work.kind != "local":
            X, y = self._rows(work, task, task.step)
            sums, value = self.model.touched(X, y, w)
            return sums, len(y), value
        walk, total, value = self.model.walk(w, self._sparse.centre), 0, 0.0
        full = min(work.batch_size, self.shards.rows[task.shard])
        for step in range(task.step * work.local_steps, (task.step + 1) * work.local_steps):
            X, y = self._rows(work, task, step)
            if not len(y):
                break
            value += walk.step(X, y, work.rate / full)
            total += len(y)
        return walk.moved(), total, value

    @staticmethod
    def _seed(model: StepModel, work: Assignment, task: Task, step: int) -> None:
        cast(DrawingModel, model).seed(work.seed, task.epoch, task.shard, step)

    def _compression(self, work: Assignment, width: int) -> Compression:
        key = work.compression, work.share
        if key not in self._compressions:
            self._compressions[key] = make_compression(work.compression, width, work.share)
        return self._compressions[key]

    def _rows(self, work: Assignment, task: Task, step: int) -> tuple[Values, Values]:
        if work.kind == "full":
            return self.batches.whole(task.shard, work.tight)
        return self.batches.batch(
            work.seed, task.epoch, task.shard, step, work.batch_size, ahead=work.prefetch, tight=work.tight
        )
