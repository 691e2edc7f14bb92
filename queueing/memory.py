"""A queue in the memory of one process: for tests, and the plainest account of what the other tables do."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from shoal.queueing.jobs import FINISHED, RUNNING, WAITING, Entry, Job, RunHost
from shoal.queueing.rules import is_overdue
from shoal.queueing.tables import JobRows, T


class MemoryTables:
    """JobRows and Tables in one: a transaction is a lock. What is refused is refused before anything is written."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._lock = clock, threading.RLock()
        self._jobs: dict[str, Job] = {}  # in the order in which they were put
        self._ledger: list[Entry] = []
        self._limits: dict[str, int] = {}
        self._hosts: dict[str, RunHost] = {}

    def transact(self, work: Callable[[JobRows], T]) -> T:
        with self._lock:
            return work(self)

    def close(self) -> None:
        pass

    def now(self) -> float:
        return self._clock()

    # ---------------------------------------------------------------- rows

    def get(self, job: str) -> Job | None:
        return self._jobs.get(job)

    def look_at(self, jobs: Sequence[str]) -> dict[str, Job]:
        return {name: self._jobs[name] for name in jobs if name in self._jobs}

    def add(self, job: Job) -> bool:
        return self._jobs.setdefault(job.id, job) is job

    def write(self, job: Job) -> None:
        self._jobs[job.id] = job

    def requeue(self, job: Job) -> None:
        del self._jobs[job.id]
        self._jobs[job.id] = job

    def first_ready(self, now: float, home: str) -> Job | None:
        running = Counter(job.owner for job in self._jobs.values() if job.state == RUNNING)

        def may_begin(job: Job) -> bool:
            most = self._limits.get(job.owner)
            within = most is None or running[job.owner] < most
            return within and job.home in ("", home) and all(self._jobs[other].state == FINISHED for other in job.after)

        ready = [job for job in self._jobs.values() if job.state == WAITING and job.ready_at <= now and may_begin(job)]
        return min(ready, key=lambda job: (-job.priority, running[job.owner]), default=None)

    def overdue(self, now: float) -> list[Job]:
        return [job for job in self._jobs.values() if is_overdue(job, now)]

    def waiting_for(self, job: str) -> list[Job]:
        return [one for one in self._jobs.values() if one.state == WAITING and job in one.after]

    def note(self, entry: Entry) -> None:
        self._ledger.append(entry)

    def trim(self, before: float) -> int:
        still = {name for name, job in self._jobs.items() if job.is_open}
        kept = [one for one in self._ledger if one.at >= before or one.job in still]
        gone, self._ledger = len(self._ledger) - len(kept), kept
        return gone

    def set_limit(self, owner: str, most: int | None) -> None:
        self._limits.pop(owner, None)
        if most is not None:
            self._limits[owner] = most

    def write_host(self, host: RunHost) -> None:
        self._hosts[host.name] = host

    def drop_host(self, name: str, mark: str) -> None:
        if name in self._hosts and self._hosts[name].mark == mark:
            del self._hosts[name]

    def host(self, name: str) -> RunHost | None:
        return self._hosts.get(name)

    # ---------------------------------------------------------------- looks

    def jobs(self, states: Sequence[str], most: int, ids: Sequence[str] | None = None) -> list[Job]:
        found = [job for job in self._jobs.values() if job.state in states and (ids is None or job.id in ids)]
        return sorted(found, key=lambda job: -job.priority)[:most]

    def counts(self) -> dict[str, int]:
        return dict(Counter(job.state for job in self._jobs.values()))

    def ledger(self, job: str | None) -> list[Entry]:
        return [entry for entry in self._ledger if job in (None, entry.job)]

    def limits(self) -> dict[str, int]:
        return dict(self._limits)

    def hosts(self) -> list[RunHost]:
        return sorted(self._hosts.values(), key=lambda host: host.name)
