"""What a run records while its database is away, cut off, full or in other hands: all of it arrives, once, in order."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.database.connections import Database, database
from shoal.database.plain_errors import DatabaseAway
from shoal.metrics import Event, Record
from shoal.storage.base import Fenced, Storage
from shoal.storage.outbox import Outbox, deliver
from shoal.storage.postgres import PostgresStorage, remove_run
from shoal.storage.unsent import NAME, Unsent, UnsentBatch
from support.records import host, round_, same_all, worker
from support.runs import until
from support.team.faults import Lossy, grow, tiny_disk
from support.team.postgres import Postgres

RUN = "20260101-000000-0000001"


def batch(i: int) -> list[Record]:
    return [
        round_(i, 1 / (i + 1)),
        Event(float(i), "warning", i, f"number {i}"),
        host(float(i)),
        worker(float(i), i % 2),
    ]


def holds(store: Storage, numbers: list[int], missing: int = 0) -> None:
    """All of these batches, in order, and nothing twice; so many others were cut off, which is said at the end."""
    records = [record for i in numbers for record in batch(i)]
    found = store.rounds(10**9)
    assert [one.round for one in found] == numbers
    assert same_all(found, [round_(i, 1 / (i + 1)) for i in numbers])
    own = [one for one in records if isinstance(one, Event)]
    events = [event for _, event in store.events(limit=10**9)]
    assert events[: len(own)] == own
    assert ["are missing here" in event.text for event in events[len(own) :]] == [True] * missing
    assert same_all(store.hosts(10**9), [host(float(i)) for i in numbers])
    for rank in (0, 1):
        assert same_all(store.worker_history(rank, 10**9), [worker(float(i), rank) for i in numbers if i % 2 == rank])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def outbox(team_database: str, folder: Path) -> Iterator[Outbox]:
    with Outbox(PostgresStorage(database(), RUN), folder, folder / "mark", timeout=60) as found:
        yield found


def reader() -> PostgresStorage:
    return PostgresStorage(database(), RUN, timeout=60)


def test_through_restarts_crashes_cuts_and_a_database_that_takes_no_writes(
    postgres: Postgres, team_database: str, outbox: Outbox, folder: Path
) -> None:
    draw = random.Random(7)

    def away(mode: str) -> Callable[[], None]:
        postgres.stop(mode)
        return postgres.start

    def read_only() -> Callable[[], None]:
        postgres.execute(f"ALTER DATABASE {team_database} SET default_transaction_read_only = on")
        postgres.cut(team_database)
        return lambda: mended()

    def mended() -> None:
        postgres.execute(f"ALTER DATABASE {team_database} RESET default_transaction_read_only")
        postgres.cut(team_database)

    faults = [lambda: away("INT"), lambda: away("QUIT"), read_only]
    numbers: list[int] = []
    for fault in faults:
        for _ in range(15):
            outbox.add(batch(len(numbers)))
            numbers.append(len(numbers))
            if draw.random() < 0.3:
                postgres.cut(team_database)
        mend = fault()
        try:
            for _ in range(5):
                outbox.add(batch(len(numbers)))
                numbers.append(len(numbers))
            until((folder / NAME).exists)
            assert outbox.trouble
            assert outbox.take() == []
        finally:
            mend()
        until(lambda: not outbox.trouble)
    assert not (folder / NAME).exists()
    number = reader().post("stop", {})
    until(lambda: [command.id for command in outbox.take()] == [number])
    outbox.settle(number, 3, "done")
    assert outbox.commands()[0].outcome == "done"
    holds(outbox, numbers)


@pytest.mark.parametrize("has_room", [True, False])
def test_an_answer_that_is_lost_makes_nothing_twice(
    postgres: Postgres, team_database: str, folder: Path, has_room: bool
) -> None:
    if not has_room:
        (folder / NAME).mkdir()  # records stay in memory then
    way = Lossy(postgres.folder, postgres.folder / "way")
    known = Database(postgres.address(team_database).replace(str(postgres.folder), str(way.folder)))
    numbers = list(range(40))
    with Outbox(PostgresStorage(known, RUN), folder, folder / "mark", timeout=60) as outbox:
        for i in numbers:
            outbox.add(batch(i))
            if i % 8 == 3:
                outbox.last_round()
                way.lose = 1
        outbox.last_round()
        assert way.lost >= 4
        way.lose = 1
        store = PostgresStorage(known, RUN, timeout=60)
        store.add([Event(0.0, "lost", 0, "")])
        way.lose = 1
        number = store.post("pause", {})
        assert way.lost >= 5
        until(lambda: [command.id for command in outbox.take()] == [number])
        assert [event.kind for _, event in store.events()].count("lost") == 1
        assert len(store.commands()) == 1
        way.lose = 1
        store.post("stop", {})
        until(lambda: [command.name for command in outbox.take()] == ["stop"])
    known.close()
    way.close()
    shutil.rmtree(way.folder)
    with database().transaction() as connection:
        connection.execute("DELETE FROM events WHERE kind = 'lost'")
    holds(reader(), numbers)


def test_a_full_disk_of_the_database_is_waited_for(
    postgres: Postgres, team_database: str, outbox: Outbox, folder: Path
) -> None:
    with tiny_disk(postgres, team_database, "events") as (disk, mounted):
        if not mounted:
            pytest.skip("a small file system cannot be mounted here")
        text = "x" * 1000
        for i in range(3000):
            outbox.add([Event(float(i), "warning", i, text)])
        until((folder / NAME).exists)
        assert "is full" in outbox.trouble
        outbox.add([Event(0.0, "state", 0, "the last one")])
        grow(disk)
        until(lambda: not outbox.trouble)
        found = outbox.events(limit=10**9)
        assert [event.round for _, event in found] == [*range(3000), 0]
        assert [number for number, _ in found] == list(range(1, 3002))
        outbox.close()


def test_what_a_killed_process_could_not_send_is_sent_by_the_next(
    postgres: Postgres, team_database: str, folder: Path
) -> None:
    script = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from shoal.database.connections import database
from shoal.storage.outbox import Outbox
from shoal.storage.postgres import PostgresStorage
from test_outbox import RUN, batch
folder = Path(sys.argv[1])
outbox = Outbox(PostgresStorage(database(), RUN), folder, folder / "mark")
for line in sys.stdin:
    outbox.add(batch(int(line)))
    if int(line) == 2:
        outbox.last_round()
        print("sent", flush=True)
"""
    command = [sys.executable, "-c", script, str(folder), str(Path(__file__).parent)]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("0\n1\n2\n")
        process.stdin.flush()
        assert process.stdout.readline() == "sent\n"
        postgres.stop()
        try:
            for i in range(3, 9):
                process.stdin.write(f"{i}\n")
                process.stdin.flush()
            until(lambda: [b for one in Unsent(folder).after(None) for b in one.records] and len(aside(folder)) == 6)
            process.send_signal(signal.SIGKILL)
        finally:
            postgres.start()
    with (folder / NAME).open("ab") as file:
        file.write(b'{"name": "cut off in the mid')
    kept = (folder / NAME).read_bytes()
    deliver(reader(), Unsent(folder))
    holds(reader(), list(range(9)), missing=1)
    (folder / NAME).write_bytes(kept)  # as if it had been killed before it could remove it
    deliver(reader(), Unsent(folder))
    holds(reader(), list(range(9)), missing=1)
    assert not (folder / NAME).exists()


