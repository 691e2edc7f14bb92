"""The server around the pages: who may come in, what every answer says to a browser, uploads and downloads.

Most of it against a real server process over real sockets; rules that depend on time or on a network, on the parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import http.client
import json
import os
import pty
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urljoin

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from streamlit.proto.BackMsg_pb2 import BackMsg

from shoal.dashboard.http import access
from shoal.dashboard.http.access import Hashed, Limiter, Sessions
from shoal.dashboard.http.gate import Gate, host_allowed
from shoal.dashboard.http.visit import local
from shoal.dashboard.tables import uploads
from shoal.errors import ConfigError, ResourceError
from support.browser import Server, free_port

ROOT = Path(__file__).parents[2]
PASSWORD = "correct horse"
ASSET = "/static/" + next(
    p.relative_to(p.parents[1]).as_posix()
    for p in (Path(sys.prefix) / "lib").glob("python*/site-packages/streamlit/static/static/js/index.*.js")
)
EVERYWHERE = (
    "content-security-policy", "x-content-type-options", "referrer-policy", "permissions-policy", "x-frame-options",
    "cross-origin-opener-policy", "cross-origin-resource-policy",
)  # fmt: skip


class Answer:
    def __init__(self, status: int, headers: http.client.HTTPMessage, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


def ask(server: Server, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named, encode_chunked=not isinstance(body, bytes | None))
        found = connection.getresponse()
        return Answer(found.status, found.headers, found.read())
    finally:
        connection.close()


def log_in(server: Server, password: str = PASSWORD, wanted: str = "", **headers: str) -> Answer:
    body = urlencode({"password": password, "next": wanted}).encode()
    return ask(server, "/login", "POST", body, **{"Content_Type": "application/x-www-form-urlencoded", **headers})


def cookie_of(answer: Answer) -> str:
    return str(answer.headers["set-cookie"]).split(";")[0]


def handshake(server: Server, **headers: str) -> tuple[int, socket.socket]:
    """The beginning of a websocket, as a browser would ask for one."""
    link = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    wanted = {
        "Host": f"127.0.0.1:{server.port}", "Upgrade": "websocket", "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "streamlit", **headers,
    }  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in wanted.items())
    link.sendall(f"GET /_stcore/stream HTTP/1.1\r\n{lines}\r\n".encode())
    return int(link.recv(4096).split(b" ")[1]), link


def frame(payload: bytes) -> bytes:
    """A websocket's binary message from a client; the mask is zero."""
    assert len(payload) < 126
    return bytes([0x82, 0x80 | len(payload), 0, 0, 0, 0]) + payload


def unfinished(home: Path) -> list[Path]:
    return list((home / "uploads").glob(f"{uploads.UNFINISHED}*"))


