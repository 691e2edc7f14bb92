"""The gate around a small app, called without a server."""

from __future__ import annotations

import asyncio
import http.client
from typing import Any

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from shoal.dashboard.http import access
from shoal.dashboard.http.gate import Gate
from support.dashboard.http_client import Answer


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
