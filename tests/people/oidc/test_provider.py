"""The provider as a server asks it: keys that are new, and a provider that calls itself something else."""

from __future__ import annotations

import dataclasses
import urllib.parse
from pathlib import Path

import pytest

from shoal.errors import ResourceError
from shoal.people.oidc import provider as providers
from shoal.people.oidc.begun import BegunLogin
from shoal.people.oidc.provider import OpenIdProvider
from shoal.people.oidc.settings import OidcSettings, take_out
from support.team import openid
from support.team.openid import Provider


def settings_of(known: Provider) -> OidcSettings:
    found = take_out(known.settings("http://localhost:5000"))
    assert found is not None
    return found


def arrived(known: Provider, client: OpenIdProvider) -> str:
    known.knows("s-ada", email="Ada@example.org", email_verified=True)
    begun = BegunLogin.now("")
    back = known.logs_in(client.address(begun), "s-ada")
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(back).query)["code"][0]
    return client.arrival(code, begun).email


def test_keys_that_are_new_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "PAUSE", 0.0)
    with openid.provider(tmp_path) as before:
        client = OpenIdProvider(settings_of(before))
        assert arrived(before, client) == "ada@example.org"
    with openid.provider(tmp_path, before.port) as after:  # another process, with a key of its own
        assert arrived(after, client) == "ada@example.org"
        named = dataclasses.replace(client.settings, issuer=f"http://127.0.0.1:{after.port}/")
        with pytest.raises(ResourceError, match="SHOAL_OIDC_ISSUER"):
            OpenIdProvider(named).address(BegunLogin.now(""))
    with pytest.raises(ResourceError, match="Expected an answer of the OpenID provider"):
        OpenIdProvider(client.settings).address(BegunLogin.now(""))
