"""Many tabs on one dashboard, `python -m benchmarks.tabs`: what a hundred of them take while they look at a live run.

A tab is what the server sees of one: a websocket on which the page is drawn, parts of it drawn again as often as the
page asks for, and the stream of a live run. What a browser makes of it is in `benchmarks.dashboard`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks.dashboard import Feeder, made_run
from shoal.home import own_lock
from shoal.runs.folder import Run
from shoal.storage import Storage, open_storage
from support.browser import Server, free_port

PAGES = ("train", "runs", "system", "data", "models")  # every other tab looks at the live run


@dataclass
class Tab:
    """One session; counts how often its page was drawn, and what was wrong with it."""

    server: Server
    page: str
    run: str = ""
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
        asked.query_string, asked.page_name = (f"run={self.run}" if self.run else ""), self.page
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


def weight(process: psutil.Process) -> str:
    memory = process.memory_full_info()
    return f"{memory.pss / 2**20:.0f} MB, {process.num_fds()} files, {process.num_threads()} threads"


async def watched(server: Server, run: Run, storage: Storage, count: int, seconds: float) -> None:
    process = psutil.Process(server.process.pid if server.process else 0)
    print(f"no tab: {weight(process)}; machine load {os.getloadavg()[0]:.1f}", flush=True)
    until = asyncio.Event()
    tabs = [
        Tab(server, "train", run.id) if number % 2 else Tab(server, PAGES[number // 2 % len(PAGES)])
        for number in range(count)
    ]
    began, before = time.monotonic(), sum(process.cpu_times()[:2])
    feeder = Feeder(storage, 1200)
    feeder.feed(0.2)
    tasks = [asyncio.create_task(tab.live(until)) for tab in tabs]
    while not all(tab.drawn for tab in tabs) and time.monotonic() - began < 300:
        await asyncio.sleep(0.2)
    took, spent = time.monotonic() - began, sum(process.cpu_times()[:2]) - before
    there = sum(tab.drawn > 0 for tab in tabs)
    print(f"{count} tabs opened at once: {there} drawn after {took:.1f} s, {spent:.1f} s of processor time, "
          f"{sum(tab.bytes for tab in tabs) / 2**20:.1f} MB sent; {weight(process)}", flush=True)  # fmt: skip
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    drawn, streamed = sum(tab.drawn for tab in tabs), sum(tab.streamed for tab in tabs)
    await asyncio.to_thread(feeder.feed, seconds)
    span = time.monotonic() - began
    share = (sum(process.cpu_times()[:2]) - before) / span
    parts, messages = sum(tab.drawn for tab in tabs) - drawn, sum(tab.streamed for tab in tabs) - streamed
    print(f"while they look: {share:.0%} of a core, {parts / span:.0f} parts drawn and {messages / span:.0f} messages "
          f"of the run a second; {weight(process)}", flush=True)  # fmt: skip
    until.set()
    await asyncio.gather(*tasks)
    for what, times in sum((tab.problems for tab in tabs), Counter()).most_common(5):
        print(f"{times} x {what}")
    for wait in (5, 150):
        await asyncio.sleep(wait)
        print(f"all closed for {wait} s: {weight(process)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tabs", description=__doc__)
    parser.add_argument("--tabs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-tabs-") as folder:
        os.environ["SHOAL_HOME"] = folder
        server = Server(Path(folder), free_port())
        server.start()
        try:
            run = made_run(1200)
            with own_lock(run.directory), open_storage(run.metrics_url) as storage:
                asyncio.run(watched(server, run, storage, chosen.tabs, chosen.seconds))
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
