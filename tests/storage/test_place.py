"""Which store a folder's records are in, whatever is set, and what is said where it is not at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.database.address import VARIABLE
from shoal.database.connections import Database, close_all, database
from shoal.errors import DamagedFile, StateError
from shoal.storage import place
from shoal.storage.sql import SqliteStorage
from shoal.storage.unsent import Unsent, UnsentBatch
from support.records import round_
from support.team.postgres import PASSWORD, Postgres

RUN = "20260101-000000-0000001"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / RUN
    found.mkdir()
    return found


def test_records_that_are_in_a_file_stay_there(team_database: str, folder: Path) -> None:
    with SqliteStorage(folder / place.FILE, of=RUN) as storage:
        storage.add([round_(1)])
    for opened in (place.open_records(folder, RUN), place.open_for_run(folder, RUN)):
        with opened as storage:
            assert isinstance(storage, SqliteStorage)
            assert storage.last_round() == round_(1)
    place.remove(folder, RUN)  # and nobody is asked


def test_a_name_is_given_once(team_database: str, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other machine" / RUN
    other.mkdir(parents=True)
    assert place.begin(folder, RUN)
    assert not place.begin(other, RUN)
    assert list(other.iterdir()) == []
    assert PASSWORD not in (folder / place.MARK).read_text()


def test_without_the_database_or_with_another_it_says_so(
    postgres: Postgres, team_database: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.begin(folder, RUN)
    with place.open_for_run(folder, RUN, timeout=60) as storage:
        storage.add([round_(1)])
    monkeypatch.delenv(VARIABLE)
    for ask in (place.open_records, place.open_for_run, place.remove):
        with pytest.raises(StateError, match="SHOAL_DATABASE is not set here"):
            ask(folder, RUN)
    another = postgres.new_database()
    monkeypatch.setenv(VARIABLE, postgres.address(another))
    with pytest.raises(StateError, match="shoal db upgrade"):
        place.open_records(folder, RUN)
    from shoal.database.migrations import upgrade

    with database().connection(checked=False) as connection:
        upgrade(connection)
    with pytest.raises(StateError, match="in another database than the one that SHOAL_DATABASE names") as raised:
        place.open_records(folder, RUN)
    assert PASSWORD not in str(raised.value)
    close_all()
    postgres.execute(f"DROP DATABASE {another} WITH (FORCE)")
    monkeypatch.setenv(VARIABLE, postgres.address(team_database) + "&application_name=x")  # another address of the same
    with place.open_records(folder, RUN) as storage:
        assert storage.last_round() == round_(1)


def test_a_copied_folder_shows_the_records_and_does_not_remove_them(
    team_database: str, folder: Path, tmp_path: Path
) -> None:
    assert place.begin(folder, RUN)
    with place.open_for_run(folder, RUN, timeout=60) as storage:
        storage.add([round_(1)])
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / place.MARK).write_bytes((folder / place.MARK).read_bytes())
    with place.open_records(copy, RUN) as storage:
        assert storage.last_round() == round_(1)
    place.remove(copy, RUN)
    with place.open_records(folder, RUN) as storage:
        assert storage.last_round() == round_(1)
    with pytest.raises(DamagedFile):
        place.open_records(folder, "another run")
    place.remove(folder, RUN)
    with place.open_records(folder, RUN) as storage:
        assert storage.last_round() is None
    place.remove_archived(RUN)  # which has nothing any more


def test_whoever_opens_them_sends_what_an_ended_process_could_not(team_database: str, folder: Path) -> None:
    assert place.begin(folder, RUN)
    Unsent(folder).append([UnsentBatch("a", [round_(1)]), UnsentBatch("b", [round_(2)])])
    with place.open_records(folder, RUN) as storage:
        assert [record.round for record in storage.rounds()] == [1, 2]
    assert not Unsent(folder)


class TestDamage:
    """Rows that were changed by hand, or by a backup that lacks some."""

    def test_records_that_are_gone_are_said(self, team_database: str, folder: Path) -> None:
        assert place.begin(folder, RUN)
        with place.open_records(folder, RUN) as storage:
            storage.add([round_(i, float(i)) for i in range(100)])
            for lost, ask in (("rounds WHERE place = 50", 200), ("buckets WHERE number = 3", 20)):
                with database().transaction() as connection:
                    connection.execute(f"DELETE FROM {lost}".encode())
                with pytest.raises(StateError, match=f"{RUN} in the database are not whole: .* are gone"):
                    storage.rounds(ask)

    def test_tables_that_are_gone_are_said(self, postgres: Postgres, team_database: str, folder: Path) -> None:
        assert place.begin(folder, RUN)
        postgres.execute("ALTER TABLE shoal.rounds RENAME TO theirs", team_database)
        with (
            place.open_records(folder, RUN) as storage,
            pytest.raises(StateError, match=r"damaged or another program's .*shoal db status"),
        ):
            storage.rounds()

    def test_a_user_without_rights_is_told(self, postgres: Postgres, team_database: str) -> None:
        postgres.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
        known = Database(postgres.address(team_database).replace(f"shoal:{PASSWORD}", "guest:guest"))
        with pytest.raises(Exception, match=r"does not let this user do that"), known.transaction():
            pass
        known.close()
        postgres.execute("DROP ROLE guest")
