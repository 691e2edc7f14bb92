"""A run without a process, its store, and somebody who watches it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.runs.launch import Run
from shoal.storage import Storage, open_storage
from support.dashboard.live import Tab
from support.runs import made, run_home


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path


@pytest.fixture
def run(home: Path) -> Run:
    return made()


@pytest.fixture
def store(run: Run) -> Iterator[Storage]:
    with open_storage(run.metrics_url) as storage:
        yield storage


@pytest.fixture
def tab(run: Run) -> Iterator[Tab]:
    found = Tab(run)
    yield found
    found.feed.close()
