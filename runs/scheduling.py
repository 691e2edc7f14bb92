"""The queue of gradient runs: first-in first-out, for as many slots as there are cores; not what runs do.

A run that waits is a folder and a ticket, and no process. Whoever has the lock QUEUE/scheduler starts runs in the order
of their tickets, each with its slots and its own lock in its hands from its first moment. Nobody passes the first by.

`keep_going` is for everybody: each launch, each look at the list of runs, a dashboard, other runs while they work and
when they end. It starts what can be started; if somebody has to wait after that, it leaves one process behind that does
(`processes.scheduler`), until nobody waits any more. Locks go with the process that holds them, however it ends, so a
scheduler, a launcher or a run that is killed is followed by the next one who looks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import IO

from shoal.errors import DamagedFile, Reason, Remedy, Standing, TrainingError
from shoal.home import lock_file, queue_directory, runs_directory
from shoal.runs.folder import Run, read_config, write_state
from shoal.runs.slots import slots_for, take
from shoal.runs.spawning import spawn
from shoal.runs.tickets import Terms, Ticket, issue, terms_here, tickets, withdraw
from shoal.settings.config import RunConfig

SCHEDULER = "shoal.processes.scheduler"
LOCK = "scheduler"  # in the folder of the queue; held by whoever starts runs
STARTS = 3  # times that a run's process may fail to come so far before it is given up
AGAIN = 1.0  # seconds before it is started again
BUSY = 1.0  # seconds to wait for the lock of a run that somebody is looking at


def enqueue(run: Run, config: RunConfig) -> None:
    """Give a run a place behind all others."""
    terms = terms_here(slots_for(config))
    write_state(run.directory, Standing("queued", "Its process is starting."))  # read once somebody has its lock
    issue(run.id, terms)


def leave(run: Run) -> None:
    """Give a run's place up: its turn has come, or it was stopped."""
    withdraw(run.id)


# ------------------------------------------------------------------ whoever looks


def keep_going() -> None:
    """Start the runs whose turn has come; leave somebody behind for those who wait. Costs a look at a folder.

    If the disk does not let it, the next one who looks tries again.
    """
    with contextlib.suppress(OSError):
        while any(not _run(ticket).is_alive for ticket in tickets()):
            lock = lock_file(queue_directory() / LOCK)
            if lock is None:
                return  # somebody is at it, and looks once more when done
            with lock:
                if dispatch():
                    spawn(queue_directory(), SCHEDULER, [lock])
                    return


def dispatch() -> bool:
    """Start runs in the order of their tickets, while there is room; whether one has to wait. One process at a time."""
    return any(_must_wait(ticket) for ticket in tickets())


def owns(lock: IO[str]) -> bool:
    """Whether this is still the lock of the queue: its folder may have been removed and made anew."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), (queue_directory() / LOCK).stat())
    except OSError:
        return False


# ------------------------------------------------------------------ one run


def _run(ticket: Ticket) -> Run:
    return Run(runs_directory() / ticket.run_id)


def _must_wait(ticket: Ticket) -> bool:
    """Start a run if there is room; whether it, and everybody behind it, has to wait."""
    run = _run(ticket)
    if run.is_alive:
        return False  # it has what it needs, and gives its ticket up in a moment
    if not run.is_waiting:
        ticket.give_up()
        return False
    terms = _terms(run, ticket)
    if terms.starts >= STARTS:
        _give_up(run, ticket)
        return False
    if terms.starts and ticket.was_written_within(AGAIN):
        return True
    with contextlib.ExitStack() as held:
        taken = take(terms.need, terms.slots, held)
        return not taken or not _start(run, ticket, terms, taken)


def _terms(run: Run, ticket: Ticket) -> Terms:
    """As written; where that is damaged, those with which the run would be launched from here."""
    try:
        return ticket.terms
    except DamagedFile:
        pass
    try:
        return terms_here(slots_for(read_config(run)))
    except TrainingError:  # of its settings; its process tells that
        return terms_here(1)


def _start(run: Run, ticket: Ticket, terms: Terms, taken: list[IO[str]]) -> bool:
    """Hand the run's lock and its slots to a new process; False if that has to be tried again."""
    counted = dataclasses.replace(terms, starts=terms.starts + 1)
    try:
        lock = lock_file(run.directory / "lock", BUSY)
    except OSError:
        ticket.write(counted)
        return False
    if lock is None:
        return False
    with lock:
        if not ticket.path.exists() or not run.is_waiting:  # stopped, or removed, a moment ago
            return True
        ticket.write(counted)
        lock.truncate(0)  # the process before it is not the one that has the lock now
        with contextlib.suppress(OSError):  # as good as a process that dies at once
            spawn(run.directory, held=[lock, *taken], python=terms.python, environment=terms.environment)
    return True


def _give_up(run: Run, ticket: Ticket) -> None:
    cause = f"Its process was started {STARTS} times when its turn had come and died each time."
    ways = Remedy.run("See why in its log", "logs", run.id), Remedy.run("Then resume it", "resume", run.id)
    write_state(run.directory, Standing("interrupted", cause, Reason.KILLED, ways))
    ticket.give_up()
