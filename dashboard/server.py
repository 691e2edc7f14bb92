"""What the server has beside the pages: our own routes, the gate, a log, and what a failed page says."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
import signal
import socket
import sys
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Any

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Receive, Scope, Send
from streamlit import runtime

from shoal.dashboard.http import access, connections, download_route, printed_address, provider_door, upload_route, who
from shoal.dashboard.http.gate import Gate
from shoal.dashboard.http.own_page import OwnPage
from shoal.dashboard.http.repeated_lines import FewOfAKind
from shoal.dashboard.live import route as stream_route
from shoal.dashboard.monitoring import health
from shoal.dashboard.monitoring import route as metrics_route
from shoal.dashboard.monitoring.traffic import CountTraffic
from shoal.dashboard.parts.literal import notice
from shoal.dashboard.tables import uploads
from shoal.dashboard.tune import route as tune_route
from shoal.dashboard.tune import studies
from shoal.errors import ConfigError, TrainingError
from shoal.home import dashboard_log, home, keep_private, make_folder, tightened
from shoal.people.acting import pages_are_of
from shoal.utils import trim_memory

if TYPE_CHECKING:
    from streamlit.runtime.state import SessionState

log = logging.getLogger("shoal")

LOG_SIZE, LOGS_KEPT = 2_000_000, 3
TIDYING = 60  # seconds between two looks for what can be given back
SPARING = 5  # seconds after which what is still there is not looked through at every turn
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
FORMAT = "%(asctime)s %(levelname)s %(message)s"


def routes() -> list[BaseRoute]:
    ours = [*upload_route.routes(), *stream_route.routes(), *download_route.routes(), *tune_route.routes()]
    ours += [*metrics_route.routes(), *health.routes()]
    return [*ours, Route("/api/v1/{rest:path}", _Programs()), Route("/api/{rest:path}", _missing, methods=METHODS)]


class _Programs:
    """The API, which is loaded with its first request: who only opens pages does not wait for it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        api = await run_in_threadpool(_api)
        await api(scope, receive, send)


@functools.cache
def _api() -> Router:
    from shoal.dashboard.api.document import routes as routes_of_api

    return Router(routes_of_api())


async def _missing(request: Request) -> Response:
    """Streamlit would answer with its page, which no program expects."""
    return JSONResponse({"problem": "There is nothing at this address."}, 404)


def middleware() -> list[Middleware]:
    return [Middleware(CountTraffic), Middleware(Gate), Middleware(OwnPage)]


def script_failed(error: Exception) -> bool:
    """A page that fails says one plain sentence; the trace goes to the log."""
    log.error("A page failed.", exc_info=error)
    notice(
        "error",
        f"This page failed for an unforeseen reason ({type(error).__name__}); your runs and models are not affected. "
        "Reload it. The dashboard's log has the details.",
        "Something went wrong here",
    )
    return True


# ------------------------------------------------------------------ start


async def open_doors() -> None:
    """Once the server listens: let answers go out at once, and say where it is."""
    await answer_at_once()
    port = listening_port()
    if port:
        await asyncio.to_thread(printed_address.announce, _address(port), port, access.is_locked())


def close_doors() -> None:
    printed_address.withdraw()


def listening_port() -> int:
    """0 where it is no port that it listens at, but a file."""
    ports = [found.getsockname()[1] for found in _listening() if found.family in (socket.AF_INET, socket.AF_INET6)]
    return int(ports[0]) if ports else 0


def _address(port: int) -> str:
    """As a browser on this machine would be told."""
    host = st.get_option("server.address") or ""
    name = host if access.is_loopback(host) else "localhost"
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    base = (st.get_option("server.baseUrlPath") or "").strip("/")
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}/" + (f"{base}/" if base else "")


async def answer_at_once() -> None:
    """Let no answer wait for the browser's acknowledgement of the one before, which takes 40 ms (Nagle's algorithm).

    asyncio sees to that for sockets that say they are TCP; Streamlit's does not say so. It is open when the server is.
    """
    while not (listening := _listening()):
        await asyncio.sleep(0.02)
    for found in listening:
        if found.family in (socket.AF_INET, socket.AF_INET6):
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections take it over


async def close_silent_ones() -> None:
    """Let nobody hold a connection without a request; for as long as the server runs."""
    while not _listening():
        await asyncio.sleep(0.02)
    await connections.close_silent_ones(_uvicorn().server_state)


