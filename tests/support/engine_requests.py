"""Requests with which tests try an engine; worker processes import this module, so nothing heavy here."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.errors import DataError
from shoal.passes import shards
from shoal.utils import write_at
from shoal.worker import SharedArray, Worker


@dataclass(frozen=True)
class Echo:
    """Gives back what it was given."""

    value: Any

    def answer(self, worker: Worker) -> Any:
        return self.value


@dataclass(frozen=True)
class WhoAmI:
    """The process number of whoever answers, after a while."""

    seconds: float = 0.0

    def answer(self, worker: Worker) -> int:
        time.sleep(self.seconds)
        return os.getpid()


@dataclass(frozen=True)
class Inherited:
    """What a worker has of its coordinator: which of its descriptors, how many threads linear algebra may have; whether
    its session is its own, and what its standard input is."""

    coordinators: tuple[int, ...]

    def __init__(self, *coordinators: str) -> None:
        object.__setattr__(self, "coordinators", coordinators)

    def answer(self, worker: Worker) -> dict[str, Any]:
        links = {place.name: os.readlink(place) for place in Path("/proc/self/fd").iterdir() if place.is_symlink()}
        return {
            "open": sorted(what for what in links.values() if what in self.coordinators),
            "threads": os.environ["OPENBLAS_NUM_THREADS"], "session": os.getsid(0) == os.getpid(),
            "terminal": links["0"],
        }  # fmt: skip


@dataclass(frozen=True)
class Note:
    """Appends its number to a file when it is done; `wait_for` a file to exist first."""

    number: int
    path: Path
    seconds: float = 0.0
    wait_for: Path | None = None

    def answer(self, worker: Worker) -> int:
        while self.wait_for is not None and not self.wait_for.exists():
            time.sleep(0.002)
        time.sleep(self.seconds)
        with self.path.open("a") as ledger:
            ledger.write(f"{self.number}\n")
        return self.number


@dataclass(frozen=True)
class Square:
    """A computation that takes a while and gives an array that depends on the number alone."""

    number: int
    seconds: float = 0.01

    def answer(self, worker: Worker) -> npt.NDArray[np.float64]:
        time.sleep(self.seconds)
        return np.random.default_rng(self.number).normal(size=20_000) ** 2


@dataclass(frozen=True)
class Compute:
    """A computation that takes so many seconds of the processor."""

    seconds: float

    def answer(self, worker: Worker) -> int:
        while time.process_time() < self.seconds:
            pass
        return os.getpid()


@dataclass(frozen=True)
class Hang:
    """Waits for what never comes."""

    def answer(self, worker: Worker) -> None:
        threading.Event().wait()


@dataclass(frozen=True)
class Die:
    """Ends its worker process by a signal (or, with 0, by exit code 7), unless `once` exists already."""

    signal: int = signal.SIGKILL
    once: Path | None = None

    def answer(self, worker: Worker) -> str:
        if self.once is not None and self.once.exists():
            return "survived"
        if self.once is not None:
            self.once.touch()
        if not self.signal:
            os._exit(7)
        os.kill(os.getpid(), self.signal)
        time.sleep(10)
        return "unreachable"


class LinesError(DataError):
    """An error with a field, to see that it travels whole."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text, line)
        self.line = line


class StubbornError(DataError):
    """An error that cannot be unpickled: its constructor wants more than its args hold."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(f"{text} {line}")


@dataclass(frozen=True)
class Fail:
    """Raises one of the above, or divides by zero."""

    kind: str

    def answer(self, worker: Worker) -> float:
        if self.kind == "training":
            raise LinesError("a bad row", 12)
        if self.kind == "stubborn":
            raise StubbornError("a bad row", 12)
        return 1 / 0


@dataclass(frozen=True)
class Unsendable:
    """Its report cannot be pickled."""

    def answer(self, worker: Worker) -> Any:
        return lambda: None


class Unopenable:
    """Can be pickled and not unpickled: a report that breaks on arrival."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return int, ("not a number",)


@dataclass(frozen=True)
class Peek:
    """A copy of a shared array, whether it could be written, and how it lies in memory."""

    shared: SharedArray

    def answer(self, worker: Worker) -> tuple[npt.NDArray[Any], bool, bool]:
        array = worker.array(self.shared)
        return array.copy(order="A"), array.flags.writeable, array.flags.f_contiguous


@dataclass(frozen=True)
class Scratch:
    """Whether a scratch buffer is reused: the address for each of the sizes."""

    sizes: tuple[int, ...]

    def answer(self, worker: Worker) -> list[tuple[int, int]]:
        buffers = [worker.scratch("test", size) for size in self.sizes]
        return [(buffer.ctypes.data, buffer.nbytes) for buffer in buffers]


@dataclass(frozen=True)
class Environment:
    """What an environment variable is in the worker."""

    name: str

    def answer(self, worker: Worker) -> str | None:
        return os.environ.get(self.name)


@dataclass(frozen=True)
class Cut:
    """A request whose first worker is killed in the middle of writing its file."""

    request: Any
    once: str

    def answer(self, worker: Worker) -> Any:
        if not os.path.exists(self.once):
            Path(self.once).touch()

            def cut(descriptor: int, data: memoryview, offset: int) -> None:
                write_at(descriptor, data[: len(data) // 2], offset)
                os.kill(os.getpid(), signal.SIGKILL)

            setattr(shards, "write_at", cut)  # noqa: B010 - mypy minds
        return self.request.answer(worker)
