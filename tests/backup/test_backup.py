"""Backups of real homes and a real database: restored into empty ones, everything is found; damage changes nothing."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import shutil
import sqlite3
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.dashboard.http.access import set_password
from shoal.database.connections import close_all, database
from shoal.database.copies import tables
from shoal.home import home as home_folder
from shoal.library.saved_models import find_model, save_run
from shoal.people import accounts
from shoal.runs.folder import read_config
from shoal.runs.launch import fork, list_runs
from shoal.settings.values import config_from
from support.library import a_copy, launched, upload
from support.runs import small_table, until
from support.tables import shoal
from support.team.hosts import hosts_in, started
from support.team.postgres import Postgres

KEPT = ("runs", "models", "uploads")


def contents(folder: Path) -> dict[str, str]:
    """The files that a person made, by what is in them; of a store, its rows."""
    found = {}
    for kind in KEPT:
        for path in sorted((folder / kind).rglob("*")):
            if path.is_file() and path.name != "lock" and not path.name.endswith(("-wal", "-shm")):
                found[str(path.relative_to(folder))] = _digest(path)
    return found


def _digest(path: Path) -> str:
    if path.suffix == ".sqlite":
        with contextlib.closing(sqlite3.connect(path)) as store:
            return hashlib.sha256("\n".join(store.iterdump()).encode()).hexdigest()
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def filled(finished: Path, home: Path) -> Path:
    """A home with a run, a model of it, an upload, a password, and things that do not belong into a backup."""
    run = a_copy(finished)
    save_run(run, run.result or {}, "wages")
    upload(home)
    set_password("a long password")
    (home / "cache").mkdir(exist_ok=True)
    (home / "cache" / "block").write_bytes(b"read again")
    return home


@pytest.fixture
def another_database(postgres: Postgres) -> Iterator[str]:
    """The address of one without tables."""
    name = postgres.new_database()
    yield postgres.address(name)
    close_all()
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


def restored(backup: Path, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(to))
    answer = shoal("backup", "restore", backup)
    assert answer.code == 0, answer.err


def test_everything_of_people_is_found_again(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backup = tmp_path / "all.tar.gz"
    accounts.add("ada", "correct horse", "admin")
    people, log = accounts.everybody(), accounts.audit()
    answer = shoal("backup", "create", backup)
    assert answer.code == 0, answer.err
    assert backup.stat().st_mode & 0o777 == 0o600
    assert shoal("backup", "check", backup).out.startswith(f"{backup} is whole: ")
    before, number = contents(filled), list_runs()[0].id
    restored(backup, tmp_path / "new", monkeypatch)
    assert contents(home_folder()) == before
    assert (home_folder() / "password").read_bytes() == (filled / "password").read_bytes()
    assert not (home_folder() / "cache" / "block").exists()
    assert [run.id for run in list_runs()] == [number]
    assert list_runs()[0].state == "finished"
    model = find_model("wages")
    assert model is not None
    assert model.latest is not None
    assert model.latest.contents["model"] == "ridge"
    assert home_folder().stat().st_mode & 0o077 == 0
    restored_then, made, *before_that = accounts.audit()
    assert (accounts.everybody(), before_that, accounts.first_broken()) == (people, log, None)
    assert [one.deed for one in (made, restored_then)] == [
        f"backup {what} (all.tar.gz)" for what in ("made", "restored")
    ]


def test_a_store_that_is_written_to_meanwhile_is_whole(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = list_runs()[0]
    with contextlib.closing(sqlite3.connect(run.metrics_path, check_same_thread=False, isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        busy.execute("INSERT INTO host_samples (place) VALUES (100000)")  # not committed: not there
        assert shoal("backup", "create", tmp_path / "all.tar.gz").code == 0
        busy.execute("ROLLBACK")
    before = _digest(run.metrics_path)
    restored(tmp_path / "all.tar.gz", tmp_path / "new", monkeypatch)
    assert _digest(list_runs()[0].metrics_path) == before


def test_files_that_come_and_go_meanwhile_do_no_harm(filled: Path, tmp_path: Path) -> None:
    """As those of runs at work do."""
    folder, stop = list_runs()[0].directory, threading.Event()

    def churn() -> None:
        number = 0
        while not stop.is_set():
            path = folder / f"progress-{number % 5}.json"
            path.write_text("x" * (number % 1000))
            if number % 3 == 0:
                path.unlink()
            number += 1

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(5):
            assert shoal("backup", "create", tmp_path / "all.tar.gz").code == 0
            assert shoal("backup", "check", tmp_path / "all.tar.gz").code == 0
    finally:
        stop.set()
        thread.join()


def flipped(data: bytes) -> Iterator[bytes]:
    """With one bit another, from the middle on."""
    for place in range(len(data) // 2, len(data)):
        yield data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :]


def says_something_else(data: bytes) -> bool:
    """Not so where another code means the same, as among zeros; then nothing is damaged."""
    try:
        gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return True
    return False


@pytest.mark.parametrize("harm", ["cut", "flip", "text", "gone"])
def test_a_damaged_backup_changes_nothing(
    harm: str, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = tmp_path / "all.tar.gz"
    assert shoal("backup", "create", backup).code == 0
    data = bytearray(backup.read_bytes())
    if harm == "cut":
        backup.write_bytes(data[: len(data) * 2 // 3])
    elif harm == "flip":
        backup.write_bytes(next(filter(says_something_else, flipped(bytes(data)))))
    elif harm == "text":
        backup.write_text("not a backup")
    else:
        backup.unlink()
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "new"))
    answer = shoal("backup", "restore", backup)
    assert answer.code == 1
    assert answer.is_plain()
    assert "backup" in answer.err
    assert not contents(tmp_path / "new")


def test_nothing_is_written_over_what_is_there(filled: Path, tmp_path: Path) -> None:
    assert shoal("backup", "create", tmp_path / "all.tar.gz").code == 0
    before = contents(filled)
    answer = shoal("backup", "restore", tmp_path / "all.tar.gz")
    assert answer.code == 1
    assert "nothing in it" in answer.err
    assert contents(filled) == before


def test_a_table_named_by_mistake_is_not_replaced_and_an_earlier_backup_is(filled: Path, tmp_path: Path) -> None:
    table, earlier = tmp_path / "data.csv", tmp_path / "b.tar.gz"
    table.write_text("a,y\n1,2\n")
    refused = shoal("backup", "create", str(table))
    assert (refused.code, "neither. Give another name." in refused.err) == (1, True)
    assert table.read_text() == "a,y\n1,2\n"
    for _ in range(2):
        assert shoal("backup", "create", str(earlier)).code == 0
    assert shoal("backup", "check", str(earlier)).code == 0


def test_links_are_not_followed(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("elsewhere")
    (list_runs()[0].directory / "link").symlink_to(tmp_path / "secret")
    assert shoal("backup", "create", tmp_path / "all.tar.gz").code == 0
    restored(tmp_path / "all.tar.gz", tmp_path / "new", monkeypatch)
    assert not os.path.lexists(list_runs()[0].directory / "link")


def test_tables_of_a_team_are_found_in_an_empty_database(
    filled: Path, tmp_path: Path, team_database: str, monkeypatch: pytest.MonkeyPatch, another_database: str
) -> None:
    def rows() -> dict[str, list[str]]:
        with database().connection() as connection:
            return {
                name: sorted(row[0] for row in connection.execute(f"SELECT t::text FROM shoal.{name} t"))
                for name in tables(connection)
            }

    accounts.add("ada", "correct horse", "admin")
    accounts.add("bob", "correct horse", "viewer")
    accounts.disable("bob")
    people, log = accounts.everybody(), accounts.audit()
    with database().transaction() as connection:
        connection.execute("INSERT INTO shoal.runs (run, fence) VALUES ('one', 3), ('zwei\\n\t\"', 0)")
    before = rows()
    assert before["runs"]
    assert shoal("backup", "create", tmp_path / "all.tar.gz").code == 0
    again = shoal("backup", "restore", tmp_path / "all.tar.gz", "--home", tmp_path / "other")
    assert again.code == 1
    assert "empty database" in again.err
    shutil.rmtree(tmp_path / "other", ignore_errors=True)

    monkeypatch.setenv("SHOAL_DATABASE", another_database)
    restored(tmp_path / "all.tar.gz", tmp_path / "new", monkeypatch)
    found = rows()
    found["audit"] = found["audit"][:-2]  # that it was made, and restored
    assert found == before
    restored_then, made, *before_that = accounts.audit()
    assert (accounts.everybody(), before_that, accounts.first_broken()) == (people, log, None)
    assert [one.deed for one in (made, restored_then)] == [
        f"backup {what} (all.tar.gz)" for what in ("made", "restored")
    ]
    accounts.enable("bob")  # the log goes on where it was
    assert (accounts.audit()[0].id, accounts.first_broken()) == (log[0].id + 3, None)
    monkeypatch.delenv("SHOAL_DATABASE")  # its databases go before the home, whose runs would be asked for there


def test_a_run_with_records_in_the_database_goes_on_where_it_was_restored(
    tmp_path: Path, team_database: str, another_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records are those of the new database, its table the upload of the new home, its time that of its start."""
    table = upload(home_folder(), name="houses.csv", text=small_table(tmp_path).read_text())
    config = config_from({"file": str(table), "target": "y", "solver": "gradient", "epochs": 5, "workers": 1})
    with hosts_in(tmp_path) as hosts:
        started(hosts, "one", 1, tmp_path)
        run = launched(config)
        until(lambda: run.state == "finished")
    with run.open_records() as storage:
        rounds = storage.rounds()
    assert rounds
    began = run.started_at
    assert shoal("backup", "create", tmp_path / "all.tar.gz").code == 0
    monkeypatch.setenv("SHOAL_DATABASE", another_database)
    restored(tmp_path / "all.tar.gz", tmp_path / "new", monkeypatch)
    shutil.rmtree(table.parent)
    (again,) = list_runs()
    with again.open_records() as storage:
        assert storage.rounds() == rounds
    assert again.started_at == pytest.approx(began, abs=1e-3)
    assert Path(read_config(again).file) == home_folder() / "uploads" / table.parent.name / table.name
    forked = fork(again)
    assert Path(read_config(forked).file).is_relative_to(home_folder())
    with hosts_in(tmp_path) as hosts:
        started(hosts, "two", 1, tmp_path)
        until(lambda: forked.state == "finished")
    monkeypatch.delenv("SHOAL_DATABASE")  # its databases go before the home, whose runs would be asked for there
