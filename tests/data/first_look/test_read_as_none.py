"""NA among codes of two letters is told, since it is read as no value; elsewhere it is what it means nearly everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.data.dataset import WITHOUT_NA
from support.tables import opened, shoal, written

ROWS = [f"{code},{i},{i % 7}" for i, code in enumerate(["MI", "RM", "TO", "VE"] * 100)]


@pytest.mark.parametrize("place", [5, 390])  # among the rows that are looked at one by one, and beyond
def test_a_code_that_is_read_as_no_value_is_told(place: int, tmp_path: Path) -> None:
    rows = [*ROWS[:place], '"NA",7,1', *ROWS[place:]]
    path = written(tmp_path, "\n".join(["prov,x,y", *rows, ""]).encode())
    assert WITHOUT_NA in opened(path).columns["prov"].flags
    said = shoal("inspect", path, "--target", "y").out
    assert "'prov' has codes of two letters, and NA, which is read as no value: a code too?" in said
    tokens = said.partition("--missing '")[2].partition("'")[0]
    kept = opened(path, missing=tuple(tokens.split(",")))
    assert "NA" in kept.columns["prov"].levels
    assert kept.columns["prov"].flags == ()


@pytest.mark.parametrize(
    "rows",
    [
        [*ROWS, ",7,1"],  # a gap
        [*ROWS, "Milano,3,3", "NA,7,1"],  # names
        [*ROWS, "TO,NA,1", ",2,3"],  # among numbers
    ],
)
def test_gaps_and_columns_of_other_texts_are_no_such_case(rows: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, "\n".join(["prov,x,y", *rows[-2:], *rows[:-2], ""]).encode())
    assert not any(WITHOUT_NA in column.flags for column in opened(path).columns.values())
