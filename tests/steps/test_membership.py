"""Workers that come, go and leave: no work is lost, and few shards change hands."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable

import pytest

from shoal.steps.policy import Barrier, Plan
from support.steps.rig import Rig, barrier, owners, stale

# ------------------------------------------------------------------ single cases


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
