"""A server of files by ranges, which can be told to behave badly."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Shelf:
    """What a server has, how it behaves, and what it was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.tags: dict[str, str] = {}
        self.ranged = True
        self.length = True
        self.cut = 0  # answers that break off in the middle
        self.refuse: list[int] = []  # codes of the next answers
        self.asked: list[tuple[str, str]] = []
        self.logins: list[str] = []
        self.forward = ""
        self.address = ""
        self.guests: set[str] = set()  # addresses: none of them is answered before all have asked
        self._came: set[str] = set()
        self._coming = threading.Condition()

    def welcome(self, guest: str) -> None:
        """Wait for the others: who is slow to start would find all done by who is not."""
        with self._coming:
            self._came.add(guest)
            self._coming.notify_all()
            if guest in self.guests:
                self._coming.wait_for(lambda: self.guests <= self._came, timeout=60)

    def put(self, name: str, content: bytes | str, tag: str = "1") -> str:
        self.files[name] = content.encode() if isinstance(content, str) else content
        self.tags[name] = tag
        return f"{self.address}/{name}"


class Librarian(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shelf: Shelf

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        shelf, name = self.shelf, self.path.strip("/").partition("?")[0]
        shelf.welcome(self.client_address[0])
        shelf.asked.append((name, self.headers.get("Range", "")))
        shelf.logins.append(self.headers.get("Authorization", ""))
        if shelf.refuse:
            return self._answer(shelf.refuse.pop(0), b"", {})
        if name == "moved.csv":
            return self._answer(302, b"", {"Location": shelf.forward})
        if name not in shelf.files:
            return self._answer(404, b"nothing", {})
        content, wanted = shelf.files[name], self.headers.get("Range", "")
        headers = {"ETag": f'"{shelf.tags[name]}"'} if shelf.tags[name] else {}
        if wanted and shelf.ranged:
            first, last = wanted.removeprefix("bytes=").split("-")
            piece = content[int(first) : int(last) + 1]
            whole = {"Content-Range": f"bytes {first}-{int(first) + len(piece) - 1}/{len(content)}"}
            return self._answer(206, piece, {**headers, **whole})
        return self._answer(200, content, headers)

    def _answer(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        shelf = self.shelf
        self.send_response(code)
        for key, value in headers.items():
            self.send_header(key, value)
        if shelf.length:
            self.send_header("Content-Length", str(len(body)))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if shelf.cut and len(body) > 1000:
            shelf.cut -= 1
            body = body[: len(body) // 3]
            self.close_connection = True
        try:
            self.wfile.write(body)
        except OSError:  # who asked has seen enough
            self.close_connection = True


class serving:
    def __init__(self, shelf: Shelf, address: str = "127.0.0.1", port: int = 0) -> None:
        handler = type("Own", (Librarian,), {"shelf": shelf})
        self.server = ThreadingHTTPServer((address, port), handler)
        self.server.daemon_threads = False
        shelf.address = f"http://{address}:{self.server.server_port}"

    def __enter__(self) -> None:
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
