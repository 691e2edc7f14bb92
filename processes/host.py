"""A run host, `shoal run-host`: takes jobs from the queue of the team, has them done, and says what became of them.

What a run does is in `tasks`, its process in `processes.run`. The host renews its leases at every beat. A job that is
lost to another host is killed, one that was cancelled is stopped; one whose process was killed is tried again. On
SIGTERM it takes nothing new: gradient runs leave a checkpoint and go back to the queue, exact fits are finished.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace

from shoal.database.connections import database
from shoal.database.plain_errors import DatabaseAway
from shoal.errors import DamagedFile, DiskFull, Standing, StateError, TrainingError
from shoal.home import home, runs_directory
from shoal.lazy.classes import dataclass
from shoal.processes.carrier import Carrier, Luggage
from shoal.queueing.jobs import LEDGER_DAYS, Job, RunHost
from shoal.queueing.queue import Queue
from shoal.runs.commands import post, wait_settled
from shoal.runs.documents import last_word
from shoal.runs.folder import Run
from shoal.runs.spawning import WarmProcess
from shoal.travel import journeys
from shoal.travel.parcels import parcels
from shoal.words import duration, file_size, plural

BEAT = 1.0  # seconds between two heartbeats
LOOK = 0.2  # seconds between two looks for jobs
CHECKING = 5.0  # seconds between two looks whether the database is still one for this version
TRIMMING = 3600.0  # seconds between two looks for what the ledger need not know any more
SAVING = 20.0  # seconds for a run to leave a checkpoint before it is given back
DRAINING = 120.0  # seconds for exact fits to be finished
SPARE = 64 << 20  # bytes that the disk of its home has to have left, or a host takes nothing: all would fail there
UNWELL = 30.0  # seconds for which it takes nothing after its own disk let it down
HANDED_ON = "Its run host was shut down."


class HostWarmth(WarmProcess):
    """Started anew when it is gone, and all runs that it has made with it."""

    hosted = True

    def ended(self, wait: float) -> tuple[dict[str, int], bool]:
        """Runs whose processes have ended, with their exit codes; and whether the warm process itself has, and all with
        it. Waits so long for the first."""
        found: dict[str, int] = {}
        while (words := self.heard(0 if found else wait)) != []:
            if words is None:
                self.close()
                self.start()
                return found, True
            found |= {str(word["ended"]): int(word["code"]) for word in words if "ended" in word}
        return found, False


@dataclass
class HeldJob:
    """A job in the hands of this host."""

    job: Job
    need: int
    luggage: Luggage | None = None  # of a run that travels between homes
    begun: bool = False
    stopped: bool = False
    given_back: bool = False  # it is killed in order to be given back
    saving: tuple[int, float] | None = None  # the command for a checkpoint, and when it was asked for
    code: int | None = None  # with which its process ended

    @property
    def life(self) -> str:
        """One run may be taken more than once."""
        return f"{self.job.id} {self.job.fence}"


class HostLoop:
    """One iteration is `step`; collaborators are passed in."""

    def __init__(
        self, queue: Queue, host: RunHost, warm: HostWarmth, carrier: Carrier, say: Callable[[str], None]
    ) -> None:
        self.queue, self.warm, self.carrier, self.say = queue, warm, carrier, say
        self.held: dict[str, HeldJob] = {}
        self.host = queue.greet(host)
        self._beaten = 0.0
        self._away = ""  # what was said of the database, if it is away
        self._gone_since = 0.0
        self._trimmed = -TRIMMING
        self._checked = time.monotonic()
        self._resting = 0.0  # until when others may say, after that, that they live: then what is overdue is lost
        self._full = False  # whether it was said that its disk is
        self._drained: float | None = None  # since when nothing new is taken

    def drain(self) -> None:
        """The first time in order, the second time at once: what is at work goes back to the queue."""
        if self._drained is None:
            self._drained = time.monotonic()
            self.host = replace(self.host, draining=True)
        else:
            self._drained = -DRAINING

    @property
    def is_done(self) -> bool:
        return self._drained is not None and not self.held

    def step(self) -> None:
        ended, gone = self.warm.ended(LOOK)
        for held in self.held.values():
            if held.code is None and (held.life in ended or gone):
                held.code = ended.get(held.life, -signal.SIGKILL)
        try:
            self._report()
            self._beat()
            self._carry()
            if self._away:
                self._say_back()
            if self._drained is None and time.monotonic() >= self._resting and self._is_of_now():
                self._claim()
                self._trim()
        except TrainingError as error:
            if not self._away:
                self._gone_since = time.monotonic()
            if error.message != self._away:
                self.say(f"{error.message} Runs go on; trying again.")
            self._away, self._beaten = error.message, 0.0  # the next beat tells whether it is back
        if self._drained is not None:
            self._send_back()

    def _say_back(self) -> None:
        self._away, self._resting = "", time.monotonic() + self.queue.lease
        gone = duration(time.monotonic() - self._gone_since)
        self.say(f"The database is back after {gone}. Jobs are taken again in {duration(self.queue.lease)}.")

    # ---------------------------------------------------------------- leases

    def _beat(self) -> None:
        if time.monotonic() - self._beaten < BEAT:
            return
        told = self.queue.heartbeat(self.host, {name: held.job.fence for name, held in self.held.items()})
        self._beaten = time.monotonic()
        for name, word in told.items():
            held = self.held[name]
            if word == "lost":
                self.say(f"{name}: lost to another host.")
                self.warm.say(kill=held.life)
                del self.held[name]
            elif word == "cancelled" and not held.stopped:
                held.stopped = True
                self.warm.say(stop=held.life)

    # ---------------------------------------------------------------- jobs

    def _is_of_now(self) -> bool:
        """Whether the database is still one for this version; if not, the host ends in order and hands its runs on."""
        if time.monotonic() - self._checked > CHECKING:
            self._checked = time.monotonic()
            try:
                database().check()
            except StateError as error:
                self.say(f"{error.message} This host takes nothing new, and ends when what it has is handed on.")
                self.drain()
        return self._drained is None

    def _trim(self) -> None:
        """Whichever host it is: one that has nothing to remove asks for little."""
        if time.monotonic() - self._trimmed > TRIMMING:
            self._trimmed = time.monotonic()
            if gone := self.queue.trim_ledger():
                self.say(f"{plural(gone, 'line')} of the ledger removed: older than {LEDGER_DAYS} days.")
            parcels().sweep()
            self._see_off()

    def _see_off(self) -> None:
        for name in journeys.see_off(self.held):
            self.say(f"{name}: removed here; its files are in the database for its own home.")

    def _claim(self) -> None:
        if not self._has_room():
            return
        while (free := self.host.slots - sum(held.need for held in self.held.values())) > 0:
            job = self.queue.claim(self.host, free)
            if job is None:
                return
            self._begin(job)

    def _has_room(self) -> bool:
        """Jobs that it cannot do are for others, and a host that fails them at once would be the first to take them."""
        left = shutil.disk_usage(home()).free
        if (left < SPARE) != self._full:
            self._full = left < SPARE
            said = f"The disk of '{home()}' has {file_size(left)} left"
            self.say(
                f"{said}: this host takes nothing until there are {file_size(SPARE)}. Free some space there."
                if self._full else f"{said}: jobs are taken again."
            )  # fmt: skip
        return not self._full

    def _begin(self, job: Job) -> None:
        self.held[job.id] = held = HeldJob(job, min(job.need, self.host.slots))
        held.luggage = self.carrier.receive(job)
        self._start(held)

    def _carry(self) -> None:
        """Begin what has come, and send what is new of what travels."""
        for held in list(self.held.values()):
            if not held.begun:
                self._start(held)
            elif held.luggage and held.code is None:
                self.carrier.send_news(held.luggage)

    def _start(self, held: HeldJob) -> None:
        job = held.job
        try:
            if held.luggage and not self.carrier.has_come(held.luggage):
                return
        except DatabaseAway:
            raise
        except (TrainingError, OSError) as error:
            what = f"Its files could not be fetched by the host {self.host.name}"
            if isinstance(error, (DiskFull, OSError)):  # of this machine: others may do it, and it is no try
                self._resting = time.monotonic() + UNWELL
                self.queue.give_back(job.id, job.fence, _why(what, error))
                self.say(f"{job.id}: {_why(what, error)} This host takes nothing for {duration(UNWELL)}.")
            else:
                self._fail(held, what, error)
            del self.held[job.id]
            return
        held.begun = True
        run = Run(runs_directory() / job.id)
        if not (run.directory / "config.json").exists():
            why = (
                f"Its folder is not there on the host {self.host.name}. Somebody may have removed it; launch it again."
            )
            self.queue.fail(job.id, job.fence, why, again=False)
            del self.held[job.id]
        elif _said(run) is not None:  # its last host died as it was about to tell
            held.code = 0
            self._report()
        else:
            number = f" (try {job.tries} of {job.allowed})" if job.tries else ""
            again = f"{job.words} It goes on by itself at the host {self.host.name}{number}." if job.fence else ""
            self.warm.say(start=held.life, run=job.id, fence=job.fence, again=again)
            self.say(f"{job.id}: taken{number}.")

    def _report(self) -> None:
        """What became of jobs whose processes have ended; one that cannot be told now is told later."""
        for name, held in list(self.held.items()):
            if held.code is None:
                continue
            try:
                if held.luggage and not self.carrier.is_away(held.luggage):
                    continue
                self._tell(name, held)
            except DatabaseAway:
                raise
            except (TrainingError, OSError) as error:
                self._fail(held, f"Not all of it could be sent from the host {self.host.name}", error)
            del self.held[name]
            if journeys.is_guest(runs_directory() / name):
                self._see_off()

    def _fail(self, held: HeldJob, what: str, error: Exception) -> None:
        why = _why(what, error)
        self.queue.fail(held.job.id, held.job.fence, why, again=True)
        self.say(f"{held.job.id}: {why}")

    def _tell(self, name: str, held: HeldJob) -> None:
        said, fence, code = _said(Run(runs_directory() / name)), held.job.fence, held.code or 0
        if said is None and held.given_back:
            known, how = self.queue.give_back(name, fence, HANDED_ON), "given back"
        elif said is None:
            how = f"ended by signal {-code}" if code < 0 else "ended before it had a result"
            why = f"Its process {how} at the host {self.host.name}."
            known = self.queue.fail(name, fence, why, again=True)
        else:
            known, how = self._tell_last_word(name, fence, said), said.state
        self.say(f"{name}: {how}." if known else f"{name}: lost to another host.")

    def _tell_last_word(self, name: str, fence: int, said: Standing) -> bool:
        if said.state == "finished":
            return self.queue.finish(name, fence, said.cause)
        if said.state == "stopped":
            return self.queue.drop(name, fence, said.cause)
        return self.queue.fail(name, fence, said.cause, again=False)

    # ---------------------------------------------------------------- end in order

    def _send_back(self) -> None:
        for name, held in self.held.items():
            if held.begun and not held.given_back and self._is_saved(Run(runs_directory() / name), held):
                held.given_back = True
                self.warm.say(kill=held.life)

    def _is_saved(self, run: Run, held: HeldJob) -> bool:
        """Whether it may go: what it has done is in a checkpoint, or nothing is worth waiting for."""
        late = time.monotonic() - (self._drained or 0.0)
        if not run.is_gradient:
            return late > DRAINING
        if held.saving is None:
            try:
                held.saving = post(run, "checkpoint"), time.monotonic()
            except TrainingError:
                return True  # it has not begun, or is about to end
        command, asked = held.saving
        return (
            time.monotonic() - asked > SAVING or late > DRAINING or wait_settled(run, command, 0.0).outcome is not None
        )


def _why(what: str, error: Exception) -> str:
    return f"{what}: {error.message if isinstance(error, TrainingError) else error}"


def _said(run: Run) -> Standing | None:
    """Its last word; one that cannot be read is one all the same."""
    try:
        return last_word(run.directory)
    except DamagedFile as damage:
        return Standing("failed", damage.message, damage.reason)


def main(queue: Queue, host: RunHost, say: Callable[[str], None]) -> int:
    """Until it is told to end."""
    warm, carrier = HostWarmth(), Carrier()
    try:
        loop = HostLoop(queue, host, warm, carrier, say)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: loop.drain())
        say(f"run host {host.name} is up, with {plural(host.slots, 'slot')}.")
        while not loop.is_done:
            loop.step()
        queue.part(loop.host)
    finally:
        warm.close()
        carrier.close()
    return 0
