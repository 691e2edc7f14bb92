"""One contract for every queue."""

from __future__ import annotations

import dataclasses

import pytest

from shoal.errors import StateError
from shoal.queueing.jobs import CANCELLED, CLOSED, FAILED, FINISHED, LEDGER_DAYS, RUNNING, WAITING, Job, RunHost
from shoal.queueing.queue import Queue
from shoal.queueing.rules import CALM, rest_before
from support.team.queues import Clock

HOST = RunHost("one", 4, "first process")
OTHER = RunHost("two", 4, "another process")


def taken(queue: Queue, host: RunHost = HOST, free: int = 4) -> Job:
    found = queue.claim(host, free)
    assert found is not None
    return found


def standing(queue: Queue, job: str) -> Job:
    found = queue.get(job)
    assert found is not None
    return found


def put(queue: Queue, *names: str, owner: str = "ann", **more: object) -> None:
    for name in names:
        queue.put(dataclasses.replace(Job(name, owner), **more))  # type: ignore[arg-type]


class TestPut:
    def test_a_new_queue_is_empty(self, queue: Queue) -> None:
        assert queue.claim(HOST, 4) is None
        assert queue.get("a") is None
        assert not queue.jobs()
        assert not queue.tables.ledger(None)
        assert not queue.living_hosts()

    def test_a_job_comes_back_as_it_was_put(self, queue: Queue, clock: Clock) -> None:
        put(queue, "first")
        job = Job("ä' -- ; \n\"", "o'hara", priority=-3, need=2, after=("first",), allowed=0)
        expected = dataclasses.replace(job, put_at=clock(), ready_at=clock())
        assert queue.put(job) == expected
        assert standing(queue, job.id) == expected
        assert [one.id for one in queue.jobs()] == ["first", job.id]

    def test_one_that_is_open_stays_as_it_is(self, queue: Queue) -> None:
        put(queue, "a", priority=1)
        put(queue, "a", priority=7)
        assert standing(queue, "a").priority == 1
        job = taken(queue)
        put(queue, "a")
        assert standing(queue, "a") == job

    def test_one_that_has_ended_is_opened_again_behind_all_others_and_its_old_host_is_refused(
        self, queue: Queue
    ) -> None:
        put(queue, "a", "b")
        first = taken(queue)
        queue.finish("a", first.fence)
        put(queue, "a", "c")
        assert [taken(queue).id for _ in range(3)] == ["b", "a", "c"]
        again = standing(queue, "a")
        assert again.fence > first.fence
        assert not queue.finish("a", first.fence)
        assert queue.heartbeat(HOST, {"a": first.fence}) == {"a": "lost"}
        assert queue.finish("a", again.fence)

    def test_what_cannot_be_is_refused(self, queue: Queue) -> None:
        with pytest.raises(StateError, match="at least 1 slot"):
            put(queue, "a", need=0)
        with pytest.raises(StateError, match="there is no zz"):
            put(queue, "a", after=("zz",))
        assert queue.get("a") is None
        with pytest.raises(StateError, match="limit of 0 or more"):
            queue.set_limit("ann", -1)
        for act in (queue.cancel, lambda job: queue.set_priority(job, 1)):
            with pytest.raises(StateError, match="there is no 'a'"):
                act("a")


class TestOrder:
    def test_first_in_first_out(self, queue: Queue) -> None:
        put(queue, *"cab")
        assert [taken(queue).id for _ in range(3)] == list("cab")

    def test_higher_priorities_come_first_also_when_set_later(self, queue: Queue) -> None:
        put(queue, "a", "b")
        put(queue, "c", priority=5)
        queue.set_priority("b", 9)
        assert [one.id for one in queue.jobs()] == ["b", "c", "a"]
        assert [taken(queue).id for _ in range(3)] == ["b", "c", "a"]

    def test_whoever_has_the_least_running_comes_first(self, queue: Queue) -> None:
        put(queue, "a1", "a2", "a3", "a4")
        put(queue, "b1", "b2", owner="bob")
        assert [taken(queue).id for _ in range(4)] == ["a1", "b1", "a2", "b2"]
        queue.finish("b1", 0)
        queue.finish("b2", 0)
        put(queue, "b3", owner="bob")
        assert taken(queue).id == "b3"

    def test_priority_comes_before_fairness(self, queue: Queue) -> None:
        put(queue, "a1", "a2", priority=1)
        put(queue, "b1", owner="bob")
        assert [taken(queue).id for _ in range(3)] == ["a1", "a2", "b1"]

    def test_nobody_passes_by_the_first_that_waits_for_room(self, queue: Queue) -> None:
        put(queue, "large", need=3)
        put(queue, "small")
        assert queue.claim(HOST, 2) is None
        assert taken(queue, free=3).id == "large"
        assert taken(queue, free=1).id == "small"

    def test_one_that_needs_more_than_a_host_has_takes_all_of_it(self, queue: Queue) -> None:
        put(queue, "huge", need=64)
        assert queue.claim(HOST, 3) is None
        assert taken(queue).id == "huge"

    def test_limits_of_a_person(self, queue: Queue) -> None:
        queue.set_limit("ann", 1)
        put(queue, "a1", "a2")
        put(queue, "b1", owner="bob")
        assert [taken(queue).id, taken(queue).id] == ["a1", "b1"]
        assert queue.claim(HOST, 4) is None
        queue.set_limit("ann", 2)
        assert queue.tables.limits() == {"ann": 2}
        assert taken(queue).id == "a2"
        queue.set_limit("ann", 0)
        put(queue, "a3")
        assert queue.claim(HOST, 4) is None
        queue.set_limit("ann", None)
        assert taken(queue).id == "a3"
        assert queue.tables.limits() == {}