def bound_connections() -> None:
    """Let nobody hold all connections; before the server listens, or the first moment would be without bounds."""
    connections.bound_listeners(asyncio.get_running_loop(), connections.Connections.allowed())


async def give_back_memory() -> None:
    """What pages have opened and nobody looks at any more goes back to the system; for as long as the server runs.

    Streamlit looks through all objects for garbage whenever a part of a page is drawn, which takes a tenth of a second
    and more with every tab. It is spared those that have been there for a while; we look through them once a minute.
    """
    while True:
        for _ in range(TIDYING // SPARING):
            gc.freeze()
            await asyncio.sleep(SPARING)
        end_forgotten_sessions()
        await asyncio.to_thread(_tidied)


def end_forgotten_sessions() -> int:
    """End the sessions of tabs that were closed and did not come back in time; how many that were.

    Streamlit lets go of them when the next tab is closed, and until then each holds three open files and its state.
    """
    if not runtime.exists():
        return 0
    storage = getattr(runtime.get_instance()._session_mgr, "_session_storage", None)
    kept = getattr(storage, "_cache", None)
    if kept is None or not hasattr(kept, "expire"):
        return 0  # of another Streamlit, whose own ways will do
    known = dict(getattr(kept, "_data", {}))  # where these are kept elsewhere, they end when they are collected
    kept.expire()
    gone = [info.session for name, info in known.items() if name not in kept]
    for session in gone:
        session.shutdown()
        _empty(session.session_state)
    return len(gone)


def _empty(state: SessionState) -> None:
    """Streamlit holds on to the last session until somebody comes: what its pages kept must not stay with it."""
    state.clear()
    widgets = getattr(state, "_new_widget_state", None)
    getattr(widgets, "widget_metadata", {}).clear()  # callbacks, with all that they are given


def _tidied() -> None:
    studies.close_idle()
    if needed := sys.modules.get("shoal.dashboard.tables.needed"):  # which comes with the first page
        needed.forget_idle()
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    trim_memory()


def _listening() -> list[Any]:
    return [found for server in getattr(_uvicorn(), "servers", ()) for found in server.sockets]


def _uvicorn() -> Any:
    """The web server, which Streamlit keeps to itself; None until it listens for signals."""
    return getattr(signal.getsignal(signal.SIGINT), "__self__", None)


def prepare() -> None:
    """Before the first request: the log, the password, and whether it may be open to others at all."""
    try:
        keep_private()
        said = tightened()
        _start_log()
        if said:
            log.warning(said)
        access.adopt_environment()
        provider_door.adopt_environment()
        pages_are_of(who.of_page)
        printed_address.begin()
        uploads.largest()
        connections.per_address(1)
        refuse_to_be_open(st.get_option("server.address"))
        uploads.sweep()
    except TrainingError as error:
        sys.exit(f"shoal: {error}")
    except OSError as error:
        sys.exit(f"shoal: expected a folder to write to in SHOAL_HOME, '{home()}', got: {error.strerror}. Check it.")


def refuse_to_be_open(address: str | None) -> None:
    """Other machines reach every address but a loopback one, so that takes a password."""
    if not access.is_locked() and not access.is_loopback(address):
        raise ConfigError(
            f"Expected a password before the dashboard listens on {address or 'all addresses'}, where other machines "
            "can reach it, but none is set. Set one with 'shoal password' or SHOAL_PASSWORD, or leave out "
            "--server.address to listen on this machine only."
        )


class _OwnersLog(RotatingFileHandler):
    """A log that only its owner can read: traces may quote text from files."""

    def _open(self) -> TextIOWrapper:
        found = open(self.baseFilename, self.mode, encoding="utf-8", errors="replace", opener=_for_owner)  # noqa: SIM115
        assert isinstance(found, TextIOWrapper)
        return found


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _start_log() -> None:
    """Our own errors to stderr and to a file; those of the web server to the file as well."""
    if log.handlers:
        return  # the module was imported twice
    make_folder(home())
    file = _OwnersLog(dashboard_log(), maxBytes=LOG_SIZE, backupCount=LOGS_KEPT)
    for handler in (file, logging.StreamHandler()):
        handler.setFormatter(logging.Formatter(FORMAT))
        log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    file.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").addHandler(file)
    for name in ("shoal", "uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(FewOfAKind())
