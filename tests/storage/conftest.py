"""Every kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.storage import Storage
from support.team.postgres import why_missing
from support.team.stores import new_store


@pytest.fixture(scope="session", autouse=True)
def _server_first(request: pytest.FixtureRequest) -> None:
    """Before a test asks for it in its midst, by which it would be left behind."""
    if not why_missing():
        request.getfixturevalue("postgres")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    with new_store(request.param, request, tmp_path) as storage:
        yield storage
