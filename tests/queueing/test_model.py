"""Whatever is asked of a queue, in whatever order: it answers as a plain account of the rules does, and never gives a
job to two hosts, begins one before those it waits for, or ends one twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shoal.queueing.jobs import CANCELLED, CLOSED, FAILED, FINISHED, OPEN, RUNNING, WAITING, Job, RunHost
from shoal.queueing.queue import Queue
from shoal.queueing.rules import CALM, rest_before
from shoal.queueing.tables import Tables
from support.team.queues import Clock

NAMES = st.sampled_from([f"job-{number}" for number in range(9)])
PEOPLE = st.sampled_from(["ann", "bob", ""])
HOMES = st.sampled_from(["", "x", "y"])
HOSTS = [RunHost("one", 2, "a", home="x"), RunHost("two", 4, "b", home="y")]


class Account:
    """The rules, told a second time and as plainly as can be: lists and dictionaries, nothing of the package."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict] = {}  # type: ignore[type-arg]
        self.limits: dict[str, int] = {}

    def put(
        self, name: str, owner: str, priority: int, need: int, after: list[str], allowed: int, home: str, now: float
    ) -> None:
        before = self.jobs.get(name)
        if before and before["state"] in OPEN:
            return
        after = before["after"] if before else after
        fence = before["fence"] + 1 if before else 0
        self.jobs.pop(name, None)
        self.jobs[name] = {"owner": owner, "home": home, "priority": priority, "need": need, "after": after, "allowed": allowed,
                           "fence": fence, "tries": 0, "ready": now, "state": WAITING, "stopping": False,
                           "taken": 0.0, "until": 0.0}  # fmt: skip
        if any(self.jobs[other]["state"] in (FAILED, CANCELLED) for other in after):
            self.end(name, FAILED)

    def end(self, name: str, state: str) -> None:
        self.jobs[name].update(state=state, stopping=False)
        if state != FINISHED:
            for other, job in self.jobs.items():
                if job["state"] == WAITING and name in job["after"]:
                    self.end(other, FAILED)

    def leave(self, name: str, now: float, rest: bool, counts: bool) -> None:
        job = self.jobs[name]
        if job["stopping"]:
            self.end(name, CANCELLED)
            return
        if counts:
            tries = 0 if now - job["taken"] >= CALM else job["tries"]
            if tries >= job["allowed"]:
                self.end(name, FAILED)
                return
            job["tries"] = tries + 1
        waits = rest_before(job["tries"]) if counts and (rest or job["tries"] > 1) else 0.0
        job.update(state=WAITING, fence=job["fence"] + 1, ready=now + waits)

    def take_back(self, now: float) -> None:
        for name in sorted(self.jobs):
            if self.jobs[name]["state"] == RUNNING and self.jobs[name]["until"] < now:
                self.leave(name, now, rest=False, counts=True)

    def claim(self, slots: int, home: str, free: int, now: float, lease: float) -> str | None:
        self.take_back(now)
        running: dict[str, int] = {}
        for job in self.jobs.values():
            if job["state"] == RUNNING:
                running[job["owner"]] = running.get(job["owner"], 0) + 1
        best = None
        for place, (name, job) in enumerate(self.jobs.items()):
            many = running.get(job["owner"], 0)
            ready = job["state"] == WAITING and job["ready"] <= now and many < self.limits.get(job["owner"], 99)
            if (
                ready
                and job["home"] in ("", home)
                and all(self.jobs[other]["state"] == FINISHED for other in job["after"])
            ):
                rank = (-job["priority"], many, place, name)
                best = rank if best is None else min(best, rank)
        if best is None or min(self.jobs[best[3]]["need"], slots) > free:
            return None
        self.jobs[best[3]].update(state=RUNNING, taken=now, until=now + lease)
        return best[3]


