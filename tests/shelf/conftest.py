"""A home of each test, and every kind of shelf."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.shelf.base import ModelShelf
from shoal.shelf.place import shelf
from support.library import finished_run
from support.team.postgres import why_missing


@pytest.fixture(scope="session", autouse=True)
def _server(request: pytest.FixtureRequest) -> None:
    """Starts before the first test looks around for what it leaves behind."""
    if not why_missing():
        request.getfixturevalue("postgres")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("finished"))


@pytest.fixture(params=["files", "postgres"])
def kept(request: pytest.FixtureRequest, home: Path) -> ModelShelf:
    """The shelf of this test, which `shelf()` gives as well."""
    if request.param == "postgres":
        request.getfixturevalue("team_database")
    return shelf()
