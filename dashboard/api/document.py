"""The document of the API (OpenAPI 3.1), made from its operations, and the routes that answer them."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from shoal import __version__
from shoal.dashboard.api import datasets, jobs, models, runs, service, sharing
from shoal.dashboard.api.operations import ROOT, Operation
from shoal.dashboard.api.schemas import SCHEMAS, ref
from shoal.dashboard.http.problem import MEDIA_TYPE, problem

HERE = Path(__file__).parent
EVERYWHERE = (401, 403, 422, 500, 503)  # problems that every operation may have
WORDS = {
    400: "the request cannot be read", 401: "no token, or one that is not good any more",
    403: "the token may not do this", 404: "not here", 405: "not done in this way", 408: "nothing came for too long",
    409: "it cannot be done as things stand", 413: "too large", 415: "a body of another type",
    422: "what was asked for does not fit", 500: "a fault of the service",
    503: "the service is being closed, or the database of its team is away; try again",
    507: "no room on the disk, or not enough memory",
}  # fmt: skip
STATIC = {"docs": ("reference.html", "text/html"), "reference.js": ("reference.js", "text/javascript"),
          "reference.css": ("reference.css", "text/css")}  # fmt: skip


@functools.cache
def operations() -> tuple[Operation, ...]:
    return tuple(one for part in (service, datasets, runs, models, jobs, sharing) for one in part.operations())


def routes() -> list[BaseRoute]:
    """A route for each path, whatever the method: one that is not there is told as a problem as well."""
    paths: dict[str, dict[str, Operation]] = {}
    for one in operations():
        paths.setdefault(one.path, {})[one.method] = one
    every = [Route(f"{ROOT}{path}", _Methods(known)) for path, known in paths.items()]
    static = [Route(f"{ROOT}/{name}", _static(*found), methods=["GET"]) for name, found in STATIC.items()]
    return [*every, Route(f"{ROOT}/openapi.json", _document, methods=["GET"]), *static,
            Route(ROOT + "/{rest:path}", _Methods({}))]  # fmt: skip


class _Methods:
    """All operations of one path, as an ASGI app: Starlette then leaves the methods to it."""

    def __init__(self, known: dict[str, Operation]) -> None:
        self.known = known

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        answer = await self.answer(request)
        await answer(scope, receive, send)

    async def answer(self, request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        if found := self.known.get(method):
            return await found(request)
        if not self.known:
            return problem(404, "There is nothing at this address. See /api/v1/docs.")
        allowed = ", ".join([*self.known, *(["HEAD"] if "GET" in self.known else [])])
        return problem(405, f"Expected one of {allowed} here, got {request.method[:20]}.", {"Allow": allowed})


async def _document(request: Request) -> Response:
    return JSONResponse(document(), headers={"Cache-Control": "no-cache"})


def _static(name: str, kind: str) -> Any:
    async def answer(request: Request) -> Response:
        return FileResponse(HERE / name, media_type=kind, headers={"Cache-Control": "no-cache"})

    return answer


# ------------------------------------------------------------------ the document


@functools.cache
def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for one in operations():
        paths.setdefault(ROOT + one.path, {})[one.method.lower()] = _described(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Shoal", "version": __version__,
            "description": "Linear, logistic, Poisson and gamma models of tables. Tokens are made with `shoal token`.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": json.loads(json.dumps(SCHEMAS)),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "`shoal token`"}},
        },
    }  # fmt: skip


def _described(one: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": one.id, "summary": one.summary, "tags": [one.path.split("/")[1]],
        "description": f"Needs a token with the scope `{one.scope}`.",
        "parameters": [*map(_in_path, re.findall(r"\{(\w+)\}", one.path)), *_in_query(one), *_headers(one)],
        "responses": {**_good(one), **{str(status): _bad(status) for status in _problems(one)}},
    }  # fmt: skip
    if one.body:
        found["requestBody"] = {"required": True, "content": {one.takes: {"schema": ref(one.body)}}}
    elif one.streams and one.method == "POST":
        found["requestBody"] = {"required": True, "content": {one.takes: {}}}
    return found


def _problems(one: Operation) -> list[int]:
    body = (400, 413, 415) if one.body else (413,) if one.method not in ("GET", "DELETE") else ()
    return sorted({*EVERYWHERE, *one.problems, *body})


def _in_path(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1, "maxLength": 300}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _in_query(one: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "required": False, "schema": dict(schema)} for name, schema in one.query.items()
    ]


def _headers(one: Operation) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}
    about = "a word of your own: a request that comes twice with it is done once"
    return [{"name": "Idempotency-Key", "in": "header", "schema": schema, "description": about}] if one.once else []


def _good(one: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, name in one.answers.items():
        content = {one.gives: {"schema": ref(name)} if name else {}}
        found[str(status)] = {"description": _word(status), "content": content}
    if one.method == "GET" and one.gives == "application/json":
        found["304"] = {"description": "what If-None-Match names is still so"}
    return found


def _word(status: int) -> str:
    return {200: "done", 201: "made", 202: "under way: look again"}[status]


def _bad(status: int) -> dict[str, Any]:
    return {"description": WORDS[status], "content": {MEDIA_TYPE: {"schema": ref("Problem")}}}
