"""Every kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.storage import Storage, open_storage


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    url = {"memory": "memory://", "sqlite": f"sqlite://{tmp_path}/metrics.sqlite"}[request.param]
    with open_storage(url) as storage:
        yield storage
