"""Accounts: an admin is always left, names are given once, everything is written down; and the command for them."""

from __future__ import annotations

import io

import pytest

from shoal.errors import ConfigError, StateError
from shoal.home import people_file
from shoal.people import accounts, passwords
from shoal.people.acting import as_person
from shoal.people.known import KnownPeople
from shoal.people.person import Person
from support.tables import shoal

pytestmark = pytest.mark.usefixtures("cheap")
SECRET = "correct horse"


@pytest.fixture(params=["file", "database"])
def either(request: pytest.FixtureRequest) -> str:
    """Accounts in the home's file, and in the team's database."""
    if request.param == "database":
        request.getfixturevalue("team_database")
    return str(request.param)


def test_without_accounts_there_is_no_file_and_no_log() -> None:
    accounts.note("something")
    assert (accounts.there_are_any(), accounts.everybody(), accounts.audit()) == (False, [], [])
    assert not people_file().exists()


@pytest.mark.usefixtures("either")
def test_the_first_is_an_admin_and_one_is_always_left() -> None:
    with pytest.raises(StateError, match="first account to be an admin's"):
        accounts.add("bob", SECRET, "editor")
    accounts.add(" Ada ", SECRET, "admin")
    accounts.add("bob", SECRET, "editor")
    for change in (lambda: accounts.give_role("ada", "editor"), lambda: accounts.disable("ada"),
                   lambda: accounts.remove("ada")):  # fmt: skip
        with pytest.raises(StateError, match="would leave none"):
            change()
    accounts.remove("bob")
    accounts.remove("ada")
    assert not accounts.there_are_any()


@pytest.mark.usefixtures("either")
def test_a_name_is_given_once_and_is_plain() -> None:
    accounts.add("ada", SECRET, "admin")
    accounts.add("bob", SECRET, "viewer")
    accounts.remove("bob")
    for name, why in (("ADA", "has an account already"), ("bob", "was somebody's")):
        with pytest.raises(StateError, match=why):
            accounts.add(name, SECRET, "viewer")
    for name in ("", "../x", "a b", "x" * 65, "<script>", ".hidden", "ä"):
        with pytest.raises(ConfigError, match="Expected a name of up to 64 letters"):
            accounts.add(name, SECRET, "viewer")
    with pytest.raises(StateError, match="got 'carol'"):
        accounts.disable("carol")


@pytest.mark.usefixtures("either")
def test_what_is_done_is_written_down_with_who_and_from_where() -> None:
    accounts.add("ada", SECRET, "admin")
    with as_person(Person("ada", "admin"), "10.0.0.1"):
        accounts.add("bob", SECRET, "viewer")
        accounts.give_role("bob", "editor")
    said = [(one.who, one.deed, one.thing, one.origin) for one in accounts.audit()]
    assert said == [
        ("ada", "role editor", "bob", "10.0.0.1"), ("ada", "person added", "bob (viewer)", "10.0.0.1"),
        ("the machine", "person added", "ada (admin)", ""),
    ]  # fmt: skip


def test_a_server_knows_every_change_at_once_and_a_broken_file_lets_nobody_in() -> None:
    known = KnownPeople()
    assert not known.are_there
    accounts.add("ada", SECRET, "admin")
    accounts.add("bob", SECRET, "viewer")
    for _ in range(5):
        accounts.disable("bob")
        assert known.active("bob") is None
        accounts.enable("bob")
        assert known.active("bob")
    people_file().write_bytes(b"damaged " * 1000)
    assert known.are_there
    assert known.active("ada") is None
    assert "cannot be read" in known.broken
    assert accounts.there_are_any()


@pytest.mark.usefixtures("either")
def test_a_hash_of_another_time_is_made_anew_at_the_next_login(monkeypatch: pytest.MonkeyPatch) -> None:
    before = accounts.add("ada", SECRET, "admin")
    monkeypatch.setattr(passwords, "TIME", 2)
    passwords._hasher.cache_clear()
    accounts.logged_in(before, SECRET, "127.0.0.1")
    after = accounts.named("ada")
    assert after.password != before.password
    assert passwords.matches(SECRET, after.password)
    assert after.seen > 0


def test_the_command_says_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(SECRET + "\n"))
    added = shoal("people", "add", "ada")
    assert (added.code, added.out) == (0, "ada can log in, as admin\n"), added.err
    assert SECRET.encode() not in people_file().read_bytes()
    assert people_file().stat().st_mode & 0o077 == 0
    refused = shoal("people", "remove", "nobody")
    assert refused.code == 1
    assert "See them: shoal people list." in refused.err
    log = shoal("people", "audit")
    assert "person added" in log.out
    assert "command line of" in log.out
