"""What every engine promises, and the bookkeeping of a sweep; no process or socket belongs here."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from shoal.errors import EngineError, WorkerFailed
from shoal.lazy.classes import dataclass
from shoal.worker import Request, SharedArray


@dataclass(frozen=True)
class WorkerEvent:
    """Something that happened to a worker; `signal` is set when a signal ended it."""

    kind: Literal["started", "lost", "restarted", "stopped"]
    rank: int
    pid: int
    cause: str = ""
    signal: int | None = None


@dataclass(frozen=True)
class Link:
    """The way to a worker on another machine, as it is now."""

    node: str  # the address of its machine
    took: float  # seconds for a question and its answer, usually
    silent: float  # seconds that an answer is missing for
    received: int  # bytes that came from it so far
    sent: int


@dataclass(frozen=True)
class Send:
    """To the engine: give a worker that waits its next work."""

    rank: int
    work: Any


@dataclass(frozen=True)
class Kill:
    """To the engine: end a worker, whatever it is doing; the server hears of it by `lost`."""

    rank: int


@dataclass(frozen=True)
class Hire:
    """To the engine: start a worker; the server hears of it by `joined`."""

    rank: int


@dataclass(frozen=True)
class Dismiss:
    """To the engine: let a worker that waits go; the server hears of it by `left`."""

    rank: int


Instruction = Send | Kill | Hire | Dismiss


class Server(Protocol):
    """What an engine wraps in `run_workers`: events in, instructions out; it never blocks and knows no process."""

    @property
    def finished(self) -> bool: ...

    @property
    def patience(self) -> float:
        """Seconds after which it wants to be asked by `tick`, even if nothing happened."""

    def joined(self, rank: int, pid: int, now: float) -> Sequence[Instruction]: ...

    def pushed(self, rank: int, update: Any, now: float) -> Sequence[Instruction]: ...

    def digest(self, now: float) -> Sequence[Instruction]:
        """Called when the instructions of `pushed` were carried out: what may wait until workers are busy again."""

    def lost(self, rank: int, failure: WorkerFailed, now: float) -> Sequence[Instruction]: ...

    def left(self, rank: int, now: float) -> Sequence[Instruction]: ...

    def tick(self, now: float) -> Sequence[Instruction]: ...


class Helpers(ABC):
    """Processes beside the workers that see the same arrays: asked all at once, each for a part of the same thing."""

    @property
    @abstractmethod
    def ready(self) -> dict[int, int]:
        """The process number of each that has started and can be asked, by rank."""

    @abstractmethod
    def hire(self, rank: int) -> None:
        """Start one; `ready` has it when it has come. One that is there already stays."""

    @abstractmethod
    def dismiss(self, rank: int) -> None:
        """Let one go, if it is there."""

    @abstractmethod
    def kill(self, rank: int) -> None:
        """End one as if something had happened to it: `news` has it when that is noticed."""

    @abstractmethod
    def news(self) -> list[WorkerFailed]:
        """Take in who has come, without waiting; returns who was lost since."""

    @abstractmethod
    def ask(self, requests: Mapping[int, Request]) -> dict[int, Any]:
        """The reports of those who are asked, all at the same time; who is lost meanwhile has none, and `news` has it.

        An error that one reports is raised here.
        """

    @abstractmethod
    def close(self) -> None: ...


class Engine(ABC):
    """Workers that answer requests. An engine is used by one thread at a time; any thread may be that one."""

    def __init__(self, workers: int, on_event: Callable[[WorkerEvent], None] | None = None) -> None:
        self.workers = workers
        self.on_event = on_event
        self.on_wait: Callable[[str], None] | None = None  # is told why nobody is at work, where that takes long

    @abstractmethod
    def sweep(self, requests: Iterable[Request]) -> Iterator[Any]:
        """The report of each request exactly once and in the order of the requests, whoever answers when.

        Requests are drawn as workers come free, and never far ahead of the consumer. An error is raised
        when its request's turn comes. A sweep left early does not harm the next one.
        """

    @abstractmethod
    def share(self, array: npt.NDArray[Any]) -> SharedArray:
        """Make an array visible to all workers, read-only; the caller does not change it until `release`."""

    @abstractmethod
    def allocate(self, shape: tuple[int, ...], dtype: Any) -> tuple[SharedArray, npt.NDArray[Any]]:
        """Zeros that this process and all workers see and may write; given back by `release`. Not without `maps`."""

    def brief(self, name: str, request: Callable[[], Request]) -> None:  # noqa: B027 - where all see one disk, none
        """Let each worker that may be on another machine answer `request` before any other; once for a name."""

    @property
    def maps(self) -> bool:
        """Whether workers see memory of this process; if not, all that they are to know is sent to them."""
        return True

    @property
    def node(self) -> str:
        """This machine, as those of a cluster know it; empty where there is but one."""
        return ""

    @abstractmethod
    def run_workers(self, loop: Request, server: Server) -> None:
        """Let every worker answer `loop`, a request that talks to `server` through `worker.store`, until that is done.

        Lost workers are the server's to judge. An error that a worker reports is raised here.
        """

    @property
    @abstractmethod
    def elastic(self) -> bool:
        """Whether workers can be hired and killed."""

    def helpers(self, preload: Sequence[str]) -> Helpers | None:
        """None yet of them, and whoever asks for them closes them; None where there is no such thing.

        preload: modules that their requests come from.
        """
        return None

    @property
    def start(self) -> float:
        """Seconds that a hired worker may take to join."""
        return 20.0

    def most(self) -> int:
        """Workers that there are cores for."""
        return max(1, os.cpu_count() or 1)

    def used(self, rank: int) -> tuple[float, int] | None:
        """Processor time and memory of a worker, where only the engine can tell."""
        return None

    def works(self, rank: int) -> bool:
        """Whether a worker computed, read or wrote since this was asked before; False where that cannot be told."""
        return False

    def link(self, rank: int) -> Link | None:
        """How a worker on another machine is reached; None where there is no way between."""
        return None

    @abstractmethod
    def release(self, shared: SharedArray) -> None:
        """Give the memory of a shared array back; releasing it twice is harmless."""

    @abstractmethod
    def close(self) -> None:
        """Leave no process, descriptor or memory behind; closing twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, why: str) -> None:
        if self.on_wait is not None:
            self.on_wait(why)

    def _emit(self, event: WorkerEvent) -> None:
        if self.on_event is not None:
            self.on_event(event)


