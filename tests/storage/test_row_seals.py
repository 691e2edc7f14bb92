"""A number in the store that is another one than was written is told, never shown; older rows are read as they are."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.errors import StateError
from shoal.metrics import Event
from shoal.storage import Storage, open_storage
from shoal.storage.migrations import APPLICATION, MIGRATIONS
from shoal.storage.row_seals import Numbers
from support.records import host, noisy, round_, worker

READ: dict[str, Callable[[Storage], object]] = {
    "rounds": lambda storage: storage.rounds(),
    "buckets": lambda storage: storage.rounds(100),
    "worker_samples": lambda storage: storage.worker_history(0),
    "host_samples": lambda storage: storage.hosts(),
    "events": lambda storage: storage.events(),
}
CHANGES = {
    "rounds": "distance = distance / 2", "buckets": "low = low + 1", "worker_samples": "memory = memory + 1",
    "host_samples": "cpu = 0.25", "events": "text = 'something else'",
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "metrics.sqlite"
    with open_storage(f"sqlite://{found}") as storage:
        storage.add([*noisy(300, 1, spoiled=0.1), *(worker(at / 2, rank) for at in range(9) for rank in range(2))])
        storage.add(
            [*map(host, range(9)), *(Event(math.nan if at else 3, "state", at, "é", data={}) for at in range(9))]
        )
    return found


def change(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(statement).rowcount != 0  # -1 of what changes no rows


@pytest.mark.parametrize("table", READ)
def test_a_changed_number_or_a_lost_row_is_told(path: Path, table: str) -> None:
    with open_storage(f"sqlite://{path}") as storage:
        before = READ[table](storage)
    change(path, f"CREATE TABLE kept AS SELECT * FROM {table}")
    change(path, f"UPDATE {table} SET {CHANGES[table]}")
    with open_storage(f"sqlite://{path}") as storage:
        wrong = r"metrics.sqlite', but the file is damaged .* is not what was written"
        with pytest.raises(StateError, match=wrong) as kept:  # with all that it refers to, as in a log
            READ[table](storage)
        change(path, f"DELETE FROM {table}")
        change(path, f"INSERT INTO {table} SELECT * FROM kept WHERE rowid != 4")
        with pytest.raises(StateError, match=r"gone|not what was written") as kept_too:
            READ[table](storage)
        change(path, f"DELETE FROM {table}")
        change(path, f"INSERT INTO {table} SELECT * FROM kept")
        assert repr(READ[table](storage)) == repr(before), (kept, kept_too)


def test_a_damaged_command_is_followed_by_nobody(path: Path) -> None:
    with open_storage(f"sqlite://{path}") as storage:
        storage.post("set", {"alpha": 0.5})
        storage.post("stop", {})
        change(path, "UPDATE commands SET arguments = replace(arguments, '0.5', '0.7')")
        change(path, "UPDATE commands SET name = 'stop' WHERE name = 'set'")
        assert [(command.name, command.arguments) for command in storage.take()] == [
            ("a damaged command", {}), ("stop", {}),
        ]  # fmt: skip


def test_a_store_of_the_format_before_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in (*MIGRATIONS[0], f"PRAGMA application_id = {APPLICATION}", "PRAGMA user_version = 1"):
            connection.execute(statement)
        for place in range(3):
            connection.execute(
                "INSERT INTO rounds (place, round, phase, loss) VALUES (?, ?, 'steps', 2.5)", [place] * 2
            )
        connection.execute("INSERT INTO events (kind, round, text, data) VALUES ('state', 1, 'old', '{}')")
    with open_storage(f"sqlite://{path}") as storage:
        assert [found.loss for found in storage.rounds()] == [2.5] * 3
        storage.add([round_(7, 1.5), Event(1.0, "state", 7, "new")])
        assert [found.loss for found in storage.rounds()] == [2.5, 2.5, 2.5, 1.5]
        assert [event.text for _, event in storage.events()] == ["old", "new"]
    change(path, "UPDATE rounds SET loss = 1.25 WHERE round = 7")
    with open_storage(f"sqlite://{path}") as storage, pytest.raises(StateError, match="record 3 of 'rounds'"):
        storage.rounds()


def test_every_kind_of_number_is_sealed() -> None:
    seals = Numbers(["int", "float", "float | None", "str"])
    row = (3, 0.5, None, "running")
    others = [(4, 0.5, None, "running"), (3, -0.5, None, "running"), (3, 0.5, 0.0, "running"), (3, 0.5, math.nan, "running"),
              (3, 0.5, None, "Running"), (3, math.inf, None, "running"), (3, None, None, "running"), (3, 0.5, None, None),
              ("3", 0.5, None, "running"), (3, 0.5, None, b"running")]  # fmt: skip
    assert seals.fits(row, seals.seal(row))
    assert [other for other in others if seals.fits(other, seals.seal(row))] == []
    assert seals.seal((1, -math.nan, math.nan, "")) == seals.seal((1, math.nan, -math.nan, ""))
    assert seals.fits((3, 1, 1, ""), seals.seal((3, 1.0, 1.0, "")))  # as SQLite gives whole numbers back


def test_the_records_of_another_run_are_refused_and_its_own_are_read(tmp_path: Path) -> None:
    """Also where the file is exchanged while it is open; a copy of the whole folder keeps its owner."""
    ours, theirs = (tmp_path / name / "metrics.sqlite" for name in ("ours", "theirs"))
    for found in (ours, theirs):
        found.parent.mkdir()
        with open_storage(f"sqlite://{found}", of=found.parent.name) as storage:
            storage.add([round_(1)])
    with open_storage(f"sqlite://{ours}", of="ours") as storage:
        assert storage.last_round() == round_(1)
        theirs.replace(ours)
        with pytest.raises(StateError, match=r"expected the records of ours, got those of theirs. Put it back"):
            storage.last_round()
    with pytest.raises(StateError, match="expected the records of ours, got those of theirs"):
        open_storage(f"sqlite://{ours}", of="ours")
    change(ours, "UPDATE owner SET run = 'ours'")
    with pytest.raises(StateError, match="whose records they are is not what was written"):
        open_storage(f"sqlite://{ours}", of="ours")


def test_records_of_an_older_version_are_taken_over_by_the_run_that_opens_them(path: Path) -> None:
    change(path, "DROP TABLE owner")
    change(path, "DROP TABLE links")
    change(path, "PRAGMA user_version = 2")
    with open_storage(f"sqlite://{path}", of="ours") as storage:
        assert len(storage.rounds()) > 0
    with pytest.raises(StateError, match="expected the records of others, got those of ours"):
        open_storage(f"sqlite://{path}", of="others")
