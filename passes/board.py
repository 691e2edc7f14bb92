"""How weights reach workers and updates come back: the seam, and mapped memory behind it.

The other way, by messages, is in `parcels`. What a worker computes in between is in `gradient_loop`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.steps.compression import Compression, Touched, make_compression
from shoal.steps.policy import Task
from shoal.worker import SharedArray, Worker

COPIES = 8  # of the weights: a reader may be seven updates late before it has to read again
HEAD = 16  # bytes in front of the values of an update, for the longest that there is
Slot = npt.NDArray[np.uint8]
Allocate = Callable[[tuple[int, ...], Any], tuple[SharedArray, npt.NDArray[Any]]]


def slot_bytes(width: int) -> int:
    """Room for an update of so many numbers, however it is encoded."""
    return 8 * width + HEAD


class Exchange(ABC):
    """A worker's end in one training."""

    def open(self, work: Any) -> Any:
        """The assignment in what the server has sent."""
        return work

    @abstractmethod
    def weights(self) -> tuple[int, Array]:
        """The newest weights that there are for the assignment, and their version."""

    @abstractmethod
    def slot(self, shard: int) -> Slot:
        """Where the encoded update of the shard's task is to be written."""

    @abstractmethod
    def residuals(self, shard: int, side: int) -> tuple[Array, Array]:
        """What compression has held back of the shard so far, and where to write what it holds back now."""

    def seal(self, update: Any) -> Any:
        """What is sent to the server when the tasks are done."""
        return update

    def carry(self, work: Any, done: Callable[[Any], Any]) -> Any:
        """From what the server has sent to what is sent back; `done` computes an assignment."""
        return self.seal(done(self.open(work)))


class Board(ABC):
    """What a worker is given with the request to train; it can be pickled."""

    @abstractmethod
    def joined_by(self, worker: Worker) -> Exchange: ...


@dataclass(frozen=True)
class MappedBoard(Board):
    """Memory that all map: for each place there is one writer at a time.

    weights (COPIES, p): version v is in row v % COPIES, written by the server.    version (1,): the newest.
    slots (shards, bytes): the encoded update of each shard, written by the worker that has the shard's task.
    residuals (2, shards, p): what compression has held back so far. A task reads one side and writes the
    other, and the server turns the page when it takes the update in: a killed worker spoils nothing.
    """

    weights: SharedArray
    version: SharedArray
    slots: SharedArray
    residuals: SharedArray

    def joined_by(self, worker: Worker) -> Exchange:
        return MappedExchange(*(worker.array(shared) for shared in vars(self).values()))


class MappedExchange(Exchange):
    """Over the arrays of a `MappedBoard`."""

    def __init__(self, weights: Array, version: npt.NDArray[np.int64], slots: Slot, residuals: Array) -> None:
        self._weights, self._version, self._slots, self._residuals = weights, version, slots, residuals

    def weights(self) -> tuple[int, Array]:
        """Once more if the server has come round to this copy meanwhile."""
        while True:
            version = int(self._version[0])
            w: Array = self._weights[version % COPIES].copy()
            w.flags.writeable = False  # a model may rely on it for all tasks of an assignment
            if int(self._version[0]) - version < COPIES - 1:
                return version, w

    def slot(self, shard: int) -> Slot:
        slot: Slot = self._slots[shard]
        return slot

    def residuals(self, shard: int, side: int) -> tuple[Array, Array]:
        return self._residuals[side, shard], self._residuals[1 - side, shard]


