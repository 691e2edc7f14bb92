"""One request or websocket: where it comes from and where it wants to go. What becomes of it is decided in `gate`."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from shoal.dashboard.http import access
from shoal.people.rights import Verb

API, METRICS = "/api/v1/", "/metrics"
HARMLESS = {"GET", "HEAD", "OPTIONS"}
PREDICTS = re.compile(r"/api/v1/models/[^/]+/versions/[^/]+/predict")


class Visit:
    def __init__(self, scope: Scope, base: str = "") -> None:
        """`base` is the path under which the dashboard is, such as /shoal, or empty."""
        self.scope = scope
        self.headers = Headers(scope=scope)
        self.method = str(scope.get("method", "GET"))
        self.host = self.headers.get("host", "")
        whole = str(scope["path"])
        self.path = whole[len(base) :] if whole.startswith(base + "/") else whole
        self.query = str(scope.get("query_string", b""), "latin-1")

    # ---------------------------------------------------------------- where it comes from

    @property
    def client(self) -> str:
        return access.client_name((self.scope.get("client") or ("unknown", 0))[0])

    @property
    def is_from_outside(self) -> bool:
        """Whether it came over a network; a socket without a port is a file on this machine."""
        server = self.scope.get("server")
        return bool(server and server[1] is not None and not access.is_loopback(server[0]))

    @property
    def is_secure(self) -> bool:
        forwarded = self.headers.get("x-forwarded-proto", "").split(",")[0].strip()
        return self.scope.get("scheme") in ("https", "wss") or forwarded == "https"

    @property
    def is_same_origin(self) -> bool:
        """Whether a page of ours sent it, as far as the browser says; other programs say nothing.

        Scheme, name and port: a page on another port of this machine may be anybody's.
        """
        said = self.headers.getlist("origin")
        if not said:
            return self.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
        ours = origin_of(f"{'https' if self.is_secure else 'http'}://{self.host}")
        return len(said) == 1 and ours is not None and origin_of(said[0]) == ours

    def with_own_origin(self) -> Scope:
        """The scope for Streamlit, once the origin is found to be ours: spelled like the host. Of any other spelling it
        would ask an outside address whether that is this machine, and hold up everybody meanwhile."""
        ours = f"{'https' if self.is_secure else 'http'}://{self.host}".encode("latin-1")
        headers = [(name, ours if name == b"origin" else value) for name, value in self.scope["headers"]]
        return {**self.scope, "headers": headers}

    @property
    def is_our_page(self) -> bool:
        """Whether it has what only our own scripts can add to a request."""
        return self.headers.get("x-shoal") == "1" and self.is_same_origin

    @property
    def is_for_programs(self) -> bool:
        """Whether it asks for what tokens are for: the API, and figures for a monitor."""
        return self.path.startswith(API) or self.path == METRICS

    @property
    def bearer(self) -> str:
        """The token of a program; empty for what is none, and where tokens count for nothing."""
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if self.is_for_programs and kind.lower() == "bearer" else ""

    @property
    def only_reads(self) -> bool:
        """Whether it changes nothing: a prediction of rows is sent, because it is long, and leaves nothing behind."""
        return self.method in HARMLESS or bool(self.method == "POST" and PREDICTS.fullmatch(self.path))

    @property
    def verb(self) -> Verb:
        """What somebody needs to be allowed for this at least; of single things, those who know them decide."""
        return Verb.SEE if self.only_reads else Verb.START

    def cookie(self, name: str) -> str:
        return cookie_parser(self.headers.get("cookie", "")).get(name, "")

    # ---------------------------------------------------------------- where it wants to go

    @property
    def wants_page(self) -> bool:
        return "text/html" in self.headers.get("accept", "")

    @property
    def here(self) -> str:
        """The address that was asked for, from the dashboard's root."""
        return quote(self.path.lstrip("/")) + (f"?{self.query}" if self.query else "")

    @property
    def token(self) -> str:
        """Of a printed address."""
        return parse_qs(self.query).get("token", [""])[0]

    @property
    def here_without_token(self) -> str:
        rest = urlencode([(name, value) for name, value in parse_qsl(self.query) if name != "token"])
        return quote(self.path.lstrip("/")) + (f"?{rest}" if rest else "")

    @property
    def destination(self) -> str:
        """Where to go after the login."""
        return parse_qs(self.query).get("next", [""])[0]

    @property
    def up(self) -> str:
        """The way to the dashboard's root; relative, since a proxy may have put it anywhere."""
        return "../" * (self.path.count("/") - 1) or "./"


def origin_of(address: str) -> tuple[str, str, int] | None:
    """Scheme, name and port of an origin; None for what is none, such as `null` from a page in a closed frame."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    if usual is None or not parts.hostname or "@" in parts.netloc or parts.path or parts.query or parts.fragment:
        return None
    return parts.scheme, parts.hostname.rstrip("."), usual if port is None else port


def local(wanted: str, up: str = "./") -> str:
    """An address on this dashboard, whatever was wanted: after './' nothing can name another server.

    `up` is the way from the page that leads there to the dashboard's root.
    """
    path, _, query = wanted.partition("?")
    return up + quote(path.lstrip("/\\"), safe="/%") + (f"?{quote(query, safe='=&%+,:;/@!~*')}" if query else "")


def host_allowed(host: str, allowed: list[str]) -> bool:
    """Whether the Host header is one of ours (as in Streamlit, `*.name` and `*` are patterns).

    A foreign name that leads to this machine (DNS rebinding) would otherwise make us part of a foreign page.
    """
    if not allowed:
        return True
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::\d{1,5})?", host)
    if found is None:
        return False
    name = found[1].strip("[]").lower().rstrip(".")
    for pattern in (entry.strip().lower().rstrip(".") for entry in allowed):
        if pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:])):
            return True
    return False