class TestLease:
    def test_a_heartbeat_keeps_it(self, queue: Queue, clock: Clock) -> None:
        put(queue, "a")
        job = taken(queue)
        for _ in range(5):
            clock.pass_by(queue.lease * 0.9)
            assert queue.heartbeat(HOST, {"a": job.fence}) == {"a": "yours"}
            assert queue.take_back() == 0

    def test_one_whose_host_is_silent_goes_to_another_and_the_ghost_is_refused(
        self, queue: Queue, clock: Clock
    ) -> None:
        put(queue, "a")
        first = taken(queue)
        clock.pass_by(queue.lease + 0.1)
        second = taken(queue, OTHER)
        assert (second.id, second.host, second.tries) == ("a", "two", 1)
        assert second.fence > first.fence
        assert queue.heartbeat(HOST, {"a": first.fence}) == {"a": "lost"}
        refused = [
            queue.finish("a", first.fence),
            queue.fail("a", first.fence, "", again=True),
            queue.give_back("a", first.fence),
            queue.drop("a", first.fence),
        ]
        assert not any(refused)
        assert standing(queue, "a") == second
        assert queue.holds("a", second.fence)
        assert not queue.holds("a", first.fence)
        assert queue.finish("a", second.fence)
        assert [entry.event for entry in queue.tables.ledger("a")] == ["put", "taken", "lost", "taken", FINISHED]

    def test_one_that_is_late_and_that_nobody_took_goes_on(self, queue: Queue, clock: Clock) -> None:
        put(queue, "a")
        job = taken(queue)
        clock.pass_by(queue.lease * 3)
        assert queue.heartbeat(HOST, {"a": job.fence}) == {"a": "yours"}
        assert queue.claim(OTHER, 4) is None

    def test_one_that_loses_host_after_host_rests_longer_and_is_given_up(self, queue: Queue, clock: Clock) -> None:
        put(queue, "a", allowed=2)
        for number in range(2):
            assert taken(queue).tries == number
            clock.pass_by(queue.lease + 1)
            assert queue.take_back() == 1
            clock.pass_by(rest_before(2) if number else 0)
        taken(queue)
        clock.pass_by(queue.lease + 1)
        assert queue.claim(HOST, 4) is None
        found = standing(queue, "a")
        assert (found.state, found.words) == (FAILED, "The run host one was lost. It was tried 3 times.")

    def test_one_that_worked_for_long_begins_to_count_anew(self, queue: Queue, clock: Clock) -> None:
        put(queue, "a", allowed=1)
        for _ in range(4):
            job = taken(queue)
            clock.pass_by(CALM + 1)
            queue.heartbeat(HOST, {"a": job.fence})
            clock.pass_by(queue.lease + 1)
            queue.take_back()
        assert standing(queue, "a").tries == 1

    def test_given_back_in_order_is_no_try(self, queue: Queue) -> None:
        put(queue, "a", allowed=0)
        for _ in range(3):
            job = taken(queue)
            assert queue.give_back("a", job.fence, "Its host ends.")
            assert not queue.finish("a", job.fence)
        assert (standing(queue, "a").state, standing(queue, "a").tries) == (WAITING, 0)