class QueueMachine(RuleBasedStateMachine):
    new_tables: Callable[[Clock], Tables]

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue = Queue(type(self).new_tables(self.clock))
        self.account = Account()
        self.claims: list[tuple[str, int]] = []  # every (job, fence) that was ever given to a host
        self.accepted: list[tuple[str, int]] = []

    def teardown(self) -> None:
        self.queue.tables.close()

    @initialize(owners=st.lists(PEOPLE, min_size=3, max_size=6), taken=st.integers(0, 3))
    def begin(self, owners: list[str], taken: int) -> None:
        """Some wait and some run: what is decided between people needs several of them."""
        for number, owner in enumerate(owners):
            self.queue.put(Job(f"job-{number}", owner))
            self.account.put(f"job-{number}", owner, 0, 1, [], 3, "", self.clock())
        for _ in range(taken):
            self.claim(HOSTS[1], 4)

    @rule(
        name=NAMES,
        owner=PEOPLE,
        priority=st.integers(-1, 1),
        need=st.integers(1, 5),
        allowed=st.integers(0, 2),
        home=HOMES,
        data=st.data(),
    )
    def put(
        self, name: str, owner: str, priority: int, need: int, allowed: int, home: str, data: st.DataObject
    ) -> None:
        others = sorted(self.account.jobs.keys() - {name})
        after = data.draw(st.lists(st.sampled_from(others), unique=True, max_size=2)) if others else []
        self.queue.put(Job(name, owner, priority, need, tuple(after), allowed, home=home))
        self.account.put(name, owner, priority, need, after, allowed, home, self.clock())

    @rule(host=st.sampled_from(HOSTS), free=st.integers(0, 4))
    def claim(self, host: RunHost, free: int) -> None:
        found = self.queue.claim(host, free)
        expected = self.account.claim(host.slots, host.home, free, self.clock(), self.queue.lease)
        assert (found.id if found else None) == expected
        if found:
            assert (found.id, found.fence) not in self.claims, "two hosts would hold the same fence"
            assert all(self.account.jobs[other]["state"] == FINISHED for other in found.after)
            self.claims.append((found.id, found.fence))

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), act=st.sampled_from(["heartbeat", "finish", "again", "fail", "give back"]))
    def host_says(self, data: st.DataObject, act: str) -> None:
        """Also hosts that lost a job long ago."""
        name, fence = data.draw(st.sampled_from(self.claims))
        job, now = self.account.jobs[name], self.clock()
        holds = job["state"] == RUNNING and job["fence"] == fence
        if act == "heartbeat":
            expected = "lost" if not holds else "cancelled" if job["stopping"] else "yours"
            assert self.queue.heartbeat(HOSTS[0], {name: fence}) == {name: expected}
            if holds:
                job["until"] = now + self.queue.lease
            return
        deeds = {
            "finish": lambda: self.queue.finish(name, fence),
            "again": lambda: self.queue.fail(name, fence, "why", again=True),
            "fail": lambda: self.queue.fail(name, fence, "why", again=False),
            "give back": lambda: self.queue.give_back(name, fence),
        }
        assert deeds[act]() is holds
        if not holds:
            return
        if act == "finish":
            self.accepted.append((name, fence))
            self.account.end(name, FINISHED)
        elif act == "fail":
            self.account.end(name, CANCELLED if job["stopping"] else FAILED)
        else:
            self.account.leave(name, now, rest=True, counts=act == "again")

    @precondition(lambda self: self.account.jobs)
    @rule(data=st.data(), priority=st.integers(-1, 2))
    def person_says(self, data: st.DataObject, priority: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.account.jobs)))
        job = self.account.jobs[name]
        if priority < 2:
            self.queue.set_priority(name, priority)
            job["priority"] = priority
            return
        self.queue.cancel(name)
        if job["state"] == RUNNING:
            job["stopping"] = True
        elif job["state"] == WAITING:
            self.account.end(name, CANCELLED)

    @rule(owner=PEOPLE, most=st.none() | st.integers(0, 2))
    def limit(self, owner: str, most: int | None) -> None:
        self.queue.set_limit(owner, most)
        self.account.limits.pop(owner, None)
        if most is not None:
            self.account.limits[owner] = most

    @rule(seconds=st.sampled_from([0.5, 3.0, 7.0, 60.0, CALM + 1]))
    def time_passes(self, seconds: float) -> None:
        self.clock.pass_by(seconds)

    @invariant()
    def stands_as_the_account_says(self) -> None:
        found = {job.id: job for job in self.queue.jobs((*OPEN, *CLOSED))}
        assert found.keys() == self.account.jobs.keys()
        for name, job in found.items():
            expected = self.account.jobs[name]
            assert (job.state, job.fence, job.tries, job.priority, job.stopping) == tuple(
                expected[key] for key in ("state", "fence", "tries", "priority", "stopping")
            ), name

    @invariant()
    def ends_are_in_the_ledger_once(self) -> None:
        said = [(entry.job, entry.fence) for entry in self.queue.tables.ledger(None) if entry.event == FINISHED]
        assert sorted(said) == sorted(self.accepted)
        assert len(set(said)) == len(said)


@pytest.mark.filterwarnings("ignore::pytest.PytestWarning")
def test_any_order_of_requests(new_tables: Callable[[Clock], Tables]) -> None:
    machine = type("OneKind", (QueueMachine,), {"new_tables": staticmethod(new_tables)})
    quiet = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    run_state_machine_as_test(
        machine, settings=settings(max_examples=15, stateful_step_count=40, deadline=None, suppress_health_check=quiet)
    )
