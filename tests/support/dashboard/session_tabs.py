"""Tabs as the server sees them: a websocket on which a page is drawn again and again, and the stream of a live run.

No browser: a hundred of them cost little. What a browser makes of a page is in `support.browser`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from dataclasses import dataclass, field

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from support.browser import Server


@dataclass
class SessionTab:
    """One session; counts how often its page was drawn, and what was wrong with it."""

    server: Server
    page: str
    run: str = ""  # whose stream it follows
    query: str = ""
    drawn: int = 0
    first: float = 0.0  # seconds until the page was there
    bytes: int = 0
    streamed: int = 0  # messages of the live run
    problems: Counter[str] = field(default_factory=Counter)

    async def live(self, until: asyncio.Event) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            work = [self._session(until), *([self._stream()] if self.run else [])]
            tasks = [asyncio.create_task(one) for one in work]
            await until.wait()
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    self.problems[f"{type(outcome).__name__}: {outcome}"] += 1

    async def _session(self, until: asyncio.Event) -> None:
        began, again = time.monotonic(), {}
        headers = {"Cookie": self.server.cookie, "Origin": self.server.url.rstrip("/")}
        address = self.server.url.replace("http", "ws") + "_stcore/stream"
        async with websockets.connect(address, additional_headers=headers, subprotocols=["streamlit"],
                                      max_size=None, open_timeout=120) as socket:  # fmt: skip
            await socket.send(self._asked())
            until_closed = asyncio.create_task(until.wait())
            until_closed.add_done_callback(lambda _: [task.cancel() for task in again.values()])
            async for data in socket:
                self.bytes += len(data)
                message = ForwardMsg.FromString(data)
                kind = message.WhichOneof("type")
                if kind == "auto_rerun":
                    known = message.auto_rerun.fragment_id
                    again[known] = asyncio.create_task(self._again(socket, known, message.auto_rerun.interval))
                elif kind == "script_finished":
                    self.drawn += 1
                    self.first = self.first or time.monotonic() - began
                elif kind == "delta" and message.delta.new_element.WhichOneof("type") == "exception":
                    self.problems[message.delta.new_element.exception.message[:200]] += 1

    async def _again(self, socket: websockets.ClientConnection, fragment: str, interval: float) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            while True:
                await asyncio.sleep(interval)
                await socket.send(self._asked(fragment))

    def _asked(self, fragment: str = "") -> bytes:
        message = BackMsg()
        asked = message.rerun_script
        asked.query_string, asked.page_name = (f"run={self.run}" if self.run else self.query), self.page
        asked.fragment_id, asked.is_auto_rerun = fragment, bool(fragment)
        return message.SerializeToString()

    async def _stream(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=1 << 24)
        lines = [f"GET /api/runs/{self.run}/stream HTTP/1.1", f"Host: 127.0.0.1:{self.server.port}",
                 f"Cookie: {self.server.cookie}", "Accept: text/event-stream", "", ""]  # fmt: skip
        writer.write("\r\n".join(lines).encode())
        try:
            status = await reader.readline()
            if b" 200 " not in status:
                self.problems[f"stream: {status.decode().strip()}"] += 1
            while line := await reader.readline():
                self.streamed += line.startswith(b"event:")
        finally:
            writer.close()
