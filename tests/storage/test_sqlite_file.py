"""What only a file shared by processes suffers: readers and writers at once, kills, damage, full disks."""

from __future__ import annotations

import itertools
import math
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import ConfigError, ResourceError, StateError
from shoal.metrics import Event
from shoal.storage import Command, open_storage
from shoal.storage.migrations import MIGRATIONS
from shoal.storage.sql import SqliteStorage
from support.records import NAN, is_fair_sample, look_at, noisy, round_, same_all, worker

TESTS = Path(__file__).parents[1]


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStorage]:
    storage = SqliteStorage(tmp_path / "metrics.sqlite", timeout=10)
    yield storage
    storage.close()


def script(path: Path, body: str, *arguments: str) -> list[str]:
    opening = "import math, sys; from shoal.metrics import Event; from shoal.storage import open_storage; from support.records import *; url = 'sqlite://' + sys.argv[1]\n"
    return [sys.executable, "-c", opening + body, str(path), *arguments]


def step_count(storage: SqliteStorage, action: Callable[[], object]) -> int:
    """How many hundreds of instructions SQLite's machine takes: its work, whatever the clock says."""
    ticks = itertools.count()
    storage._file.connection.set_progress_handler(lambda: next(ticks) < 0, 100)
    action()
    storage._file.connection.set_progress_handler(None, 100)
    return next(ticks)


def value(path: Path, query: str) -> Any:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchone()[0]
    finally:
        connection.close()


