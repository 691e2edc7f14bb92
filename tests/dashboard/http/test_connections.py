"""Connections that ask for nothing: bounded in number and time, and honest visitors come in meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from shoal.dashboard.http import connections
from shoal.dashboard.http.connections import Connections, SilentOnes, per_address
from shoal.dashboard.http.repeated_lines import FEW, SECONDS, FewOfAKind
from shoal.errors import ConfigError
from support.browser import Server
from support.dashboard.gate import inner

PATIENCE = 60.0  # seconds, on a busy machine


@contextlib.asynccontextmanager
async def serving(bounds: Connections) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    """A small app behind a real socket, and its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(inner(), log_config=None, lifespan="off"))
    connections.bound_listeners(asyncio.get_running_loop(), bounds)
    task = asyncio.create_task(server.serve([listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server, listening.getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def silent(port: int, source: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection with the beginning of a request."""
    found = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    found[1].write(b"GET / HTTP/1.1\r\nHost: a")
    return found


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Waits for the other side's end of it."""
    with contextlib.suppress(ConnectionError):
        return not await asyncio.wait_for(reader.read(), PATIENCE)
    return True


async def answered(port: int, source: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    found = await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    return found


async def until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


def test_one_address_does_not_take_all_connections() -> None:
    async def scene() -> None:
        bounds = Connections(total=30, of_one=20)
        async with serving(bounds) as (_, port):
            visitors = [await silent(port) for _ in range(60)]
            await until(lambda: bounds.refused == 40)
            assert bounds.open == {"127.0.0.1": 20}
            assert b"inside" in await answered(port, "127.0.0.2")  # another address comes in
            for _, writer in visitors:
                writer.close()
            await until(lambda: not bounds.open)
            assert b"inside" in await answered(port, "127.0.0.1")

    asyncio.run(scene())


def test_a_request_that_never_comes_whole_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LOOK", 0.01)
    monkeypatch.setattr(connections, "SilentOnes", lambda: SilentOnes(seconds=0.1))

    async def scene() -> None:
        bounds = Connections(30, 30)
        async with serving(bounds) as (server, port):
            watching = asyncio.create_task(connections.close_silent_ones(server.server_state))
            first = [await silent(port) for _ in range(10)]
            assert all([await is_closed(reader) for reader, _ in first])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")  # one that was answered, and then asks by halves
            assert b"200" in await asyncio.wait_for(reader.readline(), PATIENCE)
            writer.write(b"GET / HTTP/1.1\r\nHo")
            await asyncio.wait_for(reader.read(), PATIENCE)
            watching.cancel()
            for _, each in [*first, (reader, writer)]:
                each.close()
            await until(lambda: not bounds.open)

    asyncio.run(scene())


def test_no_file_left_is_said_once_in_a_while_and_not_met_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def scene() -> None:
        bounds = Connections(10_000, 10_000)
        async with serving(bounds) as (_, port):
            with socket.socket() as newest:
                used = newest.fileno()
            callers = [socket.socket() for _ in range(30)]
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + 50, hard))
            try:
                for caller in callers:
                    caller.connect(("127.0.0.1", port))  # the system takes it in, whether the server does or not
                await until(lambda: bounds.refused)
                for _ in range(200):
                    await asyncio.sleep(0)
                assert bounds.refused <= len(callers)  # one for each that waits, not one for each turn of the loop
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for caller in callers:
                caller.close()
            await until(lambda: not bounds.open)
            assert b"inside" in await answered(port, "127.0.0.1")

    with caplog.at_level(logging.WARNING, "asyncio"):
        asyncio.run(scene())
    assert "out of system resource" not in caplog.text


def test_websockets_and_requests_under_way_are_never_silent() -> None:
    now = 0.0
    silent_ones = SilentOnes(10.0, lambda: now)
    fresh, busy, idle = (SimpleNamespaceOf(cycle) for cycle in (None, False, True))
    websocket = SimpleNamespaceOf(None)
    del websocket.cycle
    everyone = [fresh, busy, idle, websocket]
    assert silent_ones.overdue(everyone) == []
    now = 9.0
    idle.cycle = SimpleNamespace(response_complete=True)  # another request came and was answered meanwhile
    assert silent_ones.overdue(everyone) == []
    now = 10.0
    assert silent_ones.overdue(everyone) == [fresh]
    now = 19.0
    assert silent_ones.overdue(everyone) == [fresh, idle]


class SimpleNamespaceOf:
    """A protocol of uvicorn, as far as it is looked at: its request is complete or not, or there is none yet."""

    def __init__(self, complete: bool | None) -> None:
        self.cycle = None if complete is None else SimpleNamespace(response_complete=complete)


def test_the_bound_of_an_address_is_half_or_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_CONNECTIONS_PER_ADDRESS", raising=False)
    assert per_address(1000) == 500
    monkeypatch.setenv("SHOAL_CONNECTIONS_PER_ADDRESS", "40")
    assert per_address(1000) == 40
    monkeypatch.setenv("SHOAL_CONNECTIONS_PER_ADDRESS", "0")
    assert per_address(1000) == 1000
    monkeypatch.setenv("SHOAL_CONNECTIONS_PER_ADDRESS", "many")
    with pytest.raises(ConfigError, match="number of connections in SHOAL_CONNECTIONS_PER_ADDRESS, got 'many'"):
        per_address(1000)


def test_a_line_that_repeats_is_written_a_few_times_with_the_number_of_the_rest() -> None:
    now = 0.0
    few = FewOfAKind(lambda: now)

    def record(number: int) -> logging.LogRecord:
        return logging.LogRecord("asyncio", logging.ERROR, "", 0, "line %d", (number,), None)

    assert sum(few.filter(record(i)) for i in range(1000)) == FEW
    assert few.filter(logging.LogRecord("asyncio", logging.ERROR, "", 0, "another", (), None))
    now = SECONDS
    last = record(7)
    assert few.filter(last)
    assert last.getMessage() == f"line 7 ({1000 - FEW} more such lines were left out.)"


def test_the_dashboard_goes_on_among_connections_that_ask_for_nothing(unlocked: Server) -> None:
    assert unlocked.process is not None
    pid, log = unlocked.process.pid, unlocked.home / "dashboard.log"
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or soft >= min(hard, connections.WANTED_FILES)  # raised at the start
    before = log.stat().st_size
    open_ = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_ + 30, hard))
    try:
        with contextlib.ExitStack() as callers:
            for _ in range(150):
                caller = callers.enter_context(socket.create_connection(("127.0.0.1", unlocked.port), PATIENCE))
                caller.sendall(b"GET / HTTP/1.1\r\nHost: localhost")
            told = wait_for(lambda: "A connection was closed at once" in log.read_text())
            assert told
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    with urllib.request.urlopen(f"http://127.0.0.1:{unlocked.port}/_stcore/health", timeout=PATIENCE) as answer:
        assert answer.status == 200
    assert log.stat().st_size - before < 4_000
    assert "out of system resource" not in log.read_text()


def wait_for(condition: Any) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(condition())
