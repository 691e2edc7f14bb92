"""Scores from residual sums that merge over blocks; speed, compute time and memory of a run and its records.

How records are kept is in `storage`; when workers and machine are looked at, in `training`.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.results.links import LinkSample as LinkSample
from shoal.tracing import spans
from shoal.utils import timed

if TYPE_CHECKING:
    import psutil

    from shoal.results.fit import FitScores

GPU_EVERY = 5.0  # seconds between two questions to nvidia-smi, which takes up to a second to answer
OWN_METRICS, HISTOGRAMS = "metrics", "histograms"  # kinds of events that hold what came out, not what happened
GPU_STALE = 30.0  # seconds after which an answer that did not come is given up


@dataclass(frozen=True)
class Residuals:
    """Sums over rows: squares and sizes of the residuals r = y - prediction; mean and scatter of y.

    Where rows have weights, all of them are weighted, and `weight` is their sum.
    """

    rows: int
    squares: float
    sizes: float
    mean: float
    scatter: float
    weight: float | None = None

    @classmethod
    def of(cls, y: Array, residual: Array, weight: Array | None = None) -> Residuals:
        if not len(y):
            return cls.none()
        if weight is not None:
            return cls._weighted(y, residual, weight)
        mean = float(y.mean())
        away = y - mean
        return cls(len(y), float(residual @ residual), float(np.abs(residual).sum()), mean, float(away @ away))

    @classmethod
    def _weighted(cls, y: Array, residual: Array, weight: Array) -> Residuals:
        total = float(weight.sum())
        mean = float(weight @ y) / total
        squares, sizes = float(weight @ residual**2), float(weight @ np.abs(residual))
        return cls(len(y), squares, sizes, mean, float(weight @ (y - mean) ** 2), total)

    @classmethod
    def none(cls) -> Residuals:
        return cls(0, 0.0, 0.0, 0.0, 0.0)

    @property
    def total(self) -> float:
        """What sums are divided by: the weights, or the number of rows."""
        return self.rows if self.weight is None else self.weight

    def merge(self, other: Residuals) -> Residuals:
        total = self.total + other.total
        if not total:
            return self
        apart = other.mean - self.mean
        return Residuals(
            self.rows + other.rows,
            self.squares + other.squares,
            self.sizes + other.sizes,
            self.mean + apart * other.total / total,
            self.scatter + other.scatter + apart**2 * self.total * other.total / total,
            None if self.weight is None and other.weight is None else total,
        )

    def scores(self, columns: int, intercept: bool, repeats: bool = False) -> FitScores:
        """None where too few rows, a constant target or sums that are not known leave no answer.

        `repeats`: weights say how many rows each one stands for, so that they are the number of rows.
        """
        from shoal.results.fit import FitScores  # here: workers import this module and never score

        n, total = (round(self.total) if repeats else self.rows), self.total
        if n == 0:
            return FitScores()
        r2 = 1 - self.squares / self.scatter if self.scatter > 0 else None
        free = n - columns - int(intercept)
        adjusted = 1 - (1 - r2) * (n - int(intercept)) / free if r2 is not None and free > 0 else None
        return FitScores(n, *map(_known, (r2, adjusted, math.sqrt(self.squares / total), self.sizes / total)))


def _known(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Round:
    """The state of training after one round; bytes, shares and rates are those since the record before."""

    round: int
    epoch: float  # passes over the training rows, with a fraction
    phase: Literal["steps", "finish"]
    seconds: float  # since the run began
    loss: float  # the objective, penalty included
    validation: float | None
    distance: float | None  # to the exact optimum, where that is known
    gradient_norm: float
    learning_rate: float
    alpha: float
    nonzeros: int
    rows_per_second: float
    bytes_raw: int  # what uncompressed gradients would have taken
    bytes_sent: int
    read: float  # read, compute, wait and apply are shares of the time, 0 to 1
    compute: float
    wait: float
    apply: float
    staleness: float  # versions that the applied gradients were behind, on average
    workers: int


@dataclass(frozen=True)
class WorkerSample:
    """One worker at one moment."""

    seconds: float
    rank: int
    pid: int
    state: str
    cpu: float  # share of one core since the last look
    memory: int  # resident bytes
    rows: int
    staleness: float
    wait: float  # share of its time, 0 to 1
    gpu: float | None  # share of the machine's graphics processors in use, 0 to 1


@dataclass(frozen=True)
class HostSample:
    """The whole machine at one moment; rates are bytes a second since the last look."""

    seconds: float
    cpu: float  # share of all cores, 0 to 1
    memory_used: int
    memory_total: int
    disk_read: float
    disk_write: float
    net_in: float
    net_out: float


@dataclass(frozen=True)
class Event:
    """Something that happened; `data` holds what JSON can hold.

    Kinds: those of `storage.base.HAPPENED`, `OWN_METRICS`, `HISTOGRAMS`.
    """

    seconds: float
    kind: str
    round: int
    text: str
    rank: int | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass
class Tally:
    """What workers did since it was last asked; seconds are those of all together, but `apply`, the server's own."""

    rows: int = 0
    steps: int = 0
    bytes_raw: int = 0
    bytes_sent: int = 0
    read: float = 0.0
    compute: float = 0.0
    apply: float = 0.0
    staleness: int = 0

    def count(self, rows: int, steps: int, bytes_raw: int, bytes_sent: int, staleness: int) -> None:
        """Updates that became a step."""
        self.rows += rows
        self.steps += steps
        self.bytes_raw += bytes_raw
        self.bytes_sent += bytes_sent
        self.staleness += staleness

    def speed(self, span: float, workers: int) -> dict[str, float]:
        """Rows a second over a span of seconds, and what it was spent on, in shares of the time of all workers."""
        together = span * max(1, workers)
        read, compute = min(1.0, self.read / together), min(1.0, self.compute / together)
        return {
            "rows_per_second": self.rows / span, "read": read, "compute": compute,
            "wait": max(0.0, 1 - read - compute), "apply": min(1.0, self.apply / span),
        }  # fmt: skip


