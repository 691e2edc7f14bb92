"""The route that takes uploaded files to disk in pieces; the page's half is in `upload_box`, the files in `uploads`.

    GET  /api/upload?size=BYTES   may a file of this size come? {} or {"problem": "..."}
    POST /api/upload?name=FILE    the file itself as the body:  {"key": "..."} or {"problem": "..."}
    POST /api/upload/set          keys of files that are one table, one a line: the same

A browser sends a whole file before it reads an answer, so it asks first. Who may come in is decided in `gate`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from shoal.dashboard.http.connections import server_is_closing
from shoal.dashboard.tables import upload_sets, uploads
from shoal.errors import DataError, ResourceError

log = logging.getLogger("shoal")

LONGEST_SET = 200 * upload_sets.MOST  # bytes of so many keys
SILENCE = 120  # seconds without a byte after which a sender is taken for gone


class ServerClosingError(Exception):
    """The server was told to end, and would wait for the whole file."""


def routes() -> list[BaseRoute]:
    return [
        Route("/api/upload", may_come, methods=["GET"]),
        Route("/api/upload", take, methods=["POST"]),
        Route("/api/upload/set", put_together, methods=["POST"]),
    ]


def refusal(size: int) -> str:
    """Why a file of this size cannot be taken; empty if it can."""
    if size > uploads.largest():
        return _too_large()
    return uploads.shortage(size)


def _too_large() -> str:
    return (
        f"Expected a file of at most {uploads.largest() / 1e6:,.0f} MB, got a larger one. Upload a part of it or a "
        "compressed one (.gz), or have SHOAL_MAX_UPLOAD set to more where the dashboard is started."
    )


async def may_come(request: Request) -> Response:
    size = request.query_params.get("size", "")
    if not re.fullmatch(r"\d{1,18}", size):
        return _problem("Expected the file's size in bytes.", 400)
    why = await run_in_threadpool(refusal, int(size))
    return JSONResponse({"problem": why} if why else {})


async def take(request: Request) -> Response:
    """The body into a file, in pieces; whatever goes wrong, nothing of it stays."""
    announced = int(request.headers.get("content-length", "0"))  # the server let through digits only
    if why := await run_in_threadpool(refusal, announced):
        return _problem(why, 413)
    try:
        return await _receive(request, announced)
    except ClientDisconnect:
        log.info("An upload was broken off by its sender.")
        return _problem("The connection broke off; upload the file again.", 400)
    except TimeoutError:
        return _problem(f"Nothing came for {SILENCE} seconds; upload the file again.", 408)
    except ServerClosingError:
        return _problem("The dashboard is being closed; upload the file again when it is back.", 503)
    except ResourceError as error:
        return _problem(error.message, 507)
    except OSError as error:
        log.exception("An upload could not be saved.")
        return _problem(f"The file could not be saved: {error.strerror}. Ask whoever runs this dashboard.", 500)


def said_by(answer: Response) -> dict[str, str]:
    """What an answer of this route says: a key, or a problem."""
    found: dict[str, str] = json.loads(bytes(answer.body))
    return found


async def put_together(request: Request) -> Response:
    """Several files that have arrived as one table."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LONGEST_SET:
            return _problem("Expected the keys of uploaded files, one a line.", 413)
    try:
        folder = await run_in_threadpool(upload_sets.together, body.decode("ascii", "replace").split())
    except DataError as error:
        return _problem(error.message, 400)
    except OSError as error:
        log.exception("Uploads could not be put together.")
        return _problem(f"The files could not be put together: {error.strerror}.", 500)
    return JSONResponse({"key": uploads.key_of(folder)})


async def _receive(request: Request, announced: int) -> Response:
    saving = uploads.incoming(announced)
    upload = await run_in_threadpool(saving.__enter__)
    try:
        async for piece in _pieces(request):
            if upload.size + len(piece) > uploads.largest():
                return _problem(_too_large(), 413)
            await run_in_threadpool(upload.write, piece)
        if not upload.size:
            return _problem("This file is empty. Choose another one.", 400)
        path = await run_in_threadpool(upload.settle, request.query_params.get("name", ""))
        return JSONResponse({"key": uploads.key_of(path)})
    finally:
        await run_in_threadpool(partial(saving.__exit__, None, None, None))


async def _pieces(request: Request) -> AsyncIterator[bytearray]:
    """The body in larger pieces than it comes: each is a trip to another thread."""
    gathered = bytearray()
    stream = request.stream()
    while piece := await _next(stream):
        gathered += piece
        if len(gathered) >= uploads.CHUNK:
            yield gathered
            gathered = bytearray()
    if gathered:
        yield gathered


async def _next(stream: AsyncIterator[bytes]) -> bytes:
    """What comes next, nothing at the end; a silent sender is not waited for without end, nor by a server that ends."""
    coming = asyncio.ensure_future(anext(stream, b""))
    try:
        for _ in range(SILENCE):
            done, _ = await asyncio.wait({coming}, timeout=1.0)
            if server_is_closing():
                raise ServerClosingError
            if done:
                return coming.result()
        raise TimeoutError
    finally:
        coming.cancel()


def _problem(text: str, status: int) -> Response:
    """A plain sentence; the connection ends, or the rest of the file would be read for nothing."""
    return JSONResponse({"problem": text}, status_code=status, headers={"Connection": "close"})
