"""An OpenID provider of one's own, as a process: that of PyPI's oidc-provider-mock, which also keeps PKCE and can lie.

`python openid.py PORT` is the process. A test tells it whom it knows (`knows`) and, for hostile cases, how its next
tokens are wrong (`lies`): each lie is signed with its own key, unless that is the lie.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import html
import http.client
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLIENT, SECRET = "shoal", "s3cret-Of-The-Client"
LIES = ("nonce", "audience", "second audience", "issuer", "unsigned", "hmac", "other key", "expired", "no subject")


@dataclass
class Provider:
    port: int
    process: subprocess.Popen[bytes]

    @property
    def issuer(self) -> str:
        return f"http://localhost:{self.port}"

    def settings(self, address: str, **more: str) -> dict[str, str]:
        """What the dashboard at this address is started with."""
        return {"SHOAL_OIDC_ISSUER": self.issuer, "SHOAL_OIDC_CLIENT_ID": CLIENT, "SHOAL_OIDC_CLIENT_SECRET": SECRET,
                "SHOAL_OIDC_ADDRESS": address, **more}  # fmt: skip

    def knows(self, subject: str, **claims: Any) -> None:
        self._put(f"/users/{urllib.parse.quote(subject, safe='')}", claims)

    def lies(self, how: str = "") -> None:
        assert how in ("", *LIES)
        self._put("/lie", {"how": how})

    def logs_in(self, address: str, subject: str) -> str:
        """Where it sends the browser of somebody who logs in there."""
        assert address.startswith(f"{self.issuer}/oauth2/authorize?"), address
        return self._sent(address, urllib.parse.urlencode({"sub": subject}).encode())

    def confirms_log_out(self, address: str) -> str:
        """Where its page sends the browser of somebody who says yes there."""
        with urllib.request.urlopen(address, timeout=60) as page:
            shown = page.read().decode()
        back = re.search(r'name="redirect_uri"\s+value="([^"]*)"', shown)
        form = urllib.parse.urlencode({"redirect_uri": html.unescape(back[1]) if back else ""}).encode()
        return self._sent(f"{self.issuer}/oauth2/end_session/confirm", form)

    def denies(self, address: str) -> str:
        """With the state, which RFC 6749 (4.1.2.1) asks for and the library leaves out."""
        state = urllib.parse.parse_qs(urllib.parse.urlsplit(address).query)["state"][0]
        return self._sent(address, b"action=deny") + f"&state={state}"

    def _sent(self, address: str, form: bytes) -> str:
        connection = http.client.HTTPConnection("localhost", self.port, timeout=60)
        try:
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", address.removeprefix(self.issuer), form, kind)
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 302, body
            return str(answer.headers["location"])
        finally:
            connection.close()

    def _put(self, path: str, body: dict[str, Any]) -> None:
        asked = urllib.request.Request(
            self.issuer + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="PUT"
        )
        urllib.request.urlopen(asked, timeout=60).close()


@contextlib.contextmanager
def provider(folder: Path, port: int = 0) -> Iterator[Provider]:
    from support.browser import free_port  # which the process itself does not need

    port = port or free_port()
    environment = {**os.environ, "AUTHLIB_INSECURE_TRANSPORT": "1"}
    with (folder / "provider.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, str(port)], env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    found = Provider(port, process)
    try:
        until = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{found.issuer}/.well-known/openid-configuration", timeout=60).close()
                break
            assert process.poll() is None, (folder / "provider.log").read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        yield found
    finally:
        process.kill()
        process.wait()


# ------------------------------------------------------------------ the process


def serve(port: int) -> None:
    import flask
    from oidc_provider_mock import app

    from werkzeug.serving import make_server  # isort: skip

    found = app(require_nonce=True)
    state: dict[str, Any] = {"how": "", "challenges": {}}

    @found.put("/lie")
    def lie() -> tuple[str, int]:
        state["how"] = flask.request.get_json()["how"]
        return "", 204

    @found.before_request
    def keep_pkce() -> Any:
        """RFC 7636, which the library leaves out: a code is for whoever knows what its challenge was made of."""
        return _refused_by_pkce(flask.request, state["challenges"])

    @found.after_request
    def changed(answer: Any) -> Any:
        if flask.request.path == "/oauth2/authorize" and answer.status_code == 302:
            code = urllib.parse.parse_qs(urllib.parse.urlsplit(answer.headers["location"]).query).get("code", [""])[0]
            state["challenges"][code] = flask.request.args.get("code_challenge", "")
        if flask.request.path == "/oauth2/token" and state["how"] and answer.status_code == 200:
            body = answer.get_json()
            key = flask.g.oidc_provider_mock_storage.jwk.as_dict(is_private=True)
            body["id_token"] = _wrong(body["id_token"], state["how"], key)
            answer.set_data(json.dumps(body))
        return answer

    make_server("localhost", port, found, threaded=True).serve_forever()


def _refused_by_pkce(request: Any, challenges: dict[str, str]) -> Any:
    if request.path == "/oauth2/authorize":
        asked = request.args
        proper = len(asked.get("code_challenge", "")) == 43 and asked.get("code_challenge_method") == "S256"
        return None if proper else ("expected a challenge", 400)
    if request.path == "/oauth2/token":
        digest = hashlib.sha256(request.form.get("code_verifier", "").encode()).digest()
        made = _in_base64(digest)
        known = challenges.get(request.form.get("code", ""), made)  # an unknown code is the library's to refuse
        return None if made == known else ({"error": "invalid_grant"}, 400)
    return None


def _wrong(token: str, how: str, key: dict[str, Any]) -> str:
    """The same token with one thing wrong."""
    from joserfc import jwt
    from joserfc.jwk import RSAKey

    head, body, _ = token.split(".")
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in (head, body))
    own = RSAKey.import_key(key)
    claims |= {
        "nonce": {"nonce": "another"}, "audience": {"aud": "another"}, "issuer": {"iss": "https://evil.example"},
        "second audience": {"aud": [CLIENT, "another"]}, "expired": {"exp": 1_000_000_000}, "no subject": {"sub": ""},
    }.get(how, {})  # fmt: skip
    if how in ("unsigned", "hmac"):
        parts = (json.dumps({**header, "alg": "none" if how == "unsigned" else "HS256"}), json.dumps(claims))
        text = ".".join(_in_base64(part.encode()) for part in parts)
        # with what everybody knows of the key, in place of a secret
        return f"{text}." + (
            _in_base64(hmac.digest(own.as_pem(False), text.encode(), "sha256")) if how == "hmac" else ""
        )
    if how == "other key":
        own = RSAKey.generate_key(2048, {"kid": header.get("kid", "other")})
    return jwt.encode(header, claims, own, algorithms=["RS256"])


def _in_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
