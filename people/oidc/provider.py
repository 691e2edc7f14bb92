"""The team's OpenID provider over HTTP: where to send people, and what it says of whoever comes back.

Authorization code with PKCE, by Authlib. What its word is worth is decided in `id_token`, whose account that is in
`arrivals`.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any
from urllib.parse import urlencode, urlsplit

from shoal.errors import NotAllowed, ResourceError
from shoal.people.oidc import id_token
from shoal.people.oidc.begun import BegunLogin
from shoal.people.oidc.id_token import VouchedPerson
from shoal.people.oidc.settings import OidcSettings

PATIENCE = 10  # seconds for one answer
KEPT = 3600.0  # seconds for which addresses and keys count; keys are asked for anew when a token names another
PAUSE = 10.0  # seconds between two questions for keys that were not there
SCOPES = "openid email"
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class OpenIdProvider:
    """Threads may share one."""

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, dict[str, Any]]] = {}

    def address(self, begun: BegunLogin) -> str:
        """Where somebody logs in."""
        with self._session() as session:
            where = self._metadata()["authorization_endpoint"]
            found, _ = session.create_authorization_url(
                where, state=begun.state, nonce=begun.nonce, code_verifier=begun.verifier
            )
        return str(found)

    def arrival(self, code: str, begun: BegunLogin) -> VouchedPerson:
        """Who came back with this code, which is good once; NotAllowed where that is not proven."""
        token = self._exchanged(code, begun)
        metadata = self._metadata()
        try:
            claims = id_token.proven(token, self._keys(metadata), metadata, self.settings.client, begun.nonce)
        except id_token.UnknownKey:
            claims = id_token.proven(token, self._keys(metadata, PAUSE), metadata, self.settings.client, begun.nonce)
        return dataclasses.replace(id_token.arrival_of(claims), token=token)

    def farewell(self, token: str) -> str:
        """Where somebody's session at the provider is ended, from where they come back to our login page; empty where
        it names no such place. Without the `token` of their login (some are too long to be kept) it asks them first."""
        where = self._metadata().get("end_session_endpoint")
        if not isinstance(where, str) or urlsplit(where).scheme not in ("https", "http"):
            return ""
        known = {"id_token_hint": token} if token else {}
        back = {"client_id": self.settings.client, "post_logout_redirect_uri": f"{self.settings.address}/login"}
        return f"{where}{'&' if '?' in where else '?'}{urlencode({**known, **back})}"

    def _exchanged(self, code: str, begun: BegunLogin) -> str:
        from authlib.common.errors import AuthlibBaseError
        from requests import RequestException

        where = self._metadata()["token_endpoint"]
        try:
            with self._session() as session:
                found = session.fetch_token(
                    where, grant_type="authorization_code", code=code, code_verifier=begun.verifier, timeout=PATIENCE
                )
        except AuthlibBaseError as error:
            raise NotAllowed(f"The login was not taken by the provider ({error.error}). Log in again.") from None
        except (RequestException, ValueError) as error:
            raise self._away(where, error) from None
        token = found.get("id_token")
        if not isinstance(token, str):
            raise NotAllowed("Expected an ID token from the provider, got none. Whoever runs it can tell more.")
        return token

    def _session(self) -> Any:
        from authlib.integrations.requests_client import OAuth2Session

        takes = self._metadata().get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        basic = "client_secret_basic" in takes
        how = ("client_secret_basic" if basic else "client_secret_post") if self.settings.secret else "none"
        return OAuth2Session(
            self.settings.client, self.settings.secret or None, token_endpoint_auth_method=how, scope=SCOPES,
            redirect_uri=self.settings.redirect, code_challenge_method="S256",
        )  # fmt: skip

    # ---------------------------------------------------------------- what it says of itself

    def _metadata(self) -> dict[str, Any]:
        issuer = self.settings.issuer
        found = self._asked(f"{issuer.rstrip('/')}/.well-known/openid-configuration", KEPT)
        if found.get("issuer") != issuer:
            raise ResourceError(
                f"Expected the OpenID provider to call itself '{issuer}', as SHOAL_OIDC_ISSUER does, got "
                f"'{str(found.get('issuer'))[:200]}'. Set the variable to that, if it is yours."
            )
        if missing := [name for name in ENDPOINTS if not isinstance(found.get(name), str)]:
            raise ResourceError(f"Expected the OpenID provider to name its {missing[0]}, but it does not.")
        return found

    def _keys(self, metadata: dict[str, Any], newer_than: float = KEPT) -> dict[str, Any]:
        return self._asked(metadata["jwks_uri"], newer_than)

    def _asked(self, where: str, newer_than: float) -> dict[str, Any]:
        with self._lock:
            at, known = self._known.get(where, (0.0, {}))
            if not known or time.monotonic() - at > newer_than:
                known = self._fetched(where)
                self._known[where] = time.monotonic(), known
            return known

    def _fetched(self, where: str) -> dict[str, Any]:
        import requests

        try:
            answer = requests.get(where, timeout=PATIENCE)
            answer.raise_for_status()
            found = answer.json()
        except (requests.RequestException, ValueError) as error:
            raise self._away(where, error) from None
        if not isinstance(found, dict):
            raise self._away(where, ValueError("no JSON object"))
        return found

    def _away(self, where: str, error: Exception) -> ResourceError:
        return ResourceError(f"Expected an answer of the OpenID provider at {where}, got: {str(error)[:300]}")
