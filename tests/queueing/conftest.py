"""Every kind of queue, by a clock that tests set."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.database.connections import database
from shoal.queueing.memory import MemoryTables
from shoal.queueing.postgres import PostgresTables
from shoal.queueing.queue import Queue
from shoal.queueing.sqlite import SqliteTables
from shoal.queueing.tables import Tables
from support.team.queues import Clock, emptied


@pytest.fixture(scope="session", autouse=True)
def _server_first(request: pytest.FixtureRequest) -> None:
    """Before the first test, which would be blamed for its processes; where there is none, its own tests are skipped."""
    with contextlib.suppress(pytest.skip.Exception):
        request.getfixturevalue("postgres")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def new_tables(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Clock], Tables]:
    """Makes empty tables."""
    numbers = iter(range(1_000_000))
    if request.param == "memory":
        return MemoryTables
    if request.param == "sqlite":
        return lambda clock: SqliteTables(tmp_path / f"queue-{next(numbers)}.sqlite", clock)
    request.getfixturevalue("team_database")
    return lambda clock: PostgresTables(emptied(database()), clock)


@pytest.fixture
def queue(new_tables: Callable[[Clock], Tables], clock: Clock) -> Iterator[Queue]:
    with Queue(new_tables(clock)) as queue:
        yield queue
