"""The stream of a run over HTTP."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.runs.launch import Run
from shoal.storage import Storage
from support.browser import free_port
from support.dashboard.live import a_round, active
from support.runs import made, until

SERVER = """
import sys, uvicorn
from starlette.applications import Starlette
from shoal.dashboard.live import route as stream_route
uvicorn.run(Starlette(routes=stream_route.routes()), port=int(sys.argv[1]), log_level="warning")
"""


@pytest.fixture
def port(home: Path) -> Iterator[int]:
    number = free_port()
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(number)])
    until(lambda: answers(number))
    yield number
    process.send_signal(signal.SIGINT)  # a stream may still be open
    asked = time.monotonic()
    process.wait(timeout=10)
    assert time.monotonic() - asked < 5


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def events_of(answer: http.client.HTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = ""
    for line in answer:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)


def ask(port: int, run_id: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", f"/api/runs/{run_id}/stream", headers={"Accept-Encoding": "gzip"})
    return connection, connection.getresponse()


def test_the_stream_over_http(run: Run, store: Storage, port: int) -> None:
    active(run)
    connection, answer = ask(port, run.id)
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Accel-Buffering"] == "no"
    events = events_of(answer)
    assert next(events)[0] == "snapshot"
    recorded = time.monotonic()
    store.add([a_round(1)])
    kind, body = next(events)
    assert kind == "update"
    assert body["rounds"]["round"] == [1]
    assert time.monotonic() - recorded < 5
    for unknown in ("nobody", "..", "%2e%2e", "..%2F..%2Fetc"):
        other, refusal = ask(port, unknown)
        assert refusal.status == 404
        other.close()
    shutil.rmtree(run.directory)
    assert [kind for kind, _ in events] == ["update", "end"]
    connection.close()
    connection, answer = ask(port, made().id)  # an ended one: all of it at once
    assert [kind for kind, _ in events_of(answer)] == ["snapshot", "end"]
    connection.close()


@pytest.fixture
def connections() -> Iterator[list[tuple[http.client.HTTPConnection, http.client.HTTPResponse]]]:
    found: list[tuple[http.client.HTTPConnection, http.client.HTTPResponse]] = []
    yield found
    for connection, answer in found:
        answer.close()
        connection.close()


def test_the_server_ends_while_somebody_listens(
    run: Run, store: Storage, connections: list[tuple[http.client.HTTPConnection, http.client.HTTPResponse]], port: int
) -> None:
    active(run)
    connections.append(ask(port, run.id))
    assert (
        next(events_of(connections[0][1]))[0] == "snapshot"
    )  # the fixture ends the server and looks how long that takes