class ServerBoard:
    """The server's end: it broadcasts weights and collects updates; over mapped memory as it stands here."""

    def __init__(self, allocate: Allocate, shards: int, width: int, centre: Array | None = None) -> None:
        """`centre`: of sparse rows, whose updates have the coordinates that they touch."""
        weights, self._weights = allocate((COPIES, width), np.float64)
        version, self._version = allocate((1,), np.int64)
        slots, self._slots = allocate((shards, slot_bytes(width)), np.uint8)
        residuals, self._residuals = allocate((2, shards, width), np.float64)
        self.memory: tuple[SharedArray, ...] = weights, version, slots, residuals
        self.places = MappedBoard(weights, version, slots, residuals)
        self.shared: Board = self.places
        self._plain_slots = self._slots.view(np.float64)[:, :width]
        self._sides = np.zeros(shards, np.int8)
        self._width = width
        self._plain = Touched(width, centre) if centre is not None else None
        self._held_back = False  # anything, ever: memory that nobody has written to is not looked at
        self._known: dict[tuple[str, float], Compression] = {}
        self._encodings: dict[Task, Compression] = {}  # a command may change it between a task and its update

    def publish(self, w: Array, version: int) -> None:
        self.row(version)[:] = w
        self.announce(version)

    def announce(self, version: int) -> None:
        """Publish what is in the row of that version already."""
        self._version[0] = version

    def row(self, version: int) -> Array:
        """The place of the weights of a version, until so many others have come as there are copies."""
        row: Array = self._weights[version % COPIES]
        return row

    def published(self, version: int) -> Array:
        """A copy of what was published last, as this version."""
        return self.row(version).copy()

    def lend(self, worker: Worker) -> None:
        """Let a worker of this process see weights and slots."""
        worker.hold(self.places.weights, self._weights)
        worker.hold(self.places.slots, self._slots)

    def hand_out(self, tasks: Sequence[Task], compression: str, share: float) -> tuple[int, ...]:
        """Note how the updates of these tasks will be encoded; returns the side of the residuals that each reads."""
        if (compression, share) not in self._known:
            plain = self._plain if compression == "none" else None
            self._known[compression, share] = plain or make_compression(compression, self._width, share)
        self._encodings.update(dict.fromkeys(tasks, self._known[compression, share]))
        return tuple(int(self._sides[task.shard]) for task in tasks)

    def seal(self, tasks: Sequence[Task], assignment: Any) -> Any:
        """What is sent to a worker with these tasks."""
        return assignment

    def open(self, tasks: Sequence[Task], pushed: Any) -> Any:
        """The update in what a worker has sent; from here on its tasks can be collected."""
        return pushed

    def take(self, tasks: Sequence[Task]) -> tuple[Compression, ...]:
        """How the updates that workers have put into the slots are encoded; each is taken once."""
        encodings = tuple(self._encodings.pop(task) for task in tasks)
        for task, encoding in zip(tasks, encodings, strict=True):
            if not encoding.exact:
                self._sides[task.shard] ^= 1
                self._held_back = True
        return encodings

    def collect(self, shards: Sequence[int], encodings: Sequence[Compression]) -> Array:
        """The updates (tasks, p) in the slots of these shards, as `take` has them."""
        if all(encoding.name == "none" for encoding in encodings):
            every = list(shards) == list(range(len(self._plain_slots)))
            return self._plain_slots if every else self._plain_slots[list(shards)]  # which is a copy
        return np.stack([e.decode(self._slots[shard]) for shard, e in zip(shards, encodings, strict=True)])

    def touched(
        self, shards: Sequence[int], encodings: Sequence[Compression], factors: Sequence[float] | None
    ) -> Array | None:
        """The sum (p,) of these updates, each times its factor, where all have the coordinates that they touch."""
        if self._plain is None or any(encoding is not self._plain for encoding in encodings):
            return None
        return self._plain.total([self._slots[shard] for shard in shards], factors)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What compression has held back, if anything, for a checkpoint."""
        if not self._held_back:
            return {}
        held_back = self._residuals[self._sides, np.arange(len(self._sides))]
        return {"residuals": held_back} if held_back.any() else {}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        if "residuals" in arrays:
            self._held_back = True
            self._residuals[self._sides, np.arange(len(self._sides))] = arrays["residuals"]
