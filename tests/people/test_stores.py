"""What every store of people keeps: one suite over all of them; and what is special to a file of SQLite."""

from __future__ import annotations

import dataclasses
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.errors import DamagedFile, StateError
from shoal.people.records import Colleague, PeopleStore, entry
from shoal.people.sqlite_people import SqlitePeople, mark_of

ADA = Colleague("ada", "admin", "$argon2id$", created=1.5)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PeopleStore]:
    found = SqlitePeople(tmp_path / "people.sqlite")
    yield found
    found.close()


def test_people_come_back_as_they_were_put(store: PeopleStore) -> None:
    bob = Colleague("bob", "viewer", "x", "disabled", True, 2.5, 3.5)
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


# ------------------------------------------------------------------ a file of SQLite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.sqlite"


def changed(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_the_log_cannot_be_changed_or_shortened(store: PeopleStore, path: Path) -> None:
    store.note(entry("ada", "deed"))
    for statement in ("UPDATE audit SET who = 'bob'", "DELETE FROM audit"):
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            changed(path, statement)


@pytest.mark.parametrize(
    ("harm", "broken"),
    [("UPDATE audit SET who = 'bob' WHERE id = 3", 3), ("DELETE FROM audit WHERE id = 3", 4),
     ("DELETE FROM audit WHERE id = 1", 2)],
)  # fmt: skip
def test_an_entry_that_was_changed_or_taken_out_is_missed(
    store: PeopleStore, path: Path, harm: str, broken: int
) -> None:
    for number in range(6):
        store.note(entry("ada", f"deed {number}"))
    changed(path, "DROP TRIGGER audit_stays", "DROP TRIGGER audit_grows", harm)
    assert store.first_broken() == broken


def test_a_changed_account_and_a_damaged_file_are_told(store: PeopleStore, path: Path) -> None:
    store.put(dataclasses.replace(ADA, role="viewer"))
    changed(path, "UPDATE people SET role = 'admin'")
    with pytest.raises(DamagedFile, match="account of 'ada'"):
        store.people()
    path.with_name("other").write_bytes(b"no database at all, " * 100)
    with pytest.raises(DamagedFile, match="damaged"):
        SqlitePeople(path.with_name("other"))


def test_a_newer_file_is_refused_and_a_missing_one_has_no_mark(path: Path) -> None:
    assert mark_of(path) == ()
    changed(path, "PRAGMA user_version = 99")
    with pytest.raises(StateError, match="newer version"):
        SqlitePeople(path)


KILLED = """
import sys
from pathlib import Path
from shoal.people.records import entry
from shoal.people.sqlite_people import SqlitePeople
store = SqlitePeople(Path(sys.argv[1]))
number = 0
while True:
    store.note(entry("ada", f"deed {number}"))
    number += 1
    print(number, flush=True)
"""


def test_what_was_written_is_there_after_a_kill(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        written = 0
        while written < 20:
            written = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        written += len(process.stdout.read().split())
    store = SqlitePeople(path)
    assert len(store.entries(10_000)) >= written
    assert store.first_broken() is None
    store.close()
