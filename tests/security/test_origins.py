"""Whose page a websocket or a change comes from: scheme, name and port; and no call from the server to anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.dashboard.http.gate import Gate
from shoal.dashboard.http.visit import Visit, origin_of
from support.browser import Server, free_port
from support.dashboard.gate import call, call_websocket, inner, scope_of
from support.dashboard.http_client import ask, handshake

FOREIGN = [
    "http://localhost:6000", "http://localhost", "https://localhost:5000", "http://127.0.0.1:5000", "http://evil.example",
    "http://localhost:5000.evil.example", "http://localhost:5000@evil.example", "null", "", "localhost:5000",
    "http://localhost:5000/", "ftp://localhost:5000", "http://localhost:99999", "http://[::1",
]  # fmt: skip
OURS = ["http://localhost:5000", "http://LOCALHOST:5000"]


def headers(host: str, *origins: str, **more: str) -> dict[str, list[tuple[bytes, bytes]]]:
    found = [("host", host), *(("origin", origin) for origin in origins), *more.items()]
    return {"headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in found]}


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_foreign_page_talks_to_nobody(home: Path, origin: str) -> None:
    gate = Gate(inner())
    assert call_websocket(gate, **headers("localhost:5000", origin)) == "websocket.close"
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in ("/", "/_stcore/upload_file/x/y", "/_stcore/health", "/api/upload", "/anything"):
            assert call(gate, path, method, **headers("localhost:5000", origin, x_shoal="1")).status == 403
    assert call(gate, "/", **headers("localhost:5000", origin)).status == 200  # following a link is no harm


def test_our_own_pages_and_programs_do(home: Path) -> None:
    gate = Gate(inner())
    for origin in OURS:
        assert call_websocket(gate, **headers("localhost:5000", origin)) == "websocket.accept"
        assert call(gate, "/api/upload", "POST", **headers("localhost:5000", origin, x_shoal="1")).status == 405
    assert call_websocket(gate, **headers("localhost:5000")) == "websocket.accept"
    assert call_websocket(gate, **headers("localhost:5000", *OURS)) == "websocket.close"  # one page has one origin
    assert call_websocket(gate, **headers("localhost:5000", sec_fetch_site="same-site")) == "websocket.close"


def test_behind_a_proxy_the_origin_is_the_one_that_people_see(home: Path) -> None:
    gate = Gate(inner())
    gate.allowed_hosts = ["shoal.example.org"]
    page, host = "https://shoal.example.org", "shoal.example.org"
    assert call_websocket(gate, **headers(host, page, x_forwarded_proto="https")) == "websocket.accept"
    assert call_websocket(gate, **headers(f"{host}:443", page, x_forwarded_proto="https")) == "websocket.accept"
    assert (
        call_websocket(gate, **headers(f"{host}:8443", f"{page}:8443", x_forwarded_proto="https")) == "websocket.accept"
    )
    assert (
        call_websocket(gate, **headers(host, "http://shoal.example.org", x_forwarded_proto="https"))
        == "websocket.close"
    )
    assert call_websocket(gate, **headers(host, page)) == "websocket.close"


def test_streamlit_sees_an_origin_that_it_asks_nobody_about(home: Path) -> None:
    scope = scope_of("/_stcore/stream", **headers("LocalHost.:5000", "http://localhost:5000"))
    visit = Visit(scope)
    assert visit.is_same_origin
    assert dict(visit.with_own_origin()["headers"])[b"origin"] == b"http://LocalHost.:5000"  # the same text as the host


def test_what_an_origin_is() -> None:
    assert origin_of("https://a.example") == origin_of("https://A.example:443") == ("https", "a.example", 443)
    assert origin_of("http://[::1]:5000") == ("http", "::1", 5000)


# ------------------------------------------------------------------ one real server


ALARM = """
import os, sys
def heard(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        where = arguments[1] if event != "socket.getaddrinfo" else arguments
        host = where[0] if isinstance(where, tuple) else where
        if isinstance(host, str) and not (host.startswith("/") or host in ("127.0.0.1", "::1", "localhost", "")):
            with open(os.environ["SHOAL_TEST_ALARM"], "a") as file:
                file.write(f"{event} {where}\\n")
            raise OSError("this server calls nobody")
sys.addaudithook(heard)
open(os.environ["SHOAL_TEST_ALARM"] + ".armed", "w").close()
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server in whose process any call to another machine fails, and is written down."""
    folder = tmp_path_factory.mktemp("watched")
    (folder / "sitecustomize.py").write_text(ALARM)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    found = Server(folder, free_port(), environment={"PYTHONPATH": path, "SHOAL_TEST_ALARM": str(folder / "alarm")})
    found.start()
    yield found
    found.stop()


def test_a_real_server_lets_no_foreign_page_in_and_calls_nobody(watched: Server) -> None:
    here = f"127.0.0.1:{watched.port}"
    for origin in ("http://evil.example", f"http://127.0.0.1:{watched.port + 1}", f"http://localhost:{watched.port}"):
        for _ in range(3):
            status, link = handshake(watched, Origin=origin, Cookie=watched.cookie)
            link.close()
            assert status == 403
        assert ask(watched, "/_stcore/upload_file/a/b", "PUT", b"x", Origin=origin, Cookie=watched.cookie).status == 403
    status, link = handshake(watched, Origin=f"http://{here}", Cookie=watched.cookie)
    link.close()
    assert status == 101
    assert ask(watched, "/", Cookie=watched.cookie).status == 200
    assert (watched.home / "alarm.armed").exists()
    assert not (watched.home / "alarm").exists(), (watched.home / "alarm").read_text()
