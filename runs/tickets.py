"""Places in the queue: a file for each run that waits, in the order of their numbers; not who starts them, and when.

A ticket QUEUE/waiting/NUMBER-RUN says how many slots the run waits for and how its process is to be started. It is
there from the launch until that process has come so far as to say so. It then lies in QUEUE/working until the run has
said how it ended, if it is to go on by itself after a kill (`interruptions`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sys
import time
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from shoal.database.address import VARIABLE as DATABASE
from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.files.locks import one_at_a_time
from shoal.home import at_work_directory, names_in, queue_directory, waiting_directory
from shoal.lazy.classes import dataclass
from shoal.queueing import team
from shoal.queueing.jobs import WAITING
from shoal.runs.slots import cores, free_slots, slots
from shoal.words import duration


@dataclass(frozen=True)
class Terms:
    """What a run waits for, and how its process is started: as its launcher would have done it."""

    need: int = 1  # slots
    slots: int = field(default_factory=cores)  # that there are, as its launcher saw it
    starts: int = 0  # times that its process was started and did not come so far as to say so
    python: str = sys.executable
    environment: dict[str, str] = field(default_factory=dict)
    tries: int = 0  # times in a row that it was taken up after a kill
    allowed: int = 0  # such times at most
    rest: float = 0.0  # seconds from when the ticket was written until it may start


NUMBERS = {"need": int, "slots": int, "starts": int, "tries": int, "allowed": int, "rest": float}


def terms_here(need: int) -> Terms:
    """Of a run that is launched from this process."""
    return Terms(need, slots(), python=sys.executable, environment=_environment())


def _environment() -> dict[str, str]:
    """What decides how our processes work; nothing else goes into a file, least of all what is secret."""
    ours = {name: value for name, value in os.environ.items() if name.startswith("SHOAL_") and not _is_secret(name)}
    return ours | {name: os.environ[name] for name in ("PYTHONPATH", "PATH") if name in os.environ}


def _is_secret(name: str) -> bool:
    """Passwords and tokens; the address of the database holds one, and goes on by inheritance alone (`spawning`)."""
    return "PASSWORD" in name or "SECRET" in name or name in ("SHOAL_TOKEN", DATABASE)


class Ticket(NamedTuple):
    """One place: NUMBER-RUN."""

    name: str
    at_work: bool = False  # not one of a run that waits

    @property
    def path(self) -> Path:
        return (at_work_directory() if self.at_work else waiting_directory()) / self.name

    @property
    def number(self) -> int:
        return int(self.name.partition("-")[0])

    @property
    def run_id(self) -> str:
        return self.name.partition("-")[2]

    @property
    def terms(self) -> Terms:
        """As written; of one that was given up a moment ago, a single slot. DamagedFile if it is not what was written.

        One of an earlier version has no checksum, and may lack some of them.
        """
        try:
            found = sealed.read(self.path, self.name, sealed.never_sealed)
        except OSError:
            return Terms()
        known = {name: found[name] for name, kind in NUMBERS.items() if isinstance(found.get(name), (int, kind))}
        known |= {
            name: found[name]
            for name, kind in (("python", str), ("environment", dict))
            if isinstance(found.get(name), kind)
        }
        return Terms(**known)

    def was_written_within(self, seconds: float) -> bool:
        """No, if the clock was put back since."""
        return 0 <= self.age < seconds

    @property
    def age(self) -> float:
        """Seconds since it was written; without end if it is gone."""
        with contextlib.suppress(OSError):
            return time.time() - self.path.stat().st_mtime
        return math.inf

    def rests(self, terms: Terms) -> bool:
        """Whether its run was killed a moment ago and is not to begin again yet; others pass it by."""
        return bool(terms.rest) and self.was_written_within(terms.rest)

    def write(self, terms: Terms) -> None:
        sealed.write(self.path, dataclasses.asdict(terms), self.name)

    def give_up(self) -> None:
        self.path.unlink(missing_ok=True)


def tickets() -> list[Ticket]:
    """Of all runs that wait, the first one first. StateError where nobody can tell whether any does."""
    return [Ticket(name) for name in sorted(names_in(waiting_directory())) if name[0].isdigit()]


def tickets_at_work() -> list[Ticket]:
    """Of runs at work that go on by themselves if their process is killed."""
    return [Ticket(name, at_work=True) for name in sorted(names_in(at_work_directory())) if name[0].isdigit()]


class InLine(NamedTuple):
    """A run that waits, as anybody may see it."""

    run_id: str
    need: int  # slots
    seconds: float  # for so long
    words: str  # what it waits for, by the same look: one for each would look at all the others as often


def in_line() -> list[InLine]:
    """Of all runs that wait, the first one first: by their tickets or, with the database of a team, by its jobs.

    An error where nobody can tell.
    """
    if team.is_set():
        seen = team.glance()
        waiting = [job for job in seen.jobs.values() if job.state == WAITING]
        return [
            InLine(job.id, job.need, max(0.0, seen.now - job.put_at), team.place_at(seen, job.id) or "")
            for job in waiting
        ]
    return [
        InLine(ticket.run_id, _need(ticket), max(0.0, ticket.age), _words(ahead, ticket))
        for ahead, ticket in enumerate(tickets())
    ]


def _need(ticket: Ticket) -> int:
    try:
        return ticket.terms.need
    except DamagedFile:
        return 1


def room() -> tuple[int, int]:
    """Slots that there are and those that are free: of this machine or, with the database of a team, of its hosts."""
    if not team.is_set():
        return slots(), free_slots()
    seen = team.glance()
    total = sum(host.slots for host in seen.hosts if not host.draining)
    taken = sum(min(job.need, total) for job in seen.jobs.values() if seen.is_held(job.id))
    return total, max(0, total - taken)


def issue(run_id: str, terms: Terms) -> None:
    """Give a run a place behind all others, whatever the clock says."""
    with one_at_a_time(queue_directory() / "tickets"):
        withdraw(run_id)
        last = max((ticket.number for ticket in tickets()), default=0)
        number = max(time.time_ns(), last + 1)
        Ticket(f"{number:020d}-{run_id}").write(terms)


def withdraw(run_id: str) -> None:
    """Give a run's place up: its turn has come, or it was stopped."""
    for ticket in tickets():
        if ticket.run_id == run_id:
            ticket.give_up()


