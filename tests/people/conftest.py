"""A home of its own for each test, and cheap hashes: what they cost is tested by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.people import passwords
from support.dashboard.team import Team, working_team
from support.team.postgres import why_missing


@pytest.fixture(scope="session", autouse=True)
def _server(request: pytest.FixtureRequest) -> None:
    """Starts before the first test looks around for what it leaves behind."""
    if not why_missing():
        request.getfixturevalue("postgres")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="package")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """One server for all that ask a real one."""
    with working_team(tmp_path_factory.mktemp("team")) as found:
        yield found


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hashes of 64 KB in place of 64 MB, by the same library."""
    monkeypatch.setattr(passwords, "MEMORY", 64)
    monkeypatch.setattr(passwords, "TIME", 1)
    passwords._hasher.cache_clear()
    passwords._nobodys.cache_clear()
    yield
    passwords._hasher.cache_clear()
    passwords._nobodys.cache_clear()
