"""Random faults of a cluster under a run, one after the other; and whether the run is what it would have been without.

Each is noticed and mended before the next one comes. The run has mode sync or local, so every bit of it is known: an
undisturbed run in one process has the same rounds.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.engines.base import Engine
from shoal.training.conductor import Conductor
from support.engines.yard import Yard
from support.training import At, Bench, Script, Trainer

KNOBS: dict[str, Any] = {
    "epochs": 1_000_000, "tolerance": 0, "batch_size": 8, "shards": 7, "model": "lasso", "alpha": 0.1, "restarts": 1000,
    "local_steps": 3,
}  # fmt: skip
ROUNDS = 5  # that go on between two faults


@dataclass
class Damage:
    """What was done, and what it took: seconds to notice, and to full strength."""

    kinds: Counter[str] = field(default_factory=Counter)
    noticed: dict[str, list[float]] = field(default_factory=dict)
    mended: dict[str, list[float]] = field(default_factory=dict)
    causes: dict[str, list[str]] = field(default_factory=dict)  # as the run tells them
    rounds: int = 0
    differing: int = 0  # rounds with other figures than those of the undisturbed run
    same_weights: bool = False


class Storm:
    """So many faults under one run."""

    def __init__(self, yard: Yard, engine: Engine, faults: int, seed: int = 0) -> None:
        self.yard, self.engine, self.chance = yard, engine, random.Random(seed)
        self._kinds: dict[str, Callable[[Conductor], None]] = {
            "worker killed": self._kill, "worker silent": self._stop, "raylet killed": self._cut, "node drained": self._drain,
        }  # fmt: skip
        named = list(self._kinds)
        self.course = [named[i % len(named)] for i in range(faults)]
        self.chance.shuffle(self.course)
        self.damage = Damage()
        self._stopped: list[int] = []

    def under(self, run: Trainer, path: Path, target: str, **knobs: Any) -> Damage:
        """A run through all of it, compared with one that has none of it."""
        knobs, bench = {**KNOBS, **knobs}, run.bench()
        script = Script(lambda conductor: self._happens(conductor, bench))
        try:
            found = run(path, target, engine=self.engine, bench=bench, callbacks=[script], **knobs)
        finally:
            for pid in self._stopped:
                _signal(pid, signal.SIGKILL)
        assert script.ended
        last = found.rounds[-1].round - 1  # who is stopped makes one step more
        stop = At(**{f"round{last}": lambda conductor: conductor.stop("as far as the other")})
        alone = run(path, target, callbacks=[stop], **knobs)
        pairs = list(zip(_course(found), _course(alone), strict=True))
        self.damage.rounds, self.damage.differing = len(pairs), sum(one != other for one, other in pairs)
        self.damage.same_weights = found.w.tobytes() == alone.w.tobytes()
        return self.damage

    def _happens(self, conductor: Conductor, bench: Bench) -> Iterator[None]:
        for kind in self.course:
            while len(conductor.server.workers) < self.engine.workers:
                yield
            rounds = conductor.server.version + self.chance.randrange(ROUNDS)
            while conductor.server.version < rounds:
                yield
            lost, began = len(bench.events("lost")), time.monotonic()
            self._kinds[kind](conductor)
            while len(bench.events("lost")) == lost:
                yield
            noticed = time.monotonic()
            self.damage.causes.setdefault(kind, []).append(bench.events("lost")[lost].data["cause"])
            if kind in ("raylet killed", "node drained"):
                rounds = conductor.server.version + ROUNDS
                while conductor.server.version < rounds:  # the other one goes on alone
                    yield
                self.yard.say("join")
            there = time.monotonic()
            while len(conductor.server.workers) < self.engine.workers:
                yield
            self.damage.kinds[kind] += 1
            self.damage.noticed.setdefault(kind, []).append(noticed - began)
            self.damage.mended.setdefault(kind, []).append(time.monotonic() - there)
        rounds = conductor.server.version + ROUNDS
        while conductor.server.version < rounds:
            yield

    def _someone(self, conductor: Conductor) -> int:
        return self.chance.choice(sorted(worker.pid for worker in conductor.server.workers.values()))

    def _kill(self, conductor: Conductor) -> None:
        _signal(self._someone(conductor), signal.SIGKILL)

    def _stop(self, conductor: Conductor) -> None:
        """Nothing closes, as if a cable were cut."""
        self._stopped.append(self._someone(conductor))
        _signal(self._stopped[-1], signal.SIGSTOP)

    def _cut(self, conductor: Conductor) -> None:
        self.yard.say("cut", self.chance.randrange(2))

    def _drain(self, conductor: Conductor) -> None:
        self.yard.say("drain", self.chance.randrange(2))


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # its node took it along
        os.kill(pid, number)


def _course(found: Bench) -> list[tuple[int, float, float, int]]:
    return [(one.round, one.loss, one.gradient_norm, one.nonzeros) for one in found.rounds]
