"""Tables of very many columns: long headers are read, absurd ones refused, and leaks found without a square matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.data import files
from shoal.errors import DataError
from shoal.fitting import leaks
from shoal.settings.config import RunConfig
from shoal.tasks.train import look
from support.tables import opened, shoal, written


def test_a_header_of_more_than_a_megabyte_is_read(tmp_path: Path) -> None:
    names = [f"c{i}_{'n' * 500}" for i in range(3_000)]
    path = written(tmp_path, ",".join(names) + "\n" + (",".join("1" for _ in names) + "\n") * 3)
    assert len(path.read_bytes()) > files.SAMPLE_BYTES
    assert [column.name for column in opened(path).manifest.columns] == names


def test_more_columns_than_anybody_can_use_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_COLUMNS", 50)
    path = written(tmp_path, "1," * 60 + "1\n")
    with pytest.raises(DataError, match="columns, got 61 or more"):
        opened(path)


def test_inspect_prints_the_first_columns_and_how_to_see_all(tmp_path: Path) -> None:
    path = written(tmp_path, ",".join(f"c{i}" for i in range(250)) + "\n" + ",".join("1" * 250) + "\n")
    few, every = shoal("inspect", path), shoal("inspect", path, "--all")
    assert "1 rows, 250 columns" in few.out
    assert "... and 50 more columns; --all prints them" in few.out
    assert "c199 " in few.out
    assert "c200 " not in few.out
    assert "c249 " in every.out
    assert "more columns" not in every.out


def test_leaks_of_a_wide_table_are_those_of_a_narrow_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{1e6 + i * i % 17},{3 - 2 * (1e6 + i * i % 17)},{i * 7 % 5},{'ab'[i % 2]}" for i in range(60)]
    path = written(tmp_path, "y,tells,x,level\n" + "\n".join(rows) + "\n")
    config = RunConfig(file=str(path), target="y")

    def leaking() -> list[str]:
        return [column["name"] for column in look(config)["columns"] if "leak" in column["flags"]]

    assert leaking() == ["tells"]
    monkeypatch.setattr(leaks, "MOST_EXACT", 0)
    monkeypatch.setattr("shoal.coordinator.Coordinator.moments", None)  # no matrix of all columns is asked for
    assert leaking() == ["tells"]
