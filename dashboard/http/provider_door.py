"""The way in by the team's OpenID provider: people are sent there, and come back with a code that becomes a session.

It ends in the same session as a password does, so that the gate decides about every request in one way. What the
provider's word is worth, and whose account it is, is decided in `people.oidc`.
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import logging
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import parse_qs

import anyio
from anyio import to_thread
from starlette.responses import HTMLResponse, RedirectResponse, Response

from shoal.dashboard.http import access, login_page
from shoal.dashboard.http.access import PEOPLE, Limiter, Sessions
from shoal.dashboard.http.visit import Visit, local
from shoal.errors import ConfigError, NotAllowed, ResourceError, StateError, TrainingError
from shoal.people import accounts
from shoal.people.oidc import begun as begun_logins
from shoal.people.oidc import settings as oidc
from shoal.people.oidc.arrivals import admitted
from shoal.people.oidc.begun import LASTS, BegunLogin
from shoal.people.oidc.provider import OpenIdProvider
from shoal.people.oidc.settings import ADDRESS, ISSUER, OidcSettings
from shoal.words import plural

LONGEST = 3000  # characters of the provider's word that a browser is given to keep; cookies hold 4,096 bytes
NO_WORD = "-"  # in its place, where it is longer
AT_A_TIME = 8  # logins that wait for the provider; however slow it is, requests of others have their threads
NOT_BEGUN = (
    "This login was not begun in this browser, or more than ten minutes ago, or in another tab since. Begin it again."
)
AWAY = (
    "The login cannot be finished now: the OpenID provider or the accounts cannot be asked. Try again in a minute; "
    "whoever runs the dashboard finds more in its log."
)
T = TypeVar("T")
Cookie = Callable[..., str]  # of a value, its age and, if it is no session, its name

log = logging.getLogger("shoal")


class _Current:
    """What this server was started with."""

    settings: OidcSettings | None = None


def adopt_environment() -> None:
    """Take the settings from the environment; ConfigError where they cannot be used."""
    _Current.settings = oidc.take_out()
    if _Current.settings is not None and not accounts.there_are_any():
        raise ConfigError(
            f"{ISSUER} is set, but nobody has an account yet: expected that of an admin first, who can say who is who. "
            "Make it with: shoal people add you@example.org --role admin --no-password."
        )


def button() -> str:
    """What the login page calls the way by the provider; empty where there is none."""
    return f"Log in with {_Current.settings.name}" if _Current.settings is not None else ""


class ProviderDoor:
    """Made by the gate with its first request."""

    def __init__(self, sessions: Sessions, limiter: Limiter | None = None) -> None:
        self.sessions = sessions
        self.limiter = limiter or Limiter(free=10, overall=120)
        self.provider = OpenIdProvider(_Current.settings) if _Current.settings is not None else None
        self._threads = anyio.CapacityLimiter(AT_A_TIME)

    def cookie(self) -> str:
        return self.sessions.cookie().replace("session", "login")

    def word_cookie(self) -> str:
        """Which of the person's sessions came by the provider; it holds what it wants to see when that one ends."""
        return self.sessions.cookie().replace("session", "provider")

    async def leave(self, visit: Visit, cookie: Cookie) -> Response:
        """To the provider; what the browser keeps meanwhile is signed and for ten minutes."""
        begun = BegunLogin.now(visit.destination)
        try:
            provider = self._provider()
            address = await self._asked(functools.partial(provider.address, begun))
        except TrainingError as error:
            return _refused(visit, error)
        answer = _go(address)
        answer.headers["Set-Cookie"] = cookie(begun.signed(self.sessions.key), LASTS, self.cookie())
        return answer

    async def come_back(self, visit: Visit, cookie: Cookie) -> Response:
        """From there: the code becomes a session like any other, and what the browser kept for it is done with."""
        try:
            session, wanted, word = await self._admitted(visit)
        except TrainingError as error:
            answer = _refused(visit, error)
        else:
            answer = _go(local(wanted, visit.up))
            kept = word if len(word) <= LONGEST else NO_WORD
            answer.headers["Set-Cookie"] = cookie(session, int(access.SESSION))
            answer.headers.append("Set-Cookie", cookie(kept, int(access.SESSION), self.word_cookie()))
        answer.headers.append("Set-Cookie", cookie("", 0, self.cookie()))
        return answer

    async def farewell(self, visit: Visit, cookie: Cookie) -> Response:
        """Whoever came by the provider is sent there to end that session too, if it can be asked where."""
        word, where = visit.cookie(self.word_cookie()), ""
        if not word:
            return _go("login")
        with contextlib.suppress(TrainingError):  # it is away, or not named any more: they are out here all the same
            where = await self._asked(functools.partial(self._provider().farewell, word.removeprefix(NO_WORD)))
        answer = _go(where or "login")
        answer.headers["Set-Cookie"] = cookie("", 0, self.word_cookie())
        return answer

    async def _admitted(self, visit: Visit) -> tuple[str, str, str]:
        """A session, where they wanted to go, and the provider's word; NotAllowed in words where there is none."""
        provider = self._provider()
        said = {name: values[0] for name, values in parse_qs(visit.query).items()}
        begun = begun_logins.read(visit.cookie(self.cookie()), self.sessions.key)
        if begun is None or not hmac.compare_digest(said.get("state", "").encode(), begun.state.encode()):
            raise NotAllowed(NOT_BEGUN)
        if said.get("iss", provider.settings.issuer) != provider.settings.issuer:
            raise NotAllowed("Expected to come back from the team's OpenID provider, but this is another. Begin again.")
        if "code" not in said:
            raise NotAllowed(f"The provider did not let you in ({said.get('error', 'no reason given')[:80]}).")
        if wait := self.limiter.wait(visit.client):
            raise NotAllowed(f"Too many tries. Wait {plural(int(wait) + 1, 'second')} and try again.")
        self.limiter.tried(visit.client)
        came = functools.partial(self._session, provider, said["code"], begun, visit.client)
        session, word = await self._asked(came)
        self.limiter.was_right(visit.client)
        return session, begun.wanted, word

    def _session(self, provider: OpenIdProvider, code: str, begun: BegunLogin, origin: str) -> tuple[str, str]:
        arrival = provider.arrival(code, begun)
        name = admitted(arrival, provider.settings, origin).name
        PEOPLE.look()
        now = PEOPLE.active(name)
        if now is None:
            raise NotAllowed("Your account was disabled just now. Ask an admin of this dashboard.")
        return self.sessions.begin(access.seal_of(now), name), arrival.token

    def _provider(self) -> OpenIdProvider:
        if self.provider is None:
            raise NotAllowed(f"Logging in by an OpenID provider is not set up here ({ISSUER}, {ADDRESS}).")
        return self.provider

    async def _asked(self, question: Callable[[], T]) -> T:
        try:
            return await to_thread.run_sync(question, limiter=self._threads)
        except ResourceError as error:
            log.warning("%s", error)
            raise StateError(AWAY) from None


def _refused(visit: Visit, error: TrainingError) -> Response:
    log.warning("A login by the OpenID provider failed, from %s: %s", visit.client, error)
    status = 403 if isinstance(error, NotAllowed) else 503
    page = login_page.notice("You are not logged in", error.message, (f"{visit.up}login", "To the login page"))
    policy = login_page.CONTENT_POLICY.format(ancestors="'none'")
    return HTMLResponse(page, status, {"Cache-Control": "no-store", "Content-Security-Policy": policy})


def _go(address: str) -> Response:
    return RedirectResponse(address, 303, {"Cache-Control": "no-store"})
