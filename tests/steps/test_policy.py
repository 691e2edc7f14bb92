"""The rules of training under every order of events: each batch counted once, nothing too old, nobody waits for ever.

`Rig` does what the parameter server does, keeps its own books of who has what, and compares after every event.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shoal.steps.failure import Decision, FailurePolicy, Loss
from shoal.steps.hash_ring import Ring
from shoal.steps.policy import FIRST_LEASE, Barrier, Plan, Policy, Task
from shoal.steps.stale import Stale

Make = Callable[[Any], Policy]
BOUNDS = (0, 1, 3, math.inf)


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


# ------------------------------------------------------------------ any order of events


class Course(RuleBasedStateMachine):
    """Members come, go, hang and die while a run goes on."""

    rig: Rig

    def _ranks(self) -> list[int]:
        return sorted(self.rig.alive)

    @rule(rank=st.integers(0, 5))
    def join(self, rank: int) -> None:
        """Also under the rank of one whose loss was not noticed."""
        self.rig.join(rank)
        self.rig.tick()

    @precondition(lambda self: self.rig.alive)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """Whether it works, waits or has nothing to do."""
        self.rig.lose(data.draw(st.sampled_from(self._ranks())))

    @precondition(lambda self: self.rig.alive)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        rank = data.draw(st.sampled_from(self._ranks()))
        stay = self.rig.alive - self.rig.leaving - {rank}
        assert self.rig.leave(rank) == bool(stay)

    @precondition(lambda self: self.rig.told)
    @rule(data=st.data())
    def left(self, data: st.DataObject) -> None:
        self.rig.left(data.draw(st.sampled_from(self.rig.told)))

    @rule(rank=st.integers(0, 6))
    def push(self, rank: int) -> None:
        """Also from one that has nothing in hand or was taken for dead."""
        self.rig.push(rank)

    @precondition(lambda self: self.rig.hands)
    @rule(data=st.data(), times=st.integers(1, 12), seconds=st.sampled_from([0.0, 0.25, 2.0]))
    def work(self, data: st.DataObject, times: int, seconds: float) -> None:
        for _ in range(times):
            if self.rig.hands:
                self.rig.now += seconds
                self.rig.push(data.draw(st.sampled_from(sorted(self.rig.hands))))
                self.rig.check()

    @rule(quarters=st.integers(0, 40))
    def wait(self, quarters: int) -> None:
        self.rig.now += quarters / 4
        self.rig.tick()

    @rule(quarters=st.integers(1, 40), elapsed=st.booleans())
    def stall(self, quarters: int, elapsed: bool) -> None:
        """The server was away; some work may have been given out only after that."""
        rig, seconds = self.rig, quarters / 4
        rig.now += seconds if elapsed else 0.0
        rig.policy.extend_leases(seconds)
        rig.hands = {r: h._replace(grace=h.grace + seconds) for r, h in rig.hands.items()}
        rig.tick()

    @rule()
    def evict(self) -> None:
        """As the server does: whoever is overdue is killed."""
        for rank in self.rig.policy.overdue(self.rig.now):
            self.rig.lose(rank)

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        self.rig.policy.paused = paused
        self.rig.tick()

    @precondition(lambda self: self.rig.epochs > 1)
    @rule()
    def close(self) -> None:
        """What is in hand is done, nothing is begun; a checkpoint of that goes on."""
        rig = self.rig
        rig.policy.closed = True
        before = len(rig.hands)
        while rig.hands:
            rig.push(min(rig.hands))
            before -= 1
            assert len(rig.hands) == before
        assert rig.policy.idle
        rig.check()
        rig.restore(rig.saved())

    @rule()
    def save(self) -> None:
        self.kept = self.rig.saved()

    @rule(older=st.booleans(), ranks=st.sets(st.integers(0, 5)))
    def restore(self, older: bool, ranks: set[int]) -> None:
        self.rig.restore(self.kept if older else self.rig.saved())
        self.rig.join(*sorted(ranks))

    @rule()
    def next_phase(self) -> None:
        """The same accounts under another object: nobody is forgotten, nor that they were to leave."""
        rig, before = self.rig, self.rig.policy
        if rig.hands or rig.waiting:
            return
        rig.policy = rig.make(json.loads(json.dumps(before.state())))
        if isinstance(before, Stale):
            rig.policy.bound = before.bound  # type: ignore[attr-defined]
        rig.takes = []
        rig.policy.succeed(before)
        assert rig.policy.paused == before.paused
        rig.tick()

    @invariant()
    def everything_is_in_order(self) -> None:
        self.rig.check()

    @rule()
    def go_to_the_end(self) -> None:
        """Whatever has happened, one worker finishes the run; then again from the checkpoint."""
        self.rig.policy.paused = False
        self.rig.join(7)
        self.rig.finish()
        self.rig.restore(self.kept)


PLANS = st.builds(
    lambda steps: Plan(tuple(steps)),
    st.lists(st.sampled_from([0, 1, 1, 2, 3, 5]), min_size=1, max_size=9),
)


class BarrierCourse(Course):
    @initialize(plan=PLANS, epochs=st.integers(0, 3), ranks=st.integers(0, 4))
    def begin(self, plan: Plan, epochs: int, ranks: int) -> None:
        self.rig = Rig(plan, epochs, lambda state: Barrier(plan, epochs, state))
        self.rounds = [plan.at(e, i) for e in range(epochs) for i in range(max(plan.steps))]
        self.kept = self.rig.saved()
        self.rig.join(*range(ranks))

    @invariant()
    def rounds_come_in_their_order(self) -> None:
        assert self.rig.applied == self.rounds[: len(self.rig.applied)]

    @invariant()
    def nobody_idles_before_work_of_its_own(self) -> None:
        """What is neither done nor in hand belongs to somebody who is busy, and who is to leave owns nothing."""
        rig = self.rig
        staying = rig.alive - rig.leaving
        if rig.policy.paused or rig.policy.finished or not staying:
            return
        held = {task for held in rig.hands.values() for task in held.tasks}
        missing = set(self.rounds[len(rig.applied)]) - held - set(rig.waiting)
        owners = {s: rank for rank, owned in Ring(staying).assign(len(rig.plan.steps)).items() for s in owned}
        assert {owners[task.shard] for task in missing} <= set(rig.hands)


class StaleCourse(Course):
    @initialize(plan=PLANS, epochs=st.integers(0, 3), ranks=st.integers(0, 4), bound=st.sampled_from(BOUNDS))
    def begin(self, plan: Plan, epochs: int, ranks: int, bound: float) -> None:
        self.rig = Rig(plan, epochs, lambda state: Stale(plan, epochs, bound, state))
        self.kept = self.rig.saved()
        self.rig.join(*range(ranks))

    @rule(bound=st.sampled_from(BOUNDS))
    def set_bound(self, bound: float) -> None:
        self.rig.set_bound(bound)
        self.rig.tick()

    @invariant()
    def the_bound_is_used_up(self) -> None:
        """As many are at work as the bound allows: weights b behind leave room for b + 1 updates of one version."""
        rig, policy = self.rig, self.rig.policy
        if policy.paused or policy.finished or rig.waiting or not isinstance(policy, Stale):
            return
        if any(held.version != rig.version for held in rig.hands.values()):
            return
        idle = rig.alive - rig.leaving - set(rig.hands)
        if idle and len(rig.hands) <= policy.bound:
            busy = {task.shard for held in rig.hands.values() for task in held.tasks}
            left = [t for t in all_tasks(rig.plan, rig.epochs) if t not in set(rig.done)]
            now = [t for t in left if t.epoch == left[0].epoch]
            assert {t.shard for t in now} <= busy, "somebody idles though the bound and the shards allow work"


COURSE = settings(deadline=None, max_examples=70, stateful_step_count=40)
TestBarrierCourse = BarrierCourse.TestCase
TestBarrierCourse.settings = COURSE
TestStaleCourse = StaleCourse.TestCase
TestStaleCourse.settings = COURSE


# ------------------------------------------------------------------ single cases


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


def with_a_waiting_update() -> tuple[Rig, Task]:
    """Worker 0 is slow; another update of worker 1 would make it too old and has to wait for it."""
    rig = stale((2, 2, 2), bound=1, ranks=2)
    rig.push(1)
    assert len(rig.applied) == 1
    (task,) = rig.push(1)
    assert set(rig.waiting) == {task}
    assert set(rig.hands) == {0}
    assert not rig.policy.idle
    return rig, task


def test_an_update_waits_for_an_older_one_and_is_applied_after_it() -> None:
    rig, task = with_a_waiting_update()
    (older,) = rig.push(0)
    assert rig.applied[1:] == [[older], [task]]


def test_nobody_is_given_work_while_an_update_of_its_own_waits() -> None:
    rig = stale((9, 9, 9), bound=3, ranks=2)
    for _ in range(4):
        rig.push(1)
    assert len(rig.applied) == 3
    assert len(rig.waiting) == 1
    assert set(rig.hands) == {0}, "the bound alone would allow one more"
    rig.push(0)
    assert set(rig.hands) == {0, 1}


@pytest.mark.parametrize("back", [False, True], ids=["stays away", "comes back"])
def test_the_update_of_a_lost_worker_that_waits_is_applied_once(back: bool) -> None:
    rig, task = with_a_waiting_update()
    assert rig.lose(1) == ()
    if back:
        rig.join(1)
        assert 1 not in rig.hands, "nobody is ahead of its own update, be it a former self's"
    (older,) = rig.push(0)
    assert rig.applied[1:] == [[older], [task]]
    rig.finish()
    assert rig.policy.counts.redone == 0


def test_an_update_that_waits_for_a_lost_worker_is_applied_when_that_is_gone() -> None:
    rig, task = with_a_waiting_update()
    (lost,) = rig.lose(0)
    assert rig.applied[-1] == [task]
    assert rig.hands[1].tasks == (lost,), "what was lost comes first"
    rig.finish()


@pytest.mark.parametrize("make", [barrier, lambda steps, ranks: stale(steps, math.inf, ranks=ranks)])
@pytest.mark.parametrize("taken_over", [False, True])
def test_a_worker_comes_back_under_the_rank_of_a_lost_one(make: Callable[..., Rig], taken_over: bool) -> None:
    rig = make((1, 1, 1, 1), ranks=2)
    if not taken_over:
        rig.policy.paused = True
    lost = rig.lose(0)
    assert lost
    if taken_over:  # the other is free now and takes what there is
        rig.push(1)
        assert set(lost) & set(rig.hands[1].tasks)
    rig.policy.paused = False
    rig.join(0)
    rig.check()
    assert taken_over or set(rig.hands[0].tasks) & set(lost)
    rig.finish()
    assert rig.policy.counts.redone == len(lost)


@pytest.mark.parametrize("make", [barrier, lambda steps, ranks: stale(steps, math.inf, ranks=ranks)])
def test_a_worker_that_joins_twice_loses_nothing(make: Callable[..., Rig]) -> None:
    """The loss of its former self was never told."""
    rig = make((2, 2, 1), ranks=2)
    assert rig.hands[0].tasks
    rig.join(0)
    rig.check()
    rig.finish()


@pytest.mark.parametrize("make", [barrier, lambda steps, ranks: stale(steps, 3, ranks=ranks)])
def test_what_is_given_back_to_a_closed_run_waits_for_its_resumption(make: Callable[..., Rig]) -> None:
    rig = make((2, 2, 2), ranks=2)
    rig.policy.closed = True
    lost = rig.lose(0)
    assert lost
    rig.push(1)
    rig.join(0)
    assert (rig.hands, rig.policy.idle, rig.policy.finished) == ({}, True, False)
    rig.restore(rig.saved())
    rig.join(4)
    rig.finish()


@pytest.mark.parametrize("make", [barrier, lambda steps, ranks: stale(steps, 1, ranks=ranks)])
def test_all_are_lost_and_one_comes(make: Callable[..., Rig]) -> None:
    rig = make((2, 3, 1), ranks=4)
    rig.push(min(rig.hands))
    for rank in range(4):
        rig.lose(rank)
    assert rig.hands == {}
    assert not rig.policy.finished
    rig.join(9)
    assert set(rig.hands) == {9}
    rig.finish()


@pytest.mark.parametrize("steps", [(), (0,), (0, 0, 0)])
@pytest.mark.parametrize("make", [barrier, lambda steps, ranks: stale(steps, 1, ranks=ranks)])
def test_a_plan_without_tasks_is_finished_at_once(make: Callable[..., Rig], steps: tuple[int, ...]) -> None:
    rig = make(steps, ranks=2)
    rig.tick()
    assert rig.policy.finished
    assert rig.policy.idle
    assert rig.hands == {}
    assert rig.policy.progress == 0
    assert rig.policy.plan.longest == 0


def test_bound_zero_is_one_after_the_other() -> None:
    rig = stale((3, 3), bound=0, ranks=3)
    seen = 0
    while rig.hands:
        assert len(rig.hands) == 1
        rig.push(min(rig.hands))
        seen += 1
    assert seen == 6


@pytest.mark.parametrize(("bound", "workers"), [(0, 1), (1, 2), (3, 4), (math.inf, 6)])
def test_so_many_may_work_at_once(bound: float, workers: int) -> None:
    assert len(stale((5,) * 6, bound, ranks=6).hands) == workers


def test_a_bound_that_is_lowered_is_kept_by_what_is_begun_after_it() -> None:
    rig = stale((9,) * 4, bound=3, ranks=4)
    rig.set_bound(0)
    for rank in (3, 2, 1):
        rig.push(rank)  # newest first: each may be applied only if the rest stay within what is now asked for
    rig.push(0)
    assert len(rig.hands) == 1
    assert not rig.waiting
    rig.finish()


def test_a_worker_takes_its_own_shards_first_and_then_those_with_most_to_do() -> None:
    rig = stale((4,) * 6, math.inf, ranks=2)
    own = {rank: set(shards) for rank, shards in Ring((0, 1)).assign(6).items()}
    mine: list[Task] = []
    for _ in range(12):
        mine += rig.push(0)
    assert {task.shard for task in mine} == own[0]
    stolen = list(rig.hands[0].tasks)
    for _ in range(4):
        rig.push(0)
        stolen += rig.hands[0].tasks
    (busy,) = (task.shard for task in rig.hands[1].tasks)
    assert {task.shard for task in stolen} == own[1] - {busy}
    assert max(Counter(task.shard for task in stolen).values()) == 3  # of 5 on two shards: evenly


def test_a_straggler_does_not_hold_up_more_than_its_shard() -> None:
    rig = stale((4, 4, 4), math.inf, ranks=2)
    while 1 in rig.hands:
        rig.push(1)
    (held,) = rig.hands[0].tasks
    left = set(all_tasks(rig.plan, 1)) - set(rig.done)
    assert left == {Task(0, step, held.shard) for step in range(4)}


# ------------------------------------------------------------------ leaving


def test_who_leaves_finishes_its_work_is_told_once_and_its_shards_are_done_by_others() -> None:
    """Even if it never goes: a worker may hang between being told and going."""
    rig = barrier((3, 3, 3, 3), ranks=2)
    assert rig.leave(0)
    assert rig.told == []
    rig.push(0)
    assert rig.told == [0]
    rig.finish()
    assert rig.told == [0]
    assert rig.policy.departing() == []


def test_the_last_one_cannot_leave() -> None:
    rig = barrier((2, 2), ranks=2)
    assert rig.leave(1)
    assert not rig.leave(0)
    assert not rig.leave(5)
    rig.finish()


def test_another_phase_knows_who_is_about_to_leave_and_that_the_run_is_paused() -> None:
    first = barrier((1, 1, 1), ranks=3)
    first.leave(1)
    first.policy.paused = True
    while first.hands:
        first.push(min(first.hands))
    assert first.told == [1]
    first.policy.leave(2)
    second = Barrier(Plan((1, 1, 1)), 1)
    second.succeed(first.policy)
    assert second.paused
    assert [m.rank for m in second.departing()] == [2]
    second.paused = False
    assert [(m.rank, len(m.tasks)) for m in second.grants(3, 0.0)] == [(0, 3)]


# ------------------------------------------------------------------ shards change hands


def owners(rig: Rig) -> dict[int, int]:
    """Who is given which shard in a round."""
    return {task.shard: rank for rank, held in rig.hands.items() for task in held.tasks}


def next_round(rig: Rig) -> dict[int, int]:
    rounds = len(rig.applied)
    while len(rig.applied) == rounds:
        rig.push(min(rig.hands))
    return owners(rig)


def fewest_moves(before: dict[int, int], ranks: set[int]) -> int:
    """Over all ways to say who has one shard more than the others."""
    low, more = divmod(len(before), len(ranks))
    kept = Counter(rank for rank in before.values() if rank in ranks)
    best = max(
        sum(min(kept[rank], low + (rank in longer)) for rank in ranks)
        for longer in itertools.combinations(sorted(ranks), more)
    )
    return len(before) - best


def test_few_shards_change_hands_when_members_come_and_go() -> None:
    moved = least = 0
    for members in range(2, 8):
        rig = barrier((60,) * 48, ranks=members)
        for change in [*range(members), None]:
            before = next_round(rig)
            if change is None:
                rig.join(members)
            elif change % 2:
                rig.lose(change)
            else:
                rig.leave(change)
            next_round(rig)  # who leaves may still have work of the round before
            after = next_round(rig)
            assert set(after) == set(range(48))
            assert set(after.values()) == rig.alive - rig.leaving
            loads = Counter(after.values()).values()
            assert max(loads) - min(loads) <= 1
            moved += sum(before[shard] != after[shard] for shard in before)
            least += fewest_moves(before, set(after.values()))
            if change is not None:
                rig.lose(change)
                rig.join(change)
                assert next_round(rig) == before, "who comes back finds its shards"
    assert least <= moved <= 1.5 * least


def test_going_moves_nothing_that_leaving_has_not_moved() -> None:
    rig = barrier((9,) * 12, ranks=4)
    rig.leave(2)
    next_round(rig)
    without = next_round(rig)
    rig.left(2)
    assert next_round(rig) == without


# ------------------------------------------------------------------ leases


def overdue_after(rig: Rig, seconds: float) -> bool:
    """Whether the lease of work that is given out now ends right after so many seconds."""
    return rig.policy.overdue(rig.now + seconds) == [] and rig.policy.overdue(rig.now + seconds + 0.001) == [0]


def test_a_lease_is_long_at_first_then_five_usual_rounds_but_three_seconds_at_least() -> None:
    rig = barrier((99,), ranks=1)
    assert overdue_after(rig, FIRST_LEASE)
    rig.now += 2.0
    rig.push(0)
    assert overdue_after(rig, 10.0)
    rig.now += 12.0
    rig.push(0)
    assert rig.policy.lease == pytest.approx(5 * (0.9 * 2 + 0.1 * 12))  # one long round is not what is usual
    for _ in range(20):
        rig.push(0)
    assert overdue_after(rig, 3.0)


def test_that_the_server_was_away_is_no_workers_fault_and_no_measure_of_rounds() -> None:
    rig = barrier((99,), ranks=1)
    rig.now += 2.0
    rig.push(0)
    rig.policy.extend_leases(7.0)
    assert overdue_after(rig, 17.0)
    rig.now += 2.0
    rig.push(0)
    assert overdue_after(rig, 10.0)


def test_only_work_in_hand_can_be_overdue() -> None:
    rig = barrier((1, 0), ranks=2)
    (idle,) = {0, 1} - set(rig.hands)
    assert idle not in rig.policy.overdue(rig.now + 1e9)
    rig.push(min(rig.hands))
    assert rig.policy.overdue(rig.now + 1e9) == []


def test_who_does_the_work_of_lost_ones_has_time_for_it() -> None:
    """Of eight workers seven die: the last has seven shards more to do and needs seven times as long as usual."""
    rig = barrier((4,) * 8, ranks=8)
    rig.now += 2.0
    for rank in range(8):
        rig.push(rank)
    for rank in range(1, 8):
        rig.lose(rank)
    rig.now += 2.0
    rig.push(0)
    assert len(rig.hands[0].tasks) == 7
    assert overdue_after(rig, 5 * 7 * 2.0)
    assert rig.policy.lease == 10.0


# ------------------------------------------------------------------ what to do about a loss

DECISIONS: list[tuple[str, int, int, int, Decision]] = [
    # on_loss, restarts, losses in a row, others, decision
    ("retry", 3, 1, 2, "replace"),
    ("retry", 3, 3, 0, "replace"),
    ("retry", 3, 4, 2, "go on"),
    ("retry", 3, 4, 0, "stop"),
    ("retry", 0, 1, 1, "go on"),
    ("retry", 0, 1, 0, "stop"),
    ("fewer", 3, 1, 1, "go on"),
    ("fewer", 3, 1, 0, "stop"),
    ("stop", 3, 1, 7, "stop"),
    ("stop", 3, 1, 0, "stop"),
]


@pytest.mark.parametrize(("on_loss", "restarts", "in_a_row", "others", "decision"), DECISIONS)
def test_decisions(on_loss: Any, restarts: int, in_a_row: int, others: int, decision: Decision) -> None:
    assert FailurePolicy(on_loss, restarts).decide(Loss(5, in_a_row, others)) == decision


@pytest.mark.parametrize(
    ("on_loss", "in_a_row", "words"),
    [
        ("stop", 1, "on_worker_loss is 'stop'"),
        ("fewer", 1, "on_worker_loss is 'fewer', and no other is left"),
        ("retry", 4, "it was lost 4 times in a row, and no other is left"),
        ("retry", 1, "it was lost once, and no other is left"),
    ],
)
def test_reasons_are_those_of_the_decision(on_loss: Any, in_a_row: int, words: str) -> None:
    assert FailurePolicy(on_loss).why(in_a_row) == words


# ------------------------------------------------------------------ the ledger


def test_a_batch_that_is_counted_twice_is_a_fault() -> None:
    policy = Barrier(Plan((2, 2)), 1)
    policy.applied([Task(0, 0, 0), Task(0, 0, 1)])
    with pytest.raises(AssertionError, match="counted twice"):
        policy.applied([Task(0, 0, 1)])


def test_a_restored_ledger_goes_on_where_it_was() -> None:
    rig = stale((2, 1, 3), math.inf, epochs=3, ranks=3)
    for _ in range(8):
        rig.push(max(rig.hands))
    rig.lose(0)
    redone = rig.policy.counts.redone
    rig.restore(rig.saved())
    assert (rig.policy.counts.redone, rig.policy.counts.batches) == (redone, 8)
    rig.join(0)
    rig.finish()