def until(condition: Any, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a password, set by the command as a person would."""
    found = Server(tmp_path_factory.mktemp("locked"), free_port())
    assert shoal_password(found.home, PASSWORD).returncode == 0
    found.start()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def session(locked: Server) -> str:
    return cookie_of(log_in(locked))


@pytest.fixture(scope="module")
def unlocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without one, for uploads of at most 10 MB."""
    found = Server(tmp_path_factory.mktemp("unlocked"), free_port(), environment={"SHOAL_MAX_UPLOAD": "10 MB"})
    (found.home / "uploads").mkdir()
    (found.home / "uploads" / f"{uploads.UNFINISHED}of-a-killed-server").write_bytes(b"a,b\n1,")
    found.start()
    yield found
    found.stop()


def shoal_password(home: Path, entered: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shoal.cli.app", "password", *flags]
    environment = {**os.environ, "SHOAL_HOME": str(home)}
    return subprocess.run(command, input=entered + "\n", cwd=ROOT, env=environment, capture_output=True, text=True)


# ------------------------------------------------------------------ what the password covers

COVERED = [
    ("GET", "/_stcore/host-config"), ("GET", ASSET), ("GET", "/favicon.png"), ("GET", "/_stcore/metrics"),
    ("PUT", "/_stcore/upload_file/session/file"), ("GET", "/media/abc.png"), ("GET", "/component/x/index.html"),
    ("GET", "/api/plotly.js"), ("GET", "/api/upload?size=1"), ("POST", "/api/upload?name=a.csv"),
    ("GET", "/api/runs/last/stream"), ("GET", f"/api/predictions/{'a' * 24}"), ("GET", "/"), ("GET", "/train"),
    ("GET", "/_stcore/agent/openapi.json"), ("GET", "/no/such/thing"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), COVERED, ids=[p for _, p in COVERED])
def test_nothing_is_given_out_without_a_session(locked: Server, method: str, path: str) -> None:
    found = ask(locked, path, method, b"a,b\n" if method != "GET" else None, X_Shoal="1")
    assert found.status == 401
    assert b"not logged in" in found.body
    assert len(found.body) < 100
    assert not (locked.home / "uploads").exists()


def test_with_a_session_it_is(locked: Server, session: str) -> None:
    for path in ("/", "/train", ASSET, "/_stcore/host-config", "/api/plotly.js"):
        assert ask(locked, path, Cookie=session).status == 200, path
    assert b"<script" in ask(locked, "/train?run=x", Cookie=session, Accept="text/html").body


def test_health_is_for_everybody(locked: Server) -> None:
    assert ask(locked, "/_stcore/health").body == b"ok"


def test_a_websocket_needs_a_session(locked: Server, session: str) -> None:
    for headers, expected in [({}, 403), ({"Cookie": "x=y"}, 403), ({"Cookie": session}, 101)]:
        status, link = handshake(locked, **headers)
        link.close()
        assert status == expected, headers


def test_a_page_leads_to_the_login_and_back(locked: Server) -> None:
    asked = ask(locked, "/train?run=a%20b&x=1", Accept="text/html")
    assert asked.status == 303
    form = ask(locked, urljoin("/train", asked.headers["location"]))
    assert form.status == 200
    assert b'type="password"' in form.body
    wanted = re.search(rb'name="next" value="([^"]*)"', form.body)
    assert wanted is not None
    done = log_in(locked, wanted=wanted[1].decode().replace("&amp;", "&"))
    assert done.status == 303
    assert urljoin("/login", done.headers["location"]) == "/train?run=a%20b&x=1"


def test_the_login_page_loads_nothing(locked: Server) -> None:
    form = ask(locked, "/login")
    assert form.headers["content-security-policy"].startswith("default-src 'none'")
    assert form.headers["cache-control"] == "no-store"
    assert b"<script" not in form.body
    assert not re.search(rb'(src|href)="(?!data:)', form.body)


HOSTILE = [
    "//evil.example/", "https://evil.example", "\\\\evil.example", "/\\evil.example", "javascript:alert(1)",
    "/%2f/evil.example", "\t//evil.example", "x\r\nSet-Cookie: a=b", "@evil.example", ".//evil.example",
]  # fmt: skip


@pytest.mark.parametrize("wanted", HOSTILE)
def test_the_way_back_never_leaves_the_dashboard(locked: Server, session: str, wanted: str) -> None:
    after = ask(locked, f"/login?next={quote(wanted, safe='')}", Cookie=session)
    assert after.status == 303
    whole = urljoin(f"http://127.0.0.1:{locked.port}/login", after.headers["location"])
    assert whole.startswith(f"http://127.0.0.1:{locked.port}/")
    assert "set-cookie" not in after.headers
    assert after.headers["location"].startswith("./")
    assert local(wanted).startswith("./")


def test_a_wrong_password_is_told_to_people_and_programs(locked: Server) -> None:
    for_people = log_in(locked, "wrong", Accept="text/html")
    assert for_people.status == 200  # any other is an error on the browser's console
    assert b"That is not the password" in for_people.body
    for_programs = log_in(locked, "wrong")
    assert for_programs.status == 401
    for answer in (for_people, for_programs):
        assert "set-cookie" not in answer.headers
    log_in(locked)  # or the tries would count in later tests


def test_a_foreign_form_cannot_log_in(locked: Server) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}):
        assert log_in(locked, **headers).status == 403, headers
    assert log_in(locked, Origin=f"http://127.0.0.1:{locked.port}").status == 303


# ------------------------------------------------------------------ sessions


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(locked: Server) -> None:
    plain = {part.strip() for part in log_in(locked).headers["set-cookie"].split(";")}
    assert {"HttpOnly", "SameSite=Lax", "Path=/", f"Max-Age={7 * 86400}"} <= plain
    assert "Secure" not in plain  # or no browser would send it back over http
    forwarded = log_in(locked, X_Forwarded_Proto="https").headers["set-cookie"]
    assert "Secure" in {part.strip() for part in forwarded.split(";")}


