"""The gate around everything, HTTP and websocket: allowed hosts, whose page it is, who asks, the rule for changes.

Programs bring a token in place of a session (`Authorization: Bearer`), for the API and /metrics only; what it is
worth is decided in `library.tokens`.

Plain ASGI: what streams through it is never held back. Websockets and changes (POST and the like) come from pages of
this very origin; changes under /api need the header `X-Shoal: 1` too, which no foreign page can send. What a password
or session is worth is decided in `access`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import re
import time
from collections.abc import Mapping
from urllib.parse import parse_qs, quote

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.dashboard.http import access, login_page, printed_address, provider_door, who
from shoal.dashboard.http.access import BROKEN, PEOPLE, Hashed, Limiter, Sessions
from shoal.dashboard.http.problem import problem
from shoal.dashboard.http.provider_door import ProviderDoor
from shoal.dashboard.http.security_headers import OURS_ONLY, SecurityHeaders
from shoal.dashboard.http.visit import API, HARMLESS, METRICS, Visit, host_allowed, local
from shoal.library.tokens import KnownTokens
from shoal.people import accounts
from shoal.people.acting import as_person
from shoal.people.oidc.settings import BACK, BEGIN
from shoal.people.person import STRANGER, VIEWER, Person
from shoal.people.rights import SERVICE, may

log = logging.getLogger("shoal")

FORM = 8192  # bytes that a login may have
TOLD = 20  # foreign origins that are told of, and no more
LOOK = 1.0  # seconds between two looks whether the session of a long answer still counts
ANCESTORS = "SHOAL_FRAME_ANCESTORS"  # who may show the dashboard in a frame, such as "https://replit.com"
# After a refusal the connection ends, or the rest of a large body would be read for nothing.
CLOSING = {"Cache-Control": "no-store", "Connection": "close"}
ALIVE = "/_stcore/health"  # of Streamlit
HEALTH, READY = "/health", "/health/ready"  # ours, which say more (`dashboard.monitoring.health`)
OPEN = (ALIVE, HEALTH, READY)  # to everybody
# Streamlit's page at /train looks for its server at /train/ first. It takes any answer but a good one as a no, and
# browsers show those from 400 on as errors on the console.
PROBE = re.compile(r"/[^/]+/_stcore/(health|host-config)")

UNKNOWN_HOST = (
    "This dashboard was asked for by a name that it does not know. Open it by http://localhost, or have the name added "
    "to server.allowedHosts where it is started."
)
NEEDS_PASSWORD = (
    "This dashboard is reachable from other machines, so it needs a password before it shows anything. "
    "Set one where it runs with: shoal password."
)
BROKEN_FILE = "The file with the password cannot be read. Set a new one where the dashboard runs with: shoal password."
PEOPLE_BROKEN = "The accounts cannot be read. Whoever runs the dashboard finds more in its log, and can put them back."
PEOPLE_AWAY = "The database with the accounts cannot be reached, so nobody can log in now. Try again in a minute."
NOT_IN = "You are not logged in any more.\nReload the page to log in."  # Streamlit shows it in a narrow box
BY_ADDRESS = (
    "This dashboard is for whoever started it. Open the newest address that it printed there (http://...?token=...), "
    "or the page dashboard-PORT.html in SHOAL_HOME. An address is good for one browser, which stays in for seven days."
)
NO_TOKEN = (
    "Expected a token that is good, in the header 'Authorization: Bearer ...'. Make one where the dashboard runs with: "
    "shoal token create NAME."
)
ONLY_READS = "This token may only read. Make one that may write with: shoal token create NAME --scope write."
ONLY_LOOKS = "Your role lets you look, and not change anything. Ask an admin of this dashboard for another role."
NOTHING = "There is nothing at this address. See /api/v1/docs."
FOREIGN = "This can only be done from the dashboard's own pages."
FAILED = "This failed for an unforeseen reason; your runs and models are not affected. The dashboard's log says more."


class SessionEndedError(Exception):
    """Somebody logged out, or the password was changed, while an answer was still being sent."""


class Gate:
    """Made by the server at its first request, when Streamlit's settings are known."""

    def __init__(self, app: ASGIApp, limiter: Limiter | None = None) -> None:
        self.app = app
        self.allowed_hosts: list[str] = list(st.get_option("server.allowedHosts") or [])
        self.base = base_path()
        self.headers = SecurityHeaders(os.environ.get(ANCESTORS, "").strip() or "'self'")
        self.limiter = limiter or Limiter()
        self.tokens = KnownTokens()
        self._one_at_a_time = asyncio.Lock()  # a try takes 32 MB
        self._told: set[str] = set()  # foreign origins that the log has

    @functools.cached_property
    def sessions(self) -> Sessions:
        return Sessions(access.signing_key())

    @functools.cached_property
    def provider(self) -> ProviderDoor:
        return ProviderDoor(self.sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            visit = Visit(scope, self.base)
            await self._http(visit, receive, self.headers.added(visit, send))
        elif scope["type"] == "websocket":
            await self._websocket(Visit(scope, self.base), receive, send)
        else:
            await self.app(scope, receive, send)

    # ---------------------------------------------------------------- decisions

    def _is_welcome(self, visit: Visit) -> bool:
        if not host_allowed(visit.host, self.allowed_hosts) or (not access.is_locked() and visit.is_from_outside):
            return False
        return self._may_pass(visit)

    def _may_pass(self, visit: Visit) -> bool:
        if visit.bearer:
            token = self.tokens.admits(visit.bearer)
            if token is None or not (token.writes or visit.only_reads):
                return False
        person = self._person(visit)
        return person is not None and may(person, visit.verb, SERVICE)

    def _person(self, visit: Visit) -> Person | None:
        return who.of_visit(visit, self.sessions, self.tokens)

    async def _refusal(self, visit: Visit, receive: Receive) -> Response | None:
        """What to answer in the app's place; None lets the request pass."""
        if not host_allowed(visit.host, self.allowed_hosts):
            return _notice(400, "Unknown address", UNKNOWN_HOST)
        password = None if PEOPLE.are_there else access.current_password()
        locked = access.is_locked()
        if not locked and visit.is_from_outside:
            return _notice(503, "A password is needed", NEEDS_PASSWORD)
        changes = visit.method not in HARMLESS and visit.path != "/login"  # where the form says the same
        if changes and not visit.is_same_origin:
            return _sentence(visit, 403, FOREIGN)
        if visit.path in OPEN:
            return None
        if PROBE.fullmatch(visit.path):
            return Response(status_code=300)
        if visit.bearer:
            return await self._program(visit)
        if visit.path in ("/login", "/logout", BEGIN, BACK):
            return await self._at_the_door(visit, password, receive)
        if not locked and visit.method == "GET" and visit.token and printed_address.is_needed():
            return self._by_address(visit)
        person = self._person(visit)
        if person is None:
            if visit.is_for_programs and not visit.wants_page:
                return _sentence(visit, 401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})
            if not locked:
                return self._outside(visit)
            if visit.method in HARMLESS and visit.wants_page:
                return _go(f"{visit.up}login?next={quote(visit.here, safe='')}")
            return _sentence(visit, 401, NOT_IN)
        if not may(person, visit.verb, SERVICE):
            return _sentence(visit, 403, ONLY_LOOKS)
        if visit.path.startswith("/api/") and visit.method not in HARMLESS and not visit.is_our_page:
            return _sentence(visit, 403, FOREIGN)
        return None

    async def _program(self, visit: Visit) -> Response | None:
        token = self.tokens.admits(visit.bearer)
        if token is None:
            return _sentence(visit, 401, NO_TOKEN, {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        person = access.of_token(token)
        if person is None:  # whose it is cannot log in any more
            return _sentence(visit, 401, NO_TOKEN, {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        if not token.writes and not visit.only_reads:
            owner = PEOPLE.active(token.person)  # no token of a viewer may do more
            why = ONLY_LOOKS if owner and owner.role == VIEWER else ONLY_READS
            return _sentence(visit, 403, why, {"WWW-Authenticate": 'Bearer error="insufficient_scope"'})
        if not may(person, visit.verb, SERVICE):
            return _sentence(visit, 403, ONLY_LOOKS, {"WWW-Authenticate": 'Bearer error="insufficient_scope"'})
        await run_in_threadpool(self.tokens.note_use, token)
        return None

    # ---------------------------------------------------------------- HTTP and websocket

    async def _http(self, visit: Visit, receive: Receive, send: Send) -> None:
        answer = await self._refusal(visit, receive)
        if answer is None and visit.path.startswith(API) and "\n" in visit.path:  # which no route would match
            answer = problem(404, NOTHING)
        if answer is not None:
            await answer(visit.scope, receive, send)
            return
        started, looked = False, time.monotonic()

        async def watched(message: Message) -> None:
            """Streams last for hours; whoever was logged out meanwhile gets no more of them."""
            nonlocal started, looked
            started = True
            if time.monotonic() - looked > LOOK and visit.path not in OPEN:
                looked = time.monotonic()
                if not self._is_welcome(visit):
                    raise SessionEndedError
            await send(message)

        try:
            with as_person(self._person(visit) or STRANGER, visit.client):
                await self.app(self._inner(visit), receive, watched)
        except (ClientDisconnect, SessionEndedError):
            return
        except Exception:
            log.exception("A request failed: %s %s", visit.method, visit.path)
            if started:
                raise
            await _sentence(visit, 500, FAILED)(visit.scope, receive, send)

    def _inner(self, visit: Visit) -> Scope:
        """Streamlit's routes know the base path, ours do not."""
        if not self.base or not (visit.path.startswith("/api/") or visit.path in (METRICS, HEALTH, READY)):
            return visit.scope
        return {**visit.scope, "path": visit.path, "raw_path": visit.path.encode()}

    async def _websocket(self, visit: Visit, receive: Receive, send: Send) -> None:
        if not visit.is_same_origin:
            self._tell_of(visit)
        if not visit.is_same_origin or not self._is_welcome(visit):
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted: the answer is 403
            return

        async def guarded() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive" and not self._is_welcome(visit):
                await send({"type": "websocket.close", "code": 1008})
                return {"type": "websocket.disconnect", "code": 1008}
            return message

        await self.app(visit.with_own_origin(), guarded, send)

    def _tell_of(self, visit: Visit) -> None:
        """Once for each origin: a proxy that hides what it is asked for would otherwise leave people with no clue."""
        origin = visit.headers.get("origin", "")[:100]
        if origin not in self._told and len(self._told) < TOLD:
            self._told.add(origin)
            log.warning(
                "A page of %r was not let in, being none of %r. If a proxy is between them, let it pass on the "
                "headers Host (with the port) and X-Forwarded-Proto.", origin, visit.host[:100],
            )  # fmt: skip

    # ---------------------------------------------------------------- log in, log out

    async def _at_the_door(self, visit: Visit, password: Hashed | None, receive: Receive) -> Response:
        if not access.is_locked():
            return _go("./")
        if visit.path == "/logout":
            return await self._log_out(visit, password)
        if visit.method == "POST":
            return await self._log_in(visit, password, receive)
        if visit.path == BACK:
            return await self.provider.come_back(visit, functools.partial(self._cookie, visit))
        if self._may_pass(visit):
            return _go(local(visit.destination, visit.up))
        if visit.path == BEGIN:
            return await self.provider.leave(visit, functools.partial(self._cookie, visit))
        return self._form(visit.destination, PEOPLE_AWAY if PEOPLE.away else "")

    def _by_address(self, visit: Visit) -> Response:
        """The printed address becomes a session, and is gone from the browser's address line."""
        answer = _go(visit.up + visit.here_without_token)
        if not self._may_pass(visit):
            if not printed_address.spend(visit.token):
                return self._outside(visit)
            session = self.sessions.begin(access.BY_ADDRESS)
            answer.headers["Set-Cookie"] = self._cookie(visit, session, int(access.SESSION))
        return answer

    def _outside(self, visit: Visit) -> Response:
        if visit.wants_page:
            return _notice(401, "Open it by its address", BY_ADDRESS)
        return _sentence(visit, 401, BY_ADDRESS)

    async def _log_in(self, visit: Visit, password: Hashed | None, receive: Receive) -> Response:
        fields = parse_qs((await _body(receive)).decode("utf-8", "replace"), keep_blank_values=True)
        wanted, given, name = (fields.get(field, [""])[0] for field in ("next", "password", "name"))
        refused = functools.partial(self._not_in, visit, wanted)
        if not visit.is_same_origin:
            return refused(403, "Please log in from this page.")
        if password == BROKEN or PEOPLE.broken:
            why = PEOPLE_AWAY if PEOPLE.away else PEOPLE_BROKEN
            return refused(503, why if PEOPLE.broken else BROKEN_FILE)
        if wait := self.limiter.wait(visit.client):
            return refused(429, f"Too many tries. Wait {_seconds(wait)} and try again.", wait)
        self.limiter.tried(visit.client)
        async with self._one_at_a_time:
            if password is not None:
                right = await run_in_threadpool(password.matches, given)
                session = self.sessions.begin(password) if right else ""
            else:
                session = await run_in_threadpool(who.log_in, self.sessions, name, given, visit.client)
        if not session and password is None and PEOPLE.away:
            return refused(503, PEOPLE_AWAY)
        if not session:
            log.warning("A wrong password was given by %s.", visit.client)
            wait = self.limiter.wait(visit.client)
            later = f" Wait {_seconds(wait)} before the next try." if wait else ""
            what = "the password" if password is not None else "a name and its password"
            return refused(401, f"That is not {what}.{later}", wait)
        self.limiter.was_right(visit.client)
        answer = _go(local(wanted))
        answer.headers["Set-Cookie"] = self._cookie(visit, session, int(access.SESSION))
        return answer

    async def _log_out(self, visit: Visit, password: Hashed | None) -> Response:
        if visit.headers.get("sec-fetch-site") == "cross-site":
            return _go("./")  # a link on somebody's page does not log anybody out
        token = visit.cookie(self.sessions.cookie())
        if (member := self.sessions.member(token)) is not None:
            self.sessions.end(token, access.seal_of(member))
            await run_in_threadpool(who.written, accounts.note, "logged out", "", member.name, visit.client)
        elif password is not None:
            self.sessions.end(token, password)
        answer = await self.provider.farewell(visit, functools.partial(self._cookie, visit))
        answer.headers.append("Set-Cookie", self._cookie(visit, "", 0))
        return answer

    def _not_in(self, visit: Visit, wanted: str, status: int, problem: str, wait: float = 0.0) -> Response:
        """The form again for a person (200: browsers show others as errors on the console), the code for a program."""
        answer = self._form(wanted, problem) if visit.wants_page else _problem(status, problem)
        if wait:
            answer.headers["Retry-After"] = str(int(wait) + 1)
        return answer

    def _form(self, wanted: str, problem: str = "") -> Response:
        policy = login_page.CONTENT_POLICY.format(ancestors=self.headers.ancestors)
        headers = {"Cache-Control": "no-store", "Content-Security-Policy": policy}
        page = login_page.login_form(wanted, problem, PEOPLE.are_there, provider_door.button())
        return HTMLResponse(page, headers=headers)

    def _cookie(self, visit: Visit, value: str, age: int, name: str = "") -> str:
        """Not for scripts, not for requests from other sites; a frame on another site is one, so that needs None."""
        if visit.is_secure:
            framed = self.headers.ancestors not in OURS_ONLY
            flags = "Secure; SameSite=None; Partitioned" if framed else "Secure; SameSite=Lax"
        else:
            flags = "SameSite=Lax"
        return f"{name or self.sessions.cookie()}={value}; Path=/; Max-Age={age}; HttpOnly; {flags}"


# ------------------------------------------------------------------ small parts


def base_path() -> str:
    """Under which the dashboard is, such as /shoal, or empty."""
    base = (st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}" if base else ""


async def _body(receive: Receive) -> bytes:
    """A short body; the rest of a long one is left unread."""
    found = b""
    while len(found) <= FORM:
        message = await receive()
        found += message.get("body", b"")
        if not message.get("more_body"):
            break
    return found[:FORM]


def _seconds(wait: float) -> str:
    whole = int(wait) + 1
    return "1 second" if whole == 1 else f"{whole} seconds"


def _notice(status: int, title: str, text: str) -> Response:
    policy = login_page.CONTENT_POLICY.format(ancestors="'none'")
    return HTMLResponse(login_page.notice(title, text), status, {**CLOSING, "Content-Security-Policy": policy})


def _sentence(visit: Visit, status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """In the form that each asks for: our own scripts read JSON, programs problems."""
    if visit.path.startswith(API):
        return problem(status, text, {**CLOSING, **(headers or {})})
    if visit.path.startswith("/api/"):
        return _problem(status, text)
    return PlainTextResponse(text, status, {**CLOSING, **(headers or {})})


def _problem(status: int, text: str) -> Response:
    return JSONResponse({"problem": text}, status, CLOSING)


def _go(address: str) -> Response:
    return RedirectResponse(address, 303, headers={"Cache-Control": "no-store"})
