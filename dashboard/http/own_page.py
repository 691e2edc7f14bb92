"""Streamlit's page with our style and script in it: they are there before anything is drawn, and nothing jumps.

Streamlit itself loads whatever may hold a style only when it is first needed, on a slow machine seconds after the text.
What our script says with each connection is handed to Streamlit's scripts.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.dashboard.tables.uploads import AT_HAND

_HERE = Path(__file__).parent
THEIRS = files("streamlit").joinpath("static", "index.html").read_text("utf-8")
# At the end: Streamlit's own styles are made in the head, and where both say something, ours counts.
OURS = THEIRS.replace(
    "</body>",
    f"<style>{(_HERE / 'page.css').read_text('utf-8')}</style>\n"
    f"<script>{(_HERE / 'page.js').read_text('utf-8')}</script>\n</body>",
)
ASKS_FOR_LESS = {b"accept-encoding", b"if-none-match", b"if-modified-since", b"range"}  # their page, packed or known
OF_THEIRS = ("etag", "last-modified", "accept-ranges")


class OwnPage:
    """Around Streamlit: wherever it answers with its page, ours is sent; everything else passes as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            scope = _with_table(scope)
        if scope["type"] != "http" or "text/html" not in Headers(scope=scope).get("accept", ""):
            await self.app(scope, receive, send)
            return
        headers = [(name, value) for name, value in scope["headers"] if name not in ASKS_FOR_LESS]
        await self.app({**scope, "headers": headers}, receive, _Exchange(send))


class _Exchange:
    """Holds the head of an answer back until its first bytes tell whether it is Streamlit's page."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.head: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _may_be_theirs(message):
            self.head = message
            return
        head, self.head = self.head, None
        if head is not None:
            if message.get("body") == THEIRS.encode():
                message = {**message, "body": OURS.encode()}
                _of_ours(head)
            await self.send(head)
        await self.send(message)


def _with_table(scope: Scope) -> Scope:
    """With the table that is at hand in the tab: scripts learn nothing of a connection but its headers."""
    name = AT_HAND.lower().encode()
    headers = [header for header in scope["headers"] if header[0] != name]
    table = parse_qs(str(scope.get("query_string", b""), "latin-1")).get("table", [""])[0]
    return {**scope, "headers": [*headers, (name, quote(table, safe="").encode())] if table else headers}


def _may_be_theirs(head: Message) -> bool:
    headers = Headers(raw=head["headers"])
    return headers.get("content-type", "").startswith("text/html") and "content-disposition" not in headers


def _of_ours(head: Message) -> None:
    headers = MutableHeaders(scope=head)
    headers["content-length"] = str(len(OURS.encode()))
    for name in OF_THEIRS:
        del headers[name]
