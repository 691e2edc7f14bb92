"""What a queue holds and what is known of it: jobs, hosts, the ledger; how one becomes another is in `rules`.

Times are seconds since 1970 by the clock of the queue, which is the database's: those of the hosts may differ.
"""

from __future__ import annotations

from typing import Literal

from shoal.lazy.classes import dataclass

WAITING, RUNNING = "waiting", "running"
FINISHED, FAILED, CANCELLED = "finished", "failed", "cancelled"
OPEN = (WAITING, RUNNING)
CLOSED = (FINISHED, FAILED, CANCELLED)

LEDGER_DAYS = 90  # for which the ledger knows what happened to a job that has ended

Word = Literal["yours", "cancelled", "lost"]  # what a heartbeat is told of a job


@dataclass(frozen=True)
class Job:
    """A piece of work and how it stands. `fence` grows whenever it leaves a host: an older one holds nothing."""

    id: str
    owner: str = ""
    priority: int = 0  # the higher ones first
    need: int = 1  # slots of a host
    after: tuple[str, ...] = ()  # jobs that have to be finished first
    allowed: int = 3  # times that it may be tried again, in a row
    state: str = WAITING
    fence: int = 0
    tries: int = 0  # times in a row that it was lost or failed
    put_at: float = 0.0
    ready_at: float = 0.0  # not to be taken before
    taken_at: float = 0.0
    lease_until: float = 0.0  # from then on another host may take it
    ended_at: float = 0.0
    host: str = ""
    words: str = ""  # why it stands so, where there is something to say
    stopping: bool = False  # somebody has cancelled it while it was running
    home: str = ""  # where its files are: hosts of another home leave it; any may take one that does not say

    @property
    def is_open(self) -> bool:
        return self.state in OPEN


@dataclass(frozen=True)
class RunHost:
    """A process that takes jobs; `seen` when it last said so."""

    name: str
    slots: int
    mark: str = ""  # of this one process: another of its name is another host
    since: float = 0.0
    seen: float = 0.0
    draining: bool = False  # it ends, and takes nothing new
    home: str = ""  # whose files it sees

    def sees(self, job: Job) -> bool:
        """Whether it has the files of a job."""
        return job.home in ("", self.home)


@dataclass(frozen=True)
class Entry:
    """A line of the ledger: what happened to a job, under which fence, at which host."""

    at: float
    job: str
    fence: int
    host: str
    event: str  # put, taken, lost, failed try, given back, or one of CLOSED
    words: str = ""
