"""Two servers for all tests of the way in: one with a password and one without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.dashboard.tables import uploads
from support.browser import Server, free_port
from support.dashboard.http_client import PASSWORD, cookie_of, log_in, shoal_password


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a password, set by the command as a person would."""
    found = Server(tmp_path_factory.mktemp("locked"), free_port())
    assert shoal_password(found.home, PASSWORD).returncode == 0
    found.start()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def session(locked: Server) -> str:
    return cookie_of(log_in(locked))


@pytest.fixture(scope="session")
def unlocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without one, open to everybody on this machine, for uploads of at most 10 MB."""
    found = Server(
        tmp_path_factory.mktemp("unlocked"),
        free_port(),
        environment={"SHOAL_MAX_UPLOAD": "10 MB", "SHOAL_NO_TOKEN": "1"},
    )
    (found.home / "uploads").mkdir()
    (found.home / "uploads" / f"{uploads.UNFINISHED}of-a-killed-server").write_bytes(b"a,b\n1,")
    found.start()
    yield found
    found.stop()
