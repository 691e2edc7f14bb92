"""Accounts in a team's database: how they come there, what a server knows of them, and what holds while it is away."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from shoal.database.connections import close_all
from shoal.errors import NotAllowed, StateError
from shoal.home import people_elsewhere_file, people_file
from shoal.people import accounts, known, moving, place
from shoal.people.acting import as_person
from shoal.people.known import GRACE, KnownPeople
from shoal.people.person import Person
from support.tables import shoal
from support.team.postgres import Outage, Postgres

pytestmark = pytest.mark.usefixtures("cheap")
SECRET = "correct horse"


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def in_file(home: Path) -> Path:
    """A home with accounts in its own file."""
    accounts.add("ada", SECRET, "admin")
    accounts.add("bob", SECRET, "viewer")
    accounts.add("eve", SECRET, "viewer")
    accounts.remove("eve")
    return home


# ------------------------------------------------------------------ which place


@pytest.mark.usefixtures("team_database")
def test_accounts_of_a_team_are_in_its_database_and_in_no_file() -> None:
    assert not accounts.there_are_any()
    assert not people_elsewhere_file().exists()
    accounts.add("ada", SECRET, "admin")
    assert people_elsewhere_file().exists()
    assert [one.name for one in accounts.everybody()] == ["ada"]
    assert not people_file().exists()
    assert SECRET not in people_elsewhere_file().read_text()


@pytest.mark.usefixtures("team_database")
def test_a_home_remembers_that_its_accounts_are_elsewhere(
    monkeypatch: pytest.MonkeyPatch, postgres: Postgres, empty_database: str
) -> None:
    accounts.add("ada", SECRET, "admin")
    server = KnownPeople()
    assert server.active("ada")
    with monkeypatch.context() as unset:
        unset.delenv("SHOAL_DATABASE")
        assert server.are_there
        assert server.active("ada") is None
        assert "SHOAL_DATABASE is not set here" in server.broken
        assert accounts.there_are_any()
        with pytest.raises(StateError, match="in a team's database"):
            accounts.add("eve", SECRET, "admin")
        unset.setenv("SHOAL_DATABASE", "http://nonsense")
        assert server.are_there
        assert "Expected SHOAL_DATABASE as" in server.broken
    assert server.active("ada")
    postgres.execute("DELETE FROM shoal.people", empty_database)
    known_anew = KnownPeople()
    assert known_anew.are_there
    assert "it has none" in known_anew.broken
    people_elsewhere_file().unlink()
    known_anew.look()
    assert not known_anew.are_there


@pytest.mark.usefixtures("team_database")
def test_with_the_last_account_the_home_is_as_before() -> None:
    accounts.add("ada", SECRET, "admin")
    assert accounts.there_are_any()
    accounts.remove("ada")
    assert not accounts.there_are_any()
    assert not KnownPeople().are_there


# ------------------------------------------------------------------ moved


def test_accounts_in_a_file_are_moved_with_their_log(in_file: Path, request: pytest.FixtureRequest) -> None:
    before, log = accounts.everybody(), accounts.audit()
    request.getfixturevalue("team_database")
    server = KnownPeople()
    assert server.are_there
    assert server.active("ada") is None
    assert "shoal people move" in server.broken
    with pytest.raises(StateError, match="a database that has none"):
        accounts.add("mallory", SECRET, "admin")
    with as_person(Person("bob", "viewer")), pytest.raises(NotAllowed):
        moving.move()

    done = shoal("people", "move", "--json")
    assert (done.code, json.loads(done.out)) == (0, {"people": 2, "entries": 4}), done.err
    assert accounts.everybody() == before
    assert accounts.audit()[1:] == log
    assert accounts.audit()[0].deed == "accounts moved"
    assert accounts.first_broken() is None
    server.look()
    assert server.active("ada")
    with pytest.raises(StateError, match="was somebody's"):
        accounts.add("eve", SECRET, "viewer")
    assert not people_file().exists()
    assert (in_file / f"people.sqlite{place.MOVED}").stat().st_mode & 0o077 == 0


def test_nothing_is_moved_onto_accounts_that_are_there(in_file: Path, request: pytest.FixtureRequest) -> None:
    aside = people_file().rename(in_file / "aside")
    request.getfixturevalue("team_database")
    accounts.add("carol", SECRET, "admin")
    aside.rename(people_file())
    refused = shoal("people", "move")
    assert refused.code == 1
    assert "there are some already" in refused.err
    assert [one.name for one in accounts.everybody()] == ["carol"]
    assert people_file().exists()


def test_moving_needs_a_database_and_a_file(in_file: Path, request: pytest.FixtureRequest) -> None:
    refused = shoal("people", "move")
    assert (refused.code, "Expected SHOAL_DATABASE to name a database" in refused.err) == (1, True), refused.err
    request.getfixturevalue("team_database")
    people_file().unlink()
    refused = shoal("people", "move")
    assert (refused.code, "no such file" in refused.err) == (1, True), refused.err


# ------------------------------------------------------------------ a server


@pytest.mark.usefixtures("team_database")
def test_a_server_sees_every_change_once_what_it_knew_is_not_fresh() -> None:
    clock = Clock()
    server = KnownPeople(clock)
    assert not server.are_there
    accounts.add("ada", SECRET, "admin")
    accounts.add("bob", SECRET, "viewer")
    for _ in range(5):
        accounts.disable("bob")
        clock.now += 1.01 * known.FRESH
        assert server.active("bob") is None
        accounts.enable("bob")
        clock.now += 1.01 * known.FRESH
        assert server.active("bob")


@pytest.mark.usefixtures("team_database")
def test_while_the_database_is_away_those_who_are_in_stay_for_a_while(outage: Outage) -> None:
    accounts.add("ada", SECRET, "admin")
    clock = Clock()
    server, late = KnownPeople(clock), KnownPeople(clock)
    assert server.active("ada")
    outage.begin()
    clock.now += GRACE - 1
    assert server.active("ada")
    assert "cannot be reached" in server.away
    assert not server.broken
    clock.now += 2
    assert server.active("ada") is None
    assert server.are_there  # and so nothing is open
    assert "cannot be reached" in server.broken
    assert late.are_there  # which has never seen anybody
    assert late.active("ada") is None
    assert accounts.there_are_any()
    outage.end()
    close_all()
    clock.now += 1
    for one in (server, late):
        one.look()
        assert one.active("ada")
        assert (one.away, one.broken) == ("", "")


@pytest.mark.usefixtures("team_database")
def test_a_dashboard_without_accounts_stays_open_while_the_database_is_away(outage: Outage) -> None:
    clock = Clock()
    server = KnownPeople(clock)
    assert not server.are_there
    outage.begin()
    clock.now += 10 * GRACE
    assert not server.are_there


@pytest.mark.usefixtures("team_database")
def test_nobody_waits_twice_for_a_database_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts.add("ada", SECRET, "admin")
    clock = Clock()
    server = KnownPeople(clock)
    assert server.active("ada")
    monkeypatch.setattr(known, "PATIENCE", 0.01)
    with server._lock:  # a look that takes as long as this
        clock.now += GRACE - 1
        asked = threading.Thread(target=lambda: [server.active("ada") for _ in range(1000)])
        asked.start()
        asked.join(60)
        assert not asked.is_alive()
        assert server.active("ada")
        clock.now += 2
        assert server.active("ada") is None
        assert "does not answer" in server.broken
    assert server._beside is not None
    server._beside.join()
    assert server.active("ada")