@dataclass
class WorkerTally:
    """What one worker process has done since it joined."""

    pid: int
    rows: int = 0
    busy: float = 0.0  # seconds
    staleness: int = 0
    since: float = 0.0

    def wait(self, now: float) -> float:
        """The share of its time that it waited."""
        return 1 - min(1.0, self.busy / max(now - self.since, 1e-9))


@dataclass
class Timings:
    """Compute time: seconds by stage; each is a span where runs are traced."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        with spans.span(name), timed() as spent:
            try:
                yield
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + spent()


Record = Round | WorkerSample | LinkSample | HostSample | Event


# ------------------------------------------------------------------ what machine and workers use right now


@dataclass(frozen=True)
class _Look:
    """A worker's process as it was seen last; `used` is its processor time."""

    process: psutil.Process | None  # of this machine
    pid: int
    used: float
    now: float
    cpu: float


class ResourceSampler:
    """Rates are those between two calls; `now` is the caller's clock in seconds. Used by one thread at a time."""

    def __init__(self) -> None:
        self._host: HostSample | None = None
        self._cores = (0.0, 0.0)
        self._moved = (0, 0, 0, 0)
        self._workers: dict[int, _Look] = {}
        self._gpu = _Gpu()

    def sample_host(self, now: float) -> HostSample:
        """The first call tells the use of cores since the machine was started, and no rates."""
        if self._host is not None and now <= self._host.seconds:
            return replace(self._host, seconds=now)
        import psutil  # 20 ms that programs which never sample need not spend

        cores, moved, memory = _core_seconds(), _bytes_moved(), psutil.virtual_memory()
        busy, total = (new - old for new, old in zip(cores, self._cores, strict=True))
        cpu = min(max(busy / total, 0.0), 1.0) if total > 0 else 0.0
        rates = [0.0] * 4
        if self._host is not None:
            elapsed = now - self._host.seconds
            rates = [max(new - old, 0) / elapsed for new, old in zip(moved, self._moved, strict=True)]
        self._cores, self._moved = cores, moved
        self._host = HostSample(now, cpu, memory.total - memory.available, memory.total, *rates)
        return self._host

    def sample_worker(
        self, rank: int, pid: int, now: float,
        state: str = "running", rows: int = 0, staleness: float = 0.0, wait: float = 0.0,
        used: tuple[float, int] | None = None,
    ) -> WorkerSample | None:  # fmt: skip
        """None when the process is gone; `cpu` is 0 at the first look. `used`: what one that is not here has told."""
        import psutil

        try:
            look, memory = (_Look(None, pid, used[0], now, 0.0), used[1]) if used else self._look_at(rank, pid, now)
        except psutil.Error:
            self._workers.pop(rank, None)
            return None
        look = self._workers[rank] = self._compared(rank, look)
        return WorkerSample(now, rank, pid, state, look.cpu, memory, rows, staleness, wait, self._gpu.share())

    def _look_at(self, rank: int, pid: int, now: float) -> tuple[_Look, int]:
        import psutil

        before = self._workers.get(rank)
        process = (before.process if before is not None and before.pid == pid else None) or psutil.Process(pid)
        if not process.is_running():  # gone, or the number is another process's by now
            raise psutil.NoSuchProcess(pid)
        with process.oneshot():
            if process.status() == psutil.STATUS_ZOMBIE:
                raise psutil.ZombieProcess(pid)
            times = process.cpu_times()
            memory = int(process.memory_info().rss)
        return _Look(process, pid, times.user + times.system, now, 0.0), memory

    def _compared(self, rank: int, look: _Look) -> _Look:
        """With the share of a core since the last look at the same process."""
        before = self._workers.get(rank)
        if before is None or before.pid != look.pid or before.process is not look.process:
            return look
        if look.now <= before.now:
            return before
        return replace(look, cpu=max(look.used - before.used, 0.0) / (look.now - before.now))

    def close(self) -> None:
        """End a question to nvidia-smi that is under way; closing twice is harmless."""
        self._gpu.close()


