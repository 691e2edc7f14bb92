"""The first rows of a table: each text stands under the name of its own column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.settings.values import config_from
from shoal.tasks.previews import table_preview
from support.tables import written

FIRST = "id;colour;size;y\n1;red;10;100\n2;blue;20;200\n"
COLOURLESS = "y;size;id\n300;30;3\n400;40;4\n"


def shown(file: Path, **knobs: Any) -> list[dict[str, str]]:
    found = shoal.inspect(file, **knobs)
    names = [column["name"] for column in found["columns"]]
    given = config_from({"file": str(file), **knobs}).dialect
    rows = table_preview(str(file), given, found["dialect"], names)
    return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.parametrize("allowed", ["common", "any"])
def test_a_column_that_is_left_out_is_left_out_of_the_rows_too(allowed: str, tmp_path: Path) -> None:
    written(tmp_path, FIRST, "a.csv")
    written(tmp_path, COLOURLESS, "b.csv")
    assert shown(tmp_path, parts=allowed) == [
        {"id": "1", "size": "10", "y": "100"}, {"id": "2", "size": "20", "y": "200"},
    ]  # fmt: skip


def test_columns_of_a_first_file_that_names_none_of_its_own(tmp_path: Path) -> None:
    """Its only row may be names or data, which the other file settles."""
    written(tmp_path, "2020;2021;2022\n", "a.csv")
    written(tmp_path, "2020;2021;2022\n" + "".join(f"{i};{7 - i};{i * i}\n" for i in range(9)), "b.csv")
    assert shown(tmp_path) == []


def test_one_file_is_shown_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, FIRST)
    assert shown(path)[1] == {"id": "2", "colour": "blue", "size": "20", "y": "200"}
