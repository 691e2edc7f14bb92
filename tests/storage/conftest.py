"""Every kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.database.connections import database
from shoal.storage import Storage, open_storage
from shoal.storage.outbox import Outbox
from shoal.storage.postgres import PostgresStorage
from support.team.postgres import why_missing


@pytest.fixture(scope="session", autouse=True)
def _server_first(request: pytest.FixtureRequest) -> None:
    """Before a test asks for it in its midst, by which it would be left behind."""
    if not why_missing():
        request.getfixturevalue("postgres")


@pytest.fixture(params=["memory", "sqlite", "postgres", "outbox"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    if request.param == "postgres":
        request.getfixturevalue("team_database")
        with PostgresStorage(database(), "a run") as storage:
            yield storage
        return
    if request.param == "outbox":
        request.getfixturevalue("team_database")
        with Outbox(PostgresStorage(database(), "a run"), tmp_path, tmp_path / "mark", timeout=60) as storage:
            yield storage
        return
    url = {"memory": "memory://", "sqlite": f"sqlite://{tmp_path}/metrics.sqlite"}[request.param]
    with open_storage(url) as storage:
        yield storage
