"""Method x route x token over the API and /metrics, each answer from one table of rules; a token opens nothing else."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from starlette.applications import Starlette

from shoal.dashboard.api.document import operations
from shoal.dashboard.http import printed_address
from shoal.dashboard.http.visit import METRICS
from shoal.library import tokens
from support.dashboard.gate import call

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
NAMES = {
    "dataset": "x",
    "run": "x",
    "model": "x",
    "version": "1",
    "alias": "x",
    "task": "tune",
    "job": "0" * 24,
    "file": "x",
}
SCOPES = {(one.method, one.path): one.scope for one in operations()}
PATHS = sorted({one.path for one in operations()})
READS_BY_POST = "/models/{model}/versions/{version}/predict"
TOKENS = ("none", "wrong", "over", "revoked", "read", "write")


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_address._UnusedToken, "token", "secret")


def token_of(kind: str, monkeypatch: pytest.MonkeyPatch) -> str:
    if kind == "none":
        return ""
    text, made = tokens.create(kind, kind if kind in tokens.SCOPES else "write", 1)
    if kind == "revoked":
        tokens.revoke(made.id)
    if kind == "over":
        now = time.time()
        monkeypatch.setattr(tokens.time, "time", lambda: now + 2 * tokens.DAY)
    return "shoal_nothing" if kind == "wrong" else text


def asked(app: Starlette, path: str, method: str, token: str, **more: str) -> int:
    said = {"host": "localhost:5000", **({"authorization": f"Bearer {token}"} if token else {}), **more}
    headers = [(name.encode(), value.encode()) for name, value in said.items()]
    return call(app, path, method, headers=headers).status


def expected(method: str, path: str, kind: str) -> set[int]:
    if kind not in tokens.SCOPES:
        return {401, 403} if kind == "none" else {401}
    reads = method in ("GET", "HEAD") or (method == "POST" and path == READS_BY_POST)
    if kind == "read" and not reads:
        return {403}
    known = "GET" if method == "HEAD" else method
    return {200, 304, 400, 404, 409, 415, 422} if (known, path) in SCOPES else {405}


@pytest.mark.parametrize("kind", TOKENS)
def test_method_route_token(app: Starlette, home: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    token = token_of(kind, monkeypatch)
    for path in PATHS:
        for method in METHODS:
            status = asked(app, "/api/v1" + path.format(**NAMES), method, token)
            assert status in expected(method, path, kind), (path, method, kind, status)


@pytest.mark.parametrize("kind", TOKENS)
def test_a_token_that_may_read_opens_the_figures_for_monitors(
    app: Starlette, home: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = token_of(kind, monkeypatch)
    for method in METHODS:
        status = asked(app, METRICS, method, token)
        if kind not in tokens.SCOPES:
            assert status == 401, (method, kind)
        elif method in ("GET", "HEAD"):
            assert status == 200, (method, kind)
        else:
            assert status == (403 if kind == "read" else 405), (method, kind)


def test_what_the_document_says_of_scopes_is_what_the_gate_asks_for() -> None:
    for (method, path), scope in SCOPES.items():
        assert scope == ("read" if method == "GET" or path == READS_BY_POST else "write"), (method, path)


@pytest.mark.parametrize(
    "path",
    ["/api/upload", "/api/runs/x/stream", "/api/plotly.js", "/", "/api/v1", "/api/v1x/runs", "/metrics/", "/metrics/x"],
)
def test_a_token_opens_the_api_and_the_figures_alone(app: Starlette, home: Path, path: str) -> None:
    token, _ = tokens.create("t", "write")
    assert asked(app, path, "GET", token) == 401


def test_a_foreign_page_cannot_use_a_token(app: Starlette, home: Path) -> None:
    token, _ = tokens.create("t", "write")
    assert asked(app, "/api/v1/runs", "POST", token, origin="http://evil.example") == 403
    assert asked(app, "/api/v1/runs", "POST", token, origin="http://localhost:5000") == 415


def test_a_session_reads_the_api_and_changes_nothing_without_our_pages(app: Starlette, home: Path) -> None:
    from shoal.dashboard.http import access
    from shoal.dashboard.http.access import Sessions

    sessions = Sessions(access.signing_key())
    cookie = f"{sessions.cookie()}={sessions.begin(access.BY_ADDRESS)}"
    assert asked(app, "/api/v1/openapi.json", "GET", "", cookie=cookie) == 200
    assert asked(app, "/api/v1/runs", "POST", "", cookie=cookie) == 403
