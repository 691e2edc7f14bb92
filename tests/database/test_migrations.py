"""Numbered steps: taken once, all or none, refused where the database is another's or newer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from shoal.database import migrations
from shoal.database.connections import Database
from shoal.database.migrations import SchemaStep, check, steps, upgrade, version_of
from shoal.errors import StateError
from support.team.postgres import Postgres


def test_steps_are_numbered_without_gaps() -> None:
    assert [step.number for step in steps()] == list(range(1, len(steps()) + 1))
    assert {path.suffix for path in migrations.STEPS.iterdir()} == {".sql"}
    assert all(len(path.name.partition("_")[0]) == 4 for path in migrations.STEPS.iterdir())


def test_a_new_database_is_refused_until_it_is_made_ready(postgres: Postgres, empty_database: str) -> None:
    known = Database(postgres.address(empty_database))
    with pytest.raises(StateError, match=r"no tables yet.*shoal db upgrade"), known.transaction():
        pass
    with known.connection(checked=False) as connection:
        assert upgrade(connection) == list(steps())
        assert upgrade(connection) == []
        assert version_of(connection) == len(steps())
    with known.transaction() as connection:
        check(connection)
    known.close()


def test_one_of_a_later_version_is_refused(postgres: Postgres, team_database: str) -> None:
    postgres.execute("INSERT INTO shoal.versions VALUES (999, 'later')", team_database)
    known = Database(postgres.address(team_database))
    with pytest.raises(StateError, match=r"later version of Shoal.*found 999. Update"), known.transaction():
        pass
    with known.connection(checked=False) as connection, pytest.raises(StateError, match="later version"):
        upgrade(connection)
    known.close()


def test_tables_of_another_program_stay_as_they_are(postgres: Postgres, empty_database: str) -> None:
    postgres.execute(
        "CREATE TABLE runs (mine int); CREATE SCHEMA shoal; CREATE TABLE shoal.fish (n int)", empty_database
    )
    known = Database(postgres.address(empty_database))
    with known.connection(checked=False) as connection, pytest.raises(StateError, match="those of another program"):
        upgrade(connection)
    known.close()
    postgres.execute("DROP TABLE shoal.fish", empty_database)
    with known.connection(checked=False) as connection:
        assert upgrade(connection)  # beside a table of the same name in the schema of everybody
    known.close()
    assert postgres.execute("SELECT mine FROM public.runs", empty_database) == []


def test_several_at_once_take_each_step_once(postgres: Postgres, empty_database: str) -> None:
    together = threading.Barrier(4, timeout=60)

    def ask(_: int) -> int:
        known = Database(postgres.address(empty_database))
        with known.connection(checked=False) as connection:
            together.wait()
            taken = len(upgrade(connection))
        known.close()
        return taken

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(ask, range(4))) == [0, 0, 0, len(steps())]


def test_a_step_that_fails_leaves_nothing(
    postgres: Postgres, empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "bad.sql"
    bad.write_text("CREATE TABLE half (n int); SELECT nothing FROM nowhere")
    with_bad = (*steps(), SchemaStep(len(steps()) + 1, "bad", bad))
    monkeypatch.setattr(migrations, "steps", lambda: with_bad)
    known = Database(postgres.address(empty_database))
    with known.connection(checked=False) as connection:
        with pytest.raises(psycopg.errors.UndefinedTable):
            upgrade(connection)
        assert version_of(connection) == 0
    known.close()
    assert postgres.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'shoal'", empty_database) == [(0,)]
