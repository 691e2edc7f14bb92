"""What a browser keeps between leaving for the provider and coming back: signed, for ten minutes; nothing is kept here.

Whoever comes back without it, or with another state than it has, began somewhere else: perhaps at a hostile page.
"""

from __future__ import annotations

import base64
import dataclasses
import hmac
import json
import secrets
import time
from collections.abc import Callable

from shoal.lazy.classes import dataclass

LASTS = 600  # seconds
LONGEST = 1500  # characters of an address to go to afterwards; cookies hold 4,096 bytes


@dataclass(frozen=True)
class BegunLogin:
    """`verifier` proves to the provider (PKCE) that whoever has the code is who asked for it."""

    state: str
    nonce: str
    verifier: str
    wanted: str  # where to go afterwards
    until: float

    @classmethod
    def now(cls, wanted: str, clock: Callable[[], float] = time.time) -> BegunLogin:
        kept = wanted if len(wanted) <= LONGEST else ""
        state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
        return cls(state, nonce, verifier, kept, clock() + LASTS)

    def signed(self, key: bytes) -> str:
        text = base64.urlsafe_b64encode(json.dumps(dataclasses.astuple(self)).encode()).decode()
        return f"{text}.{_signature(text, key)}"


def read(cookie: str, key: bytes, clock: Callable[[], float] = time.time) -> BegunLogin | None:
    """None for what was not written here, or is too old."""
    text, _, signature = cookie.rpartition(".")
    if not text or not hmac.compare_digest(signature.encode(), _signature(text, key).encode()):
        return None
    found = BegunLogin(*json.loads(base64.urlsafe_b64decode(text)))
    return found if clock() < found.until else None


def _signature(text: str, key: bytes) -> str:
    own = hmac.digest(key, b"login begun at the provider", "sha256")  # no session can be made of it, or the other way
    return hmac.digest(own, text.encode(), "sha256").hex()
