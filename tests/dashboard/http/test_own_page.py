"""Our style and script come with the page's first bytes, under the same rules as everything; other answers pass."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from shoal.dashboard.http.own_page import OURS, THEIRS, OwnPage
from shoal.dashboard.tables.uploads import AT_HAND
from support.browser import Server
from support.dashboard.gate import call, scope_of
from support.dashboard.http_client import ASSET, ask

ACCEPT = {"Accept": "text/html,application/xhtml+xml,*/*", "Accept_Encoding": "gzip"}


@pytest.mark.parametrize("path", ["/", "/train?data=penguins", "/index.html"])
def test_every_page_has_our_style_and_script_from_its_first_byte(unlocked: Server, path: str) -> None:
    answer = ask(unlocked, path, **ACCEPT, If_None_Match="*")
    assert answer.status == 200
    text = answer.body.decode()
    assert text == OURS
    assert ".shoal-notice" in text
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert answer.headers["etag"] is None  # Streamlit's, which is that of another page
    policy = answer.headers["content-security-policy"]
    for script in re.findall(r"<script>(.*?)</script>", text, re.DOTALL):
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy


def test_files_of_the_page_pass_as_they_are(unlocked: Server) -> None:
    answer = ask(unlocked, ASSET, **ACCEPT)
    assert answer.status == 200
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize(
    ("body", "headers"), [("<p>a report</p>", {}), (THEIRS, {"Content-Disposition": "attachment; filename=x.html"})]
)
def test_other_pages_pass_as_they_are(body: str, headers: dict[str, str]) -> None:
    async def report(request: Any) -> HTMLResponse:
        return HTMLResponse(body, headers=headers)

    app = OwnPage(Starlette(routes=[Route("/report", report)]))
    scope = scope_of("/report")
    scope["headers"].append((b"accept", b"text/html"))
    answer = call(app, "/report", headers=scope["headers"])
    assert answer.body.decode() == body
    assert int(answer.headers["content-length"]) == len(body.encode())


@pytest.mark.parametrize(("query", "told"), [("table=abc%2FK%C3%A4ufe.csv", "abc%2FK%C3%A4ufe.csv"), ("", None)])
def test_scripts_hear_of_the_table_at_hand_from_the_connection_alone(query: str, told: str | None) -> None:
    heard: list[Scope] = []

    async def streamlit(scope: Scope, receive: Receive, send: Send) -> None:
        heard.append(scope)

    forged = {"type": "websocket", "query_string": query.encode(), "headers": [(AT_HAND.lower().encode(), b"forged")]}
    asyncio.run(OwnPage(streamlit)(forged, no_message, no_answer))
    assert Headers(scope=heard[0]).get(AT_HAND) == told


async def no_message() -> Message:
    raise AssertionError


async def no_answer(message: Message) -> None:
    raise AssertionError