def test_a_changed_token_is_worth_nothing(locked: Server, session: str) -> None:
    name, _, token = session.partition("=")
    until_, nonce, signature = token.split(".")
    later = f"{int(until_) + 1}.{nonce}.{signature}"
    for other in (later, f"{until_}.{'0' * 24}.{signature}", f"{until_}.{nonce}.", "", ".", "..", f"{token}0", "é.é.é"):
        assert ask(locked, "/", Cookie=f"{name}={quote(other, safe='.')}").status == 401, other
    assert ask(locked, "/", Cookie=session).status == 200


def test_a_token_ends_by_itself(home: Path) -> None:
    now = [1000.0]
    sessions, password = Sessions(b"k" * 32, clock=lambda: now[0]), Hashed(b"s" * 16, b"d" * 32)
    token = sessions.begin(password)
    now[0] += access.SESSION - 1
    assert sessions.is_valid(token, password)
    now[0] += 2
    assert not sessions.is_valid(token, password)


def test_log_out_ends_the_session_for_copies_as_well(locked: Server) -> None:
    cookie = cookie_of(log_in(locked))
    assert ask(locked, "/logout", Cookie=cookie, Sec_Fetch_Site="cross-site").headers["location"] == "./"
    assert ask(locked, "/", Cookie=cookie).status == 200
    done = ask(locked, "/logout", Cookie=cookie)
    assert done.status == 303
    assert "Max-Age=0" in done.headers["set-cookie"]
    assert ask(locked, "/", Cookie=cookie).status == 401


def test_a_restart_waits_for_no_upload_and_keeps_people_logged_in_but_a_new_password_does_not(tmp_path: Path) -> None:
    server = Server(tmp_path, free_port())
    shoal_password(tmp_path, PASSWORD)
    server.start()
    try:
        cookie = cookie_of(log_in(server))
        with open_upload(server, 5_000_000, cookie) as link:
            link.sendall(b"1,2\n" * 500_000)
            until(lambda: unfinished(tmp_path))
            server.stop()  # fails after 20 s
            assert unfinished(tmp_path) == []
        server.start()
        assert ask(server, "/", Cookie=cookie).status == 200
        status, link = handshake(server, Cookie=cookie)
        with link:
            assert status == 101
            shoal_password(tmp_path, "another horse")
            assert ask(server, "/", Cookie=cookie).status == 401
            link.sendall(frame(BackMsg(app_heartbeat=True).SerializeToString()))
            read_until(link, b"\x88\x02" + (1008).to_bytes(2, "big"))  # a close, and its reason
        assert log_in(server).status == 401
        assert log_in(server, "another horse").status == 303
    finally:
        server.stop()


def read_until(link: socket.socket, end: bytes) -> None:
    got = b""
    while not got.endswith(end):
        more = link.recv(4096)
        assert more, f"it ended with {got[-20:]!r}"
        got += more


def test_secrets_are_for_their_owner(locked: Server, session: str) -> None:
    for name in ("password", "session.key", "dashboard.log"):
        assert stat.S_IMODE((locked.home / name).stat().st_mode) == 0o600, name
    kept = (locked.home / "password").read_text()
    assert PASSWORD not in kept
    said = (locked.home / "dashboard.log").read_text() + (locked.home / "server.log").read_text()
    assert PASSWORD not in said
    assert session.partition("=")[2] not in said


# ------------------------------------------------------------------ the password itself


def test_comparisons_take_the_same_time(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    seen: list[tuple[bytes, bytes]] = []
    honest = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: seen.append((a, b)) or honest(a, b))
    kept = Hashed.of(PASSWORD)
    assert kept.matches(PASSWORD)
    assert not kept.matches(PASSWORD + " ")
    assert [len(a) == len(b) == 32 for a, b in seen] == [True, True]
    assert Sessions(b"k" * 32).is_valid(Sessions(b"k" * 32).begin(kept), kept)
    assert len(seen) == 3


def test_the_same_password_is_kept_differently_each_time() -> None:
    first, second = Hashed.of(PASSWORD), Hashed.of(PASSWORD)
    assert first.salt != second.salt
    assert first.digest != second.digest
    assert Hashed.parse(first.line()) == first


