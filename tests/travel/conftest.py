"""Two homes of one team, each as a machine of its own has it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.home import uploads_directory
from support.runs import run_home, small_table
from support.team.homes import Homes
from support.team.hosts import hosts_in


@pytest.fixture(scope="session", autouse=True)
def _server_first(request: pytest.FixtureRequest) -> None:
    """Before the first test, which would be blamed for its processes; where there is none, its own tests are skipped."""
    with contextlib.suppress(pytest.skip.Exception):
        request.getfixturevalue("postgres")


@pytest.fixture
def homes(team_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Homes]:
    """In the one called `near` until another is entered."""
    with hosts_in(tmp_path) as up, run_home(tmp_path / "near", monkeypatch):
        yield Homes(tmp_path, monkeypatch, up)


@pytest.fixture
def upload(homes: Homes, tmp_path: Path) -> Callable[..., Path]:
    """Makes a table that somebody sent to the home in which this process is."""

    def make(name: str = "table.csv") -> Path:
        path = uploads_directory() / ("0" * 24) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(small_table(tmp_path), path)
        return path

    return make
