"""What /health says of each part, also of a database that takes a connection and then says nothing."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from shoal.dashboard.monitoring import health
from shoal.dashboard.monitoring.health import WatchedDatabase, parts, said
from shoal.database.connections import close_all


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    return tmp_path


def test_a_service_of_one_machine_has_no_database() -> None:
    assert said(parts()) == {"status": "ok", "parts": {"home": "ok", "accounts": "ok"}}


def test_a_home_that_is_gone_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(home / "gone"))
    assert said(parts())["status"] == "degraded"
    assert parts()["home"] == "not there"


def test_a_database_is_ok_once_it_has_its_tables(
    empty_database: str, postgres: object, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("SHOAL_DATABASE", postgres.address(empty_database))  # type: ignore[attr-defined]
    assert WatchedDatabase().word() == "not ready for this version"
    request.getfixturevalue("team_database")
    assert WatchedDatabase().word() == "ok"


def test_one_that_says_nothing_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PATIENCE", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("SHOAL_DATABASE", f"postgresql://x@127.0.0.1:{silent.getsockname()[1]}/x")
        watched = WatchedDatabase()
        assert watched.word() == "does not answer"
        asking = watched._asking
        assert [watched.word() for _ in range(100)] == ["does not answer"] * 100
        assert watched._asking is asking  # nobody asked again, or waited
        while asking is not None and asking.is_alive():
            link, _ = silent.accept()
            link.close()  # it hangs up
            asking.join(1)
    assert watched.word() in ("away", "does not answer")
    for thread in threading.enumerate():
        if thread.name == "shoal-health":
            thread.join(30)
    close_all()


def test_many_who_ask_ask_the_database_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    asked = []
    watched = WatchedDatabase(lambda: now[0])

    def look() -> None:
        asked.append(now[0])
        watched._word, watched._looked = "ok", now[0]

    monkeypatch.setattr(watched, "_look", look)
    assert [watched.word() for _ in range(20)] == ["ok"] * 20
    now[0] += health.FRESH + 0.1
    assert watched.word() == "ok"
    assert asked == [100.0, now[0]]
