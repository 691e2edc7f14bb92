"""Scores from residual sums that merge over blocks; speed and compute time; the records of a run, memory among them.

How records are kept is in `storage`; when workers and machine are looked at, in `training`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from shoal.models import Array
from shoal.utils import timed


@dataclass(frozen=True)
class Residuals:
    """Sums over rows: squares and sizes of the residuals r = y - prediction; mean and scatter of y."""

    rows: int
    squares: float
    sizes: float
    mean: float
    scatter: float

    @classmethod
    def of(cls, y: Array, residual: Array) -> Residuals:
        if not len(y):
            return cls.none()
        mean = float(y.mean())
        away = y - mean
        return cls(len(y), float(residual @ residual), float(np.abs(residual).sum()), mean, float(away @ away))

    @classmethod
    def none(cls) -> Residuals:
        return cls(0, 0.0, 0.0, 0.0, 0.0)

    def merge(self, other: Residuals) -> Residuals:
        rows = self.rows + other.rows
        if not rows:
            return self
        apart = other.mean - self.mean
        return Residuals(
            rows,
            self.squares + other.squares,
            self.sizes + other.sizes,
            self.mean + apart * other.rows / rows,
            self.scatter + other.scatter + apart**2 * self.rows * other.rows / rows,
        )

    def scores(self, columns: int, intercept: bool) -> dict[str, Any]:
        """rows, R2, adjusted R2, RMSE and MAE; None where too few rows or a constant target leave no answer."""
        n = self.rows
        if n == 0:
            return {"rows": 0, "r2": None, "adjusted_r2": None, "rmse": None, "mae": None}
        r2 = 1 - self.squares / self.scatter if self.scatter > 0 else None
        free = n - columns - int(intercept)
        adjusted = 1 - (1 - r2) * (n - int(intercept)) / free if r2 is not None and free > 0 else None
        return {
            "rows": n,
            "r2": r2,
            "adjusted_r2": adjusted,
            "rmse": math.sqrt(self.squares / n),
            "mae": self.sizes / n,
        }


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

    Kinds: started lost restarted joined left phase checkpoint command warning state error.
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
    """Compute time: seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        with timed() as spent:
            try:
                yield
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + spent()


Record = Round | WorkerSample | HostSample | Event
