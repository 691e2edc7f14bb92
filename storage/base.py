"""What every store of a run's records promises; how one keeps them belongs to its own module."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from shoal.errors import StateError
from shoal.lazy.classes import dataclass
from shoal.metrics import Event, HostSample, LinkSample, Record, Round, WorkerSample

POINTS = 1500  # of a series: about the pixels a chart has
HAPPENED = (  # kinds of events that tell what happened: not what metrics of plug-ins came to, nor histograms
    "started", "lost", "restarted", "joined", "left", "phase", "checkpoint", "command", "warning", "state", "error",
    "shards",
)  # fmt: skip
GONE = 3.0  # seconds without a sample after which a worker is not here any more
TIMEOUT = 5.0  # seconds to wait for a lock that another process holds


@dataclass(frozen=True)
class Command:
    """What somebody wants of a run; `round` and `outcome` say when it was settled and how, None while it is open."""

    id: int
    name: str
    arguments: dict[str, Any]
    posted_at: float  # seconds since 1970
    round: int | None = None
    outcome: str | None = None


class Fenced(StateError):
    """The run is in other hands, or gone: whoever wrote to its store until now is to end."""


class Storage(ABC):
    """The records of one run, and the commands for it.

    An object is used by one thread at a time; another one may close it. Each process opens its own.
    Series are thinned to at most `points` records: always the last and the first one and, of rounds, the lowest and
    the highest loss (NaN is neither), in this order of importance should `points` be less than four.
    """

    @property
    def renewed(self) -> int:
        """Times that the store was begun anew because somebody had removed it: what it held is gone."""
        return 0

    @property
    def trouble(self) -> str:
        """Why records that were added are not where others see them yet; empty where they are. They are kept."""
        return ""

    @abstractmethod
    def add(self, records: Sequence[Record]) -> None:
        """Keep all of these or, if an error is raised, none.

        Rounds go forward: one that is recorded again replaces its record and all rounds after it.
        """

    @abstractmethod
    def rounds(self, points: int = POINTS) -> list[Round]:
        """All rounds, thinned; strictly increasing."""

    @abstractmethod
    def rounds_since(self, round: int, limit: int = POINTS) -> list[Round]:
        """Those after `round`, thinned to `limit`."""

    @abstractmethod
    def last_round(self) -> Round | None: ...

    @abstractmethod
    def workers(self) -> list[WorkerSample]:
        """The newest sample of each rank, by rank."""

    def present_workers(self) -> list[WorkerSample]:
        """The newest samples of workers that are still there: those that left have no new ones."""
        samples = self.workers()
        newest = max((sample.seconds for sample in samples), default=0.0)
        return [sample for sample in samples if sample.seconds > newest - GONE]

    @abstractmethod
    def worker_history(self, rank: int, points: int = POINTS) -> list[WorkerSample]: ...

    @abstractmethod
    def links(self) -> list[LinkSample]:
        """The newest of each rank that is on another machine, by rank; older ones are not kept."""

    @abstractmethod
    def hosts(self, points: int = POINTS) -> list[HostSample]: ...

    @abstractmethod
    def events(
        self, since: int = 0, kinds: Collection[str] | None = None, limit: int = 1000
    ) -> list[tuple[int, Event]]:
        """The newest `limit` with a sequence number above `since`, oldest first; numbers begin at 1."""

    def story(self, limit: int) -> list[Event]:
        """The newest events of what happened, oldest first: without what metrics of plug-ins came to, once an epoch."""
        return [event for _, event in self.events(kinds=HAPPENED, limit=limit)]

    @abstractmethod
    def forget_after(self, round: int) -> None:
        """Drop the rounds after this one, which a resumed run does again. Events and samples stay: they happened."""

    @abstractmethod
    def post(self, name: str, arguments: dict[str, Any]) -> int:
        """Leave a command for the run, from any process; its id."""

    @abstractmethod
    def take(self) -> list[Command]:
        """Commands that nobody has taken yet, oldest first; each is handed out once, whoever else asks."""

    @abstractmethod
    def settle(self, id: int, round: int, outcome: str) -> None:
        """Say what became of a command: "done", or a plain reason why not."""

    @abstractmethod
    def commands(self) -> list[Command]:
        """All, oldest first."""

    @abstractmethod
    def wait_at_most(self, seconds: float) -> None:
        """From now on give up sooner, or later, when others hold a lock."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files; closing twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def forward(rounds: Iterable[Round]) -> list[Round]:
    """Strictly increasing: a round recorded again replaces its record and those of rounds after it."""
    kept: list[Round] = []
    for record in rounds:
        while kept and kept[-1].round >= record.round:
            kept.pop()
        kept.append(record)
    return kept


def as_json(values: dict[str, Any], of: str) -> str:
    try:
        return json.dumps(values)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{of} holds what JSON cannot hold: {error}") from error


def writable(event: Event) -> Event:
    """An event as every store can keep it: names of files may hold bytes that are not text."""
    text = event.text.encode("utf-8", "backslashreplace").decode()
    return replace(event, text=text, data=json.loads(as_json(event.data, f"event '{event.kind}'")))


def unknown_command(id: int) -> StateError:
    return StateError(
        f"Expected a command of this run to settle, but it has none with number {id}. Use a number that take() gave."
    )
