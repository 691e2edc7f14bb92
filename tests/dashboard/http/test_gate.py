"""Where a server may listen, what every answer says to a browser, and a path in front of it all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode, urljoin

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware

from shoal.dashboard.http import access
from shoal.dashboard.http.gate import Gate, host_allowed
from support.browser import ROOT, Server, free_port
from support.dashboard.gate import call, call_websocket, inner
from support.dashboard.http_client import ASSET, PASSWORD, ask, cookie_of, handshake, shoal_password
from support.runs import until

EVERYWHERE = (
    "content-security-policy", "x-content-type-options", "referrer-policy", "permissions-policy", "x-frame-options",
    "cross-origin-opener-policy", "cross-origin-resource-policy",
)  # fmt: skip


# ------------------------------------------------------------------ where it may listen


@pytest.mark.parametrize(
    ("flags", "environment"),
    [(["--server.address", "0.0.0.0"], {}), (["--server.address", ""], {}), ([], {"SHOAL_PASSWORD": "short"})],
    ids=["every network", "no address", "short password"],
)
def test_it_does_not_start_without_a_good_password(
    tmp_path: Path, flags: list[str], environment: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "streamlit", "run", "main.py", "--server.port", str(free_port()), *flags]
    environment = {**os.environ, "SHOAL_HOME": str(tmp_path), **environment}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("shoal: ")]
    assert len(said) == 1
    assert "password" in said[0]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("address", "local_only"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.9.9.9", True), ("0.0.0.0", False), ("::", False),
     ("", False), (None, False), ("10.0.0.5", False), ("shoal.example", False)],
)  # fmt: skip
def test_which_addresses_are_for_this_machine(address: str | None, local_only: bool) -> None:
    assert access.is_loopback(address) is local_only


def test_whatever_server_runs_it_a_network_needs_a_password(home: Path) -> None:
    gate = Gate(inner())
    gate.allowed_hosts = []
    assert call(gate, "/", server=("127.0.0.1", 5000)).status == 200
    assert call(gate, "/", server=("192.168.1.7", 5000)).status == 503
    assert call(gate, "/_stcore/health", server=("192.168.1.7", 5000)).status == 503
    assert call_websocket(gate, server=("192.168.1.7", 5000)) == "websocket.close"
    assert call_websocket(gate, server=("127.0.0.1", 5000)) == "websocket.accept"
    access.set_password(PASSWORD)
    assert call(gate, "/", server=("192.168.1.7", 5000)).status == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1@evil.example", "", "127.0.0.1/x"]
)
def test_a_foreign_name_gets_nothing(unlocked: Server, host: str) -> None:
    for path in ("/", ASSET, "/api/plotly.js", "/_stcore/health", "/login"):
        assert ask(unlocked, path, Host=host).status == 400, path
    assert ask(unlocked, "/api/upload?name=a.csv", "POST", b"a\n1\n", Host=host, X_Shoal="1").status == 400
    status, link = handshake(unlocked, Host=host)
    link.close()
    assert status in (400, 403)


@pytest.mark.parametrize(
    ("host", "allowed", "expected"),
    [("LOCALHOST.:5000", ["localhost"], True), ("a.replit.dev", ["*.replit.dev"], True), ("x", ["*"], True),
     ("replit.dev", ["*.replit.dev"], False), ("evilreplit.dev", ["*.replit.dev"], False), ("[::1]:80", ["::1"], True),
     ("any", [], True), ("a:b", ["a"], False), ("a b", ["*"], False)],
)  # fmt: skip
def test_patterns_of_hosts(host: str, allowed: list[str], expected: bool) -> None:
    assert host_allowed(host, allowed) is expected


# ------------------------------------------------------------------ what browsers are told


@pytest.mark.parametrize("path", ["/", ASSET, "/api/plotly.js", "/api/plotly", "/_stcore/health", "/media/x", "/login"])
def test_every_answer_has_the_headers(unlocked: Server, locked: Server, path: str) -> None:
    for server in (unlocked, locked):
        found = ask(server, path)
        assert [name for name in EVERYWHERE if name not in found.headers] == [], found.status
    assert ask(unlocked, path, Host="evil.example").headers["x-content-type-options"] == "nosniff"


def test_no_remote_thing_can_be_loaded(unlocked: Server) -> None:
    policy = ask(unlocked, "/").headers["content-security-policy"]
    assert "img-src 'self' data: blob:;" in policy
    assert "connect-src 'self';" in policy
    assert "frame-ancestors 'self'" in policy
    assert "http" not in policy
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]


def test_a_hosted_workspace_may_show_it_in_a_frame(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access.set_password(PASSWORD)
    monkeypatch.setenv("SHOAL_FRAME_ANCESTORS", "https://workspace.example")
    gate = Gate(inner())
    body = urlencode({"password": PASSWORD}).encode()
    done = call(gate, "/login", "POST", body, scheme="https")
    assert "frame-ancestors https://workspace.example" in done.headers["content-security-policy"]
    assert "x-frame-options" not in done.headers
    assert "Secure; SameSite=None; Partitioned" in done.headers["set-cookie"]  # a frame is another site
    assert "SameSite=Lax" in call(gate, "/login", "POST", body).headers["set-cookie"]


def test_an_error_is_a_sentence_for_people_and_a_trace_in_the_log(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = Starlette(routes=inner().routes, middleware=[Middleware(Gate)])  # the way Streamlit does it
    for path in ("/fails", "/api/fails"):
        found = call(app, path)
        assert found.status == 500
        assert b"unforeseen" in found.body
        assert b"a secret of the code" not in found.body
        assert "content-security-policy" in found.headers
    assert "a secret of the code" in caplog.text


def test_a_long_answer_ends_with_its_session(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.dashboard.http.gate.LOOK", 0.0)
    access.set_password(PASSWORD)
    gate = Gate(inner())
    password = access.current_password()
    assert password is not None
    cookie = f"{gate.sessions.cookie()}={gate.sessions.begin(password)}"
    found = call(gate, "/stream", cookie=cookie)
    assert found.body == b"before"  # it changes the password after that


def test_the_page_may_look_for_its_server_without_an_error(unlocked: Server) -> None:
    """Browsers put answers from 400 on to the console; good ones would make the page take the wrong base."""
    for name in ("health", "host-config"):
        assert ask(unlocked, f"/train/_stcore/{name}").status == 300


# ------------------------------------------------------------------ a path in front


def test_behind_a_base_path_everything_still_works(tmp_path: Path) -> None:
    server = Server(tmp_path, free_port(), ("--server.baseUrlPath", "shoal"))
    shoal_password(tmp_path, PASSWORD)
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        "main.py",
        "--server.port",
        str(server.port),
        *server.arguments,
    ]
    environment = {**os.environ, "SHOAL_HOME": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            until(lambda: answers(server, "/shoal/_stcore/health"), 40)
            asked = ask(server, "/shoal/train?x=1", Accept="text/html")
            assert urljoin("/shoal/train", asked.headers["location"]).startswith("/shoal/login?next=train")
            body = urlencode({"password": PASSWORD, "next": "train?x=1"}).encode()
            done = ask(server, "/shoal/login", "POST", body)
            assert urljoin("/shoal/login", done.headers["location"]) == "/shoal/train?x=1"
            cookie = cookie_of(done)
            sent = ask(server, "/shoal/api/upload?name=a.csv", "POST", b"a\n1\n", X_Shoal="1", Cookie=cookie)
            assert sent.json()["key"].endswith("/a.csv")
            assert ask(server, "/shoal/train", Cookie=cookie).status == 200
            assert ask(server, "/shoal/api/plotly.js").status == 401
        finally:
            process.terminate()


def answers(server: Server, path: str) -> bool:
    try:
        return ask(server, path).status == 200
    except OSError:
        return False