class TestEnds:
    def test_finished_once(self, queue: Queue) -> None:
        put(queue, "a")
        job = taken(queue)
        assert queue.finish("a", job.fence, "all is well")
        assert not queue.finish("a", job.fence)
        assert not queue.fail("a", job.fence, "", again=True)
        assert (standing(queue, "a").state, standing(queue, "a").words) == (FINISHED, "all is well")
        assert queue.tables.counts() == {FINISHED: 1}
        assert queue.jobs() == []
        assert [one.id for one in queue.jobs(CLOSED)] == ["a"]

    def test_failed_tries_rest_in_between(self, queue: Queue, clock: Clock) -> None:
        put(queue, "a", allowed=2)
        for number in (1, 2):
            job = taken(queue)
            assert queue.fail("a", job.fence, "The disk is away.", again=True)
            assert not queue.finish("a", job.fence)
            clock.pass_by(rest_before(number) - 0.1)
            assert queue.claim(HOST, 4) is None
            clock.pass_by(0.2)
        queue.fail("a", taken(queue).fence, "The disk is away.", again=True)
        found = standing(queue, "a")
        assert (found.state, found.words) == (FAILED, "The disk is away. It was tried 3 times.")

    def test_one_that_cannot_succeed_is_not_tried_again(self, queue: Queue) -> None:
        put(queue, "a")
        queue.fail("a", taken(queue).fence, "There is no such column.", again=False)
        assert (standing(queue, "a").state, standing(queue, "a").words) == (FAILED, "There is no such column.")

    def test_cancelled_while_it_waits(self, queue: Queue) -> None:
        put(queue, "a")
        assert queue.cancel("a").state == CANCELLED
        assert queue.claim(HOST, 4) is None
        assert queue.cancel("a").state == CANCELLED

    @pytest.mark.parametrize("end", ["fail", "give_back", "lose", "drop"])
    def test_cancelled_while_it_runs(self, queue: Queue, clock: Clock, end: str) -> None:
        put(queue, "a")
        job = taken(queue)
        assert queue.cancel("a").state == RUNNING
        assert queue.heartbeat(HOST, {"a": job.fence}) == {"a": "cancelled"}
        if end == "lose":
            clock.pass_by(queue.lease + 1)
            queue.take_back()
        else:
            how = {
                "fail": lambda: queue.fail("a", job.fence, "", again=True),
                "give_back": lambda: queue.give_back("a", job.fence),
                "drop": lambda: queue.drop("a", job.fence, "stopped"),
            }
            assert how[end]()
        assert standing(queue, "a").state == CANCELLED
        put(queue, "a")
        assert not standing(queue, "a").stopping

    def test_cancelled_too_late_is_finished(self, queue: Queue) -> None:
        put(queue, "a")
        job = taken(queue)
        queue.cancel("a")
        assert queue.finish("a", job.fence)
        assert standing(queue, "a").state == FINISHED


class TestDependencies:
    def test_it_waits_for_all_others(self, queue: Queue) -> None:
        put(queue, "a", "b")
        put(queue, "c", after=("b", "a"), priority=9)
        assert standing(queue, "c").after == ("b", "a")
        for name in ("a", "b"):
            assert taken(queue).id == name
        assert queue.claim(HOST, 4) is None
        queue.finish("a", 0)
        assert queue.claim(HOST, 4) is None
        queue.finish("b", 0)
        assert taken(queue).id == "c"

    def test_what_is_finished_already_is_not_waited_for(self, queue: Queue) -> None:
        put(queue, "a")
        queue.finish("a", taken(queue).fence)
        put(queue, "b", after=("a",))
        assert taken(queue).id == "b"

    def test_a_failed_one_fails_those_that_wait_for_it_and_those_that_wait_for_them(self, queue: Queue) -> None:
        put(queue, "a")
        put(queue, "b", after=("a",))
        put(queue, "c", after=("b",))
        queue.fail("a", taken(queue).fence, "It does not converge.", again=False)
        assert standing(queue, "b").words == "It waited for a, which failed."
        assert standing(queue, "c").words == "It waited for b, which failed."
        assert queue.tables.counts() == {FAILED: 3}
        put(queue, "d", after=("a",))
        assert standing(queue, "d").state == FAILED

    def test_so_does_a_cancelled_one(self, queue: Queue) -> None:
        put(queue, "a")
        put(queue, "b", after=("a",))
        queue.cancel("a")
        assert standing(queue, "b").words == "It waited for a, which was cancelled."


class TestHosts:
    def test_a_host_is_up_while_it_says_so(self, queue: Queue, clock: Clock) -> None:
        queue.greet(HOST)
        assert [host.name for host in queue.living_hosts()] == ["one"]
        clock.pass_by(queue.lease - 1)
        queue.heartbeat(dataclasses.replace(HOST, draining=True), {})
        clock.pass_by(queue.lease - 1)
        assert [host.draining for host in queue.living_hosts()] == [True]
        clock.pass_by(2)
        assert queue.living_hosts() == []

    def test_two_of_one_name_are_refused_while_both_live(self, queue: Queue, clock: Clock) -> None:
        queue.greet(HOST)
        second = dataclasses.replace(HOST, mark="second process")
        with pytest.raises(StateError, match="a host 'one' is up"):
            queue.greet(second)
        clock.pass_by(queue.lease + 1)
        queue.greet(second)
        queue.part(HOST)  # the first comes back from the dead, and ends
        assert [host.mark for host in queue.living_hosts()] == ["second process"]
        queue.part(second)
        assert queue.tables.hosts() == []


class TestLedger:
    def test_what_is_old_goes_but_not_of_jobs_that_are_open(self, queue: Queue, clock: Clock) -> None:
        put(queue, "ended", "waits")
        assert queue.finish("ended", taken(queue).fence)
        assert queue.trim_ledger() == 0
        clock.pass_by(LEDGER_DAYS * 86_400 + 1)
        put(queue, "new")
        assert queue.trim_ledger() == 3  # put, taken, finished
        assert queue.tables.ledger("ended") == []
        assert [[entry.event for entry in queue.tables.ledger(name)] for name in ("waits", "new")] == [["put"], ["put"]]
        assert standing(queue, "ended").state == FINISHED  # how it ended stays known
        assert queue.trim_ledger() == 0
