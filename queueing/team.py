"""The queue of the team as those see it who launch runs and look at them; who takes the jobs is in `processes.host`.

There is one where SHOAL_DATABASE names a database. Without it everything here says so at once, and runs wait by their
tickets (`runs.tickets`). A job has the name of its run.
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from shoal.database.address import address, is_set
from shoal.database.connections import database
from shoal.errors import StateError, TrainingError
from shoal.lazy.classes import dataclass
from shoal.queueing.homes import home_mark
from shoal.queueing.jobs import CANCELLED, CLOSED, FAILED, OPEN, RUNNING, WAITING, Job, RunHost
from shoal.queueing.queue import Queue
from shoal.words import duration, plural

LOOK = 0.5  # seconds for which a look at all open jobs is good enough: lists ask for hundreds of runs
WHOLE = 10_000  # slots: all that a host has, however many
ENDING = 10.0  # seconds in which a run that has said its last word is reported by its host
PERSON = "SHOAL_USER"  # whose jobs they are, where that is not the user of the system

__all__ = ["Glance", "is_set", "person", "team_queue"]


def team_queue() -> Queue | None:
    """The queue that SHOAL_DATABASE names; None where it names none."""
    if not is_set():
        return None
    from shoal.queueing.postgres import PostgresTables

    return Queue(PostgresTables(database()))


def needed_queue() -> Queue:
    queue = team_queue()
    if queue is None:
        raise StateError(
            "Expected the database of a team in SHOAL_DATABASE, but it is not set. Set it to postgresql://...; on one "
            "machine runs need no run host, and `shoal runs` lists them."
        )
    return queue


def person() -> str:
    """Who launches a job."""
    if named := os.environ.get(PERSON, "").strip():
        return named[:120]
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


# ------------------------------------------------------------------ looks


@dataclass(frozen=True)
class Glance:
    """All open jobs and the living hosts, at one moment."""

    at: float = 0.0  # by the clock of this process
    now: float = 0.0  # by the database's
    jobs: dict[str, Job] = field(default_factory=dict)  # the first one first
    hosts: tuple[RunHost, ...] = ()

    @functools.cached_property
    def ahead(self) -> dict[str, int]:
        """How many wait before each that waits; counted once, since lists ask for all of them."""
        waiting, found = Counter[str](), {}
        for job in self.jobs.values():
            if job.state == WAITING:
                found[job.id] = waiting[job.home] + (waiting[""] if job.home else 0)
                waiting[job.home] += 1
        return found

    def hosts_for(self, job: Job) -> list[RunHost]:
        """Those that are up and see its files."""
        return [host for host in self.hosts if host.sees(job)]

    def is_held(self, run: str) -> bool:
        """Whether a host has it, and has said so lately."""
        job = self.jobs.get(run)
        return job is not None and job.state == RUNNING and job.lease_until >= self.now


_seen: dict[tuple[str, int], Glance] = {}  # by database and process


def glance() -> Glance:
    if not is_set():
        return Glance()
    key = address(), os.getpid()
    seen = _seen.get(key)
    if seen is None or time.monotonic() - seen.at > LOOK:
        at, queue = time.monotonic(), needed_queue()
        jobs, hosts, now = queue.jobs(OPEN), queue.tables.hosts(), queue.tables.now()
        living = tuple(host for host in hosts if now - host.seen < queue.lease)
        seen = _seen[key] = Glance(at, now, {job.id: job for job in jobs}, living)
    return seen


def forget_looks() -> None:
    """What this process has just changed is to be seen by itself."""
    _seen.clear()


def is_held(run: str) -> bool:
    """Whether a host has a run. While the database is away nobody can tell, and whoever has it is not disturbed."""
    if not is_set():
        return False
    try:
        return glance().is_held(run)
    except TrainingError:
        return True


def elsewhere(run: str) -> str:
    """The home that has the files of a run, if that is another one; empty where nobody knows."""
    with contextlib.suppress(TrainingError):
        job = needed_queue().get(run) if is_set() else None
        return job.home if job and job.home != home_mark() else ""
    return ""


def is_open(run: str) -> bool:
    """Whether a run waits or is at work by the queue of the team; an error where nobody can tell."""
    return is_set() and run in glance().jobs


def place_in_words(run: str) -> str | None:
    """What a run waits for; None if it does not wait in this queue."""
    return place_at(glance(), run) if is_set() else None


def place_at(seen: Glance, run: str) -> str | None:
    """The same by a look that was had already, for lists."""
    job = seen.jobs.get(run)
    if job is None or seen.is_held(run):
        return None
    before = f"{job.words} " if job.words else ""
    if job.state == RUNNING:
        before = f"The run host {job.host} says nothing any more. "
    hosts = seen.hosts_for(job)
    if not hosts and seen.hosts:
        return (
            f"{before}It waits: its files are in the home {job.home}, and no run host that is up sees that. Start one "
            "with the SHOAL_HOME in which it was launched."
        )
    if not hosts:
        return f"{before}It waits: no run host is up; start one with `shoal run-host`."
    if job.state == RUNNING:
        return f"{before}Another takes it up in a moment."
    if job.ready_at > seen.now:
        return (
            f"{before}It goes on by itself in {duration(job.ready_at - seen.now)} (try {job.tries} of {job.allowed})."
        )
    if others := [other for other in job.after if other in seen.jobs]:
        return f"{before}It waits for {others[0]} to be finished."
    if ahead := seen.ahead[run]:
        return f"{before}It waits in the queue: {ahead} {'job is' if ahead == 1 else 'jobs are'} ahead of it."
    return f"{before}It is the first in the queue and waits for room on {plural(len(hosts), 'run host')}."


def hosts_of(runs: Sequence[str]) -> dict[str, str]:
    """The host of each run that has or had one; nothing while the database is away, and for those it does not know."""
    try:
        queue = team_queue()
        found = queue.tables.jobs((*OPEN, *CLOSED), len(runs), list(runs)) if queue and runs else []
    except TrainingError:
        return {}
    return {job.id: job.host for job in found if job.host}


def ended_in_words(run: str) -> tuple[str, str] | None:
    """How a run ended that has not said so itself: "failed" or "stopped", and why; None if the queue does not know."""
    queue = team_queue()
    job = queue.get(run) if queue else None
    if job is None or job.state not in (FAILED, CANCELLED):
        return None
    return ("stopped" if job.state == CANCELLED else "failed"), job.words


# ------------------------------------------------------------------ deeds


def put(run: str, need: int, allowed: int, owner: str = "", priority: int = 0, home: str = "") -> None:
    """Give a run to the hosts, or to those of one home alone.

    One that has just ended is given again once its host has said so.
    """
    queue = needed_queue()
    wanted = Job(run, owner or person(), priority, need, allowed=allowed, home=home)
    deadline = time.monotonic() + ENDING
    while queue.put(wanted).state == RUNNING:
        if time.monotonic() > deadline:
            raise StateError(f"The run {run} has a job in the queue that has not ended yet. Try again in a moment.")
        time.sleep(0.1)
    forget_looks()


def cancel(run: str) -> Job | None:
    """Take a run out of the queue, or have its host stop it; None if the queue does not have it."""
    queue = team_queue()
    if queue is None or queue.get(run) is None:
        return None
    job = queue.cancel(run)
    forget_looks()
    return job
