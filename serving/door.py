"""Who may ask a prediction server: the name it was asked by, whose page it comes from, and a token; as the dashboard's
gate, without its sessions and passwords."""

from __future__ import annotations

import asyncio
import hmac
import time
from dataclasses import field

from shoal.dashboard.api.problems import Refusal
from shoal.dashboard.http.access import is_loopback, of_token
from shoal.dashboard.http.visit import Visit, host_allowed
from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass
from shoal.library.tokens import NOTED, KnownTokens
from shoal.people.person import MACHINE, Person

OPEN = ("/health",)  # what a load balancer asks, which has no token
OWN_NAMES = ["localhost", "127.0.0.1", "::1"]
NO_TOKEN = (
    "Expected a token that is good, in the header 'Authorization: Bearer ...'. Make one where this server runs with: "
    "shoal token create NAME."
)


@dataclass
class PredictionDoor:
    """`own` is the token of this process, empty where those of `shoal token` alone count."""

    host: str
    needs_token: bool = True
    own: str = ""
    known: KnownTokens = field(default_factory=KnownTokens)
    _noted: dict[str, float] = field(default_factory=dict)

    def check(self) -> None:
        if not self.needs_token and not is_loopback(self.host):
            raise ConfigError(
                f"Expected a token to be asked for on {self.host}, where other machines can reach it. Leave out "
                "--no-token, or leave out --host to listen on this machine only."
            )

    @property
    def hosts(self) -> list[str]:
        """Names that it may be asked by; any where other machines reach it, by names that are not known here."""
        return [*OWN_NAMES, self.host.strip("[]")] if is_loopback(self.host) else []

    async def enter(self, visit: Visit) -> Person:
        """Who asks, as the dashboard would know them; Refusal for whoever may not."""
        if not host_allowed(visit.host, self.hosts):
            raise Refusal(400, "This server was asked for by a name that it does not know. Ask it by localhost.")
        if not visit.is_same_origin:
            raise Refusal(403, "This server answers programs, not the pages of others.")
        if visit.path in OPEN or not self.needs_token:
            return MACHINE
        kind, _, given = visit.headers.get("authorization", "").partition(" ")
        given = given.strip() if kind.lower() == "bearer" else ""
        if self.own and hmac.compare_digest(given.encode("utf-8", "replace"), self.own.encode()):
            return MACHINE
        token = self.known.admits(given)
        person = None if token is None else of_token(token)
        if token is None or person is None:
            raise Refusal(401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})
        if time.monotonic() - self._noted.get(token.id, -NOTED) >= NOTED:
            self._noted[token.id] = time.monotonic()
            await asyncio.to_thread(self.known.note_use, token)
        return person
