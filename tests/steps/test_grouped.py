"""Who is called to add gradients up, who is given up, and what is computed again: without a process or a clock."""

from __future__ import annotations

import pytest

from shoal.steps.grouped import TRIES, GroupBarrier
from shoal.steps.policy import SHORTEST_LEASE, Plan, Task


def begun(members: int, shards: int = 4, steps: int = 2, epochs: int = 3) -> GroupBarrier:
    policy = GroupBarrier(Plan((steps,) * shards), epochs)
    for rank in range(members):
        policy.join(rank)
    return policy


def computed(policy: GroupBarrier, now: float = 0.0) -> None:
    """Everybody does what it is given."""
    for member in policy.grants(0, now):
        policy.pushed(member.rank, now)


def held(policy: GroupBarrier) -> dict[int, tuple[int, ...]]:
    call = policy.called(0.0)
    assert call is not None
    return dict(call.holders)


def test_a_step_is_due_when_all_have_added_up_and_not_before() -> None:
    policy = begun(3)
    granted = policy.grants(0, 0.0)
    for member in granted[1:]:
        policy.pushed(member.rank, 0.0)
    assert policy.called(0.0) is None
    policy.pushed(granted[0].rank, 0.0)
    holders = held(policy)
    assert sorted(holders) == [0, 1, 2]
    assert sorted(shard for shards in holders.values() for shard in shards) == [0, 1, 2, 3]
    assert policy.called(0.0) is None  # once
    assert not policy.idle
    assert [policy.added(rank, True, 0.0) for rank in (2, 0)] == [False, False]
    assert not policy.due()
    assert policy.added(1, True, 0.0)
    assert policy.due() == [Task(0, 0, shard) for shard in range(4)]
    policy.applied(policy.due())
    assert not policy.due()
    assert len(policy.grants(1, 0.0)) == len(granted)


def test_who_has_no_shard_adds_up_as_well_and_the_group_stays() -> None:
    policy = begun(5, shards=2)
    computed(policy)
    call = policy.called(0.0)
    assert call is not None
    assert len(call.holders) == 5
    assert sorted(map(len, dict(call.holders).values()))[:3] == [0, 0, 0]
    for rank in range(5):
        policy.added(rank, True, 0.0)
    policy.applied(policy.due())
    computed(policy)
    again = policy.called(0.0)
    assert again is not None
    assert again.generation == call.generation


@pytest.mark.parametrize("moment", ["computing", "holding", "adding", "after its part"])
def test_what_a_lost_member_held_is_computed_again_and_added_up_by_another_generation(moment: str) -> None:
    policy = begun(2, shards=8)
    first, second = policy.grants(0, 0.0)
    its = set(second.tasks)
    assert its
    generation = 0
    if moment != "computing":
        policy.pushed(second.rank, 0.0)
    if moment != "holding":
        policy.pushed(first.rank, 0.0)
    if moment in ("adding", "after its part"):
        call = policy.called(0.0)
        assert call is not None
        generation = call.generation
        if moment == "after its part":
            policy.added(second.rank, True, 0.0)
    assert set(policy.gone(second.rank)) == its
    assert policy.counts.redone == len(its)
    if moment in ("adding", "after its part"):
        assert policy.called(0.0) is None  # the other still waits for its peer ...
        assert not policy.added(first.rank, moment == "after its part", 0.0)  # ... or has its own stretch already
        assert not policy.due()
        assert not policy.failures
    elif moment == "holding":
        policy.pushed(first.rank, 0.0)
    assert policy.called(0.0) is None
    (member,) = policy.grants(0, 0.0)
    assert set(member.tasks) == its
    policy.pushed(first.rank, 0.0)
    again = policy.called(0.0)
    assert again is not None
    assert again.holders == ((first.rank, tuple(range(8))),)
    assert again.generation > generation
    assert policy.added(first.rank, True, 0.0)
    policy.applied(policy.due())
    assert policy.counts.batches == 8


def test_a_sum_that_failed_is_made_again_with_more_patience_by_another_group() -> None:
    policy = begun(2)
    computed(policy)
    waits, generations = [], []
    for tries in range(1, TRIES + 1):
        call = policy.called(0.0)
        assert call is not None
        waits.append(call.patience)
        generations.append(call.generation)
        policy.added(0, False, 0.0)
        assert policy.called(0.0) is None
        policy.added(1, True, 0.0)
        assert policy.failures == tries
    assert waits == [SHORTEST_LEASE * 2**tries for tries in range(TRIES)]
    assert generations == [1, 2, 3, 4, 5]
    held(policy)
    assert [policy.added(rank, True, 0.0) for rank in (0, 1)] == [False, True]
    assert policy.failures == 0


def test_a_member_that_hangs_in_a_sum_is_overdue_and_its_peers_are_not() -> None:
    policy = begun(2)
    computed(policy, 10.0)
    call = policy.called(10.0)
    assert call is not None
    assert not policy.overdue(10.0 + 3 * call.patience)
    policy.added(0, False, 10.0 + call.patience)  # it gave up waiting for the other
    assert policy.overdue(10.1 + 3 * call.patience) == [1]


def test_whoever_leaves_adds_up_first_what_it_holds() -> None:
    policy = begun(2, shards=8)
    first, second = policy.grants(0, 0.0)
    policy.pushed(second.rank, 0.0)
    assert policy.leave(second.rank)
    assert not policy.departing()
    policy.pushed(first.rank, 0.0)
    assert set(held(policy)) == {first.rank, second.rank}
    assert not policy.departing()
    for rank in (0, 1):
        policy.added(rank, True, 0.0)
    policy.applied(policy.due())
    assert [member.rank for member in policy.departing()] == [second.rank]
    computed(policy)
    assert set(held(policy)) == {first.rank}


def test_a_member_that_comes_while_a_sum_is_made_spoils_nothing() -> None:
    policy = begun(1)
    computed(policy)
    call = policy.called(0.0)
    policy.join(1)
    assert not policy.grants(0, 0.0)
    assert policy.added(0, True, 0.0)
    policy.applied(policy.due())
    computed(policy)
    again = policy.called(0.0)
    assert call is not None
    assert again is not None
    assert (len(again.holders), again.generation) == (2, call.generation + 1)
    policy.join(1)  # another process in its place
    assert policy.called(0.0) is None or policy.generation > again.generation
