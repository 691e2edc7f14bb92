"""Whether the service can do its work, and which part of it cannot: /health for whoever keeps the process alive, and
/health/ready for whoever sends visitors to it. Both are open, so they name parts and no address, path or person.

A dashboard whose database is away is alive: to start it again would help nobody. It is not ready: nobody can log in or
start a run.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from shoal.dashboard.http.access import PEOPLE
from shoal.dashboard.http.gate import HEALTH, READY
from shoal.database.address import is_set
from shoal.database.connections import database
from shoal.database.plain_errors import DatabaseAway
from shoal.errors import TrainingError
from shoal.home import home

OK = "ok"
FRESH = 1.0  # seconds for which what a database said is told again, however many ask
PATIENCE = 2.0  # seconds that whoever asks first waits for it; those after do not wait for the same answer


class WatchedDatabase:
    """What the team's database says at the moment, in a word or two."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asking: threading.Thread | None = None
        self._word, self._looked = "", -FRESH

    def word(self) -> str:
        with self._lock:
            asking = self._asking
            if asking is not None and asking.is_alive():
                return "does not answer" if self._clock() - self._looked > FRESH + PATIENCE else self._word or OK
            if self._word and self._clock() - self._looked <= FRESH:
                return self._word
            self._asking = asking = threading.Thread(target=self._look, name="shoal-health", daemon=True)
            asking.start()
        asking.join(PATIENCE)
        return "does not answer" if asking.is_alive() else self._word

    def _look(self) -> None:
        try:
            with database().single() as connection:
                connection.execute("SELECT 1")
            self._word = OK
        except DatabaseAway:
            self._word = "away"
        except TrainingError:
            self._word = "not ready for this version"
        self._looked = self._clock()


_database = WatchedDatabase()


def parts() -> dict[str, str]:
    """Each part of the service with `ok`, or what is the matter with it."""
    found = {"home": _home(), "accounts": "cannot be read" if PEOPLE.broken else OK}
    return {**found, "database": _database.word()} if is_set() else found


def _home() -> str:
    try:
        left = os.statvfs(home())
    except OSError:
        return "not there"
    if not os.access(home(), os.W_OK | os.X_OK):
        return "not writable"
    return OK if left.f_bavail else "full"


def said(found: dict[str, str]) -> dict[str, object]:
    return {"status": OK if set(found.values()) == {OK} else "degraded", "parts": found}


def routes() -> list[BaseRoute]:
    return [Route(HEALTH, alive, methods=["GET"]), Route(READY, ready, methods=["GET"])]


async def alive(request: Request) -> Response:
    return JSONResponse(said(await run_in_threadpool(parts)), headers={"Cache-Control": "no-store"})


async def ready(request: Request) -> Response:
    found = said(await run_in_threadpool(parts))
    return JSONResponse(found, 200 if found["status"] == OK else 503, {"Cache-Control": "no-store"})
