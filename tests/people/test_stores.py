"""What every store of people keeps: one suite over all of them; and what is special to a file of SQLite."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.database.connections import database
from shoal.errors import DamagedFile, ResourceError, StateError
from shoal.people.postgres_people import PostgresPeople
from shoal.people.records import PeopleStore, TeamMember, entry
from shoal.people.sqlite_people import STEPS, SqlitePeople, mark_of

ADA = TeamMember("ada", "admin", "$argon2id$", created=1.5)
By = Callable[..., None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.sqlite"


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which store; PEOPLE_FILE and SHOAL_DATABASE say where, to processes that a test starts too."""
    monkeypatch.setenv("PEOPLE_FILE", str(path))
    if request.param == "postgres":
        request.getfixturevalue("team_database")
    return str(request.param)


@pytest.fixture
def store(kind: str, path: Path) -> Iterator[PeopleStore]:
    found: PeopleStore = SqlitePeople(path) if kind == "sqlite" else PostgresPeople(database())
    yield found
    found.close()


@pytest.fixture
def by_hand(kind: str, path: Path, request: pytest.FixtureRequest) -> By:
    """Statements of somebody who has the database itself, past Shoal; without the triggers if they say so."""

    def changed(*statements: str, unguarded: bool = False) -> None:
        if kind == "sqlite":
            free = ["DROP TRIGGER audit_stays", "DROP TRIGGER audit_grows"] if unguarded else []
            connection = sqlite3.connect(path, isolation_level=None)
            try:
                for statement in [*free, *statements]:
                    connection.execute(statement)
            finally:
                connection.close()
        else:
            free = ["DROP TRIGGER audit_only_grows ON audit"] if unguarded else []
            name, server = request.getfixturevalue("team_database"), request.getfixturevalue("postgres")
            server.execute("; ".join(["SET search_path TO shoal", *free, *statements]), name)

    return changed


def test_people_come_back_as_they_were_put(store: PeopleStore) -> None:
    bob = TeamMember("bob", "viewer", "x", "disabled", True, 2.5, 3.5)
    store.put(bob)
    store.put(ADA)
    assert store.people() == [ADA, bob]
    store.put(dataclasses.replace(bob, role="editor"))
    assert [one.role for one in store.people()] == ["admin", "editor"]


def test_the_log_grows_and_is_read_from_its_end(store: PeopleStore) -> None:
    for number in range(25):
        store.note(entry("ada", f"deed {number}", "run \ud800", "127.0.0.1"))
    newest = store.entries(10)
    assert [one.deed for one in newest] == [f"deed {number}" for number in range(24, 14, -1)]
    assert next(one.deed for one in store.entries(10, before=newest[-1].id)) == "deed 14"
    assert store.first_broken() is None


def test_every_change_has_another_mark(store: PeopleStore) -> None:
    seen = {store.mark()}
    for number in range(50):  # many within one tick of a clock
        store.put(dataclasses.replace(ADA, seen=float(number)))
        seen.add(store.mark())
    assert len(seen) == 51


def test_what_is_changed_together_is_there_together_or_not_at_all(store: PeopleStore) -> None:
    def half() -> None:
        with store.changes():
            store.put(ADA)
            store.note(entry("ada", "person added", "ada"))
            assert [one.name for one in store.people()] == ["ada"]  # inside it is there
            raise ResourceError("no room")

    with pytest.raises(ResourceError, match="no room"):
        half()
    assert (store.people(), store.entries(10)) == ([], [])
    with store.changes():
        store.put(ADA)
        with store.changes():
            store.note(entry("ada", "person added", "ada"))
    assert (store.people(), len(store.entries(10))) == ([ADA], 1)


def test_every_text_can_be_written_down(store: PeopleStore) -> None:
    for text in ("x" * 10_000, "\0\x1b[2J", "'; DROP TABLE audit; --", "%s %(x)s", "\U0001f41f", "\ud800"):
        store.note(entry(text, text, text, text))
    assert len(store.entries(100)) == 6
    assert store.first_broken() is None


