"""How a provider is named, and what is refused in words before a server starts."""

from __future__ import annotations

import os

import pytest

from shoal.errors import ConfigError
from shoal.people.oidc.settings import ADDRESS, CLIENT, DOMAINS, ISSUER, ROLE, SECRET, take_out
from shoal.runs.tickets import terms_here

GOOD = {ISSUER: "https://login.example.org/realm", CLIENT: "shoal", ADDRESS: "https://shoal.example.org/base/"}


def test_what_is_named_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**GOOD, SECRET: "hush", DOMAINS: " Example.org,, example.com "}.items():
        monkeypatch.setenv(name, value)
    assert "hush" not in str(terms_here(1).environment)  # what a run is launched with is written to a file
    found = take_out()
    assert found is not None
    assert (found.secret, found.role, found.domains) == ("hush", "viewer", {"example.org", "example.com"})
    assert found.redirect == "https://shoal.example.org/base/login/provider/back"
    assert SECRET not in os.environ
    assert "hush" not in repr(found)


def test_none_is_none() -> None:
    assert take_out({"SHOAL_OIDC_NAME": " "}) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [({ISSUER: ""}, "Expected SHOAL_OIDC_ISSUER beside"), ({CLIENT: ""}, "CLIENT_ID"), ({ADDRESS: ""}, "ADDRESS"),
     ({ISSUER: "http://login.example.org"}, "https://"), ({ADDRESS: "http://shoal.example.org"}, "https://"),
     ({ISSUER: "login.example.org"}, "https://"), ({ADDRESS: "https://x.org/?a=b"}, "https://"),
     ({DOMAINS: "*"}, "example.org"), ({DOMAINS: "@example.org"}, "example.org"), ({ROLE: "admin"}, "one by one"),
     ({ROLE: "root"}, "viewer or editor")],
)  # fmt: skip
def test_what_cannot_be_used_is_said(change: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        take_out({**GOOD, **change})
