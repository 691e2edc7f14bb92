"""A file of records that is removed or moved while its writer has it open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.errors import StateError
from shoal.storage.sql import SqliteStorage
from support.records import round_


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStorage]:
    storage = SqliteStorage(tmp_path / "metrics.sqlite", timeout=10)
    yield storage
    storage.close()


@pytest.mark.parametrize("which", ["metrics.sqlite", "metrics.sqlite*"])
class TestRemoved:
    """The file is removed, alone or with its journal, while its writer has it open."""

    def test_commands_and_records_go_where_others_look(self, sqlite: SqliteStorage, tmp_path: Path, which: str) -> None:
        sqlite.add([round_(1), round_(2)])
        before = sqlite.post("pause", {})
        assert [command.id for command in sqlite.take()] == [before]
        for path in tmp_path.glob(which):
            path.unlink()
        assert sqlite.take() == []  # nobody has made it anew
        assert not (tmp_path / "metrics.sqlite").exists()
        with SqliteStorage(tmp_path / "metrics.sqlite", timeout=10) as other:
            number = other.post("stop", {})
            assert [command.name for command in sqlite.take()] == ["stop"]
            sqlite.settle(number, 3, "done")
            assert other.commands()[0].outcome == "done"
            sqlite.add([round_(3)])
            assert [found.round for found in other.rounds()] == [3]
        assert sqlite.renewed == 1
        sqlite.close()
        with SqliteStorage(tmp_path / "metrics.sqlite", timeout=10) as other:
            assert [found.round for found in other.rounds()] == [3]

    def test_who_writes_makes_it_anew(self, sqlite: SqliteStorage, tmp_path: Path, which: str) -> None:
        sqlite.add([round_(1)])
        for path in tmp_path.glob(which):
            path.unlink()
        sqlite.add([round_(2)])
        assert sqlite.renewed == 1
        with SqliteStorage(tmp_path / "metrics.sqlite", timeout=10) as other:
            assert [found.round for found in other.rounds()] == [2]


def test_a_folder_that_is_gone_is_said_and_one_that_is_back_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with SqliteStorage(folder / "metrics.sqlite", timeout=1) as storage:
        storage.add([round_(1)])
        folder.rename(tmp_path / "elsewhere")
        for _ in range(2):
            with pytest.raises(StateError, match="Check that its folder exists"):
                storage.add([round_(2)])
        assert [found.round for found in storage.rounds()] == [1]
        (tmp_path / "elsewhere").rename(folder)
        storage.add([round_(2)])
        assert [found.round for found in storage.rounds()] == [1, 2]
        assert storage.renewed == 0
