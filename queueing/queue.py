"""The queue: put, claim, heartbeat, finish, fail, cancel; one set of rules over whatever keeps its rows (`tables`).

A host claims a job for the time of a lease and renews it by heartbeats. One that says nothing for as long loses its
jobs to others, and the fence with which it holds them: whatever it says of them later is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shoal.errors import StateError
from shoal.queueing import rules
from shoal.queueing.jobs import CANCELLED, CLOSED, FINISHED, LEDGER_DAYS, OPEN, RUNNING, Entry, Job, RunHost, Word
from shoal.queueing.tables import JobRows, Tables
from shoal.words import listed

LEASE = 6.0  # seconds without a heartbeat after which a host's jobs go to others
MOST = 100_000  # jobs that a list has, unless fewer are asked for


class Queue:
    """Used by one thread at a time."""

    def __init__(self, tables: Tables, lease: float = LEASE) -> None:
        self.tables, self.lease = tables, lease

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        self.tables.close()

    # ---------------------------------------------------------------- for those who want something done

    def put(self, job: Job) -> Job:
        """Behind all others. One that is open already stays as it is; one that has ended is opened again."""

        if job.need < 1:
            raise StateError(f"Expected a job to need at least 1 slot, got {job.need}.")

        def work(rows: JobRows) -> Job:
            now = rows.now()
            before = rows.get(job.id)
            if before is not None and before.is_open:
                return before
            found = rules.put(job, before, now)
            others = rows.look_at(found.after)
            if missing := [name for name in found.after if name not in others]:
                raise StateError(
                    f"Expected jobs of the queue for {job.id} to wait for, but there is no {listed(missing, 5)}. "
                    "Put them first."
                )
            if before is not None:
                rows.requeue(found)
            elif not rows.add(found):
                raise TryAgain  # somebody was faster by a moment
            _note(rows, found, "put", now)
            for other in others.values():
                if other.state in CLOSED and other.state != FINISHED:
                    return _close(rows, rules.orphaned(found, other, now), now)
            return found

        return self.tables.transact(work)

    def cancel(self, job: str) -> Job:
        """One that waits is over; one that runs is stopped by its host. One that has ended stays as it is."""

        def work(rows: JobRows) -> Job:
            found = _known(rows, job)
            if not found.is_open:
                return found
            now = rows.now()
            return _close(rows, rules.cancelled(found, now), now)

        return self.tables.transact(work)

    def set_priority(self, job: str, priority: int) -> Job:
        def work(rows: JobRows) -> Job:
            found = replace(_known(rows, job), priority=priority)
            rows.write(found)
            return found

        return self.tables.transact(work)

    def set_limit(self, owner: str, most: int | None) -> None:
        """So many jobs of a person run at a time at most; None for any number."""
        if most is not None and most < 0:
            raise StateError(f"Expected a limit of 0 or more jobs, got {most}.")
        self.tables.transact(lambda rows: rows.set_limit(owner, most))

    # ---------------------------------------------------------------- for hosts

    def claim(self, host: RunHost, free: int) -> Job | None:
        """The next job of the host's home, if so many free slots are enough for it: nobody passes the first by.

        One that needs more than the host has takes all of it.
        """

        def work(rows: JobRows) -> Job | None:
            now = rows.now()
            _take_back(rows, now)
            found = rows.first_ready(now, host.home)
            if found is None or min(found.need, host.slots) > free:
                return None
            found = rules.taken(found, host.name, now, self.lease)
            rows.write(found)
            _note(rows, found, "taken", now)
            return found

        return self.tables.transact(work)

    def heartbeat(self, host: RunHost, held: Mapping[str, int]) -> dict[str, Word]:
        """The host lives, and so do the jobs that it holds, each by its fence; what it is told of them."""

        def work(rows: JobRows) -> dict[str, Word]:
            now = rows.now()
            rows.write_host(replace(host, seen=now))
            told: dict[str, Word] = {}
            for name in sorted(held):  # in one order for all: two who wait for each other would wait forever
                found = _held(rows, name, held[name])
                if found is None:
                    told[name] = "lost"
                    continue
                rows.write(rules.renewed(found, now, self.lease))
                told[name] = "cancelled" if found.stopping else "yours"
            return told

        return self.tables.transact(work)

    def finish(self, job: str, fence: int, words: str = "") -> bool:
        """It is done. False where it is somebody else's by now, and nothing was changed."""

        def work(rows: JobRows) -> bool:
            found, now = _held(rows, job, fence), rows.now()
            return found is not None and bool(_close(rows, rules.finished(found, now, words), now))

        return self.tables.transact(work)

    def fail(self, job: str, fence: int, words: str, again: bool) -> bool:
        """It was not done; it is tried `again` after a rest, up to the number of times that it allows."""

        def work(rows: JobRows) -> bool:
            found, now = _held(rows, job, fence), rows.now()
            if found is None:
                return False
            after = rules.failed(found, now, words, again)
            if after.is_open:
                _note(rows, found, "failed try", now, words)
            return bool(_close(rows, after, now))

        return self.tables.transact(work)

    def give_back(self, job: str, fence: int, words: str = "") -> bool:
        """By a host that ends in order."""

        def work(rows: JobRows) -> bool:
            found, now = _held(rows, job, fence), rows.now()
            if found is None:
                return False
            _note(rows, found, "given back", now, words)
            return bool(_close(rows, rules.given_back(found, now, words), now))

        return self.tables.transact(work)

    def drop(self, job: str, fence: int, words: str = "") -> bool:
        """It was stopped by somebody who told the work itself, not the queue."""

        def work(rows: JobRows) -> bool:
            found, now = _held(rows, job, fence), rows.now()
            return found is not None and bool(_close(rows, rules.ended(found, CANCELLED, now, words), now))

        return self.tables.transact(work)

    def take_back(self) -> int:
        """Jobs of hosts that were lost wait again; how many. Whoever claims does it too."""
        return self.tables.transact(lambda rows: _take_back(rows, rows.now()))

    def greet(self, host: RunHost) -> RunHost:
        """A new host; one of a name that another living one has is refused."""

        def work(rows: JobRows) -> RunHost:
            now, before = rows.now(), rows.host(host.name)
            if before and before.mark != host.mark and now - before.seen < self.lease:
                raise StateError(
                    f"Expected a name that no other run host has, but a host '{host.name}' is up. Give --name another."
                )
            found = replace(host, since=now, seen=now)
            rows.write_host(found)
            return found

        return self.tables.transact(work)

    def part(self, host: RunHost) -> None:
        """The host is gone, in order."""
        self.tables.transact(lambda rows: rows.drop_host(host.name, host.mark))

    # ---------------------------------------------------------------- for those who look

    def get(self, job: str) -> Job | None:
        found = self.tables.jobs((*OPEN, *CLOSED), 1, [job])
        return found[0] if found else None

    def jobs(self, states: Sequence[str] = OPEN, most: int = MOST) -> list[Job]:
        """Those of the highest priority first, then the oldest."""
        return self.tables.jobs(states, most)

    def trim_ledger(self) -> int:
        """What is older than LEDGER_DAYS goes; how many lines that were. Jobs, and how they ended, stay."""

        def work(rows: JobRows) -> int:
            return rows.trim(rows.now() - LEDGER_DAYS * 86_400)

        return self.tables.transact(work)

    def holds(self, job: str, fence: int) -> bool:
        """Whether a job is held with this fence at this moment."""
        found = self.get(job)
        return found is not None and found.state == RUNNING and found.fence == fence

    def living_hosts(self) -> list[RunHost]:
        now = self.tables.now()
        return [host for host in self.tables.hosts() if now - host.seen < self.lease]


