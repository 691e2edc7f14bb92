"""Method x route x origin x login over the server's own routes, each answer from one table of rules.

The API, which has one route here, is gone through in `test_tokens`.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from shoal.dashboard import server
from shoal.dashboard.http import access, printed_address
from shoal.dashboard.http.access import Sessions
from shoal.dashboard.http.gate import HEALTH, READY
from shoal.dashboard.http.visit import METRICS
from support.dashboard.gate import call
from support.dashboard.http_client import PASSWORD

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
CHANGES = METHODS[3:]
ORIGINS = {
    "none": None,
    "own": "http://localhost:5000",
    "port": "http://localhost:6000",
    "foreign": "http://evil.example",
}
LOGINS = ("open", "password, in", "password, out", "token, in", "token, out")
PATHS = sorted({
    path.path.replace("{rest:path}", "nothing").format(job="0" * 24, file="x", run="nobody")
    for path in server.routes() if isinstance(path, Route)
})  # fmt: skip


def cookie_for(login: str) -> str:
    """Make the server as this login says, and the cookie of whoever comes."""
    printed_address._UnusedToken.token = "secret" if login.startswith("token") else ""
    if login.startswith("password"):
        access.set_password(PASSWORD)
    else:
        access.remove_password()
    seal = access.seal()
    sessions = Sessions(access.signing_key())
    return f"{sessions.cookie()}={sessions.begin(seal)}" if seal and login.endswith("in") else ""


def expected(path: str, method: str, origin: str, login: str, marked: bool) -> set[int]:
    """The rules: whose page, who is in, then what only our scripts can say; and only then the route itself."""
    ours = origin in ("none", "own")
    if method in CHANGES and not ours:
        return {403}
    if path in (HEALTH, READY):  # everybody may ask, and nothing can be changed there
        return {200} if method in ("GET", "HEAD") else {405}
    if login.endswith("out"):
        return {401}
    if path == METRICS:
        return {200} if method in ("GET", "HEAD") else {405}  # nothing can be changed there
    if method in CHANGES and not marked:
        return {403}
    return {200, 400, 404, 405, 410}


@pytest.mark.parametrize("login", LOGINS)
def test_method_route_origin_login(app: Starlette, home: Path, login: str) -> None:
    cookie = cookie_for(login)
    try:
        for path, method, origin, marked in product(PATHS, METHODS, ORIGINS, (False, True)):
            said = {
                "host": "localhost:5000",
                "origin": ORIGINS[origin],
                "x-shoal": "1" if marked else None,
                "cookie": cookie,
            }
            headers = [(name.encode(), value.encode()) for name, value in said.items() if value]
            found = call(app, path, method, headers=headers)
            assert found.status in expected(path, method, origin, login, marked), (
                path,
                method,
                origin,
                marked,
                found.status,
            )
            assert found.headers["x-content-type-options"] == "nosniff"
            assert found.status == 200 or b"shoal_" not in found.body
    finally:
        printed_address._UnusedToken.token = ""


def test_the_matrix_has_all_our_routes() -> None:
    assert {METRICS, "/api/upload", "/api/plotly.js", "/api/nothing", "/api/runs/nobody/stream"} <= set(PATHS)
    assert len(PATHS) == len(server.routes()) - 1  # uploads have a route to ask and one to send
