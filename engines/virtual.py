"""Time that passes only by events, links between a server and its workers, and what slows or ends these; who sends
what to whom belongs to `simulated_rounds` and `simulated`."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import field
from typing import Any, NamedTuple, Protocol

import numpy as np

from shoal.lazy.classes import dataclass


class VirtualClock:
    """Seconds since the beginning, moved on by the events that are due; called, it tells them."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def __call__(self) -> float:
        return self.now

    def __len__(self) -> int:
        """Events that are still to come."""
        return len(self._events)

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Of events of one moment the first that was announced comes first."""
        heapq.heappush(self._events, (max(when, self.now), next(self._count), action))

    def step(self) -> bool:
        """The next event; False where there is none."""
        if not self._events:
            return False
        self.now, _, action = heapq.heappop(self._events)
        action()
        return True


@dataclass(frozen=True)
class Network:
    """What lies between the server and each worker: seconds one way, and bytes a second of every machine's link."""

    latency: float = 0.0
    bandwidth: float = math.inf


class Line:
    """One direction of the server's link: messages pass one after another, those of workers' own links at a time."""

    def __init__(self, network: Network) -> None:
        self.busy = 0.0  # seconds
        self.nbytes = 0
        self._network, self._free = network, 0.0

    def carry(self, nbytes: int, now: float) -> float:
        """When a message that is ready now will have arrived at the other end."""
        spent = nbytes / self._network.bandwidth
        self._free = max(now, self._free) + spent
        self.busy += spent
        self.nbytes += nbytes
        return self._free + self._network.latency


@dataclass(frozen=True)
class Stragglers:
    """How much longer work takes than it has to.

    spread: standard deviation of the logarithm of each piece's factor;    share: of the workers that are slow for good;
    factor: how many times as long these take.
    """

    spread: float = 0.0
    share: float = 0.0
    factor: float = 1.0


@dataclass(frozen=True)
class Failures:
    """How workers are lost: seconds until one is gone, on average; the share of them that go without a word, so that
    only their lease tells; seconds until the others are noticed, and until a new one is there."""

    every: float = math.inf
    silent: float = 0.0
    notice: float = 0.1
    restart: float = 1.2


class Luck:
    """The draws of one worker's life: the same for the same seed, whatever happens to others."""

    def __init__(self, seed: int, rank: int, life: int, stragglers: Stragglers, failures: Failures) -> None:
        self._random = np.random.default_rng((seed, rank, life))
        self._spread = stragglers.spread
        own = np.random.default_rng((seed, rank))  # a slow machine stays one when its worker is started anew
        self._pace = stragglers.factor if own.random() < stragglers.share else 1.0
        self.lifetime = float(self._random.exponential(failures.every)) if math.isfinite(failures.every) else math.inf
        self.silent = bool(self._random.random() < failures.silent)

    def factor(self) -> float:
        """How many times as long as it has to the next piece of work takes."""
        return (
            self._pace * math.exp(self._spread * float(self._random.standard_normal())) if self._spread else self._pace
        )


class Chain(NamedTuple):
    """Seconds on the longest chain of events that led to a moment, by what they were spent on."""

    network: float = 0.0
    work: float = 0.0  # that had to be
    slow: float = 0.0  # beyond that
    server: float = 0.0

    def plus(self, network: float = 0.0, work: float = 0.0, slow: float = 0.0, server: float = 0.0) -> Chain:
        return Chain(self.network + network, self.work + work, self.slow + slow, self.server + server)


NO_CHAIN = Chain()


class Costs(Protocol):
    """What things take on the machines that are thought of, in seconds and bytes."""

    def down(self, work: Any) -> int:
        """Bytes of a message with work, weights included."""

    def up(self, update: Any) -> int:
        """Bytes of a message with an update."""

    def work(self, work: Any, update: Any) -> float:
        """Seconds of a worker from the work to the update."""

    def taking(self, update: Any) -> float:
        """Seconds of the server to take an update in."""

    def step(self) -> float:
        """Seconds of the server from the last update of a step to the first answer."""

    def answer(self) -> float:
        """Seconds of the server to send one worker its work."""

    def digest(self) -> float:
        """Seconds of the server, after the answers to a step, to record and judge it."""

    def request(self, request: Any, report: Any) -> tuple[float, int, int, float]:
        """Of a sweep: seconds of a worker, bytes there and back, seconds of the coordinator to take the report in."""


class NoCosts:
    """Everything happens at once."""

    def down(self, work: Any) -> int:
        return 0

    def up(self, update: Any) -> int:
        return 0

    def work(self, work: Any, update: Any) -> float:
        return 0.0

    def taking(self, update: Any) -> float:
        return 0.0

    def step(self) -> float:
        return 0.0

    def answer(self) -> float:
        return 0.0

    def digest(self) -> float:
        return 0.0

    def request(self, request: Any, report: Any) -> tuple[float, int, int, float]:
        return 0.0, 0, 0, 0.0


@dataclass(frozen=True)
class Surroundings:
    """The machines that are thought of, and the seed of what is drawn about them."""

    costs: Costs = field(default_factory=NoCosts)
    network: Network = Network()
    stragglers: Stragglers = Stragglers()
    failures: Failures = Failures()
    seed: int = 0


@dataclass
class TimeSpent:
    """What a training took: seconds in all, those that workers computed and that the server was busy, bytes, losses."""

    seconds: float = 0.0
    worked: float = 0.0
    served: float = 0.0
    line: float = 0.0  # seconds that the busier direction of the server's link was in use
    nbytes: int = 0
    pushes: int = 0
    lost: int = 0
    chain: Chain = NO_CHAIN
