"""Where a queue keeps its rows: what every implementation can do within one transaction; what is done is in `queue`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from shoal.queueing.jobs import Entry, Job, RunHost

T = TypeVar("T")


class JobRows(Protocol):
    """The rows within a transaction. Jobs that `get`, `first_ready`, `overdue` and `waiting_for` give are nobody else's
    to change until it ends."""

    def now(self) -> float: ...

    def get(self, job: str) -> Job | None: ...

    def look_at(self, jobs: Sequence[str]) -> dict[str, Job]:
        """None of which changes until the transaction ends."""

    def add(self, job: Job) -> bool:
        """Behind all others; False if there is one of that name."""

    def write(self, job: Job) -> None: ...

    def requeue(self, job: Job) -> None:
        """Write a job that was opened again: behind all others."""

    def first_ready(self, now: float, home: str) -> Job | None:
        """Of all that may begin: the highest priority, then of the person with the fewest running, then the oldest.

        Of jobs that say in which home their files are, those of this one.

        Neither those of a person who has as many running as allowed, nor those that wait for others.
        """

    def overdue(self, now: float) -> list[Job]: ...

    def waiting_for(self, job: str) -> list[Job]:
        """Jobs that wait, and have to wait for this one."""

    def note(self, entry: Entry) -> None: ...

    def trim(self, before: float) -> int:
        """Take what is older out of the ledger, but for jobs that are open; how many lines that were."""

    def set_limit(self, owner: str, most: int | None) -> None: ...

    def write_host(self, host: RunHost) -> None: ...

    def drop_host(self, name: str, mark: str) -> None: ...

    def host(self, name: str) -> RunHost | None: ...


class Tables(Protocol):
    """All rows, and looks at them that change nothing and wait for nobody."""

    def transact(self, work: Callable[[JobRows], T]) -> T:
        """All or nothing; may be done more than once, where others were in the way."""

    def now(self) -> float: ...

    def jobs(self, states: Sequence[str], most: int, ids: Sequence[str] | None = None) -> list[Job]:
        """The highest priority first, then the oldest; at most so many."""

    def counts(self) -> dict[str, int]:
        """How many are in each state."""

    def ledger(self, job: str | None) -> list[Entry]: ...

    def limits(self) -> dict[str, int]: ...

    def hosts(self) -> list[RunHost]: ...

    def close(self) -> None: ...