@pytest.mark.parametrize("content", [b"", b"plain text", b"scrypt-1-1-1$00$00", b"\xff\xfe", b"a$b$c"])
def test_a_damaged_password_file_opens_nothing(home: Path, content: bytes) -> None:
    access.password_file().write_bytes(content)
    assert access.is_locked()
    found = access.current_password()
    assert found is not None
    assert not found.matches("")
    assert call(Gate(inner()), "/").status == 401
    assert call(Gate(inner()), "/login", "POST", b"password=").status == 503


def test_the_command_sets_and_removes(tmp_path: Path) -> None:
    short = shoal_password(tmp_path, "seven77")
    assert short.returncode == 1
    assert "at least 8 characters" in short.stderr
    assert not (tmp_path / "password").exists()
    assert shoal_password(tmp_path, "eight888").returncode == 0
    assert Hashed.parse((tmp_path / "password").read_text()).matches("eight888")
    assert "removed" in shoal_password(tmp_path, "", "--remove").stdout
    assert not (tmp_path / "password").exists()
    assert "no password" in shoal_password(tmp_path, "", "--remove").stdout


@pytest.mark.parametrize(("second", "code", "said"), [("eight888", 0, "is set"), ("other888", 1, "two different")])
def test_the_command_asks_twice_and_shows_nothing(tmp_path: Path, second: str, code: int, said: str) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.environ["SHOAL_HOME"] = str(tmp_path)
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "shoal.cli.app", "password"])
    shown = b""
    for entered in ("eight888", second):
        while not shown.endswith(b": "):
            shown += os.read(terminal, 1024)
        os.write(terminal, entered.encode() + b"\n")
        shown += b"\n"
    with contextlib.suppress(OSError):  # how a terminal ends
        while more := os.read(terminal, 1024):
            shown += more
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code
    assert said.encode() in shown
    assert b"888" not in shown
    assert (tmp_path / "password").exists() is (code == 0)


def test_a_password_from_the_environment_reaches_no_other_process(home: Path) -> None:
    code = """
import os, subprocess, streamlit
from shoal.dashboard.http import access; from shoal.dashboard import server
server.prepare()
assert access.current_password().matches("correct horse")
first = access.current_password()
inherited = subprocess.run(["env"], capture_output=True, text=True).stdout
print("SHOAL_HOME" in inherited, "SHOAL_PASSWORD" in inherited, "correct horse" in inherited)
print(first.line().strip())
"""
    environment = {**os.environ, "SHOAL_PASSWORD": PASSWORD}
    lines = [
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
        for _ in range(2)
    ]
    said = [done.stdout.split("\n") for done in lines]
    assert said[0][0] == "True False False", lines[0].stderr
    assert said[0][1] == said[1][1]  # so sessions outlive a restart
    assert not access.password_file().exists()


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


# ------------------------------------------------------------------ wrong tries


def test_one_client_has_to_wait_longer_each_time() -> None:
    now = [0.0]
    limiter = Limiter(clock=lambda: now[0])
    for _ in range(4):
        limiter.tried("a")
        assert limiter.wait("a") == 0
    waits = []
    for _ in range(12):
        limiter.tried("a")
        waits.append(limiter.wait("a"))
        now[0] += 600
    assert waits[:4] == [1, 2, 4, 8]
    assert max(waits) == 300
    assert limiter.wait("b") == 0
    limiter.was_right("a")
    limiter.tried("a")
    assert limiter.wait("a") == 0


def test_many_clients_together_have_to_wait_as_well() -> None:
    now = [0.0]
    limiter = Limiter(clock=lambda: now[0])
    for client in range(30):
        assert limiter.wait(str(client)) == 0
        limiter.tried(str(client))
        now[0] += 1
    assert limiter.wait("another") == 30
    now[0] += 31
    assert limiter.wait("another") == 0


def test_what_it_remembers_is_bounded() -> None:
    now = [0.0]
    limiter = Limiter(clock=lambda: now[0])
    for client in range(5000):
        limiter.wait(str(client))
        limiter.tried(str(client))
        now[0] += 1
    assert len(limiter._tries) <= 1024
    assert len(limiter._all) <= 61
    assert (
        access.client_name("2001:db8::1") == access.client_name("2001:db8::ffff:1") != access.client_name("2001:db9::1")
    )