def test_the_log_cannot_be_changed_or_shortened(store: PeopleStore, by_hand: By) -> None:
    store.note(entry("ada", "deed"))
    for statement in ("UPDATE audit SET who = 'bob'", "DELETE FROM audit"):
        with pytest.raises(Exception, match="only grows"):  # of either driver
            by_hand(statement)


@pytest.mark.parametrize(
    ("harm", "broken"),
    [("UPDATE audit SET who = 'bob' WHERE id = 3", 3), ("DELETE FROM audit WHERE id = 3", 4),
     ("DELETE FROM audit WHERE id = 1", 2)],
)  # fmt: skip
def test_an_entry_that_was_changed_or_taken_out_is_missed(
    store: PeopleStore, by_hand: By, harm: str, broken: int
) -> None:
    for number in range(6):
        store.note(entry("ada", f"deed {number}"))
    by_hand(harm, unguarded=True)
    assert store.first_broken() == broken


def test_an_account_that_was_changed_by_hand_is_told_and_marked(store: PeopleStore, by_hand: By) -> None:
    store.put(dataclasses.replace(ADA, role="viewer"))
    before = store.mark()
    by_hand("UPDATE people SET role = 'admin'")
    assert store.mark() != before
    with pytest.raises(StateError, match="account of 'ada'"):
        store.people()


WRITER = """
import os, sys
from pathlib import Path
from shoal.database.connections import database
from shoal.people.postgres_people import PostgresPeople
from shoal.people.records import entry
from shoal.people.sqlite_people import SqlitePeople
store = SqlitePeople(Path(os.environ["PEOPLE_FILE"])) if sys.argv[1] == "sqlite" else PostgresPeople(database())
for number in range(int(sys.argv[2])):
    store.note(entry(f"process {os.getpid()}", f"deed {number}"))
    print(number + 1, flush=True)
"""


def writer(kind: str, most: int) -> subprocess.Popen[str]:
    """A process that writes into the log, and says how often it has."""
    return subprocess.Popen([sys.executable, "-c", WRITER, kind, str(most)], stdout=subprocess.PIPE, text=True)


def test_what_was_written_is_there_after_a_kill(store: PeopleStore, kind: str) -> None:
    with writer(kind, 10**9) as process:
        assert process.stdout is not None
        written = 0
        while written < 20:
            written = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        written += len(process.stdout.read().split())
    store.note(entry("ada", "afterwards"))  # nobody holds a lock any more
    assert len(store.entries(10_000)) > written
    assert store.first_broken() is None


def test_several_writers_make_one_chain(store: PeopleStore, kind: str) -> None:
    others = [writer(kind, 40) for _ in range(2)]
    for number in range(40):
        store.note(entry(f"process {os.getpid()}", f"deed {number}"))
    for other in others:
        with other:
            assert other.communicate()[0].split()[-1] == "40"
    found = store.entries(1_000)[::-1]
    assert [one.id for one in found] == list(range(1, 121))
    for who in {one.who for one in found}:
        assert [one.deed for one in found if one.who == who] == [f"deed {number}" for number in range(40)]
    assert store.first_broken() is None


# ------------------------------------------------------------------ a file of SQLite


def test_a_damaged_file_is_told(path: Path) -> None:
    path.write_bytes(b"no database at all, " * 100)
    with pytest.raises(DamagedFile, match="damaged"):
        SqlitePeople(path)


def test_a_newer_file_is_refused_and_a_missing_one_has_no_mark(path: Path) -> None:
    assert mark_of(path) == ()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StateError, match="newer version"):
        SqlitePeople(path)


def test_accounts_of_before_there_were_subjects_stay_proven(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in (*STEPS[0], "PRAGMA user_version = 1"):
        connection.execute(statement)
    row = ["ada", "admin", "$argon2id$", "active", 0, 1.5, 0.0]
    crc = f"{zlib.crc32(json.dumps(row).encode()):08x}"  # as it was made then
    connection.execute("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [*row, crc])
    connection.close()
    for _ in range(2):  # brought up to date, and found so
        with contextlib.closing(SqlitePeople(path)) as store:
            assert store.people() == [ADA]
            bound = dataclasses.replace(ADA, subject="https://login.example.org 1")
            store.put(bound)
            assert store.people() == [bound]
            store.put(ADA)
