"""The queue of gradient runs: first-in first-out, for as many slots as there are cores; not what runs do.

A run that waits is a folder and a ticket, and no process. Whoever has the lock QUEUE/scheduler starts runs in the order
of their tickets, each with its slots and its own lock in its hands from its first moment. Nobody passes the first by.

`keep_going` is for everybody: each launch, each look at the list of runs, a dashboard, other runs while they work and
when they end. It starts what can be started; if somebody has to wait after that, it leaves one process behind that does
(`processes.scheduler`), until nobody waits any more. Locks go with the process that holds them, however it ends, so a
scheduler, a launcher or a run that is killed is followed by the next one who looks. A run that works for more than a
moment leaves another such process behind (`watch`), which looks while runs are at work: one that is killed goes
on by itself (`interruptions`), whoever else is there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import time
from pathlib import Path
from typing import IO

from shoal.errors import DamagedFile, Reason, Remedy, Standing, StateError, TrainingError
from shoal.files.locks import lock_file, sign
from shoal.home import queue_directory, runs_directory
from shoal.queueing import team
from shoal.runs import interruptions
from shoal.runs.folder import Run, read_config, write_state
from shoal.runs.slots import slots_for, slots_on_a_host, take
from shoal.runs.spawning import begun, spawn, spawn_fit
from shoal.runs.tickets import Terms, Ticket, issue, terms_here, ticket_of, tickets, tickets_at_work, withdraw
from shoal.settings.config import RunConfig
from shoal.travel.journeys import send_off
from shoal.utils import is_ending

SCHEDULER = "shoal.processes.scheduler"
LOCK = "scheduler"  # in the folder of the queue; held by whoever starts runs
WATCHER = "shoal.processes.watcher"
WATCH = "watcher"  # in the same folder; held by whoever looks after runs at work
STARTS = 3  # times that a run's process may fail to come so far before it is given up
AGAIN = 1.0  # seconds before it is started again
DYING = 10.0  # seconds to wait for the lock of the queue while the process that has it is ending
BUSY = 1.0  # seconds to wait for the lock of a run that somebody is looking at


def is_for_hosts(run: Run) -> bool:
    """Whether the run hosts of a team take it: all fits, where there is a team, but trials, which their search looks
    after."""
    return team.is_set() and run.task == "train" and not run.search


def enqueue(run: Run, config: RunConfig) -> bool:
    """Give a run a place behind all others; whether it has to wait for its turn, as exact fits and jobs do not."""
    if is_for_hosts(run):
        write_state(run.directory, Standing("queued", "It waits for a run host."))
        return True
    if not run.is_gradient:
        return False
    terms = terms_here(slots_for(config))
    write_state(run.directory, Standing("queued", "Its process is starting."))  # read once somebody has its lock
    issue(run.id, terms)
    return True


def begin(run: Run, config: RunConfig) -> None:
    """Give it to the hosts of the team, let the queue of this machine go on, or start it."""
    if is_for_hosts(run):
        home = send_off(run.directory, config.as_dict())
        team.put(run.id, slots_on_a_host(config), config.retries, str(run.job.get("person") or ""), home=home)
    elif run.is_gradient:
        keep_going()
    elif run.task == "train":
        spawn_fit(run.directory)
    else:
        spawn(run.directory)


def leave(run: Run) -> None:
    """Give a run's place up: it has ended, or was stopped."""
    has_begun(run)
    interruptions.end_work(run)


def has_begun(run: Run) -> None:
    """Give the place up in which it has waited: its turn has come.

    Where the queue cannot be read, whoever reads it next sees that this run waits no longer, and drops its ticket.
    """
    with contextlib.suppress(StateError):
        withdraw(run.id)


# ------------------------------------------------------------------ whoever looks


def keep_going() -> None:
    """Start the runs whose turn has come; leave somebody behind for those who wait. Costs a look at a folder.

    If the disk does not let it, the next one who looks tries again; runs that wait say why (`Run.standing`).
    """
    with contextlib.suppress(OSError, StateError):
        interruptions.take_up()
        while any(not _run(ticket).is_alive for ticket in tickets()):
            lock = _lock()
            if lock is None:
                return  # somebody is at it, and looks once more when done
            with lock:
                sign(lock)
                if dispatch():
                    spawn(queue_directory(), SCHEDULER, [lock])
                    return


def _lock() -> IO[str] | None:
    """The lock of the queue; None if somebody has it who goes on. One who was killed has it for a while."""
    path, deadline = queue_directory() / LOCK, time.monotonic() + DYING
    while (lock := lock_file(path)) is None and _holder_is_ending(path) and time.monotonic() < deadline:
        time.sleep(0.01)
    return lock


def _holder_is_ending(path: Path) -> bool:
    try:
        return is_ending(int(path.read_text() or 0))
    except (OSError, ValueError):
        return False


def dispatch() -> bool:
    """Start runs in the order of their tickets, while there is room; whether one has to wait. One process at a time."""
    resting = False
    for ticket in tickets():
        terms = _terms(_run(ticket), ticket)
        if ticket.rests(terms) and _run(ticket).is_waiting:
            resting = True
        elif _must_wait(ticket, terms):
            return True
    return resting


def hurry(run: Run) -> None:
    """A person wants it now: a run that was killed rests no longer."""
    ticket = ticket_of(run.id)
    if ticket is not None and (terms := _terms(run, ticket)).rest:
        ticket.write(dataclasses.replace(terms, rest=0.0))


_watchers: list[subprocess.Popen[bytes]] = []  # of this process; heard of here, since a run has no thread for that


def watch() -> None:
    """Look, and leave a process behind that goes on looking while runs are at work; for runs that are."""
    keep_going()
    _watchers[:] = (one for one in _watchers if one.poll() is None)
    with contextlib.suppress(OSError, StateError):
        if tickets_at_work() and (lock := lock_file(queue_directory() / WATCH)):
            with lock:
                _watchers.append(begun(queue_directory(), WATCHER, [lock]))


def owns(lock: IO[str], name: str = LOCK) -> bool:
    """Whether this is still the lock of the queue: its folder may have been removed and made anew."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), (queue_directory() / name).stat())
    except OSError:
        return False


# ------------------------------------------------------------------ one run


def _run(ticket: Ticket) -> Run:
    return Run(runs_directory() / ticket.run_id)


def _must_wait(ticket: Ticket, terms: Terms) -> bool:
    """Start a run if there is room; whether it, and everybody behind it, has to wait."""
    run = _run(ticket)
    if run.is_alive:
        return False  # it has what it needs, and gives its ticket up in a moment
    if not run.is_waiting:
        ticket.give_up()
        return False
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
    write_state(run.directory, Standing("failed", cause, Reason.KILLED, ways))
    ticket.give_up()