def test_the_login_says_how_long_to_wait_and_the_server_answers_others_meanwhile(home: Path) -> None:
    access.set_password(PASSWORD)
    now = [0.0]
    gate = Gate(inner(), Limiter(clock=lambda: now[0]))
    for _ in range(5):
        wrong = call(gate, "/login", "POST", b"password=wrong")
        assert wrong.status == 401
    assert wrong.headers["retry-after"] == "2"
    refused = call(gate, "/login", "POST", urlencode({"password": PASSWORD}).encode())
    assert refused.status == 429
    assert b"Wait 2 seconds" in refused.body
    assert refused.headers["retry-after"] == "2"
    assert call(gate, "/login", "POST", b"password=x", client=("10.1.1.1", 1)).status == 401
    now[0] += 2
    assert call(gate, "/login", "POST", urlencode({"password": PASSWORD}).encode()).status == 303


def test_a_try_does_not_hold_up_the_server(home: Path) -> None:
    access.set_password(PASSWORD)
    gate = Gate(inner())

    async def both() -> tuple[float, int]:
        trying = asyncio.ensure_future(exchange(gate, scope_of("/login", "POST"), b"password=wrong"))
        ticks = 0
        while not trying.done():
            await asyncio.sleep(0.002)
            ticks += 1
        return ticks, (await trying).status

    ticks, status = asyncio.run(both())
    assert status == 401
    assert ticks > 5  # a hash takes 0.1 s or so, in which the loop went on


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


# ------------------------------------------------------------------ uploads


def upload(server: Server, body: Any, name: str = "table.csv", **headers: str) -> Answer:
    return ask(server, f"/api/upload?name={quote(name, safe='')}", "POST", body, **{"X_Shoal": "1", **headers})


def test_an_upload_arrives_whole_and_once(unlocked: Server) -> None:
    content = b"a,b\n" + b"1.5,2\n" * 500_000
    first, again = upload(unlocked, content), upload(unlocked, iter([content[:7], content[7:]]))
    assert first.status == again.status == 200
    assert first.json() == again.json()
    assert (unlocked.home / "uploads" / first.json()["key"]).read_bytes() == content
    assert unfinished(unlocked.home) == []


def test_what_a_killed_server_left_is_gone_after_the_start(unlocked: Server) -> None:
    assert unfinished(unlocked.home) == []