class TestSqlite:
    def test_pragmas(self, sqlite: SqliteStorage) -> None:
        connection = sqlite._file.connection
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 1  # NORMAL
        assert connection.execute("PRAGMA busy_timeout").fetchone()[0] == 10_000

    def test_records_outlive_the_object(self, tmp_path: Path) -> None:
        path = tmp_path / "a %20?#ü.sqlite"  # no character of a path means anything else
        records = noisy(100, 5, 0.2)
        with open_storage(f"sqlite://{path}") as storage:
            storage.add(records)
            storage.post("pause", {})
            assert len(storage.take()) == 1
        assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
        with open_storage(f"sqlite://{path}") as storage:
            assert same_all(storage.rounds(), records)
            assert storage.take() == []  # taken, if not settled
            storage.add([round_(10**9)])
            assert len(storage.rounds()) == 101

    @pytest.mark.parametrize(
        "url", ["", "sqlite://relative.sqlite", "sqlite:/x", "postgresql://host/db", "memory", "/tmp/x.sqlite"]
    )
    def test_other_urls_are_refused(self, url: str) -> None:
        with pytest.raises(ConfigError, match="memory:// or sqlite:///absolute"):
            open_storage(url)

    def test_buckets_are_the_extremes_of_their_rounds(self, sqlite: SqliteStorage, tmp_path: Path) -> None:
        draw = random.Random(2)
        whole = noisy(3000, 9, 0.3)
        place = 0
        while place < len(whole):
            step = draw.choice((1, 3, 16, 300))
            sqlite.add(whole[place : place + step])
            place += step
            if draw.random() < 0.3 and 1 < place < len(whole):
                place = draw.randrange(max(place - 400, 1), place)
                sqlite.forget_after(whole[place - 1].round)
        look = look_at([record.loss for record in whole])
        connection = sqlite._file.connection
        rows = connection.execute("SELECT * FROM buckets ORDER BY level, number").fetchall()
        expected = [(level, i, *look(level, i, i + 1)[0]) for level in range(1, 6) for i in range(3000 >> 2 * level)]
        assert repr([tuple(NAN if v is None else v for v in row[:-1]) for row in rows]) == repr(
            expected
        )  # less checksums

    def test_the_work_of_reading_hardly_grows_with_the_run(self, sqlite: SqliteStorage) -> None:
        work = {}
        for count in (2_000, 30_000):
            last = sqlite.last_round()
            sqlite.add([round_(i, math.sin(i)) for i in range(last.round + 1 if last else 0, count)])
            sqlite.add([worker(float(i), i % 3) for i in range(count // 4)])
            work[count] = [
                step_count(sqlite, action)
                for action in (
                    lambda: sqlite.rounds(100), lambda: sqlite.rounds_since(500, 100), sqlite.last_round, sqlite.workers,
                    lambda: sqlite.worker_history(1, 100), lambda: sqlite.rounds_since(1_995),
                )
            ]  # fmt: skip
        assert work[2_000][0] > 10  # the counter counts
        for before, after in list(zip(*work.values(), strict=True))[:5]:
            assert after <= 2 * before + 5
        assert work[30_000][5] > 5 * work[2_000][5]  # and would show it: 1,500 points instead of four

    def test_a_reader_sees_what_a_live_writer_has_written(self, sqlite: SqliteStorage, tmp_path: Path) -> None:
        with open_storage(f"sqlite://{tmp_path}/metrics.sqlite") as reader:
            for i in range(5):
                sqlite.add([round_(i)])
                assert reader.last_round() == round_(i)
            with sqlite._file.transaction() as connection:  # in the middle of a write
                connection.execute("DELETE FROM rounds")
                assert len(reader.rounds()) == 5
                with open_storage(f"sqlite://{tmp_path}/metrics.sqlite") as late:
                    assert len(late.rounds()) == 5

    def test_opened_in_one_thread_and_closed_in_another(self, tmp_path: Path) -> None:
        storage = open_storage(f"sqlite://{tmp_path}/metrics.sqlite")
        thread = threading.Thread(target=lambda: (storage.add([round_(1)]), storage.close()))
        thread.start()
        thread.join()
        with open_storage(f"sqlite://{tmp_path}/metrics.sqlite") as again:
            assert again.last_round() == round_(1)

    def test_two_takers_never_get_the_same_command(self, tmp_path: Path) -> None:
        url = f"sqlite://{tmp_path}/metrics.sqlite"
        barrier = threading.Barrier(3, timeout=300)

        def takes() -> list[Command]:
            with open_storage(url, timeout=120) as storage:
                barrier.wait()
                return [command for _ in range(60) for command in storage.take()]

        def posts() -> list[int]:
            with open_storage(url, timeout=120) as storage:
                barrier.wait()
                return [storage.post("set", {"number": i}) for i in range(60)]

        with ThreadPoolExecutor(3) as pool:
            takers, poster = [pool.submit(takes), pool.submit(takes)], pool.submit(posts)
            taken = [taker.result() for taker in takers]
            posted = poster.result()
        with open_storage(url) as storage:
            rest = storage.take()
        for own in taken:
            assert [command.id for command in own] == sorted(command.id for command in own)
        assert sorted(command.id for command in [*taken[0], *taken[1], *rest]) == posted

    def test_a_taker_in_the_middle_of_another_gets_nothing(self, sqlite: SqliteStorage, tmp_path: Path) -> None:
        sqlite.post("pause", {})
        found: list[list[Command]] = []

        def takes() -> None:
            with open_storage(f"sqlite://{tmp_path}/metrics.sqlite", timeout=120) as other:
                found.append(other.take())

        thread = threading.Thread(target=takes)

        def between(statement: str) -> None:
            """The first taker has read the commands and is about to mark them."""
            if statement.startswith("UPDATE"):
                thread.start()
                thread.join(0.5)

        sqlite._file.connection.set_trace_callback(between)
        found.append(sqlite.take())
        thread.join()
        assert [[command.name for command in own] for own in found] == [["pause"], []]

    def test_threads_may_create_one_store_at_once(self, tmp_path: Path) -> None:
        barrier = threading.Barrier(6, timeout=300)

        def create(number: int) -> None:
            for turn in range(12):
                barrier.wait()
                with open_storage(f"sqlite://{tmp_path}/{turn}.sqlite", timeout=120) as storage:
                    storage.add([Event(0.0, "joined", 0, "", number)])

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(create, range(6)))
        for turn in range(12):
            with open_storage(f"sqlite://{tmp_path}/{turn}.sqlite") as storage:
                assert sorted(event.rank or 0 for _, event in storage.events()) == list(range(6))

    def test_processes_may_create_one_store_at_once(self, tmp_path: Path) -> None:
        body = """
print('ready', flush=True)
sys.stdin.readline()
for turn in range(5):
    with open_storage(f'{url}-{turn}', timeout=120) as storage:
        storage.add([Event(0.0, 'joined', 0, '')])
        for i in range(20): storage.post('set', {'i': i})
"""
        command = script(tmp_path / "store", body)
        processes = [
            subprocess.Popen(
                command, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for _ in range(3)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        with ThreadPoolExecutor(3) as pool:  # all are told to go on before any is waited for
            said = list(pool.map(lambda process: process.communicate("\n", timeout=300)[1], processes))
        assert [process.returncode for process in processes] == [0, 0, 0], said
        for turn in range(5):
            with open_storage(f"sqlite://{tmp_path}/store-{turn}") as storage:
                assert len(storage.events()) == 3
                assert len(storage.take()) == 60

    def test_a_killed_writer_leaves_all_that_was_committed(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        body = """
storage = open_storage(url)
for start in range(0, 10**7, 50):
    storage.add([round_(i, math.sin(i)) for i in range(start, start + 50)] + [Event(0.0, 'state', start, 'x')])
    print(start + 49, flush=True)
"""
        process = subprocess.Popen(script(path, body), cwd=TESTS, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(60)]
        with open_storage(f"sqlite://{path}") as reader:  # while it is written
            last = reader.last_round()
            assert last is not None
            assert last.round >= said[-1]
        process.send_signal(signal.SIGKILL)
        said += [int(line) for line in process.communicate(timeout=300)[0].split()]
        assert process.returncode == -signal.SIGKILL
        with open_storage(f"sqlite://{path}") as storage:
            last = storage.last_round()
            assert last is not None
            assert last.round in (said[-1], said[-1] + 50)  # whole batches; the last one may be unspoken of
            whole = [round_(i, math.sin(i)) for i in range(last.round + 1)]
            assert same_all(storage.rounds(len(whole)), whole)
            assert is_fair_sample(storage.rounds(100), whole, 100)
            assert len(storage.events(limit=10**6)) * 50 == len(whole)
            storage.add([round_(last.round + 1)])
        assert value(path, "PRAGMA integrity_check") == "ok"


class TestSqliteTrouble:
    def test_a_lock_that_goes_is_waited_for(self, sqlite: SqliteStorage, tmp_path: Path) -> None:
        other = sqlite3.connect(tmp_path / "metrics.sqlite", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")
        timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
        timer.start()
        sqlite.add([round_(1)])
        timer.join()
        other.close()
        assert sqlite.last_round() == round_(1)

    def test_a_new_file_that_another_begins_to_fill_is_waited_for(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")  # SQLite's own timeout does not wait for this one with the change to WAL
        timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
        timer.start()
        with SqliteStorage(path, timeout=10) as storage:
            storage.add([round_(1)])
        timer.join()
        other.close()

    def test_a_lock_that_stays_is_told_in_plain_words(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        with SqliteStorage(path, timeout=0.05) as storage:
            storage.add([round_(1)])
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN EXCLUSIVE")
            for action in (
                lambda: storage.add([round_(2)]),
                lambda: storage.post("pause", {}),
                lambda: storage.forget_after(0),
            ):
                with pytest.raises(StateError, match=r"locked for more than 0\.05 seconds.*[Cc]lose"):
                    action()
            assert storage.rounds() == [round_(1)]  # reading goes on
            other.execute("COMMIT")
            other.close()
            storage.add([round_(2)])
            assert storage.rounds() == [round_(1), round_(2)]

    def test_opening_a_locked_file_ends_in_plain_words(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StateError, match="locked for more than"):
            SqliteStorage(path, timeout=0.05)
        other.execute("ROLLBACK")
        other.close()
        SqliteStorage(path, timeout=0.05).close()

    def test_a_full_disk_is_told_and_harms_nothing(self, sqlite: SqliteStorage) -> None:
        connection = sqlite._file.connection
        sqlite.add([round_(1)])
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 3}")
        with pytest.raises(ResourceError, match=r"disk is full.*Free some space"):
            sqlite.add([round_(2), *(Event(0.0, "warning", 1, "x" * 5000) for _ in range(20))])
        assert sqlite.rounds() == [round_(1)]
        assert sqlite.events() == []
        connection.execute("PRAGMA max_page_count = 1000000")
        sqlite.add([round_(2), Event(0.0, "warning", 1, "x" * 50000)])
        assert len(sqlite.rounds()) == 2
        assert len(sqlite.events()) == 1

    def test_a_file_that_is_no_database_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        path.write_bytes(b"round,loss\n" * 1000)
        with pytest.raises(StateError, match="damaged or is something else"):
            SqliteStorage(path)
        assert path.read_bytes() == b"round,loss\n" * 1000

    def test_a_damaged_store_is_told(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        with SqliteStorage(path) as storage:
            storage.add(noisy(2000, 1))
        content = bytearray(path.read_bytes())
        content[8192:] = bytes(b ^ 0x5A for b in content[8192:])
        path.write_bytes(content)
        with pytest.raises(StateError, match="damaged"), SqliteStorage(path) as storage:
            storage.rounds()

    def test_another_programs_database_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        for statement in ("CREATE TABLE rounds (x)", "PRAGMA user_version = 1"):
            other = sqlite3.connect(path)
            other.execute(statement)
            other.close()
            before = path.read_bytes()
            with pytest.raises(StateError, match="another program's database"):
                SqliteStorage(path)
            assert path.read_bytes() == before

    def test_a_store_of_a_later_version_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.sqlite"
        SqliteStorage(path).close()
        assert value(path, "PRAGMA user_version") == len(MIGRATIONS)
        other = sqlite3.connect(path)
        other.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
        other.close()
        with pytest.raises(StateError, match=r"later version.*Update"):
            SqliteStorage(path)

    def test_a_later_migration_keeps_the_records(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "metrics.sqlite"
        with SqliteStorage(path) as storage:
            storage.add([round_(1)])
        monkeypatch.setattr("shoal.storage.migrations.MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE notes (text TEXT)",)))
        monkeypatch.setattr("shoal.storage.sqlite_file.MIGRATIONS", (*MIGRATIONS, ("CREATE TABLE notes (text TEXT)",)))
        with SqliteStorage(path) as storage:
            assert storage.rounds() == [round_(1)]
        assert value(path, "SELECT count(*) FROM notes") == 0
        assert value(path, "PRAGMA user_version") == len(MIGRATIONS) + 1

    @pytest.mark.parametrize("place", ["missing/metrics.sqlite", "."])
    def test_a_place_that_cannot_be_opened_is_told(self, place: str, tmp_path: Path) -> None:
        with pytest.raises(StateError, match="Check that its folder exists"):
            SqliteStorage(tmp_path / place)
