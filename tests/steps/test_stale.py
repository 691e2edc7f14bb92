"""Modes without a barrier: what waits for older updates, and how many may work at once."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from shoal.steps.hash_ring import Ring
from shoal.steps.policy import Task
from support.steps.rig import Rig, all_tasks, stale


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
