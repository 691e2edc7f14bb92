"""A real server asked over real sockets, as a browser, a program or somebody hostile would."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from shoal.dashboard.tables import uploads
from support.browser import ROOT, SLOW, Server

PATIENCE = SLOW / 1000  # seconds; the machine may be busy with other things
PASSWORD = "correct horse"
ASSET = "/static/" + next(
    p.relative_to(p.parents[1]).as_posix()
    for p in (Path(sys.prefix) / "lib").glob("python*/site-packages/streamlit/static/static/js/index.*.js")
)


class Answer:
    def __init__(self, status: int, headers: http.client.HTTPMessage, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


def ask(server: Server, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named, encode_chunked=not isinstance(body, bytes | None))
        found = connection.getresponse()
        return Answer(found.status, found.headers, found.read())
    finally:
        connection.close()


def log_in(server: Server, password: str = PASSWORD, wanted: str = "", **headers: str) -> Answer:
    body = urlencode({"password": password, "next": wanted}).encode()
    return ask(server, "/login", "POST", body, **{"Content_Type": "application/x-www-form-urlencoded", **headers})


def cookie_of(answer: Answer) -> str:
    return str(answer.headers["set-cookie"]).split(";")[0]


def handshake(server: Server, **headers: str) -> tuple[int, socket.socket]:
    """The beginning of a websocket, as a browser would ask for one."""
    link = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    wanted = {
        "Host": f"127.0.0.1:{server.port}", "Upgrade": "websocket", "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "streamlit", **headers,
    }  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in wanted.items())
    link.sendall(f"GET /_stcore/stream HTTP/1.1\r\n{lines}\r\n".encode())
    return int(link.recv(4096).split(b" ")[1]), link


def frame(payload: bytes) -> bytes:
    """A websocket's binary message from a client; the mask is zero."""
    assert len(payload) < 126
    return bytes([0x82, 0x80 | len(payload), 0, 0, 0, 0]) + payload


def unfinished(home: Path) -> list[Path]:
    return list((home / "uploads").glob(f"{uploads.UNFINISHED}*"))


def shoal_password(home: Path, entered: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shoal.cli.app", "password", *flags]
    environment = {**os.environ, "SHOAL_HOME": str(home)}
    return subprocess.run(command, input=entered + "\n", cwd=ROOT, env=environment, capture_output=True, text=True)


# ------------------------------------------------------------------ uploads


@contextlib.contextmanager
def open_upload(server: Server, length: int, cookie: str = "none=0") -> Iterator[socket.socket]:
    """An upload of which the body is still to come."""
    lines = ("POST /api/upload?name=x.csv HTTP/1.1", "Host: 127.0.0.1", "X-Shoal: 1", f"Content-Length: {length}")
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as link:
        link.sendall("\r\n".join([*lines, f"Cookie: {cookie}", "", ""]).encode())
        yield link