def _core_seconds() -> tuple[float, float]:
    """Seconds that cores were busy, and all seconds, since the machine was started."""
    import psutil

    times = psutil.cpu_times()
    # Linux counts the time of guests in `user` and `nice` as well.
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return total - times.idle - getattr(times, "iowait", 0.0), total


def _bytes_moved() -> tuple[int, int, int, int]:
    """Disk read and written, network in and out since the machine was started; 0 where there is no such device."""
    import psutil

    disk, net = _counters(psutil.disk_io_counters), _counters(psutil.net_io_counters)
    read, written = (disk.read_bytes, disk.write_bytes) if disk else (0, 0)
    came, went = (net.bytes_recv, net.bytes_sent) if net else (0, 0)
    return read, written, came, went


def _counters(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (OSError, RuntimeError):  # a container may hide these files
        return None


class _Gpu:
    """The use of graphics processors by nvidia-smi, asked in the background: training never waits for it."""

    def __init__(self) -> None:
        self._program = shutil.which("nvidia-smi")
        self._question: subprocess.Popen[str] | None = None
        self._asked = float("-inf")
        self._answer: float | None = None

    def share(self) -> float | None:
        """Of all of them, 0 to 1, a few seconds old; None without nvidia-smi or before its first answer."""
        if self._program is None:
            return None
        if self._question is not None and self._question.poll() is not None:
            self._answer, self._question = _mean_share(self._question.communicate()[0]), None
        elapsed = time.monotonic() - self._asked
        if self._question is None and elapsed >= GPU_EVERY:
            self._ask(self._program)
        elif self._question is not None and elapsed >= GPU_STALE:
            self.close()
            self._program = self._answer = None  # its driver hangs: do not ask again
        return self._answer

    def _ask(self, program: str) -> None:
        self._asked = time.monotonic()
        try:
            self._question = subprocess.Popen(
                [program, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        except OSError:
            self._program = None

    def close(self) -> None:
        if self._question is not None:
            self._question.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # a hung driver holds it even now
                self._question.communicate(timeout=1)
            self._question = None


def _mean_share(text: str) -> float | None:
    """One percentage a line; [N/A] for a processor that does not tell."""
    shares = [float(line) / 100 for line in text.split("\n") if line.strip().replace(".", "", 1).isdigit()]
    return sum(shares) / len(shares) if shares else None