class TryAgain(Exception):
    """The work of a transaction has to be done from its beginning."""


def _known(rows: JobRows, job: str) -> Job:
    found = rows.get(job)
    if found is None:
        raise StateError(f"Expected a job of the queue, but there is no '{job}'. See them with `shoal queue`.")
    return found


def _held(rows: JobRows, job: str, fence: int) -> Job | None:
    """The job, if it is still held with this fence.

    One that is overdue, and that nobody has taken back yet, is: whoever held it all along goes on.
    """
    found = rows.get(job)
    return found if found and found.state == RUNNING and found.fence == fence else None


def _take_back(rows: JobRows, now: float) -> int:
    overdue = rows.overdue(now)
    for job in overdue:
        _note(rows, job, "lost", now)
        _close(rows, rules.lost(job, now), now)
    return len(overdue)


def _close(rows: JobRows, job: Job, now: float) -> Job:
    """Write a job; where it has ended badly, those that wait for it end too."""
    rows.write(job)
    todo = [job]
    while todo:
        one = todo.pop()
        if one.is_open:
            continue
        _note(rows, one, one.state, now, one.words)
        if one.state != FINISHED:
            for other in rows.waiting_for(one.id):
                orphan = rules.orphaned(other, one, now)
                rows.write(orphan)
                todo.append(orphan)
    return job


def _note(rows: JobRows, job: Job, event: str, now: float, words: str = "") -> None:
    rows.note(Entry(now, job.id, job.fence, job.host, event, words))
