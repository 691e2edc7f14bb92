"""One operation of the API: where it is, what it takes and gives, and how a request becomes an answer.

What a request may hold is checked against the same schemas that the document of the API shows. What an operation does
is a plain function of what was asked, called in a thread.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from shoal.dashboard.api.problems import Refusal, refusal_of
from shoal.dashboard.api.schemas import QUICKLY, SCHEMAS
from shoal.dashboard.http.problem import problem
from shoal.errors import TrainingError
from shoal.lazy.classes import dataclass

log = logging.getLogger("shoal")

LONGEST_BODY = 4 << 20  # bytes of a request in JSON
ROOT = "/api/v1"
FAILED = "This failed for an unforeseen reason; your runs and models are not affected. The dashboard's log says more."


@dataclass(frozen=True)
class ApiRequest:
    """A request whose parts fit their schemas."""

    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Given:
    """What an operation answers with."""

    values: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """`does` is called with what was asked; `answers` names the schema of each good answer by its status.

    One that `streams` takes the request itself: its body or its answer is too long for memory.
    """

    method: str
    path: str
    id: str
    summary: str
    does: Callable[..., Any]
    answers: Mapping[int, str]
    scope: str = "read"
    body: str = ""  # the schema of what is sent
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: tuple[int, ...] = ()  # statuses of problems beside those that every operation may have
    streams: bool = False
    takes: str = "application/json"
    gives: str = "application/json"
    once: bool = False  # takes a key by which a request that comes twice is done once

    async def __call__(self, request: Request) -> Response:
        try:
            if self.streams:
                answer: Response = await self.does(request, self._query(request))
                return answer
            asked = ApiRequest(request.path_params, self._query(request), await self._body(request), request.headers)
            given = await run_in_threadpool(self.does, asked)
            return given if isinstance(given, Response) else answered(request, given)
        except (Refusal, TrainingError) as error:
            told = error if isinstance(error, Refusal) else refusal_of(error)
            return problem(told.status, told.detail, told.headers, **told.more)
        except ClientDisconnect:
            raise
        except Exception:
            log.exception("A request failed: %s %s", request.method, request.url.path)
            return problem(500, FAILED)

    def _query(self, request: Request) -> dict[str, Any]:
        given = request.query_params
        if others := set(given) - set(self.query):
            known = ", ".join(self.query) or "none"
            raise Refusal(422, f"Expected no parameter '{min(others)[:80]}' here. The parameters are: {known}.")
        found: dict[str, Any] = {}
        for name, schema in self.query.items():
            texts = given.getlist(name)
            if len(texts) > 1:
                raise Refusal(422, f"Expected the parameter '{name}' once, got it {len(texts)} times.")
            value = _typed(texts[0], schema) if texts else schema.get("default")
            if texts or schema.get("required"):
                _check(value, {key: said for key, said in schema.items() if key != "required"}, f"parameter '{name}'")
            found[name] = value
        return found

    async def _body(self, request: Request) -> Any:
        """Read to its end, whatever comes of it: what is left unread would be taken for the next request."""
        data, announced = bytearray(), request.headers.get("content-length", "0")
        if int(announced[:20]) > LONGEST_BODY:  # nobody waits for what will not be read; the server let digits through
            raise _too_long()
        async for piece in request.stream():
            data += piece
            if len(data) > LONGEST_BODY:
                raise _too_long()
        if not self.body:
            return None
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != self.takes:
            raise Refusal(415, f"Expected a body of type {self.takes}, got '{kind[:80]}'.")
        try:
            values = json.loads(data, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"Expected a body that is JSON, got: {error}.") from None
        if not _is_text(values):
            raise Refusal(400, "Expected texts that are whole characters, got half of one.")
        quickly = QUICKLY.get(self.body)
        if quickly is None or not quickly(values):
            _check(values, SCHEMAS[self.body], "body")
        return values


def _too_long() -> Refusal:
    return Refusal(413, f"Expected a request of at most {LONGEST_BODY:,} bytes.", {"Connection": "close"})


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _is_text(values: Any) -> bool:
    """Whether no text in it has half a character: JSON can spell those, and files cannot hold them."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _typed(text: str, schema: Mapping[str, Any]) -> Any:
    """A text of an address as its schema wants it; as it is where it cannot be that."""
    if schema.get("type") == "integer" and re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    if schema.get("type") == "number" and re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", text):
        return float(text)
    return text


@functools.cache
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator

    whole = {**json.loads(schema), "components": {"schemas": dict(SCHEMAS)}}
    return Draft202012Validator(whole)


def _check(value: Any, schema: Mapping[str, Any], what: str) -> None:
    found = next(iter(_validator(json.dumps(schema, sort_keys=True)).iter_errors(value)), None)
    if found is not None:
        where = "/".join(str(part) for part in found.absolute_path)
        place = f"'{where[:100]}' in the {what}" if where else f"the {what}"
        raise Refusal(
            422, f"Expected {place} to fit its description in the API's document, got: {found.message[:300]}."
        )


def sayable(value: Any) -> Any:
    """The same with null for what JSON cannot say: NaN and infinities."""
    if isinstance(value, Mapping):
        return {str(key): sayable(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [sayable(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def location(*parts: object) -> dict[str, str]:
    """Where something can be found again; names may be in any script, and a header has ASCII alone."""
    return {"Location": ROOT + "".join(f"/{quote(str(part), safe='~')}" for part in parts)}


def answered(request: Request, given: Given) -> Response:
    """With a tag of its content, so that who has it already is told so in place of being sent it again."""
    text = json.dumps(sayable(given.values), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    body = text.encode("utf-8", "backslashreplace")
    headers = {"Cache-Control": "no-cache", **given.headers}
    if request.method in ("GET", "HEAD") and given.status == 200:
        headers["ETag"] = tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        if tag in [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
    return Response(body, given.status, headers, "application/json")