def laid_out(array: npt.NDArray[Any], key: int) -> tuple[SharedArray, npt.NDArray[Any]]:
    """The name for an array and the array in one piece (C order, or Fortran order where it has that)."""
    if array.dtype.hasobject:
        raise TypeError(f"only arrays of plain values can be shared, not of {array.dtype}")
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    whole = np.asarray(array, order="F" if fortran else "C")
    return SharedArray(key, array.shape, array.dtype, fortran), whole


class Choose(Protocol):
    """Which of the requests that wait, in their order, suits a worker; None: none of them.

    `all_seen`: more are not to be had, so one that suits less may do.
    """

    def __call__(self, waiting: Sequence[Request], *, all_seen: bool) -> int | None: ...


AHEAD = 5  # windows that are looked through for a request that suits


class Ledger:
    """The accounts of one sweep: what is asked, what came back, whose turn it is. No clock, no I/O.

    A request is drawn once, is *open* until it is settled by a report or an error, and leaves in its turn.
    At most `window` requests are in hands or settled: that bounds the reports that wait for a slow one.
    """

    LOSSES = 3  # the same request under so many lost workers is the likely cause of the losses

    def __init__(self, requests: Iterable[Request], window: int) -> None:
        self._source: Iterator[Request] | None = iter(requests)
        self._window = window
        self._turn = self._drawn = 0
        self._open: dict[int, Request] = {}
        self._waiting: list[int] = []  # few: not more than a window or a few of them
        self._settled: dict[int, tuple[Any, BaseException | None]] = {}
        self._losses: defaultdict[int, int] = defaultdict(int)

    def take(self, choose: Choose | None = None) -> tuple[int, Request] | None:
        """The next request for an idle worker: one that lost its worker first, else a new one.

        With `choose`, the one that suits it, looked for further ahead than the window where none in it does; as many
        as before are in hands or settled.
        """
        if not self._waiting:
            self._draw(self._window)
        index = min(self._waiting, default=None) if choose is None else self._chosen(choose)
        if index is None:
            return None
        self._waiting.remove(index)
        return index, self._open[index]

    def _chosen(self, choose: Choose) -> int | None:
        while self._draw(self._window):
            pass
        while self._drawn - self._turn - len(self._waiting) < self._window:
            waiting = sorted(self._waiting)
            number = choose([self._open[index] for index in waiting], all_seen=False)
            if number is None and self._draw(AHEAD * self._window):
                continue
            if number is None:
                number = choose([self._open[index] for index in waiting], all_seen=True)
            return None if number is None else waiting[number]
        if self._turn in self._waiting and choose([self._open[self._turn]], all_seen=True) is not None:
            return self._turn  # all others have to wait for it
        return None

    def give_back(self, index: int) -> None:
        """The worker was gone before it had the request; that is not the request's fault."""
        if index in self._open:
            self._waiting.append(index)

    def settle(self, index: int, report: Any = None, error: BaseException | None = None) -> None:
        """Note the outcome; that of a request nobody waits for any more is forgotten."""
        if self._open.pop(index, None) is None:
            return
        self._settled[index] = report, error
        if error is not None:
            self._source = None  # the sweep ends at this turn: what comes later would be for nothing

    def lose(self, index: int, failure: WorkerFailed) -> None:
        """The worker that had the request is gone: once more, or the end of the sweep."""
        self._losses[index] += 1
        if self._losses[index] < self.LOSSES or index not in self._open:
            self.give_back(index)
            return
        advice = " If memory is short, use fewer workers." if failure.signal == signal.SIGKILL else ""
        error = EngineError(
            f"Request {index + 1} ({type(self._open[index]).__name__}) lost {self.LOSSES} workers; the "
            f"last one was lost because: {failure.cause}.{advice}"
        )
        error.__cause__ = failure
        self.settle(index, error=error)

    def due(self) -> bool:
        return self._turn in self._settled

    def collect(self) -> Any:
        """The report whose turn it is, or its error raised."""
        report, error = self._settled.pop(self._turn)
        self._turn += 1
        if error is not None:
            raise error
        return report

    def finished(self) -> bool:
        """Whether nothing is left; asks the source, so that an empty one needs no idle worker to be seen."""
        if not self._open and not self._settled:
            self._draw(self._window)
        return not self._open and not self._settled

    def close(self) -> None:
        self._source = None
        self._open.clear()
        self._waiting.clear()
        self._settled.clear()

    def _draw(self, most: int) -> bool:
        """Whether there was one more to draw, with at most so many that have not left."""
        if self._source is None or self._drawn - self._turn >= most:
            return False
        index = self._drawn
        try:
            self._open[index] = next(self._source)
        except StopIteration:
            self._source = None
            return False
        except Exception as error:  # noqa: BLE001 - it is raised when its turn comes, as in a plain loop
            self._settled[index] = None, error
            self._source = None
        else:
            self._waiting.append(index)
        self._drawn += 1
        return True