def aside(folder: Path) -> list[int]:
    """The rounds that wait in the file."""
    return [record.seconds for one in Unsent(folder).after(None) for record in one.records if isinstance(record, Event)]


def test_a_delivery_that_was_stopped_in_the_middle_goes_on_from_there(team_database: str, folder: Path) -> None:
    unsent = Unsent(folder)
    unsent.append([UnsentBatch(f"b{i}", batch(i)) for i in range(5)])
    unsent.append([UnsentBatch("back", forget_after=2), UnsentBatch("b5", batch(5))])
    reader().add([record for i in range(3) for record in batch(i)], "b2")  # the first three, under the name of the last
    deliver(reader(), unsent)
    assert [one.round for one in reader().rounds()] == [0, 1, 2, 5]
    assert [event.round for _, event in reader().events()] == list(range(6))


def test_closing_while_it_is_away_leaves_the_records_in_the_folder(
    postgres: Postgres, team_database: str, folder: Path
) -> None:
    outbox = Outbox(PostgresStorage(database(), RUN), folder, folder / "mark", timeout=0.2)
    outbox.add(batch(0))
    outbox.wait_at_most(60)
    outbox.last_round()
    postgres.stop()
    try:
        outbox.add(batch(1))
        outbox.wait_at_most(0.1)
        with pytest.raises(DatabaseAway):
            outbox.last_round()
        outbox.close()
        assert len(aside(folder)) == 1
    finally:
        postgres.start()
    deliver(reader(), Unsent(folder))
    holds(reader(), [0, 1])


