"""Weights and updates as messages, for workers that do not see the server's memory; its own copy of it stays as it is.

Assignments come with the weights, updates with their bytes. What compression holds back travels too, so that no worker
keeps anything that matters; without compression there is none.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.passes.board import Allocate, Board, Exchange, ServerBoard, Slot, slot_bytes
from shoal.steps.policy import Task
from shoal.worker import SharedArray, Worker


@dataclass(frozen=True)
class SentWork:
    """To a worker: an assignment, the weights for it, and what was held back of each of its shards."""

    assignment: Any
    version: int
    w: Array
    residuals: Array  # (tasks, p); none of them without compression


@dataclass(frozen=True)
class SentUpdate:
    """To the server: the update, the encoded values of all its tasks in a row, and what was held back of each."""

    update: Any
    values: Slot
    residuals: Array


@dataclass(frozen=True)
class MessageBoard(Board):
    """Nothing is shared: all comes with the messages."""

    width: int

    def joined_by(self, worker: Worker) -> Exchange:
        return _MessageExchange(self.width)


class _MessageExchange(Exchange):
    def __init__(self, width: int) -> None:
        self._width = width
        self._work = SentWork(None, 0, np.zeros(width), np.empty((0, width)))
        self._places: dict[int, int] = {}  # of a shard's task among those of the assignment
        self._slots: Slot = np.empty((0, 0), np.uint8)
        self._held_back = self._work.residuals

    def open(self, work: SentWork) -> Any:
        tasks = work.assignment.tasks
        self._work, self._places = work, {Task(*task).shard: place for place, task in enumerate(tasks)}
        self._slots = np.empty((len(tasks), slot_bytes(self._width)), np.uint8)
        self._held_back = np.empty_like(work.residuals)
        return work.assignment

    def weights(self) -> tuple[int, Array]:
        return self._work.version, self._work.w

    def slot(self, shard: int) -> Slot:
        slot: Slot = self._slots[self._places[shard]]
        return slot

    def residuals(self, shard: int, side: int) -> tuple[Array, Array]:
        place = self._places[shard]
        return self._work.residuals[place], self._held_back[place]

    def seal(self, update: Any) -> SentUpdate:
        sizes = [part[-1] for part in update.parts]
        values = np.concatenate([slot[:size] for slot, size in zip(self._slots, sizes, strict=True)])
        return SentUpdate(update, values, self._held_back)


def server_board(
    allocate: Allocate | None, shards: int, width: int, centre: Array | None = None
) -> ServerBoard:  # fmt: skip
    """Over memory that workers see, from `allocate`; over messages without."""
    return ServerBoard(allocate, shards, width, centre) if allocate else MessageServerBoard(shards, width, centre)


class MessageServerBoard(ServerBoard):
    """The same places, in the server's own memory: it writes into them what workers have sent."""

    def __init__(self, shards: int, width: int, centre: Array | None = None) -> None:
        super().__init__(own_memory, shards, width, centre)
        self.memory = ()
        self.shared = MessageBoard(width)

    def seal(self, tasks: Sequence[Task], assignment: Any) -> SentWork:
        version = int(self._version[0])
        shards = [task.shard for task in tasks]
        held_back = self._residuals[self._sides[shards], shards][: 0 if assignment.compression == "none" else None]
        return SentWork(assignment, version, self.published(version), held_back)

    def open(self, tasks: Sequence[Task], pushed: SentUpdate) -> Any:
        """A push that comes again writes the same bytes; whether it counts is for the policy to say."""
        begin = 0
        for place, (task, part) in enumerate(zip(tasks, pushed.update.parts, strict=True)):
            end = begin + part[-1]
            self._slots[task.shard, : part[-1]] = pushed.values[begin:end]
            begin = end
            if len(pushed.residuals):
                self._residuals[1 - self._sides[task.shard], task.shard] = pushed.residuals[place]
        return pushed.update


_names = itertools.count(-1, -1)  # that no engine gives


def own_memory(shape: tuple[int, ...], dtype: Any) -> tuple[SharedArray, npt.NDArray[Any]]:
    """Memory of this process alone, under a name of its own."""
    array = np.zeros(shape, dtype)
    return SharedArray(next(_names), shape, array.dtype, writable=True), array
