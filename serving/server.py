"""The process of a prediction server: its socket, the looks for another version, its end; routes are in `app`."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
import sys
from collections.abc import Awaitable, Iterator

import uvicorn

from shoal.dashboard.http.connections import BoundedListener, Connections, close_silent_ones
from shoal.errors import ResourceError
from shoal.serving.app import PredictionApp
from shoal.serving.served_model import WatchedModel

BACKLOG = 1024  # connections that wait to be taken
LOOK = 1.0  # seconds between two looks whether the name means another version
ENDING = 10  # seconds for answers that are under way when the server is told to end
QUIET = 75  # seconds that a connection may stay open between two requests


def listening(host: str, port: int) -> socket.socket:
    """It listens, so that the port is known, and is refused at once where it is taken."""
    family = socket.AF_INET6 if _is_v6(host) else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # said to be TCP: asyncio then never delays
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host.strip("[]"), port))
        found.listen(BACKLOG)  # from now on nobody is turned away: who comes early waits
    except (OSError, OverflowError) as error:
        found.close()
        why = getattr(error, "strerror", None) or str(error)
        raise ResourceError(
            f"Expected to listen on {host} at port {port}, got: {why}. Choose another with --port; 0 takes any that "
            "is free."
        ) from None
    return found


def _is_v6(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).version == 6
    return False


def address_of(found: socket.socket) -> str:
    host, port = found.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM are how one ends a server, at whatever moment; uvicorn raises them again when all is done."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def serve(app: PredictionApp, found: socket.socket, *beside: Awaitable[None]) -> None:
    """Until somebody ends it; `beside` goes on as long as it does."""
    BoundedListener.around(found, Connections.allowed())
    config = uvicorn.Config(
        app, http="h11", ws="none", lifespan="off", access_log=False, log_level="warning", server_header=False,
        timeout_keep_alive=QUIET, timeout_graceful_shutdown=ENDING,
    )  # fmt: skip
    server = uvicorn.Server(config)
    asyncio.run(_until_the_end(server, app.model, found, beside))


async def _until_the_end(
    server: uvicorn.Server, model: WatchedModel, found: socket.socket, beside: tuple[Awaitable[None], ...]
) -> None:
    going_on = (_watch(model), close_silent_ones(server.server_state), *beside)
    tasks = [asyncio.ensure_future(part) for part in going_on]
    try:
        await server.serve(sockets=[found])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(model: WatchedModel) -> None:
    while True:
        await asyncio.sleep(LOOK)
        if said := await asyncio.to_thread(model.look):
            print(f"shoal: {said}", file=sys.stderr, flush=True)