def ticket_of(run_id: str) -> Ticket | None:
    """With which it waits."""
    return next((ticket for ticket in tickets() if ticket.run_id == run_id), None)


def ticket_at_work(run_id: str) -> Ticket | None:
    """With which it is taken up if its process is killed."""
    return next((ticket for ticket in tickets_at_work() if ticket.run_id == run_id), None)


def has_ticket(run_id: str) -> bool:
    """Whether the queue knows of it, so that somebody will start it."""
    return ticket_of(run_id) is not None


def place_in_words(run_id: str) -> str | None:
    """What a run waits for at this moment; None if it has no ticket."""
    for ahead, ticket in enumerate(tickets()):
        if ticket.run_id == run_id:
            return _words(ahead, ticket)
    return None


def _words(ahead: int, ticket: Ticket) -> str:
    try:
        terms = ticket.terms
    except DamagedFile as damage:
        if not ahead:
            return f"It is the first in the queue; its ticket cannot be read and is worked out again. {damage.message}"
        terms = Terms()
    if ticket.rests(terms):
        return (
            f"Its process was stopped before it was finished. It goes on by itself in {duration(terms.rest)} "
            f"(try {terms.tries} of {terms.allowed})."
        )
    if ahead:
        return f"It waits in the queue: {ahead} {'run is' if ahead == 1 else 'runs are'} ahead of it."
    free = free_slots(terms.slots)
    if terms.starts:
        return "It is the first in the queue; its process ended as it started, and is started again."
    if free >= terms.need:
        return "It is the first in the queue and starts now."
    wanted = "1 core" if terms.need == 1 else f"{terms.need} cores, of which {free} {'is' if free == 1 else 'are'} free"
    return f"It is the first in the queue and waits for {wanted}."
