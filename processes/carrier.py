"""What a run host does about runs that travel, beside its heartbeats: fetches them, sends what is new, brings all away.

When that is due is said by the host; what travels is known to `travel`. Sending takes at most a tenth of the time.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field
from pathlib import Path
from typing import Any

from shoal.database.plain_errors import DatabaseAway
from shoal.errors import TrainingError
from shoal.home import runs_directory
from shoal.lazy.classes import dataclass
from shoal.queueing.homes import home_mark
from shoal.queueing.jobs import Job
from shoal.runs.folder import Run
from shoal.travel import journeys
from shoal.travel.packing import UNSENT
from shoal.travel.parcels import parcels

REST = 10  # times as long as the last one took, until the next is sent
SHORTEST_REST = 1.0  # seconds


@dataclass
class Luggage:
    """What a host knows of the files of a job that it holds."""

    job: Job
    fetching: Future[None] | None = None
    sending: Future[None] | None = None
    last: Future[None] | None = None  # all of it, when it has ended here
    sent: journeys.Sent = field(default_factory=journeys.Sent)
    not_before: float = 0.0  # of the next that is sent
    bound: bool = False  # it stays in this home: its checkpoint is too large

    @property
    def folder(self) -> Path:
        return runs_directory() / self.job.id


class Carrier:
    """Used by the thread of the host; waits for nothing."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="carrier")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def receive(self, job: Job) -> Luggage | None:
        """None of a run that stays in its home."""
        return None if job.home else Luggage(job)

    def has_come(self, luggage: Luggage) -> bool:
        """Whether it is there; the error with which it could not be fetched, DatabaseAway while it cannot be."""
        if luggage.fetching is None and not journeys.is_to_be_fetched(luggage.job.id):
            return True
        if luggage.fetching is None:
            luggage.fetching = self._threads.submit(journeys.fetch, luggage.job.id, luggage.job.fence)
        try:
            return _is_done(luggage.fetching)
        except DatabaseAway:
            luggage.fetching = None
            raise

    def send_news(self, luggage: Luggage) -> None:
        """Now and then, of a run at work; what could not be sent is sent the next time."""
        if luggage.last is None and luggage.not_before < time.monotonic() and _is_over(luggage.sending):
            luggage.sending = self._threads.submit(self._send, luggage, False)

    def is_away(self, luggage: Luggage) -> bool:
        """Whether all of a run that has ended here is where others find it; DatabaseAway while it cannot be."""
        if not _is_over(luggage.sending):
            return False
        if luggage.last is None and not journeys.is_wanted_elsewhere(luggage.folder):
            return True
        if luggage.last is None:
            luggage.last = self._threads.submit(self._send, luggage, True)
        try:
            return _is_done(luggage.last)
        except DatabaseAway:
            luggage.last = None
            raise

    def _send(self, luggage: Luggage, all_of_it: bool) -> None:
        began = time.monotonic()
        try:
            if all_of_it:
                _deliver_records(luggage.folder)
            travels = luggage.sent.send(luggage.folder, luggage.job.fence, all_of_it)
            if not travels and not luggage.bound:
                parcels().bind(luggage.job.id, luggage.job.fence, home_mark())
                luggage.bound = True
        finally:
            luggage.not_before = time.monotonic() + max(SHORTEST_REST, REST * (time.monotonic() - began))


def _deliver_records(folder: Path) -> None:
    """Those of a run that ended while the database was away."""
    with contextlib.suppress(TrainingError, OSError):
        run = Run(folder)
        if (folder / UNSENT).exists() and run.has_records:
            run.open_records().close()


def _is_over(future: Future[Any] | None) -> bool:
    """Whether it has ended, however that was."""
    return future is None or future.done()


def _is_done(future: Future[Any] | None) -> bool:
    if future is None:
        return True
    if not future.done():
        return False
    future.result()
    return True
