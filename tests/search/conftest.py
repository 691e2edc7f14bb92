"""A home in which no search goes on after a test, and a small table."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.search.folder import list_searches
from support.runs import run_home, small_table


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as found:
        found.mkdir()
        yield found
        for search in list_searches():
            if pid := search.folder.pid:
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_table(tmp_path)
