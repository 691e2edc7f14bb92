"""Without a password, only those come in who have the address that the server printed, and each address works once."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.dashboard.http import access, printed_address
from shoal.dashboard.http.gate import Gate
from shoal.home import dashboard_log, opening_page
from support.browser import Server, came_by, free_port
from support.browser import printed_address as printed
from support.dashboard.gate import call, call_websocket, inner
from support.dashboard.http_client import ASSET, PASSWORD, Answer, ask, cookie_of, handshake

PATHS = ("/", "/train?run=x", "/api/plotly.js", "/static/x.js", "/_stcore/host-config", "/media/x")


@pytest.fixture
def gate(home: Path) -> Iterator[Gate]:
    printed_address.begin()
    yield Gate(inner())
    printed_address._UnusedToken.token, printed_address._UnusedToken.tell, printed_address._UnusedToken.page = (
        "",
        None,
        None,
    )


def by_address(gate: Gate, place: str = "/", token: str | None = None) -> Answer:
    given = printed_address._UnusedToken.token if token is None else token
    return call(gate, f"{place}{'&' if '?' in place else '?'}token={given}")


def test_without_the_address_nobody_is_in(gate: Gate) -> None:
    for path in PATHS:
        assert call(gate, path).status == 401, path
        assert b"printed" in call(gate, path).body
    assert call_websocket(gate) == "websocket.close"
    assert call(gate, "/_stcore/health").status == 200
    assert call(gate, "/train/_stcore/health").status == 300


def test_the_address_becomes_a_session_and_is_gone_from_the_address_line(gate: Gate) -> None:
    found = by_address(gate, "/train?run=a%20b&by=x")
    assert (found.status, found.headers["location"]) == (303, "./train?run=a+b&by=x")
    assert {"HttpOnly", "SameSite=Lax"} <= set(found.headers["set-cookie"].split("; "))
    cookie = cookie_of(found)
    for path in PATHS:
        assert call(gate, path, cookie=cookie).status == 200, path
    assert call_websocket(gate, cookie=cookie) == "websocket.accept"
    again = call(gate, "/train?token=old", cookie=cookie)  # such as a bookmark
    assert (again.status, again.headers["location"]) == (303, "./train")
    assert call(Gate(inner()), "/", cookie=cookie).status == 200  # of a server that was started again


def test_an_address_works_once_and_the_next_one_is_told(gate: Gate) -> None:
    told: list[str] = []
    printed_address._UnusedToken.tell = told.append
    first = printed_address._UnusedToken.token
    assert by_address(gate).status == 303
    assert told == [printed_address._UnusedToken.token] != [first]
    assert by_address(gate, token=first).status == 401
    assert by_address(gate).status == 303
    assert len(told) == 2


@pytest.mark.parametrize("wrong", ["", "x", "x" * 5000, "%00", "%ED%A0%80", "é"])
def test_no_other_token_will_do(gate: Gate, wrong: str) -> None:
    assert by_address(gate, token=wrong).status == 401
    token = printed_address._UnusedToken.token
    assert call(gate, f"/?token={token}", "POST").status == 401
    assert call(gate, f"/?token={token}", "HEAD").status == 401
    assert by_address(gate, token=token[:-1]).status == 401
    assert printed_address._UnusedToken.token == token  # none of these used it up


def test_a_password_takes_the_place_of_addresses(gate: Gate) -> None:
    cookie = cookie_of(by_address(gate))
    access.set_password(PASSWORD)
    assert call(gate, "/", cookie=cookie).status == 401
    assert by_address(gate).status == 401
    access.remove_password()
    assert call(gate, "/", cookie=cookie).status == 200


def test_a_network_still_needs_a_password(gate: Gate) -> None:
    gate.allowed_hosts = []
    cookie = cookie_of(by_address(gate))
    assert call(gate, "/", server=("192.168.1.7", 5000), cookie=cookie).status == 503


def test_who_wants_none_has_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(printed_address.NO_TOKEN, "1")
    printed_address.begin()
    assert not printed_address.is_needed()
    assert call(Gate(inner()), "/").status == 200


def test_what_is_printed(gate: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    printed_address.announce("http://127.0.0.1:5000/", 5000, is_locked=False)
    said = capsys.readouterr().out
    token = printed_address._UnusedToken.token
    assert re.search(rf"^ +http://127\.0\.0\.1:5000/\?token={token}$", said, re.MULTILINE)
    page = opening_page(5000)
    assert f"?token={token}" in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert by_address(gate).status == 303
    token = printed_address._UnusedToken.token
    assert f"For another one: http://127.0.0.1:5000/?token={token}" in capsys.readouterr().out
    assert f"?token={token}" in page.read_text()
    printed_address.withdraw()
    assert not page.exists()
    printed_address.announce("http://127.0.0.1:5000/", 5000, is_locked=True)
    assert "token" not in capsys.readouterr().out


def test_a_real_server_prints_one_and_keeps_the_browser_over_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    server = Server(tmp_path, free_port())
    server.start()
    try:
        assert ask(server, "/").status == ask(server, ASSET).status == 401
        assert ask(server, "/", Cookie=server.cookie).status == ask(server, ASSET, Cookie=server.cookie).status == 200
        assert ask(server, "/_stcore/health").status == 200
        for cookie, status in (("", 403), (server.cookie, 101)):
            found, link = handshake(server, Cookie=cookie, Origin=f"http://127.0.0.1:{server.port}")
            link.close()
            assert found == status
        assert server.process is not None
        other = came_by(printed(tmp_path / "server.log", server.process))
        assert "token=" not in dashboard_log().read_text()
        server.stop()
        assert not opening_page(server.port).exists()
        server.start()
        for cookie in (server.cookie, other):
            assert ask(server, "/", Cookie=cookie).status == 200
    finally:
        server.stop()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir() if path.name != "server.log"}
    assert {name for name, mode in modes.items() if mode & 0o077} == set()
    assert os.stat(tmp_path).st_mode & 0o077 == 0
