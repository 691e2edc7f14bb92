"""How long a worker may take, and what is done about one that is lost."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.steps.failure import Decision, FailurePolicy, Loss
from shoal.steps.policy import FIRST_LEASE
from support.steps.rig import Rig, barrier

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


def test_one_that_was_told_to_be_slow_is_given_the_time_and_no_more_once_it_is_free() -> None:
    rig = barrier((99,), ranks=1)
    rig.now += 2.0
    rig.push(0)
    rig.policy.slow(0, 100.0)
    assert overdue_after(rig, 1000.0)
    rig.policy.slow(0, 1.0)
    assert overdue_after(rig, 10.0)


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


def test_one_that_is_slow_but_works_has_any_time() -> None:
    rig = barrier((99,), ranks=1)
    rig.now += 1.0
    rig.push(0)
    given, policy = rig.now, rig.policy
    assert policy.doubted(given + 2.5) == []
    assert policy.doubted(given + 2.6) == [0]
    policy.look(0, True, given + 2.6)  # the first look tells nothing: it may have worked before it was stopped
    assert policy.doubted(given + 3.0) == [], "looking costs something, so not all the time"
    assert policy.overdue(given + 5.1) == [0]
    policy.look(0, True, given + 5.0)
    assert policy.overdue(given + 10.0) == []
    policy.look(0, False, given + 9.0)
    assert policy.overdue(given + 10.1) == [0], "five seconds in which it did nothing"
    rig.now = given + 9.5
    rig.push(0)
    policy.look(0, True, rig.now + 3.0)
    assert policy.overdue(rig.now + policy.lease + 0.1) == [0], "what it did for other tasks is no matter"


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
