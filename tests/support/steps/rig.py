"""A policy and the server around it, with books of their own of who has what, compared after every event."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from shoal.steps.policy import FIRST_LEASE, Barrier, Plan, Policy, Task
from shoal.steps.stale import Stale

Make = Callable[[Any], Policy]


class Held(NamedTuple):
    """Tasks that somebody has, or an update that waits."""

    tasks: tuple[Task, ...]
    version: int
    since: float
    allowed: float  # the largest bound since the tasks were given out
    grace: float = 0.0  # seconds that the server was away since then


def all_tasks(plan: Plan, epochs: int) -> list[Task]:
    return [Task(e, i, s) for e in range(epochs) for s, n in enumerate(plan.steps) for i in range(n)]


class Rig:
    """A policy, and the server around it."""

    def __init__(self, plan: Plan, epochs: int, make: Make) -> None:
        self.plan, self.epochs, self.make = plan, epochs, make
        self.policy = make(None)
        self.version, self.now = 0, 100.0
        self.hands: dict[int, Held] = {}
        self.waiting: dict[Task, Held] = {}
        self.applied: list[list[Task]] = []
        self.alive: set[int] = set()
        self.leaving: set[int] = set()
        self.told: list[int] = []
        self.takes: list[tuple[float, int]] = []  # seconds and tasks of all rounds

    # ---- what the engine tells the server

    def join(self, *ranks: int) -> None:
        for rank in ranks:
            self._forget(rank)
            self.alive.add(rank)
            self.policy.join(rank)
            self._instructions()

    def lose(self, rank: int) -> tuple[Task, ...]:
        held = self._forget(rank)
        assert self.policy.gone(rank) == (held.tasks if held else ())
        self._advance()
        self._instructions()
        return held.tasks if held else ()

    def leave(self, rank: int) -> bool:
        left = self.policy.leave(rank)
        if left:
            self.leaving.add(rank)
        self._instructions()
        return left

    def left(self, rank: int) -> None:
        assert self._forget(rank) is None, "told to go with work in hand"
        self.policy.gone(rank)
        self._instructions()

    def push(self, rank: int) -> tuple[Task, ...]:
        held = self.hands.pop(rank, None)
        tasks = self.policy.pushed(rank, self.now)
        assert tasks == (held.tasks if held else ())
        if held:
            self.takes.append((self.now - held.since, len(tasks)))
            self.waiting |= dict.fromkeys(tasks, held)
        self._advance()
        self._instructions()
        return tasks

    def tick(self) -> None:
        self._advance()
        self._instructions()

    def set_bound(self, bound: float) -> None:
        assert isinstance(self.policy, Stale)
        self.policy.bound = bound
        self.hands = {r: h._replace(allowed=max(h.allowed, bound)) for r, h in self.hands.items()}
        self.waiting = {t: h._replace(allowed=max(h.allowed, bound)) for t, h in self.waiting.items()}

    # ---- checkpoints

    def saved(self) -> tuple[str, int, list[list[Task]]]:
        return json.dumps(self.policy.state()), self.version, list(self.applied)

    def restore(self, saved: tuple[str, int, list[list[Task]]]) -> None:
        """New processes, nothing in hand; who was there has to join again."""
        state, self.version, applied = saved
        bound = getattr(self.policy, "bound", None)
        self.policy, self.applied = self.make(json.loads(state)), list(applied)
        if bound is not None:
            self.policy.bound = bound  # type: ignore[attr-defined]
        self.hands, self.waiting, self.takes, self.told = {}, {}, [], []
        self.alive, self.leaving = set(), set()

    # ---- what the server does

    def _forget(self, rank: int) -> Held | None:
        self.alive.discard(rank)
        self.leaving.discard(rank)
        self.told = [r for r in self.told if r != rank]
        return self.hands.pop(rank, None)

    def _advance(self) -> None:
        while tasks := self.policy.due():
            assert tasks == sorted(tasks, key=lambda task: task.shard)
            for task in tasks:
                held = self.waiting.pop(task)  # a KeyError: nobody has done it, or it was applied before
                assert self.version - held.version <= held.allowed, "made from weights that are too old"
            self.applied.append(list(tasks))
            self.policy.applied(tasks)
            self.version += 1

    def _instructions(self) -> None:
        for member in self.policy.departing():
            assert member.rank in self.leaving
            self.told.append(member.rank)
        for member in self.policy.grants(self.version, self.now):
            assert member.rank in self.alive - self.leaving, "work for somebody who is not there, or is to leave"
            assert member.rank not in self.hands
            assert member.version == self.version
            assert member.tasks
            bound = getattr(self.policy, "bound", 0)
            self.hands[member.rank] = Held(member.tasks, self.version, self.now, bound)

    # ---- what must be true after every event

    @property
    def done(self) -> list[Task]:
        return [task for tasks in self.applied for task in tasks]

    def check(self) -> None:
        self.check_hands()
        self.check_ledger()
        self.check_leases()
        self.check_that_somebody_works()

    def check_hands(self) -> None:
        assert set(self.policy.members) == self.alive
        assert {r: m.tasks for r, m in self.policy.members.items() if m.tasks} == {
            r: h.tasks for r, h in self.hands.items()
        }
        out = [task.shard for held in self.hands.values() for task in held.tasks]
        out += [task.shard for task in self.waiting]
        assert len(out) == len(set(out)), "a shard in two hands"
        assert sorted(self.told) == sorted(self.leaving - set(self.hands))  # told as soon as possible, and once

    def check_ledger(self) -> None:
        done, counts = self.done, self.policy.counts
        assert len(done) == len(set(done)), "counted twice"
        wanted = all_tasks(self.plan, self.epochs)
        assert set(done) <= set(wanted)
        for shard in range(len(self.plan.steps)):  # what compression holds back goes from batch to batch
            assert [t for t in done if t.shard == shard] == [t for t in wanted if t.shard == shard][
                : sum(t.shard == shard for t in done)
            ]
        per_epoch = Counter(task.epoch for task in done)
        whole = sum(n == self.plan.tasks for n in per_epoch.values())
        assert (counts.batches, counts.epochs) == (len(done), whole)
        assert self.policy.finished == (len(done) == len(wanted))
        if self.plan.tasks:
            assert self.policy.progress == pytest.approx(len(done) / self.plan.tasks)

    def check_leases(self) -> None:
        overdue = self.policy.overdue(self.now)
        assert set(overdue) <= set(self.hands)
        for rank, held in self.hands.items():
            over = self.now - held.since - self.lease(len(held.tasks)) - held.grace
            if self.takes and abs(over) < 1e-9 and over != 0:
                continue  # rounding decides
            assert (rank in overdue) == (over > 0)

    def lease(self, tasks: int) -> float:
        """The usual round is a mean in which each has nine tenths of the weight of the next, but for the first."""
        if not self.takes:
            return FIRST_LEASE
        n = len(self.takes)
        weights = [0.9 ** (n - 1)] + [0.1 * 0.9 ** (n - 1 - i) for i in range(1, n)]
        seconds = sum(w * took for w, (took, _) in zip(weights, self.takes, strict=True))
        usual_tasks = sum(w * count for w, (_, count) in zip(weights, self.takes, strict=True))
        return max(3.0, 5 * seconds * max(1.0, tasks / usual_tasks))

    def check_that_somebody_works(self) -> None:
        if self.hands:
            return
        if isinstance(self.policy, Stale):
            assert not self.waiting, "updates wait, and nobody is at work whom they could wait for"
            assert self.policy.idle
        stopped = self.policy.paused or self.policy.closed or self.policy.finished
        assert stopped or not self.alive - self.leaving, "deadlock"

    def finish(self) -> None:
        """Everything pushed as it comes, with whoever is there."""
        for _ in range(10 * (len(all_tasks(self.plan, self.epochs)) + 1)):
            if not self.hands:
                break
            self.push(min(self.hands))
            self.check()
        assert self.policy.finished
        assert set(self.done) == set(all_tasks(self.plan, self.epochs))


def barrier(steps: tuple[int, ...], epochs: int = 1, ranks: int = 0) -> Rig:
    rig = Rig(Plan(steps), epochs, lambda state: Barrier(Plan(steps), epochs, state))
    return together(rig, ranks)


def stale(steps: tuple[int, ...], bound: float, epochs: int = 1, ranks: int = 0) -> Rig:
    rig = Rig(Plan(steps), epochs, lambda state: Stale(Plan(steps), epochs, bound, state))
    return together(rig, ranks)


def together(rig: Rig, ranks: int) -> Rig:
    """All there before anybody is given work: who comes first would get everything."""
    rig.policy.paused = True
    rig.join(*range(ranks))
    rig.policy.paused = False
    rig.tick()
    return rig


def owners(rig: Rig) -> dict[int, int]:
    """Who is given which shard in a round."""
    return {task.shard: rank for rank, held in rig.hands.items() for task in held.tasks}
