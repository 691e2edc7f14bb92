"""Every kind of store of a run's records, new and empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.database.connections import database
from shoal.storage import Storage, open_storage
from shoal.storage.outbox import Outbox
from shoal.storage.postgres import PostgresStorage


def new_store(kind: str, request: pytest.FixtureRequest, folder: Path) -> Storage:
    """memory, sqlite, postgres, or outbox: what a run has before that."""
    if kind in ("memory", "sqlite"):
        return open_storage({"memory": "memory://", "sqlite": f"sqlite://{folder}/metrics.sqlite"}[kind])
    request.getfixturevalue("team_database")
    store = PostgresStorage(database(), "a run")
    return store if kind == "postgres" else Outbox(store, folder, folder / "mark", timeout=60)
