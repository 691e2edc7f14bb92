"""Few rows in the place of many: batches of a table that is not here, computed on a sample and counted in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shoal.data_pipeline import Shards
from shoal.lazy.classes import dataclass
from shoal.models import Array, LinearModel, OrdinaryLeastSquares, Values
from shoal.passes.board import Board, Exchange
from shoal.passes.gradient_loop import Assignment, GradientLoop, TrainingWorker
from shoal.steps.policy import Task
from shoal.worker import Worker

APART = 7919  # rows of the sample between the first of two shards


@dataclass(frozen=True)
class MiniatureLoop:
    """What `GradientLoop` is for a table of which there is a sample only; all its rows are in the sample's one shard.

    The mean gradient of m of the table's N rows differs from that of all by chance, with a variance that goes with
    1/m - 1/N. So does that of l of the sample's n rows, with 1/l - 1/n: for each batch l is chosen so that the two are
    the same, and what comes of it counts for m rows. Where all shards make a step together, m are the rows of all.
    """

    sample: Shards
    planned: Shards
    board: Board
    together: bool

    def answer(self, worker: Worker) -> None:
        done, work = self.begin(worker), worker.store.join()
        while work is not None:
            work = worker.store.push_pull(done(work))

    def begin(self, worker: Worker) -> Callable[[Any], Any]:
        exchange = self.board.joined_by(worker)
        training = MiniatureWorker(self.sample, self.planned, exchange, self.together)
        return lambda work: exchange.seal(training.done(exchange.open(work)))


class MiniatureWorker(TrainingWorker):
    def __init__(self, sample: Shards, planned: Shards, exchange: Exchange, together: bool) -> None:
        super().__init__(planned, exchange, OrdinaryLeastSquares())
        self._X, self._y = sample.open(0)
        self._round = np.concatenate((self._X, self._X)), np.concatenate((self._y, self._y))  # no row is at an end
        self._together = together
        self._last: tuple[bytes, tuple[int, int], Array, float] | None = None  # a gradient, and what it is of

    def _gradient(self, work: Assignment, task: Task, w: Array) -> tuple[Array, int, float]:
        first, rows = self._batch(work, task, task.step)
        if self._together or work.kind == "full":  # the same for all shards of a step
            place = (task.epoch * APART + task.step * rows) % len(self._y)
            drawn = rows * len(self.shards.rows) if work.kind != "full" else self.shards.total
        else:
            place, drawn = (first + task.shard * APART) % len(self._y), rows
        used = self._as_uncertain(drawn)
        gradient, squares = self._of(w, place, used)
        times = rows / max(1, used)
        return gradient * times, rows, squares * times

    def _as_uncertain(self, rows: int) -> int:
        """Rows of the sample whose mean is as uncertain as that of so many rows of the table."""
        inverse = 1 / len(self._y) + 1 / max(1, rows) - 1 / max(1, self.shards.total)
        return max(1, min(len(self._y), round(1 / max(inverse, 1 / len(self._y)))))

    def _of(self, w: Array, place: int, rows: int) -> tuple[Array, float]:
        """Asked for by every shard of a step, at the same weights."""
        at, which = w.tobytes(), (place, rows)
        if self._last is None or self._last[:2] != (at, which):
            X, y = self._round
            found = LinearModel.gradient(X[place : place + rows], y[place : place + rows], w)
            self._last = at, which, *found
        return self._last[2], self._last[3]

    def _rows(self, work: Assignment, task: Task, step: int) -> tuple[Values, Values]:
        first, rows = self._batch(work, task, step)
        return self._taken(task.shard, first, min(rows, len(self._y)))

    def _batch(self, work: Assignment, task: Task, step: int) -> tuple[int, int]:
        """The first row and the number of rows of a batch in its shard of the table that is asked for."""
        if work.kind == "full":
            return 0, self.shards.rows[task.shard]
        found = self.shards.slice(work.seed, task.epoch, task.shard, step, work.batch_size)
        return (0, 0) if found is None else (found.start, found.stop - found.start)

    def _taken(self, shard: int, first: int, rows: int) -> tuple[Values, Values]:
        """So many rows of the sample, others for other shards and other places in them."""
        start = (first + shard * APART) % max(1, len(self._y))
        X, y = self._round
        return X[start : start + rows], y[start : start + rows]


def loop_for(
    whole: bool, sample: Shards, planned: Shards, board: Board, together: bool = True
) -> GradientLoop | MiniatureLoop:
    """What workers do: on the table itself where the sample is that, with the same bits as anywhere."""
    return (
        GradientLoop(planned, board, OrdinaryLeastSquares())
        if whole
        else MiniatureLoop(sample, planned, board, together)
    )
