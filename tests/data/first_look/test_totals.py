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
    "totals with fewer fields": ("Total:,435\n", "begins with 'Total:'"),
    "a line without delimiters": ("Report created in October\n", "The last row has at most one text and no value"),
    "below an empty line": ("\n*) estimated\nThe end\n", "The last 2 rows have at most one text"),
    "notes around totals": ("\n*) below 5: <5\nTotal:,435\nThe end\n", "and the 2 lines around as well"),
    "totals above a damaged line": ("Total,435,900\nSource: office, 2022\n", "begins with 'Total'"),
    "totals above notes": ("Total,435,900\n,,\nSource: office of statistics,,\n", "begins with 'Total'"),
}


@pytest.mark.parametrize("case", FOOT)
def test_what_is_below_a_table_is_left_out_and_said(tmp_path: Path, case: str) -> None:
    foot, said = FOOT[case]
    dataset = opened(written(tmp_path, "name,a,y\n" + ROWS + foot))
    assert dataset.rows == 30
    assert [said in note for note in dataset.notes if "A note below" not in note] == [True]


def test_another_table_below_the_totals_is_told(tmp_path: Path) -> None:
    dataset = opened(written(tmp_path, "name,a,y\n" + ROWS + ",435,900\n\nDay,Views\n1/1/24,500\n1/2/24,600\n"))
    assert dataset.rows == 30
    assert any("3 lines below the totals, from 'Day' on" in note for note in dataset.notes)


def test_totals_below_two_columns_are_left_out(tmp_path: Path) -> None:
    dataset = opened(written(tmp_path, "a,b\n1,2\n3,4\n5,6\nTotal: 12\n"))
    assert (dataset.rows, dataset.manifest.bad_count) == (3, 0)
    assert ["begins with 'Total: 12'" in note for note in dataset.notes] == [True]


@pytest.mark.parametrize("foot", ["2031-01,,\n", "place 30,,\n", "place 31,,\nplace 32 of a long name,,\n"])
def test_rows_without_values_yet_are_rows(tmp_path: Path, foot: str) -> None:
    dataset = opened(written(tmp_path, "name,a,y\n" + ROWS + foot))
    assert dataset.rows == 30 + foot.count("\n")
    assert not dataset.notes


@pytest.mark.parametrize("foot", ["place 30", "place 30,4", "30,4\n"])
def test_a_row_that_was_cut_off_is_one_that_cannot_be_read(tmp_path: Path, foot: str) -> None:
    dataset = opened(written(tmp_path, "name,a,y\n" + ROWS + foot))
    assert dataset.manifest.bad_count == 1
    assert not dataset.notes


@pytest.mark.parametrize("foot", ["\n*) below 5: <5\nTotal:,435\nThe end\n", "\nThe end\n", "Total,435,\nThe end\n"])
def test_lines_that_are_no_rows_are_not_predicted(tmp_path: Path, foot: str) -> None:
    model = api.fit(written(tmp_path, "name,a,y\n" + ROWS), target="y", features=["a"])
    assert len(model.predict(written(tmp_path, "name,a,y\n" + ROWS + foot, "new.csv"))) == 30


def test_every_row_to_predict_is_meant(tmp_path: Path) -> None:
    model = api.fit(written(tmp_path, "name,a,y\n" + ROWS), target="y", features=["a"])
    new = written(tmp_path, "name,a,y\n" + ROWS + "somebody with nothing known,,\n", "new.csv")
    assert len(model.predict(new)) == 31


def test_a_note_with_a_delimiter_below_totals_is_told(tmp_path: Path) -> None:
    rows = "".join(f"n{i};{i};x\n" for i in range(1, 9))
    text = f"name;sold;kind\n{rows}Total;36;\n\n* Preliminary; may change\n"
    dataset = opened(written(tmp_path, text))
    assert dataset.rows == 8
    assert "A note below the totals, '* Preliminary', is left out." in dataset.manifest.notes
