"""The rules of training under every order of events: each batch counted once, nothing too old, nobody waits for ever."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shoal.steps.hash_ring import Ring
from shoal.steps.policy import Barrier, Plan, Task
from shoal.steps.stale import Stale
from support.steps.rig import Rig, all_tasks, stale

BOUNDS = (0, 1, 3, math.inf)


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
