"""Requests to the API of a dashboard: JSON in and out, problems as our own exceptions, once more where that is safe.

Nothing but Python's own http is needed. What is asked for is in `service`.
"""

from __future__ import annotations

import http.client
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

from shoal.errors import ConfigError, DataError, ResourceError, StateError, TrainingError

ROOT = "/api/v1"
TIMEOUT = 60.0  # seconds without an answer
TRIES, PAUSE = 4, 0.5  # of a request that may be sent again, and seconds before the second, doubled each time
_KINDS: dict[str, type[TrainingError]] = {"bad_settings": ConfigError, "bad_data": DataError}


def path_of(*parts: str) -> str:
    """A path of the API; parts are names, whatever is in them."""
    return "".join(f"/{quote(part, safe='~@:')}" for part in parts)


class Transport:
    """One server and the token for it. A connection is made for each request: servers close idle ones."""

    def __init__(self, url: str, token: str, timeout: float = TIMEOUT) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"Expected the address of a dashboard such as http://host:5000, got '{url[:100]}'.")
        if not token:
            raise ConfigError("Expected a token for the server. Make one there with: shoal token create NAME.")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._base, self._token, self._timeout = parts.path.rstrip("/"), token, timeout
        self.url = f"{parts.scheme}://{parts.netloc}{self._base}"

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        return self._json("GET", path, None, query)

    def post(
        self, path: str, body: Mapping[str, Any] | None = None, once: bool = False, **query: Any
    ) -> dict[str, Any]:
        """`once`: with a key of its own, so that it can be sent again without being done again."""
        key = {"Idempotency-Key": uuid.uuid4().hex} if once else {}
        return self._json("POST", path, None if body is None else json.dumps(body).encode(), query, key)

    def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._json("PUT", path, json.dumps(body).encode(), {})

    def delete(self, path: str) -> dict[str, Any]:
        return self._json("DELETE", path, None, {})

    def send(self, path: str, file: IO[bytes], size: int, **query: Any) -> dict[str, Any]:
        """A file as it is, in pieces."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        with self._answer("POST", path, file, query, headers) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def fetch(self, path: str, out: IO[bytes]) -> None:
        with self._answer("GET", path, None, {}, {}) as answer:
            while piece := answer.read(1 << 20):
                out.write(piece)

    def events(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Server-sent events as they come: kind and body."""
        with self._answer("GET", path, None, {}, {"Accept": "text/event-stream"}) as answer:
            kind = "message"
            for line in answer:
                name, _, value = line.decode().rstrip("\r\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)

    # ---------------------------------------------------------------- one request

    def _json(
        self,
        method: str,
        path: str,
        body: bytes | None,
        query: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        more = {**(headers or {}), **({"Content-Type": "application/json"} if body is not None else {})}
        again = method in ("GET", "PUT") or "Idempotency-Key" in more
        for number in range(TRIES if again else 1):
            try:
                with self._answer(method, path, body, query, more) as answer:
                    found: dict[str, Any] = json.load(answer)
                    return found
            except _Unreachable:
                if not again or number == TRIES - 1:
                    raise
                time.sleep(PAUSE * 2**number)
        raise AssertionError("not reached")

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] | None,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
    ) -> Iterator[http.client.HTTPResponse]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        link = kind(self._host, self._port, timeout=self._timeout)
        asked = {name: value for name, value in query.items() if value is not None}
        address = f"{self._base}{ROOT}{path}" + (f"?{urlencode(asked)}" if asked else "")
        said = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", **headers}
        try:
            try:
                link.request(method, address, body, said)
                answer = link.getresponse()
            except (OSError, http.client.HTTPException) as error:
                why = getattr(error, "strerror", None) or str(error) or type(error).__name__
                raise _Unreachable(f"Expected an answer of the server at {self.url}, got: {why}.") from None
            if answer.status >= 400:
                raise _told(answer.status, answer.read(1 << 20))
            yield answer
        finally:
            link.close()


class _Unreachable(ResourceError):
    """Nobody answered; whether the request arrived is not known."""


def _told(status: int, body: bytes) -> TrainingError:
    """What a problem says, as the exception that the same thing raises at home."""
    try:
        said = json.loads(body)
        detail, reason = str(said["detail"]), str(said.get("reason", ""))
    except (ValueError, KeyError, TypeError):
        return ResourceError(f"Expected an answer of Shoal's API, got status {status}. Check the server's address.")
    if status == 507:
        return ResourceError(detail)
    return _KINDS.get(reason, StateError)(detail)
