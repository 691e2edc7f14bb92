"""Where the database is, and that its password is told to nobody."""

from __future__ import annotations

import pytest

from shoal.database.address import VARIABLE, address, is_set, shown
from shoal.database.connections import Database, database
from shoal.errors import ConfigError


def test_without_the_variable_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, "", "  "):
        monkeypatch.delenv(VARIABLE, raising=False)
        if value is not None:
            monkeypatch.setenv(VARIABLE, value)
        assert not is_set()
        assert address() == ""
        with pytest.raises(ConfigError, match="it is not set"):
            database()


@pytest.mark.parametrize("given", ["mysql://u:pa55@h/d", "u:pa55@h/d", "postgresql:pa55", "/pa55.sqlite"])
def test_another_kind_of_address_is_refused_and_not_repeated(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(ConfigError, match="postgresql://user:password@host/database") as raised:
        address()
    assert "pa55" not in str(raised.value)


@pytest.mark.parametrize("given", ["postgresql://u:pa55%zz@h/d", "postgresql://h/d?pa55=1"])
def test_one_that_cannot_be_read_is_not_repeated(given: str) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'shoal[postgres]'")
    with pytest.raises(ConfigError) as raised, Database(given).connection():
        pass
    assert "pa55" not in str(raised.value)
    assert "%40" in str(raised.value)


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("postgresql://ann:pa55@db.example:5433/shoal", "postgresql://ann@db.example:5433/shoal"),
        ("postgresql://ann:pa:5@5@db/shoal?sslmode=require", "postgresql://ann@db/shoal"),
        ("postgres://db/shoal?password=pa55&user=ann", "postgres://ann@db/shoal"),
        ("postgresql://ann:pa55@/shoal?host=/run/x", "postgresql://ann@/run/x/shoal"),
        ("postgresql://ann:pa55@a:1,b:2/shoal", "postgresql://ann@a:1,b:2/shoal"),
        ("postgresql://[::1/pa55", "the database"),
    ],
)
def test_people_see_it_without_the_password(given: str, seen: str) -> None:
    assert shown(given) == seen
    assert "pa55" not in shown(given)
