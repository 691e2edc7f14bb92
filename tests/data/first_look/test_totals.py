"""Notes and empty rows at the foot of a table are none of its rows; rows to predict are all meant."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal as api
from support.tables import opened, written

ROWS = "".join(f"place {i},{i},{2 * i + 1}\n" for i in range(30))
FOOT = {
    "a note": ("Report created in October,,\n", "The last row has at most one text and no value"),
    "notes and empty rows": (",,\nSource: office of statistics,,\n####,,\n", "The last 3 rows have at most one text"),
    "totals above notes": ("Total,435,900\n,,\nSource: office of statistics,,\n", "begins with 'Total'"),
}


@pytest.mark.parametrize("case", FOOT)
def test_what_is_below_a_table_is_left_out_and_said(tmp_path: Path, case: str) -> None:
    foot, said = FOOT[case]
    dataset = opened(written(tmp_path, "name,a,y\n" + ROWS + foot))
    assert dataset.rows == 30
    assert [said in note for note in dataset.notes] == [True]


@pytest.mark.parametrize("foot", ["2031-01,,\n", "place 30,,\n", "place 31,,\nplace 32 of a long name,,\n"])
def test_rows_without_values_yet_are_rows(tmp_path: Path, foot: str) -> None:
    dataset = opened(written(tmp_path, "name,a,y\n" + ROWS + foot))
    assert dataset.rows == 30 + foot.count("\n")
    assert not dataset.notes


def test_every_row_to_predict_is_meant(tmp_path: Path) -> None:
    model = api.fit(written(tmp_path, "name,a,y\n" + ROWS), target="y", features=["a"])
    new = written(tmp_path, "name,a,y\n" + ROWS + "somebody with nothing known,,\n", "new.csv")
    assert len(model.predict(new)) == 31
