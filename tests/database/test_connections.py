"""Connections that are shared, cut, refused, and made again."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from shoal.database.connections import Database, database
from shoal.database.plain_errors import DatabaseAway
from shoal.errors import ResourceError, StateError
from support.team.postgres import PASSWORD, Postgres


def test_a_transaction_is_all_or_nothing(team_database: str) -> None:
    def half(connection: Any) -> None:
        connection.execute("INSERT INTO runs VALUES ('a')")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), database().transaction() as connection:
        half(connection)
    with database().transaction() as connection:
        assert connection.execute("SELECT run FROM runs").fetchall() == []
        connection.execute("INSERT INTO runs VALUES ('b')")
    with database().transaction() as connection:
        assert connection.execute("SELECT run, fence FROM runs").fetchall() == [("b", 0)]


def test_threads_share_few_connections(postgres: Postgres, team_database: str) -> None:
    known = Database(postgres.address(team_database), most=2)
    together = threading.Barrier(2, timeout=60)

    def ask(i: int) -> int:
        with known.transaction() as connection:
            if i < 2:
                together.wait()  # two are used at the same time
            found = connection.execute("SELECT pg_backend_pid()").fetchone()
            return int(found[0]) if found else 0

    with ThreadPoolExecutor(6) as pool:
        servers = set(pool.map(ask, range(30)))
    assert len(servers) == 2
    known.close()


def test_a_connection_that_was_cut_is_not_used_again(postgres: Postgres, team_database: str) -> None:
    for _ in range(3):
        with database().transaction() as connection:
            connection.execute("SELECT 1")
        assert postgres.cut(team_database) == 1


def test_one_that_is_cut_in_the_middle_says_so_and_the_next_works(postgres: Postgres, team_database: str) -> None:
    def cut(connection: Any) -> None:
        connection.execute("INSERT INTO runs VALUES ('a')")
        postgres.cut(team_database)
        connection.execute("INSERT INTO runs VALUES ('b')")

    with pytest.raises(DatabaseAway, match="cannot be reached"), database().transaction() as connection:
        cut(connection)
    with database().transaction() as connection:
        assert connection.execute("SELECT run FROM runs").fetchall() == []


def test_a_server_that_is_away_is_told_at_once_and_found_when_it_is_back(
    postgres: Postgres, team_database: str
) -> None:
    known = database()
    with known.transaction() as connection:
        connection.execute("SELECT 1")
    postgres.stop()
    try:
        for _ in range(100):
            with pytest.raises(DatabaseAway, match="Check that it runs") as raised, known.transaction():
                pass
            assert PASSWORD not in str(raised.value)
    finally:
        postgres.start()
    while True:
        try:
            with known.transaction() as connection:
                connection.execute("SELECT 1")
            break
        except DatabaseAway:
            continue  # until its rest is over


def test_what_is_asked_wrongly_is_a_plain_sentence(postgres: Postgres, team_database: str) -> None:
    wrong = postgres.address(team_database).replace(PASSWORD, "another")
    with pytest.raises(ResourceError, match="password authentication failed") as raised, Database(wrong).connection():
        pass
    assert "another" not in str(raised.value)
    with pytest.raises(ResourceError, match="does not exist"), Database(postgres.address("nowhere")).connection():
        pass


def test_tables_that_are_gone_are_a_plain_sentence(team_database: str) -> None:
    with database().transaction() as connection:
        connection.execute("DROP TABLE runs CASCADE")
    with (
        pytest.raises(StateError, match=r"damaged or another program's.*shoal db status"),
        database().transaction() as other,
    ):
        other.execute("SELECT run FROM runs")


def test_the_process_list_does_not_show_the_password(team_database: str) -> None:
    with database().transaction():
        assert not [p for p in psutil.process_iter(["cmdline"]) if PASSWORD in " ".join(p.info["cmdline"] or [])]


FORKING = """
import os, sys
from shoal.database.connections import database

def server():
    with database().transaction() as connection:
        return connection.execute("SELECT pg_backend_pid()").fetchone()[0]

before = server()
child = os.fork()
if not child:
    sys.exit(server() == before)  # an end as usual, with all that an interpreter does
status = os.waitpid(child, 0)[1]
print(os.waitstatus_to_exitcode(status), server() == before)
"""


def test_a_child_by_fork_has_connections_of_its_own(team_database: str) -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("0 True\n", "")
