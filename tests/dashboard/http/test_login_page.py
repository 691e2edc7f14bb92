"""What the password covers, the way through the login and back, and what wrong tries cost."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from urllib.parse import quote, urlencode, urljoin

import pytest

from shoal.dashboard.http import access
from shoal.dashboard.http.access import Limiter
from shoal.dashboard.http.gate import Gate
from shoal.dashboard.http.visit import local
from support.browser import Server
from support.dashboard.gate import call, exchange, inner, scope_of
from support.dashboard.http_client import ASSET, PASSWORD, ask, handshake, log_in

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
