"""Commands for runs at work, from any process: leave one, learn what became of it; what each does is in `training`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.errors import Reason, Remedy, ResourceError, Standing, StateError, TrainingError
from shoal.files.locks import own_lock
from shoal.people.deeds import allow, check
from shoal.people.rights import Verb
from shoal.queueing import team
from shoal.queueing.jobs import CANCELLED
from shoal.runs import interruptions, scheduling
from shoal.runs.folder import ACTIVE, Run, write_state
from shoal.utils import is_ours

if TYPE_CHECKING:
    from shoal.storage import Storage

BY_SIGNAL = 0  # the number of a stop that went to the process as a signal, because nobody takes commands yet
LOOK, STARTING = 0.05, 5.0  # seconds between two looks for an outcome; that a process may take to tell its number
BUSY = 2.0  # seconds to wait for a store that another process has locked: a person waits as well
EVENTS = 100  # the newest ones are told
WITHDRAWN = Standing("stopped", "It was stopped while it waited in the queue.", Reason.STOPPED)


@contextlib.contextmanager
def metrics_of(run: Run) -> Iterator[Storage | None]:
    """The store of a run's metrics; None if it has none yet."""
    if not run.has_records:
        yield None
        return
    with run.open_records(BUSY) as storage:
        yield storage


def records_told(run: Run) -> dict[str, Any]:
    """The records of a gradient run as plain values: its last round, who works, what happened, what was asked of it."""
    with metrics_of(run) as storage:
        if storage is None:
            return {}
        last = storage.last_round()
        return {
            "last_round": dataclasses.asdict(last) if last else None,
            "workers": [dataclasses.asdict(worker) for worker in storage.present_workers()],
            "events": [dataclasses.asdict(event) for event in storage.story(EVENTS)],
            "commands": [dataclasses.asdict(command) for command in storage.commands()],
        }


class Settled(NamedTuple):
    """What became of a command: "done" or why not, and the round in which it took effect; None until then."""

    outcome: str | None
    round: int | None = None


def post(run: Run, name: str, arguments: Mapping[str, Any] | None = None) -> int:
    """Leave a command for a live run; its number, for `wait_settled`.

    A stop before training listens (in the queue, while the file is read, in an exact fit) goes to the process as a
    signal; so does one to a queued run without a process, which then loses its place.
    """
    deed = f"command {name}"
    check(Verb.CHANGE, run.directory, deed)
    state = run.state
    if name == "stop" and state == "interrupted" and interruptions.goes_on(run):
        return _stopped(run)  # before it goes on by itself
    if state not in ACTIVE:
        raise StateError(
            f"Expected a run that is alive, but {run.id} is {state}, so it takes no commands.", _advice(run)
        )
    if name == "stop" and (state in ("queued", "preparing") or not run.is_gradient):
        return _stopped(run)
    if not run.is_gradient:
        raise StateError(f"The run {run.id} is an exact fit: it takes seconds and no command but stop.")
    if state == "queued":
        raise StateError(f"The run {run.id} waits in the queue; it takes commands other than stop once it has begun.")

    allow(Verb.CHANGE, run.directory, deed, always=name == "stop")
    try:
        with run.open_records(BUSY) as storage:
            return storage.post(name, dict(arguments or {}))
    except ResourceError:
        if name != "stop":
            raise
        return end_process(run)  # no room for a command on a full disk


def _stopped(run: Run) -> int:
    """Written down once it is done: where the database is away, nothing was."""
    number = end_process(run)
    allow(Verb.CHANGE, run.directory, "command stop", always=True)
    return number


def _advice(run: Run) -> Remedy:
    if run.state == "finished":
        return Remedy.run("Fork it to go on with other settings", "fork", run.id)
    return Remedy.run("Resume it first", "resume", run.id)


def end_process(run: Run) -> int:
    """Take it out of the queue, or tell its process to stop, wherever that is."""
    try:
        if job := team.cancel(run.id):  # its host hears of it, wherever that is
            if job.state == CANCELLED:
                write_state(run.directory, WITHDRAWN)
            return BY_SIGNAL
    except TrainingError:  # the database is away
        if run.pid is None or not is_ours(run.pid):
            raise
    deadline = time.monotonic() + STARTING
    while (pid := run.pid) is None:
        with own_lock(run.directory, wait=LOOK) as mine:
            if mine:
                scheduling.leave(run)
                write_state(run.directory, WITHDRAWN)
                return BY_SIGNAL
        if time.monotonic() > deadline:
            raise StateError(f"The process of {run.id} is starting right now. Try again in a second.")
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    return BY_SIGNAL


def wait_settled(run: Run, command: int, timeout: float = 2.0) -> Settled:
    """Wait until a command is settled, the run has ended, or the time is up."""
    deadline = time.monotonic() + timeout
    while True:
        active = run.is_active
        found = _settled(run, command, active)
        if found.outcome is not None or time.monotonic() >= deadline:
            return found
        if not active:
            return Settled("The run ended before it saw this command.")
        time.sleep(LOOK)


def _settled(run: Run, command: int, active: bool) -> Settled:
    if command == BY_SIGNAL:
        return Settled(None if active else "done")
    with metrics_of(run) as storage:
        for known in storage.commands() if storage else ():
            if known.id == command:
                return Settled(known.outcome, known.round)
    return Settled(None)


def close_open_commands(run: Run) -> list[str]:
    """A command that the earlier process did not see is not for the next one: nobody expects it. Their names."""
    with metrics_of(run) as storage:
        if storage is None:
            return []
        storage.take()
        last = storage.last_round()
        closed = [command for command in storage.commands() if command.outcome is None]
        for command in closed:
            storage.settle(command.id, last.round if last else 0, "The run ended before it saw this command.")
        return [command.name for command in closed]
