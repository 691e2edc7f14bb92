"""The queue of gradient runs: as many slots as there are cores, taken first-in first-out; not what runs do.

A run takes a ticket when it is launched or resumed: a file QUEUE/waiting/NUMBER-RUN. The run whose ticket has the
lowest number takes slots, which are kernel locks on QUEUE/slot-N, as they become free, and gives its ticket up when it
has enough. Locks go with the process that holds them, however it ends; tickets stay, so that a queued run whose process
is killed keeps its place and is started again by `revive`: every launch, every look at the list of runs, the start of
the dashboard, the runs behind it in the queue and the end of any gradient run do so.

Exact fits and inspections do not queue: they take seconds, and a person waits for them. A paused run keeps its slots.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from shoal.errors import ConfigError, Reason, Remedy, Standing
from shoal.home import is_held, lock_file, one_at_a_time, queue_directory, runs_directory, slot_file, waiting_directory
from shoal.runs.folder import Run, spawn, ticket_of, write_state
from shoal.settings.config import RunConfig
from shoal.utils import write_atomically

LOOK = 0.2  # seconds between two looks of a run that waits
STARTING = 5.0  # seconds in which a process that was started is expected to hold its run's lock
STARTS = 3  # times that a run's process may fail to come so far before it is given up


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def slots() -> int:
    """SHOAL_SLOTS, or one a core."""
    text = os.environ.get("SHOAL_SLOTS", "")
    if text and not (text.isdecimal() and int(text)):
        raise ConfigError(
            f"Expected SHOAL_SLOTS to be a whole number of at least 1, got '{text}'. Correct or unset it."
        )
    return int(text or cores())


def slots_for(config: RunConfig) -> int:
    """What a run needs; one that wants more workers than there are slots takes them all."""
    return 1 if config.engine == "inline" else min(config.workers or cores(), slots())


def free_slots() -> int:
    """Slots that nobody holds at this moment."""
    return sum(not is_held(slot_file(number)) for number in range(slots()))


# ------------------------------------------------------------------ tickets


class Ticket(NamedTuple):
    """A place in the queue: its file, and the run that it is of."""

    path: Path

    @property
    def run(self) -> Run:
        return Run(runs_directory() / self.path.name.partition("-")[2])

    @property
    def starts(self) -> int:
        """Times that its process was started and did not come so far as to hold its lock."""
        try:
            return int(json.loads(self.path.read_text())["starts"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def is_fresh(self, seconds: float) -> bool:
        """Whether its process was started less than so long ago; no, if the clock was put back since."""
        with contextlib.suppress(OSError):
            return 0 <= time.time() - self.path.stat().st_mtime < seconds
        return False

    def write(self, starts: int) -> None:
        write_atomically(self.path, json.dumps({"starts": starts}).encode())

    def give_up(self) -> None:
        self.path.unlink(missing_ok=True)


def tickets() -> list[Ticket]:
    """Of all runs that wait, the first one first."""
    with contextlib.suppress(OSError):
        names = sorted(name for name in os.listdir(waiting_directory()) if name[0] != ".")
        return [Ticket(waiting_directory() / name) for name in names]
    return []


def enqueue(run: Run) -> None:
    """Give a run a ticket behind all others, whatever the clock says."""
    with one_at_a_time(queue_directory() / "tickets"):
        last = max((int(t.path.name.partition("-")[0]) for t in tickets()), default=0)
        number = max(time.time_ns(), last + 1)
        Ticket(waiting_directory() / f"{number:020d}-{run.id}").write(starts=0)


# ------------------------------------------------------------------ waiting for a turn


@contextlib.contextmanager
def turn(run: Run, need: int, say: Callable[[Standing], None]) -> Iterator[None]:
    """Wait for this run's turn and hold `need` slots; `say` is told how it stands whenever that changes.

    A process whose ticket is gone takes part as if it were the first: somebody took it for dead.
    """
    with contextlib.ExitStack() as held:
        with contextlib.ExitStack() as head:
            _wait(run, min(need, slots()), say, held, head)
            say(Standing("preparing"))
            leave(run)  # in this order: a run that waits no longer is never started again
        yield


def _wait(
    run: Run, need: int, say: Callable[[Standing], None], held: contextlib.ExitStack, head: contextlib.ExitStack
) -> None:
    taken: dict[int, IO[str]] = {}
    said, first = "", False
    while True:
        ahead = _ahead(run)
        if not ahead and not first and (lock := lock_file(queue_directory() / "head")):
            first = True
            head.enter_context(lock)
        if first and _take(taken, need, held):
            return
        text = _waiting_for(len(ahead), need, len(taken))
        if text != said:
            say(Standing("queued", said := text))
        for ticket in ahead:
            _look_after(ticket, STARTING)
        time.sleep(LOOK)


def _ahead(run: Run) -> list[Ticket]:
    """Tickets before this run's own."""
    found: list[Ticket] = []
    for ticket in tickets():
        if ticket.run.id == run.id:
            return found
        found.append(ticket)
    return []


def _take(taken: dict[int, IO[str]], need: int, held: contextlib.ExitStack) -> bool:
    """Lock free slots until there are enough; those that were got are kept, since nobody may pass by."""
    for number in range(slots()):
        if len(taken) >= need:
            break
        if number not in taken and (lock := lock_file(slot_file(number))):
            taken[number] = held.enter_context(lock)
    return len(taken) >= need


def _waiting_for(ahead: int, need: int, have: int) -> str:
    if ahead:
        return f"It waits in the queue: {ahead} {'run is' if ahead == 1 else 'runs are'} ahead of it."
    wanted = "1 core" if need == 1 else f"{need} cores, of which {have} {'is' if have == 1 else 'are'} free"
    return f"It is the first in the queue and waits for {wanted}."


# ------------------------------------------------------------------ runs whose process died while they waited


def revive(starting: float = STARTING) -> list[Run]:
    """Start the processes of queued runs that have none, in order; those are returned.

    A process that was started less than `starting` seconds ago may be on its way and is left alone.
    """
    return [ticket.run for ticket in tickets() if _look_after(ticket, starting)]


def _look_after(ticket: Ticket, starting: float) -> bool:
    """Start the process again, if it is dead; forget the ticket of a run that waits no longer."""
    run = ticket.run
    if run.is_alive or ticket.is_fresh(starting):
        return False
    with one_at_a_time(queue_directory() / "tickets"):
        if run.is_alive or not ticket.path.exists() or ticket.is_fresh(starting):
            return False  # somebody else was faster
        if run.state != "queued":
            ticket.give_up()
            return False
        if ticket.starts >= STARTS:
            ticket.give_up()
            cause = f"Its process was started {STARTS} times while it waited in the queue and died each time."
            ways = Remedy.run("See why in its log", "logs", run.id), Remedy.run("Then resume it", "resume", run.id)
            write_state(run.directory, Standing("interrupted", cause, Reason.KILLED, ways))
            return False
        ticket.write(ticket.starts + 1)
        with contextlib.suppress(OSError):  # as good as a process that dies at once
            spawn(run.directory)
        return True


def leave(run: Run) -> None:
    """Give a run's place up: its turn has come, or it was stopped."""
    path = ticket_of(run.id)
    if path is not None:
        Ticket(path).give_up()


def arrived(run: Run) -> None:
    """Its process has come so far as to hold its lock: earlier starts that failed no longer count."""
    path = ticket_of(run.id)
    if path is not None:
        Ticket(path).write(starts=0)