def test_without_room_in_the_folder_they_stay_in_memory(postgres: Postgres, outbox: Outbox, folder: Path) -> None:
    outbox.add(batch(0))
    outbox.last_round()
    (folder / NAME).mkdir()  # as good as a disk that takes nothing
    postgres.stop()
    try:
        for i in range(1, 5):
            outbox.add(batch(i))
        until(lambda: outbox.trouble)
    finally:
        (folder / NAME).rmdir()
        postgres.start()
    until(lambda: not outbox.trouble)
    holds(outbox, list(range(5)))


def fence() -> int:
    with database().transaction() as connection:
        row = connection.execute("SELECT fence FROM runs").fetchone()
    return int(row[0]) if row else 0


class TestFence:
    def test_an_older_one_writes_nothing_any_more(self, team_database: str) -> None:
        old, new = (PostgresStorage(database(), RUN, fence=number) for number in (3, 4))
        old.add(batch(0))
        old.post("pause", {})
        taken = old.take()
        new.add(batch(1))
        for late in (
            lambda: old.add(batch(2)),
            lambda: old.forget_after(0),
            lambda: old.settle(taken[0].id, 1, "done"),
        ):
            with pytest.raises(Fenced, match=r"fence 4, this one has 3"):
                late()
        reader().post("stop", {})
        with pytest.raises(Fenced):
            old.take()
        assert [command.name for command in new.take()] == ["stop"]
        new.settle(taken[0].id, 1, "done")
        holds(reader(), [0, 1])

    def test_it_counts_from_when_it_was_given_not_from_the_first_write(self, team_database: str) -> None:
        old = PostgresStorage(database(), RUN, fence=1)
        old.add(batch(0))
        with database().transaction() as connection:
            connection.execute("UPDATE runs SET fence = 2 WHERE run = %s", (RUN,))
        with pytest.raises(Fenced):
            old.add(batch(1))
        holds(reader(), [0])

    def test_an_outbox_says_so_to_its_run_and_leaves_nothing_behind(self, team_database: str, folder: Path) -> None:
        with Outbox(PostgresStorage(database(), RUN, fence=1), folder, folder / "mark", timeout=60) as outbox:
            outbox.add(batch(0))
            outbox.last_round()
            with Outbox(PostgresStorage(database(), RUN, fence=2), folder, folder / "mark", timeout=60) as other:
                other.take()
                until(lambda: fence() == 2)  # before it has written anything
            outbox.add(batch(2))

            def refused() -> bool:
                try:
                    outbox.take()
                except Fenced:
                    return True
                return False

            until(refused)
            with pytest.raises(Fenced):
                outbox.add(batch(3))
        assert not (folder / NAME).exists()
        holds(reader(), [0])

    def test_a_run_that_was_removed_is_not_made_again(self, team_database: str) -> None:
        store = PostgresStorage(database(), RUN)
        store.add(batch(0))
        remove_run(database(), RUN)
        with pytest.raises(Fenced, match="were removed"):
            store.add(batch(1))
        with database().transaction() as connection:
            assert connection.execute("SELECT run FROM runs").fetchall() == []
