"""How many connections the server holds, and for how long without a request; who may come in is the gate's to say.

The listening socket counts what it accepts: beyond the bounds, or where the system has no file left for it, a
connection is closed at once instead of failing again and again. One that never sends a whole request is closed later.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from shoal.errors import ConfigError

log = logging.getLogger("shoal")

HEADER_SECONDS = 20.0  # that a whole request may take to come
LOOK = 2.0  # seconds between two looks for those that do not
WANTED_FILES = 8192  # files that this process would like to hold, where the system lets it
KEPT_FILES = 128  # for what is no connection: logs, stores, pages, pipes of jobs
FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
PER_ADDRESS = "SHOAL_CONNECTIONS_PER_ADDRESS"


def files_allowed() -> int:
    """Files that this process may hold; the bound is raised as far as the system allows without asking anybody."""
    try:
        import resource
    except ImportError:
        return 512  # no such bound is known there
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return WANTED_FILES if soft == resource.RLIM_INFINITY else int(soft)


def per_address(total: int) -> int:
    """Connections that one address may hold: half of all, or what the environment says; 0 there means no bound."""
    said = os.environ.get(PER_ADDRESS, "").strip()
    if not said:
        return max(total // 2, 1)
    if not (said.isascii() and said.isdigit()):
        raise ConfigError(
            f"Expected a whole number of connections in {PER_ADDRESS}, got '{said}'. Correct or unset it."
        )
    return int(said) or total


class Connections:
    """Those that are open, by the address they come from."""

    def __init__(self, total: int, of_one: int) -> None:
        self.total, self.of_one = total, of_one
        self.open: Counter[str] = Counter()
        self.refused = 0

    @classmethod
    def allowed(cls) -> Connections:
        total = max(files_allowed() - KEPT_FILES, 16)
        return cls(total, per_address(total))

    def why_not(self, address: str) -> str | None:
        """Why no other may come from there; None if it may."""
        if self.open.total() >= self.total:
            return f"all {self.total:,} connections that this process may hold are open"
        if self.open[address] >= self.of_one:
            return f"{address} holds {self.of_one:,} connections, which is all that one address may ({PER_ADDRESS})"
        return None

    def enter(self, address: str) -> None:
        self.open[address] += 1

    def leave(self, address: str) -> None:
        self.open[address] -= 1
        if self.open[address] <= 0:
            del self.open[address]

    def refuse(self, why: str) -> None:
        self.refused += 1
        log.warning("A connection was closed at once: %s.", why)


class CountedSocket(socket.socket):
    """One connection, which says when it is closed."""

    left: Callable[[], None] | None = None

    def close(self) -> None:
        left, self.left = self.left, None
        super().close()
        if left is not None:
            left()


class SpareFile:
    """A file that is given up for the moment in which a connection too many is taken and closed."""

    def __init__(self) -> None:
        self._file: int | None = os.open(os.devnull, os.O_RDONLY)

    def release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    @contextlib.contextmanager
    def given_up(self) -> Iterator[None]:
        self.release()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                self._file = os.open(os.devnull, os.O_RDONLY)


class BoundedListener(socket.socket):
    """A listening socket within the bounds of `connections`.

    asyncio asks it for the next connection until it says that there is none; an error would be logged and met again for
    each of the backlog, thousands of times a second.
    """

    __slots__ = ()  # so that an open socket can become one; what it knows is its class's
    connections: Connections
    spare: SpareFile

    @classmethod
    def around(cls, listening: socket.socket, connections: Connections) -> None:
        """The same socket: whoever has hold of it sees the bounds from now on."""
        known = {"__slots__": (), "connections": connections, "spare": SpareFile()}
        listening.__class__ = type(cls.__name__, (cls,), known)

    def accept(self) -> tuple[socket.socket, Any]:
        try:
            number, peer = self._accept()  # type: ignore[attr-defined]
        except OSError as error:
            if error.errno not in FULL:
                raise
            with self.spare.given_up(), contextlib.suppress(OSError):
                os.close(self._accept()[0])  # type: ignore[attr-defined]  # or it waits at the door for ever
            self.connections.refuse(error.strerror or "no file is left for it")
            raise BlockingIOError(errno.EAGAIN, "no file is left for a connection") from None
        found = CountedSocket(self.family, self.type, self.proto, fileno=number)
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        why_not = self.connections.why_not(address)
        if why_not is not None:
            found.close()
            self.connections.refuse(why_not)
            raise BlockingIOError(errno.EAGAIN, why_not)
        self.connections.enter(address)
        found.left = lambda: self.connections.leave(address)
        return found, peer

    def close(self) -> None:
        self.spare.release()
        super().close()


def bound_listeners(loop: asyncio.AbstractEventLoop, bounds: Connections) -> None:
    """Whatever this loop is made to listen at from now on is within the bounds; Streamlit hands uvicorn its socket."""
    create = loop.create_server

    async def bounded(*arguments: Any, sock: socket.socket | None = None, **options: Any) -> Any:
        if sock is not None:
            BoundedListener.around(sock, bounds)
            options["sock"] = sock
        return await create(*arguments, **options)

    loop.create_server = bounded  # type: ignore[method-assign]


class SilentOnes:
    """Finds the connections of a web server that wait for a request and have not sent one whole for too long."""

    def __init__(self, seconds: float = HEADER_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.clock = seconds, clock
        self._since: weakref.WeakKeyDictionary[Any, tuple[int, float]] = weakref.WeakKeyDictionary()

    def overdue(self, protocols: Iterable[Any]) -> list[Any]:
        """Of uvicorn's protocols; those of websockets have no cycle of requests and stay as long as they like."""
        now, found = self.clock(), []
        for protocol in list(protocols):
            if not hasattr(protocol, "cycle"):
                continue
            cycle = protocol.cycle
            if cycle is not None and not cycle.response_complete:
                self._since.pop(protocol, None)
                continue
            turn, since = self._since.get(protocol, (id(cycle), now))
            if turn != id(cycle):
                since = now
            self._since[protocol] = id(cycle), since
            if now - since >= self.seconds:
                found.append(protocol)
        return found


async def close_silent_ones(state: Any) -> None:
    """For as long as the server runs; `state` is uvicorn's, with all its connections."""
    silent = SilentOnes()
    while True:
        await asyncio.sleep(LOOK)
        for protocol in silent.overdue(state.connections):
            if protocol.transport is not None:
                protocol.transport.abort()


def server_is_closing() -> bool:
    """Whether uvicorn was told to end. It then waits for open responses, and tells nobody; but its flag can be seen."""
    server = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    return bool(getattr(server, "should_exit", False))
