"""The memory that a parameter server and its workers share, and the server's end of it; workers write to it in
`gradient_loop`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.models import Array
from shoal.steps.compression import Compression, make_compression
from shoal.steps.policy import Task
from shoal.worker import SharedArray

COPIES = 8  # of the weights: a reader may be seven updates late before it has to read again
Allocate = Callable[[tuple[int, ...], Any], tuple[SharedArray, npt.NDArray[Any]]]


@dataclass(frozen=True)
class Board:
    """What is shared: for each place there is one writer at a time.

    weights (COPIES, p): version v is in row v % COPIES, written by the server.    version (1,): the newest.
    slots (shards, bytes): the encoded update of each shard, written by the worker that has the shard's task.
    residuals (2, shards, p): what compression has held back so far. A task reads one side and writes the
    other, and the server turns the page when it takes the update in: a killed worker spoils nothing.
    """

    weights: SharedArray
    version: SharedArray
    slots: SharedArray
    residuals: SharedArray


class ServerBoard:
    """The server's end: it broadcasts weights and collects updates."""

    def __init__(self, allocate: Allocate, shards: int, width: int) -> None:
        weights, self._weights = allocate((COPIES, width), np.float64)
        version, self._version = allocate((1,), np.int64)
        slots, self._slots = allocate((shards, 8 * width + 8), np.uint8)
        residuals, self._residuals = allocate((2, shards, width), np.float64)
        self.shared = Board(weights, version, slots, residuals)
        self._plain_slots = self._slots.view(np.float64)[:, :width]
        self._sides = np.zeros(shards, np.int8)
        self._width = width
        self._known: dict[tuple[str, float], Compression] = {}
        self._encodings: dict[Task, Compression] = {}  # a command may change it between a task and its update

    def publish(self, w: Array, version: int) -> None:
        self._weights[version % COPIES] = w
        self._version[0] = version

    def published(self, version: int) -> Array:
        """A copy of what was published last, as this version."""
        w: Array = self._weights[version % COPIES].copy()
        return w

    def hand_out(self, tasks: Sequence[Task], compression: str, share: float) -> tuple[int, ...]:
        """Note how the updates of these tasks will be encoded; returns the side of the residuals that each reads."""
        if (compression, share) not in self._known:
            self._known[compression, share] = make_compression(compression, self._width, share)
        self._encodings.update(dict.fromkeys(tasks, self._known[compression, share]))
        return tuple(int(self._sides[task.shard]) for task in tasks)

    def collect(self, tasks: Sequence[Task]) -> Array:
        """The updates (tasks, p) that workers have put into the slots; each is taken once."""
        encodings = [self._encodings.pop(task) for task in tasks]
        if all(encoding.name == "none" for encoding in encodings):
            return self._plain_slots[[task.shard for task in tasks]]
        for task, encoding in zip(tasks, encodings, strict=True):
            self._sides[task.shard] ^= encoding.name != "none"
        return np.stack([e.decode(self._slots[task.shard]) for task, e in zip(tasks, encodings, strict=True)])

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What compression has held back, if anything, for a checkpoint."""
        held_back = self._residuals[self._sides, np.arange(len(self._sides))]
        return {"residuals": held_back} if held_back.any() else {}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        if "residuals" in arrays:
            self._residuals[self._sides, np.arange(len(self._sides))] = arrays["residuals"]