def test_a_killed_server_leaves_nothing_for_the_next(home: Path) -> None:
    code = """
import os, signal
from shoal.dashboard.tables import uploads
with uploads.incoming() as upload:
    upload.write(b"1,2")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == -signal.SIGKILL
    assert len(unfinished(home)) == 1
    with uploads.incoming():
        uploads.sweep()
        assert len(unfinished(home)) == 1  # its own: who is alive is left alone
    assert unfinished(home) == []


@contextlib.contextmanager
def open_upload(server: Server, length: int, cookie: str = "none=0") -> Iterator[socket.socket]:
    """An upload of which the body is still to come."""
    lines = ("POST /api/upload?name=x.csv HTTP/1.1", "Host: 127.0.0.1", "X-Shoal: 1", f"Content-Length: {length}")
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as link:
        link.sendall("\r\n".join([*lines, f"Cookie: {cookie}", "", ""]).encode())
        yield link


def test_an_upload_under_way_is_left_alone_by_the_next_one(unlocked: Server) -> None:
    content = b"c\n" + b"7\n" * 1_000_000
    with open_upload(unlocked, len(content)) as link:
        link.sendall(content[:1_500_000])
        until(lambda: unfinished(unlocked.home))
        assert upload(unlocked, b"a\n1\n").status == 200
        link.sendall(content[1_500_000:])
        assert link.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_broken_connection_leaves_nothing(unlocked: Server) -> None:
    before = sorted((unlocked.home / "uploads").iterdir())
    with open_upload(unlocked, 5_000_000) as link:
        link.sendall(b"1,2\n" * 500_000)
        until(lambda: unfinished(unlocked.home))
    until(lambda: not unfinished(unlocked.home))
    assert sorted((unlocked.home / "uploads").iterdir()) == before


def test_a_large_file_is_refused_before_it_comes(unlocked: Server) -> None:
    assert ask(unlocked, "/api/upload?size=10000000").json() == {}
    assert "at most 10 MB" in ask(unlocked, "/api/upload?size=10000001").json()["problem"]
    with open_upload(unlocked, 10_000_001) as link:  # answered though nothing of the body has come
        answer = b""
        while piece := link.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"at most 10 MB" in answer


def test_a_file_that_does_not_say_how_large_it_is_is_stopped_at_the_limit(unlocked: Server) -> None:
    with contextlib.suppress(OSError):  # the server ends the connection while we still send
        found = upload(unlocked, (b"1,2\n" * 250_000 for _ in range(12)))
        assert found.status == 413
    until(lambda: not unfinished(unlocked.home))
    assert not [p for p in (unlocked.home / "uploads").glob("*/*") if p.stat().st_size > 10_000_000]


def test_a_full_disk_is_a_sentence_and_leaves_nothing(unlocked: Server) -> None:
    """The system refuses to let the server's files grow, as it does on a full disk."""
    assert unlocked.process is not None
    before = sorted((unlocked.home / "uploads").iterdir())
    resource.prlimit(unlocked.process.pid, resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
    try:
        found = upload(unlocked, iter([b"1,2\n" * 250_000] * 3))
    finally:
        resource.prlimit(unlocked.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert found.status == 507
    assert found.json()["problem"].startswith("The disk is full")
    assert sorted((unlocked.home / "uploads").iterdir()) == before


def test_a_disk_without_room_is_noticed_beforehand(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = shutil.disk_usage(home).free
    assert uploads.shortage(1000) == ""
    assert "no room" in uploads.shortage(free + 10**9)
    monkeypatch.setenv("SHOAL_MAX_UPLOAD", "5000 TB")
    found = call(Gate(Starlette(routes=upload_routes())), f"/api/upload?size={free + 10**9}")
    assert b"no room" in found.body


NAMES = [
    ("../../etc/passwd", "passwd"), ("..\\..\\boot.ini", "boot.ini"), (".hidden.csv", "hidden.csv"), ("", "table.csv"),
    ("a b;rm -rf.csv", "a_b_rm_-rf.csv"), ("<img src=x>.csv", "_img_src_x_.csv"), ("-rf", "rf"), ("\0\n.csv", "_.csv"),
    ("x" * 300 + ".csv", "x" * 60 + ".csv"), ("données.csv", "donnees.csv"), (".", "table.csv"), ("..", "table.csv"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), NAMES, ids=range(len(NAMES)))
def test_hostile_names_become_harmless(unlocked: Server, name: str, expected: str) -> None:
    found = upload(unlocked, b"a\n1\n", name)
    assert found.status == 200
    folder, _, kept = found.json()["key"].partition("/")
    assert kept == expected
    assert (unlocked.home / "uploads" / folder / kept).read_bytes() == b"a\n1\n"


def test_only_our_own_pages_may_upload(unlocked: Server) -> None:
    assert upload(unlocked, b"a\n1\n", X_Shoal="0").status == 403
    assert ask(unlocked, "/api/upload?name=a.csv", "POST", b"a\n1\n").status == 403
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{unlocked.port + 1}"):
        assert upload(unlocked, b"a\n1\n", Origin=origin).status == 403, origin
    assert upload(unlocked, b"a\n1\n", Origin=f"http://127.0.0.1:{unlocked.port}").status == 200


def test_an_empty_file_is_refused(unlocked: Server) -> None:
    assert "empty" in upload(unlocked, b"").json()["problem"]


@pytest.mark.parametrize(("text", "expected"), [("1500", 1500), ("2.5gb", 2_500_000_000), (" 10 MB ", 10_000_000)])
def test_the_limit_in_words(monkeypatch: pytest.MonkeyPatch, text: str, expected: int) -> None:
    monkeypatch.setenv("SHOAL_MAX_UPLOAD", text)
    assert uploads.largest() == expected


@pytest.mark.parametrize("text", ["much", "-1", "0", "10 XB", "1e3"])
def test_a_limit_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SHOAL_MAX_UPLOAD", text)
    with pytest.raises(ConfigError, match="SHOAL_MAX_UPLOAD"):
        uploads.largest()


def test_a_full_disk_while_a_file_is_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(ResourceError, match="The disk is full"), uploads.incoming() as upload_:
            upload_.write(b"1\n" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(uploads.uploads_directory().iterdir()) == []


# ------------------------------------------------------------------ downloads


def test_plotly_is_sent_small_and_kept_by_browsers(unlocked: Server) -> None:
    from shoal.dashboard.parts.places import PLOTLY_ADDRESS

    found = ask(unlocked, "/" + PLOTLY_ADDRESS, Accept_Encoding="gzip")
    assert found.status == 200
    assert found.headers["content-encoding"] == "gzip"
    assert "immutable" in found.headers["cache-control"]
    assert len(found.body) < 2_000_000
    assert ask(unlocked, "/" + PLOTLY_ADDRESS, If_None_Match=found.headers["etag"]).status == 304
    plain = ask(unlocked, "/api/plotly.js")
    assert plain.headers["cache-control"] == "no-cache"
    assert b"plotly.js v" in plain.body[:200]


def test_predictions_are_an_attachment_and_nothing_else_is_given_out(unlocked: Server) -> None:
    job = "0123456789abcdef01234567"
    folder = unlocked.home / "jobs" / "predict" / job
    folder.mkdir(parents=True)
    (folder / "predictions.csv").write_text("prediction\n1\n")
    (folder / "config.json").write_text("{}")
    found = ask(unlocked, f"/api/predictions/{job}")
    assert found.body == b"prediction\n1\n"
    assert found.headers["content-disposition"] == 'attachment; filename="predictions.csv"'
    assert found.headers["content-type"].startswith("text/csv")
    for wrong in ("f" * 24, job.upper(), f"..%2fpredict%2f{job}", f"{job}%2fconfig.json", "%2e%2e", f"{job}%0a"):
        assert ask(unlocked, f"/api/predictions/{wrong}").status in (400, 404), wrong


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


# ------------------------------------------------------------------ the gate without a server


def inner() -> Starlette:
    """A small app behind the gate: it answers, streams, or fails."""

    async def fine(request: Any) -> PlainTextResponse:
        return PlainTextResponse("inside")

    async def fails(request: Any) -> PlainTextResponse:
        raise RuntimeError("a secret of the code")

    async def stream(request: Any) -> StreamingResponse:
        async def pieces() -> Any:
            yield b"before"
            access.set_password("another horse")
            await asyncio.sleep(0.01)
            yield b"after"

        return StreamingResponse(pieces())

    async def talk(websocket: Any) -> None:
        await websocket.accept()
        await websocket.close()

    from starlette.routing import WebSocketRoute

    return Starlette(
        routes=[
            Route("/fails", fails), Route("/api/fails", fails), Route("/stream", stream),
            WebSocketRoute("/talk", talk), Route("/{path:path}", fine),
        ]
    )  # fmt: skip


def upload_routes() -> Any:
    from shoal.dashboard.http import upload_route

    return upload_route.routes()


def scope_of(path: str, method: str = "GET", **more: Any) -> dict[str, Any]:
    path, _, query = path.partition("?")
    headers = [(b"host", b"localhost")]
    if cookie := more.pop("cookie", ""):
        headers.append((b"cookie", cookie.encode()))
    return {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": headers, "scheme": "http", "server": ("127.0.0.1", 5000), "client": ("127.0.0.1", 1),
        "http_version": "1.1", **more,
    }  # fmt: skip


async def exchange(gate: Any, scope: dict[str, Any], body: bytes = b"") -> Answer:
    sent: list[Any] = []
    coming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return coming.pop() if coming else await asyncio.Event().wait()  # the client stays

    async def send(message: Any) -> None:
        sent.append(message)

    await gate(scope, receive, send)
    headers = http.client.HTTPMessage()
    for name, value in sent[0]["headers"]:
        headers[name.decode()] = value.decode()
    return Answer(sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]))


def call(gate: Any, path: str, method: str = "GET", body: bytes = b"", **more: Any) -> Answer:
    return asyncio.run(exchange(gate, scope_of(path, method, **more), body))


def call_websocket(gate: Gate, **more: Any) -> str:
    """The first thing that is said to a websocket."""
    sent: list[str] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    scope = {**scope_of("/talk", **more), "type": "websocket", "scheme": "ws", "subprotocols": []}
    asyncio.run(gate(scope, receive, send))
    return sent[0]
