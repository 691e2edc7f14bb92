"""Between a run and the team's database: the run never waits for it. What is kept how is in `postgres`.

A thread sends what is added, in order, and looks for commands. While the database is away, records go into a file of
the run's folder; they are sent when it is back, by this process or by whoever opens the records next.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from shoal.database.plain_errors import DatabaseAway
from shoal.errors import StateError, TrainingError
from shoal.metrics import Event, HostSample, LinkSample, Record, Round, WorkerSample
from shoal.storage.base import POINTS, TIMEOUT, Command, Fenced, Storage, unknown_command, writable
from shoal.storage.postgres import PostgresStorage
from shoal.storage.unsent import Unsent, UnsentBatch

LOOK = 0.1  # seconds between two looks for commands
RESTS = (0.1, 1.0)  # seconds between two tries while the database is away: the first, and the longest
TOGETHER = 5000  # records of the file that are sent in one transaction


class Outbox(Storage):
    """For the process of the run; `mark` is touched when something was sent: others see it from the folder."""

    def __init__(self, store: PostgresStorage, folder: Path, mark: Path, timeout: float = TIMEOUT) -> None:
        store.wait_at_most(0.0)  # it is asked again and again anyway
        self._store, self._unsent, self._mark, self._timeout = store, Unsent(folder), mark, timeout
        self._changed = threading.Condition()  # guards all that follows
        self._batches: list[UnsentBatch] = []
        self._settled: list[tuple[int, int, str]] = []
        self._taken: list[Command] = []
        self._look = uuid.uuid4()
        self._handed_out: set[int] = set()  # commands
        self._unsure = bool(self._unsent)  # whether what was sent last has arrived
        self._claimed = False  # the fence that it was given
        self._trouble = ""
        self._ended_by: Fenced | None = None
        self._asked, self._done = 0, 0  # rounds of the thread that were asked for, and that came to their end
        self._closing: float | None = None  # until when it may still try
        self._thread = threading.Thread(target=self._work, name="outbox", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> str:
        return self._trouble

    # ---------------------------------------------------------------- what the run does

    def add(self, records: Sequence[Record]) -> None:
        kept = [writable(record) if isinstance(record, Event) else record for record in records]
        if kept:
            self._put(UnsentBatch(uuid.uuid4().hex, kept))

    def forget_after(self, round: int) -> None:
        self._put(UnsentBatch(uuid.uuid4().hex, forget_after=round))

    def _put(self, batch: UnsentBatch) -> None:
        with self._changed:
            if self._ended_by:
                raise Fenced(self._ended_by.message)
            self._batches.append(batch)
            self._wake()

    def take(self) -> list[Command]:
        with self._changed:
            if self._ended_by:
                raise Fenced(self._ended_by.message)
            found, self._taken = self._taken, []
            self._handed_out |= {command.id for command in found}
            return found

    def settle(self, id: int, round: int, outcome: str) -> None:
        if id not in self._handed_out:
            raise unknown_command(id)
        with self._changed:
            self._settled.append((id, round, outcome))
            self._wake()

    def wait_at_most(self, seconds: float) -> None:
        self._timeout = seconds

    def close(self) -> None:
        """Send what waits, for as long as `wait_at_most` says; what is left then stays in the run's folder."""
        with self._changed:
            if self._closing is None:
                self._closing = time.monotonic() + self._timeout
            self._wake()
        self._thread.join(self._timeout + 1.0)
        if self._thread.is_alive():  # the network swallows what it sends
            self._put_aside()

    def _wake(self) -> None:
        self._asked += 1
        self._changed.notify_all()

    # ---------------------------------------------------------------- what the thread does

    def _work(self) -> None:
        rest = LOOK
        while True:
            with self._changed:
                if self._asked == self._done or self._trouble:
                    self._changed.wait(rest)
                asked, closing = self._asked, self._closing
            done = self._try()
            rest = LOOK if done else min(2 * max(rest, RESTS[0]), RESTS[1])
            with self._changed:
                self._done = asked
                self._changed.notify_all()
                over = closing is not None and (
                    (done and not self._batches and not self._settled) or self._ended_by or time.monotonic() >= closing
                )
            if over:
                return

    def _try(self) -> bool:
        """One round: send all, tell what became of commands, look for others. Whether the database was there."""
        try:
            if not self._claimed:
                self._store.claim()
                self._claimed = True
            self._send()
            self._tell_settled()
            found = self._store.take_by(self._look)
        except Fenced as error:
            self._ended_by = error
            return False
        except (TrainingError, OSError) as error:  # of the database, or of the file
            self._trouble = str(error)
            self._put_aside()
            return False
        with self._changed:
            self._look = uuid.uuid4() if found else self._look
            self._taken += found
            self._trouble = ""
        return True

    def _send(self) -> None:
        if self._unsure:  # whether what was sent last has arrived
            self._drop_through(self._store.last_batch())
            self._unsure = False
        if self._unsent:
            deliver(self._store, self._unsent)
        while waiting := list(self._batches):
            for batch in _merged(waiting):
                self._unsure = True
                _keep(self._store, batch)
                self._unsure = False
                self._drop_through(batch.name)
            with suppress(OSError):
                self._mark.touch()

    def _drop_through(self, name: str | None) -> None:
        with self._changed:
            names = [batch.name for batch in self._batches]
            if name in names:
                del self._batches[: names.index(name) + 1]

    def _put_aside(self) -> None:
        """Into the file; without room there, they stay in memory."""
        with self._changed:
            if self._batches:
                with suppress(OSError):
                    self._unsent.append(self._batches)
                    self._batches = []

    def _tell_settled(self) -> None:
        while self._settled:
            try:
                self._store.settle(*self._settled[0])
            except Fenced:
                raise
            except StateError:
                pass  # the command is gone
            with self._changed:
                del self._settled[0]

    # ---------------------------------------------------------------- what is read

    def _sent(self) -> PostgresStorage:
        """The store, once all that was added is in it."""
        end = time.monotonic() + self._timeout
        with self._changed:
            self._wake()
            wanted = self._asked
            while self._done < wanted or self._trouble:
                if self._ended_by:
                    raise Fenced(self._ended_by.message)
                if not self._changed.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                    raise DatabaseAway(self._trouble or "The database did not answer in time.")
        return self._store

    def rounds(self, points: int = POINTS) -> list[Round]:
        return self._sent().rounds(points)

    def rounds_since(self, round: int, limit: int = POINTS) -> list[Round]:
        return self._sent().rounds_since(round, limit)

    def last_round(self) -> Round | None:
        return self._sent().last_round()

    def workers(self) -> list[WorkerSample]:
        return self._sent().workers()

    def worker_history(self, rank: int, points: int = POINTS) -> list[WorkerSample]:
        return self._sent().worker_history(rank, points)

    def links(self) -> list[LinkSample]:
        return self._sent().links()

    def hosts(self, points: int = POINTS) -> list[HostSample]:
        return self._sent().hosts(points)

    def events(
        self, since: int = 0, kinds: Collection[str] | None = None, limit: int = 1000
    ) -> list[tuple[int, Event]]:
        return self._sent().events(since, kinds, limit)

    def post(self, name: str, arguments: dict[str, Any]) -> int:
        number = self._sent().post(name, arguments)
        self._sent()  # and it is among those that `take` hands out
        return number

    def commands(self) -> list[Command]:
        return self._sent().commands()


def deliver(store: PostgresStorage, unsent: Unsent) -> None:
    """Send what is in the file, from where somebody else was stopped in the middle of it; then it is gone."""
    size = unsent.size()
    for batch in _merged(unsent.after(store.last_batch())):
        _keep(store, batch)
    unsent.remove(size)


def _keep(store: PostgresStorage, batch: UnsentBatch) -> None:
    if batch.forget_after is not None:
        store.forget_after(batch.forget_after, batch.name)
    else:
        store.add(batch.records, batch.name)


def _merged(batches: Iterable[UnsentBatch]) -> Iterator[UnsentBatch]:
    """Several of records as one, under the name of the last of them: with it, all are there."""
    records: list[Record] = []
    name = ""
    for batch in batches:
        if records and (batch.forget_after is not None or len(records) >= TOGETHER):
            yield UnsentBatch(name, records)
            records = []
        if batch.forget_after is not None:
            yield batch
        else:
            records, name = [*records, *batch.records], batch.name
    if records:
        yield UnsentBatch(name, records)
