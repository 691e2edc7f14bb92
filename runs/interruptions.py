"""Runs whose process was killed go on by themselves from their last checkpoint; how they are started: `scheduling`.

A gradient run at work has a ticket in QUEUE/working, which it takes away when it has said how it ended. A ticket whose
run has neither a process nor a last word is one of a run that was killed, or whose machine went down: whoever looks
(`scheduling.keep_going`) gives it its place in the queue back, to begin after a rest that grows with every try. A run
that lived for a while begins to count anew. One that a person has stopped or paused is left alone.
"""

from __future__ import annotations

import contextlib
import signal
from dataclasses import replace

from shoal.errors import DamagedFile, Reason, Remedy, Standing, StateError
from shoal.files.locks import lock_file
from shoal.home import runs_directory
from shoal.runs.documents import last_word, read_json
from shoal.runs.folder import Run, write_state
from shoal.runs.spawning import PROCESS, killed_by
from shoal.runs.tickets import Terms, Ticket, terms_here, ticket_at_work, ticket_of, tickets_at_work
from shoal.settings.config import RunConfig

FIRST_REST, GROWTH, LONGEST_REST = 2.0, 5.0, 300.0  # seconds before the first try; so many times longer each; at most
CALM = 600.0  # seconds after which a process that is killed is no sign that the run itself is at fault
SIGNS = (
    "log.jsonl",
    "progress.json",
    "state.json",
    "metrics.sqlite",
    "metrics.sqlite-wal",
    "records.json",
    "checkpoints",
)
STOPPED = Standing("stopped", "It was told to stop before its process was killed.", Reason.STOPPED)


def rest_before(number: int) -> float:
    """Seconds before this try, which is 1 for the first."""
    return float(min(FIRST_REST * GROWTH ** min(number - 1, 20), LONGEST_REST))


# ------------------------------------------------------------------ for the process of a run


def begin_work(run: Run, config: RunConfig, need: int) -> int:
    """Leave the ticket by which it is taken up, before it gives up the one with which it waited; which try this is.

    A trial is looked after by its search.
    """
    if not config.retries or run.search:
        return 0
    waited = ticket_of(run.id)
    if waited is None:
        return 0  # the queue was removed: it cannot lose what it has not
    try:
        terms = waited.terms
    except DamagedFile:
        terms = terms_here(need)
    here = Ticket(waited.name, at_work=True)
    here.write(replace(terms, starts=0, rest=0.0, allowed=config.retries))
    return terms.tries


def end_work(run: Run) -> None:
    """It has said how it ended, or a person stopped it: nobody takes it up."""
    with contextlib.suppress(StateError, OSError):
        if ticket := ticket_at_work(run.id):
            ticket.give_up()


# ------------------------------------------------------------------ whoever looks


def take_up() -> None:
    """Give runs whose process was killed their places in the queue back."""
    for ticket in tickets_at_work():
        run = Run(runs_directory() / ticket.run_id)
        if not run.is_alive:
            _look_after(run, ticket)


def goes_on(run: Run) -> bool:
    """Whether somebody will take it up, where its process is gone."""
    with contextlib.suppress(StateError):
        return ticket_at_work(run.id) is not None
    return False


def _look_after(run: Run, ticket: Ticket) -> None:
    try:
        lock = lock_file(run.directory / "lock")
    except FileNotFoundError:
        ticket.give_up()  # removed by a person
        return
    if lock is None:
        return  # it lives, or somebody else is at it
    with lock:
        if not ticket.path.exists():
            return
        if not _is_killed(run):
            ticket.give_up()
            return
        try:
            terms = ticket.terms
        except DamagedFile:
            ticket.give_up()  # a person decides
            return
        terms = replace(terms, tries=0 if _lived(run, ticket) >= CALM else terms.tries)
        if terms.tries >= terms.allowed:
            _fail(run, terms.tries)
        else:
            _requeue(run, ticket, terms)
        ticket.give_up()


def _is_killed(run: Run) -> bool:
    """Whether its process ended without a word, and nobody wanted it to."""
    try:
        said = last_word(run.directory)
        state = str((read_json(run.directory / "state.json") or {}).get("state", ""))
    except DamagedFile:
        return False  # which is told as its state
    if state == "stopping" and said is None:
        write_state(run.directory, STOPPED)
        return False
    return said is None and state not in ("queued", "paused", "")


def _lived(run: Run, ticket: Ticket) -> float:
    """Seconds from when its process began to the last sign of it."""
    newest = 0.0
    for name in SIGNS:
        with contextlib.suppress(OSError):
            newest = max(newest, (run.directory / name).stat().st_mtime)
    with contextlib.suppress(OSError):
        return newest - ticket.path.stat().st_mtime
    return 0.0


def _requeue(run: Run, ticket: Ticket, terms: Terms) -> None:
    """With its old number: it had its turn."""
    number = terms.tries + 1
    for name in (PROCESS, "started", "progress.json"):
        (run.directory / name).unlink(missing_ok=True)
    Ticket(ticket.name).write(replace(terms, tries=number, rest=rest_before(number)))
    cause = f"It goes on by itself, try {number} of {terms.allowed}."
    write_state(run.directory, Standing("queued", cause, Reason.KILLED))


def _fail(run: Run, tries: int) -> None:
    cause = f"Its process was killed {tries + 1} times in a row before it was finished{_by_what(run)}."
    ways = Remedy.run("See in its log how far it came", "logs", run.id), Remedy.run("Then resume it", "resume", run.id)
    write_state(run.directory, Standing("failed", cause, Reason.KILLED, ways))


def _by_what(run: Run) -> str:
    """The signal, where this process had started it."""
    number = killed_by.get(run.id, 0)
    if not number:
        return ""
    with contextlib.suppress(ValueError):
        likely = ", possibly because memory ran out" if number == signal.SIGKILL else ""
        return f", the last time by signal {number} ({signal.Signals(number).name}){likely}"
    return f", the last time by signal {number}"
