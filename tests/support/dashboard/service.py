"""The API of a real server, as a program with a token sees it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal.library import tokens
from support.browser import Server, free_port
from support.dashboard.http_client import Answer, ask
from support.runs import small_table

ROOT = "/api/v1"


class Service:
    """A real server as a program with a token sees it."""

    def __init__(self, server: Server, token: str, reader: str) -> None:
        self.server, self.token, self.reader = server, token, reader
        self.dataset = self.run = ""

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kind = {"Content_Type": "application/json"} if not isinstance(body, bytes) and body is not None else {}
        said = {"Authorization": f"Bearer {self.token if token is None else token}", **kind, **headers}
        return ask(self.server, ROOT + path, method, data, **said)

    def got(self, method: str, path: str, body: Any = None, status: int = 200, **headers: str) -> dict[str, Any]:
        answer = self.ask(method, path, body, **headers)
        assert answer.status == status, answer.body
        return answer.json()

    def ended(self, run: str) -> dict[str, Any]:
        """Followed to its end, as a program would."""
        answer = self.ask("GET", f"/runs/{run}/events")
        assert answer.status == 200
        assert b"event: end" in answer.body
        return self.got("GET", f"/runs/{run}")


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Service]:
    """A server with two tokens, a table, a run of it and a saved model."""
    server = Server(folder, free_port())
    before = os.environ.get("SHOAL_HOME")
    os.environ["SHOAL_HOME"] = str(folder)
    try:
        token, reader = tokens.create("tests", "write")[0], tokens.create("reader", "read")[0]
    finally:
        os.environ.pop("SHOAL_HOME") if before is None else os.environ.update(SHOAL_HOME=before)
    server.start()
    found = Service(server, token, reader)
    made = found.got("POST", "/datasets?name=small.csv", small_table(folder).read_bytes(), 201)
    found.dataset = made["id"]
    asked = {"dataset": found.dataset, "target": "y", "settings": {"model": "ridge", "alpha": 1.0, "test_every": 5}}
    found.run = found.got("POST", "/runs", asked, 201)["summary"]["id"]
    found.ended(found.run)
    found.got("POST", f"/runs/{found.run}/model", {"name": "small"}, 201)
    yield found
    server.stop()
