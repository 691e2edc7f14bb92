"""What a worker does in training: read weights, compute gradients of the shards it is given, put them into their slots.

It keeps nothing that matters: whoever is given the same tasks writes the same bytes. Who is given what, and what
becomes of the gradients, is the parameter server's business.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.data_pipeline import Batches, Shards
from shoal.models import Array, LinearModel, OrdinaryLeastSquares, Penalty, Values
from shoal.passes.board import COPIES, Board
from shoal.steps.compression import Compression, encode_with_feedback, fed_back, make_compression
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
    model: LinearModel[Penalty] | None  # of local steps
    compression: str
    share: float
    prefetch: int  # batches to read ahead
    tight: bool  # memory is short: nothing is brought in beforehand, and pages may go as soon as they were read
    slow: float  # factor by which to be slower than possible: a straggler on request


class Part(NamedTuple):
    """What came out of one task; the update itself is in the shard's slot."""

    rows: int
    squares: float  # sum of squared residuals at the weights that were read
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

    def answer(self, worker: Worker) -> None:
        training = _TrainingWorker(self.shards, self.board, worker)
        work: Assignment | None = worker.store.join()
        while work is not None:
            work = worker.store.push_pull(training.done(work))


class _TrainingWorker:
    """One worker in one training."""

    def __init__(self, shards: Shards, board: Board, worker: Worker) -> None:
        self.shards = shards
        self.weights: Array = worker.array(board.weights)
        self.version: npt.NDArray[np.int64] = worker.array(board.version)
        self.slots: npt.NDArray[np.uint8] = worker.array(board.slots)
        self.residuals: Array = worker.array(board.residuals)
        self.batches = Batches(shards)
        self._compressions: dict[tuple[str, float], Compression] = {}

    @unbounded
    def done(self, work: Assignment) -> Update:
        started = time.perf_counter()
        self.batches.seconds = 0.0
        version, w = self._weights()
        tasks = (Task(*numbers) for numbers in work.tasks)
        parts = tuple(tuple(self._part(work, task, side, w)) for task, side in zip(tasks, work.sides, strict=True))
        took = time.perf_counter() - started
        if work.slow > 1:
            time.sleep((work.slow - 1) * took)
            took *= work.slow
        return Update(version, parts, self.batches.seconds, took - self.batches.seconds)

    def _weights(self) -> tuple[int, Array]:
        """The newest weights; once more if the server has come round to this copy meanwhile."""
        while True:
            version = int(self.version[0])
            w: Array = self.weights[version % COPIES].copy()
            if int(self.version[0]) - version < COPIES - 1:
                return version, w

    def _part(self, work: Assignment, task: Task, side: int, w: Array) -> Part:
        compression = self._compression(work)
        if work.kind == "local":
            update, rows, squares = self._local(work, task, w)
            update *= fed_back(compression.kept)  # the steps of a round may go all the way, so M may be the identity
        else:
            X, y = self._rows(work, task, task.step)
            update, squares = LinearModel.gradient(X, y, w)
            rows = len(y)
        old, new = self.residuals[side, task.shard], self.residuals[1 - side, task.shard]
        slot = self.slots[task.shard]
        if work.compression == "none":
            return Part(rows, squares, compression.encode(update, slot))
        return Part(rows, squares, encode_with_feedback(compression, update, old, new, slot))

    def _local(self, work: Assignment, task: Task, w: Array) -> tuple[Array, int, float]:
        """Some steps of the shard's own; the update is how far they went."""
        own, total, squares = w, 0, 0.0
        model: LinearModel[Penalty] = work.model or OrdinaryLeastSquares()
        full = min(work.batch_size, self.shards.rows[task.shard])
        for step in range(task.step * work.local_steps, (task.step + 1) * work.local_steps):
            X, y = self._rows(work, task, step)
            if not len(y):
                break
            gradient, loss = model.gradient(X, y, own)
            # A short last batch makes a short step: each row counts as much as any other.
            own = model.update(own, gradient, work.rate / full, shrink=work.rate * len(y) / full)
            total, squares = total + len(y), squares + loss
        return own - w, total, squares

    def _compression(self, work: Assignment) -> Compression:
        key = work.compression, work.share
        if key not in self._compressions:
            self._compressions[key] = make_compression(work.compression, self.shards.width, work.share)
        return self._compressions[key]

    def _rows(self, work: Assignment, task: Task, step: int) -> tuple[Values, Values]:
        if work.kind == "full":
            return self.batches.whole(task.shard, work.tight)
        return self.batches.batch(
            work.seed, task.epoch, task.shard, step, work.batch_size, ahead=work.prefetch, tight=work.tight
        )
