"""How the team's OpenID provider is named: variables of the environment, read once at the start and written nowhere."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import field
from importlib.util import find_spec
from urllib.parse import urlsplit

from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass
from shoal.people.person import EDITOR, VIEWER

ISSUER, CLIENT, SECRET = "SHOAL_OIDC_ISSUER", "SHOAL_OIDC_CLIENT_ID", "SHOAL_OIDC_CLIENT_SECRET"
ADDRESS, DOMAINS, ROLE, NAME = "SHOAL_OIDC_ADDRESS", "SHOAL_OIDC_DOMAINS", "SHOAL_OIDC_ROLE", "SHOAL_OIDC_NAME"
ALL = (ISSUER, CLIENT, SECRET, ADDRESS, DOMAINS, ROLE, NAME)
DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
BEGIN, BACK = "/login/provider", "/login/provider/back"  # where people leave for it, and where it sends them back


@dataclass(frozen=True)
class OidcSettings:
    issuer: str
    client: str
    secret: str = field(repr=False)  # empty for a public client: PKCE protects the code all the same
    address: str  # by which people open the dashboard
    domains: frozenset[str] = frozenset()  # of e-mail addresses for which an account is made at the first login
    role: str = VIEWER  # of such an account
    name: str = "your organisation"  # on the button

    @property
    def redirect(self) -> str:
        return f"{self.address}{BACK}"


def take_out(environment: Mapping[str, str] | None = None) -> OidcSettings | None:
    """The settings that are in the environment, if any; the secret is not in it any more afterwards."""
    given = {name: (environment or os.environ).get(name, "").strip() for name in ALL}
    os.environ.pop(SECRET, None)
    if not any(given.values()):
        return None
    for name in (ISSUER, CLIENT, ADDRESS):
        if not given[name]:
            others = ", ".join(one for one in ALL if given[one])
            raise ConfigError(f"Expected {name} beside {others}, but it is not set. Set it, or none of them.")
    if find_spec("authlib") is None:
        raise ConfigError(f"{ISSUER} is set, which needs Authlib. Install it with: pip install 'shoal[oidc]'.")
    return OidcSettings(
        _address(ISSUER, given[ISSUER]), given[CLIENT], given[SECRET], _address(ADDRESS, given[ADDRESS]).rstrip("/"),
        _domains(given[DOMAINS]), _role(given[ROLE] or VIEWER), given[NAME][:60] or OidcSettings.name,
    )  # fmt: skip


def _address(name: str, given: str) -> str:
    """Of another machine by https only: whoever can read or change what is sent could log in as anybody."""
    parts = urlsplit(given)
    safe = parts.scheme == "https" or (parts.scheme == "http" and _is_here(parts.hostname or ""))
    if not safe or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ConfigError(f"Expected {name} to be an address such as https://login.example.org, got '{given[:200]}'.")
    return given


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _domains(given: str) -> frozenset[str]:
    found = frozenset(part.strip().lower() for part in given.split(",") if part.strip())
    for one in found:
        if not DOMAIN.fullmatch(one):
            raise ConfigError(f"Expected {DOMAINS} to be names such as example.org,example.com, got '{one[:80]}'.")
    return found


def _role(given: str) -> str:
    if given not in (VIEWER, EDITOR):
        raise ConfigError(
            f"Expected {ROLE} to be {VIEWER} or {EDITOR}, got '{given[:40]}'. Admins are made one by one, with: "
            "shoal people role NAME admin."
        )
    return given
