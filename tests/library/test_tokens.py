"""Tokens: shown once, hashed at rest, scoped, ending; and the command that makes them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from shoal.errors import ConfigError, StateError
from shoal.home import tokens_file
from shoal.library import tokens
from support.tables import shoal


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_token_is_kept_as_its_hash_and_known_again() -> None:
    text, made = tokens.create("ci", "write", 1)
    assert text not in tokens_file().read_text()
    assert oct(tokens_file().stat().st_mode & 0o077) == "0o0"
    door = tokens.KnownTokens()
    assert door.admits(text) == made
    assert door.admits(text[:-1]) is None
    assert door.admits("shoal_") is None
    assert door.admits("") is None


def test_it_ends_and_can_be_ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    door = tokens.KnownTokens()
    short, _ = tokens.create("short", days=1)
    long, kept = tokens.create("long", days=3)
    now = time.time()
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: now + 2 * tokens.DAY)
        assert (door.admits(short), door.admits(long)) == (None, kept)
    assert tokens.revoke("long").id == kept.id
    assert door.admits(long) is None
    with pytest.raises(StateError, match="shoal token list"):
        tokens.revoke("long")


def test_when_it_was_used_is_noted_once_a_minute() -> None:
    text, made = tokens.create("ci")
    door = tokens.KnownTokens()
    door.note_use(made)
    (used,) = tokens.tokens()
    assert time.time() - used.used < 60
    before = tokens_file().stat().st_mtime_ns
    found = door.admits(text)
    assert found is not None
    door.note_use(found)
    assert tokens_file().stat().st_mtime_ns == before


def test_a_damaged_file_lets_nobody_in() -> None:
    text, _ = tokens.create("ci")
    door = tokens.KnownTokens()
    tokens_file().write_text(tokens_file().read_text().replace("read", "writ"))
    assert door.admits(text) is None
    with pytest.raises(StateError, match="make them anew"):
        tokens.tokens()


@pytest.mark.parametrize(("name", "scope", "days"), [("", "read", 1), ("a\nb", "read", 1), ("a", "all", 1), ("a", "read", 0),
                                                     ("a", "read", float("inf")), ("x" * 81, "read", 1)])  # fmt: skip
def test_what_no_token_can_be(name: str, scope: str, days: float) -> None:
    with pytest.raises(ConfigError):
        tokens.create(name, scope, days)


def test_the_command() -> None:
    assert "no tokens yet" in shoal("token", "list").out
    made = shoal("token", "create", "build server", "--scope", "write", "--days", "7")
    assert made.out.startswith("shoal_")
    listed = shoal("token", "list").out
    assert "build server" in listed
    assert "never" in listed
    assert made.out.split()[0] not in listed
    assert "no longer good" in shoal("token", "revoke", "build server").out
    assert shoal("token", "list", "--json").json == {"tokens": []}
    assert shoal("token", "revoke").code == 1
