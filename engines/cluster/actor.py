"""A worker as an actor of a cluster; what it is asked comes in calls, and nothing of it matters when it is lost."""

from __future__ import annotations

import importlib
import os
import platform
import resource
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt
import ray

from shoal import __version__
from shoal.engines.cluster.lean import is_worker_of_ray, send_plain_arrays
from shoal.engines.cluster.neighbours import Neighbours
from shoal.home import keep_private
from shoal.lazy.classes import dataclass
from shoal.utils import plain_error
from shoal.worker import Parts, Push, Reply, SharedArray, Worker, pack, portable, unpack

if is_worker_of_ray():  # here: this module is imported before what an actor is made with is unpickled
    send_plain_arrays()

TORCH = "torch"
Arrays = list[npt.NDArray[np.uint8]]  # the parts of a message, as the cluster carries them without a copy
PIECES, PIECE = 4, 90_000  # of an answer: so many values of so many bytes come with it at once; a larger one, by Ray's
# rules from 100 KiB on, goes through the object stores of both nodes, which takes longer than most answers


def as_arrays(parts: Parts) -> Arrays:
    return [np.frombuffer(part, np.uint8) if len(part) else np.empty(0, np.uint8) for part in parts]


def as_parts(arrays: Arrays) -> Parts:
    """Copied: what comes from the cluster cannot be written to, and what was unpacked from it could not either."""
    return [array.copy().data for array in arrays]


def in_pieces(arrays: Arrays) -> list[Arrays]:
    """An answer as several values, in order, each small enough to come with it; what is left over is in the last."""
    pieces: list[Arrays] = [[] for _ in range(PIECES)]
    number = size = 0
    for array in arrays:
        if size + array.nbytes > PIECE and number < PIECES - 1:
            number, size = number + 1, 0
        pieces[number].append(array)
        size += array.nbytes
    return pieces


@dataclass(frozen=True)
class Introduction:
    """Who a worker is, when it is ready."""

    pid: int
    node: str
    address: str
    versions: dict[str, str]
    missing: str = ""  # what it was to import and does not have


@dataclass(frozen=True)
class Brief:
    """In place of the name of a shared array: what comes along is a request, to be answered before any other."""

    key: int


Holding = list[SharedArray | Brief]


@dataclass(frozen=True)
class Beat:
    """A sign of life, with what the worker has used."""

    cpu: float  # seconds
    memory: int  # bytes, at most so far
    waits: bool = False  # for another node


def versions(*more: str) -> dict[str, str]:
    """Of what bits depend on, and of these other distributions."""
    found = {"Shoal": __version__, "Python": platform.python_version(), "NumPy": np.__version__}
    return found | {name: metadata.version(name) for name in more}


class RayWorker:
    """Answers one call at a time, and beside it whether it is still there."""

    def __init__(self, rank: int, preload: Sequence[str]) -> None:
        keep_private()
        _one_thread()
        self._worker = Worker(rank, apart=True)
        self._neighbours = Neighbours()
        if ray.is_initialized():  # to ask for the node would start a cluster where there is none
            self._worker.node, self._worker.ask_node = ray.get_runtime_context().get_node_id(), self._neighbours.ask
        self._done: Callable[[Any], Any] | None = None
        self._last: tuple[int, Arrays] = (-1, [])
        self._missing = ""
        for module in preload:
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                self._missing = self._missing or str(error.name)

    def ready(self) -> Introduction:
        context, computing = ray.get_runtime_context(), [TORCH] if TORCH in sys.modules else []
        address = ray.util.get_node_ip_address()
        return Introduction(os.getpid(), context.get_node_id(), address, versions(*computing), self._missing)

    @ray.method(num_returns=PIECES)  # type: ignore[untyped-decorator]
    def answer(self, request: Arrays, drop: list[int], hold: Holding, *arrays: Any) -> list[Arrays]:
        """The reply to a request, after what has changed among the shared arrays."""
        return in_pieces(self._replied(request, lambda asked: Reply(self._worker.handle(asked)), (drop, hold, arrays)))

    def train(self, loop: Arrays, drop: list[int], hold: Holding, *arrays: Any) -> Arrays:
        """Join a training: the first push, with nothing done."""
        self._last = -1, []
        return self._replied(loop, self._joined, (drop, hold, arrays))

    def work(self, number: int, work: Arrays) -> Arrays:
        """The push for a piece of work; the same one for the same number, however often it is asked for."""
        if self._last[0] != number:
            self._last = number, self._replied(work, lambda message: self._pushed(message.work))
        return self._last[1]

    @ray.method(concurrency_group="beside")  # type: ignore[untyped-decorator]
    def beat(self) -> Beat:
        used = resource.getrusage(resource.RUSAGE_SELF)
        unit = 1 if sys.platform == "darwin" else 1024
        return Beat(used.ru_utime + used.ru_stime, used.ru_maxrss * unit, self._neighbours.is_waiting)

    def _joined(self, loop: Any) -> Push:
        self._done = loop.begin(self._worker)
        return Push(None)

    def _pushed(self, work: Any) -> Push | Reply:
        if work is None or self._done is None:
            self._done = None
            return Reply()
        return Push(self._done(work))

    def _see(self, drop: list[int], hold: Holding, arrays: Sequence[Any]) -> None:
        for key in drop:
            self._worker.drop(key)
        for shared, array in zip(hold, arrays, strict=True):
            if isinstance(shared, Brief):
                self._worker.handle(unpack(as_parts(array)))
                continue
            array.flags.writeable = False
            self._worker.hold(shared, array)

    def _replied(
        self, message: Arrays, reply: Callable[[Any], Push | Reply],
        seen: tuple[list[int], Holding, Sequence[Any]] = ([], [], ()),
    ) -> Arrays:  # fmt: skip
        """What goes wrong between the two pickles is a reply as well."""
        asked = None
        try:
            self._see(*seen)
            asked = unpack(as_parts(message))
            return as_arrays(pack(reply(asked)))
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
            return as_arrays(pack(Reply(error=portable(plain_error(asked, error)))))


def _one_thread() -> None:
    """BLAS with one thread: the cluster sees to it for actors with one core, unless the node says otherwise."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    threadpool_limits(1)
