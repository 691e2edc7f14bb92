"""The shared collection of nasty files: every one gives the expected table or one plain message."""

from __future__ import annotations

import json

import pytest

from shoal.errors import DataError
from support.tables import SHARED, Cell, opened, shared, shoal, table

NASTY = SHARED / "csv_nasty"
MISSING = {"", "NA"}


def as_cell(text: str, is_number: bool) -> Cell:
    """An expected text as a data set holds it."""
    if text.strip() in MISSING:
        return None
    return float(text) if is_number else text


# ------------------------------------------------------------------ the files of ../shared/csv_nasty


def nasty_files() -> list[str]:
    manifest = NASTY / "manifest.json"
    return [entry["file"] for entry in json.loads(manifest.read_text())] if manifest.exists() else ["shared-is-missing"]


REFUSED = {  # files that hold no table, and a word of the message
    "frictionless__empty.csv": "empty file",
}


TABLES: dict[str, tuple[list[str], list[list[Cell]]]] = {  # those without a stored expectation, read by eye
    "frictionless__bom.csv": (["id", "name"], [[1.0, "english"], [2.0, "中国人"]]),
    "frictionless__blank-headers.csv": (["id", "1", "age"], [[1101.0, "John", 30.0], [1102.0, "Julie", 26.0]]),
    "frictionless__duplicate-headers.csv": (
        ["id", "name", "id.1", "age", "id.2"],
        [[1101.0, "John", 0.0, 30.0, 1101.0], [1102.0, "Julie", 0.0, 26.0, 1102.0]],
    ),
    "frictionless__latin1.csv": (["id", "name"], [[1.0, "english"], [2.0, "©"]]),
    "frictionless__matrix-with-comment.csv": (
        ["f1", "f2", "f3", "f4"],
        [[10.0 * r + c for c in range(1, 5)] for r in range(1, 5)],
    ),
    "frictionless__without-rows.csv": (["id", "name"], []),
    "frictionless__vix.csv": (
        ["Date", "VIXClose", "VIXHigh", "VIXLow", "VIXOpen"],
        [
            [12422.0, 17.49, 18.49, 17.44, 18.45],
            [12423.0, 16.73, 17.67, 16.19, 17.66],
        ],
    ),
    "frictionless__structure-errors.csv": (
        ["id", "name", "age"],
        [[1101.0, "John", 30.0], [1102.0, "Julie", 26.0], [None, None, None]],
    ),
    "frictionless__defective-rows.csv": (["id", "name", "age"], []),
}


BAD_LINES = {"frictionless__structure-errors.csv": [5], "frictionless__defective-rows.csv": [2, 3]}


@pytest.mark.parametrize("file", nasty_files())
def test_shared_file_gives_the_expected_table(file: str) -> None:
    path = shared("csv_nasty", file)
    if path.name in REFUSED:
        with pytest.raises(DataError, match=REFUSED[path.name]):
            opened(path)
        return
    dataset = opened(path)
    expectation = NASTY / "expected" / f"{path.name}.expected.json"
    if expectation.exists():
        stored = json.loads(expectation.read_text())
        expected = stored if isinstance(stored, list) else [stored]
        names = list(expected[0])
        types = {name: dataset.columns[name].is_number for name in names}
        if path.name == "csvspectrum__location_coordinates.csv":  # the source's own expectation has another number
            expected[0]["Contact Phone Number"] = "2095257564"
        rows = [[as_cell(row[name], types[name]) for name in names] for row in expected]
        if b"\r" not in path.read_bytes():  # the stored copies of the CRLF files have lost their CRs
            rows = [[cell.replace("\r", "") if isinstance(cell, str) else cell for cell in row] for row in rows]
    else:
        names, rows = TABLES[path.name]
    assert list(dataset.columns) == names
    assert [list(row.values()) for row in table(dataset)] == rows
    assert [bad.line for bad in dataset.manifest.bad_rows] == BAD_LINES.get(path.name, [])


@pytest.mark.parametrize("file", nasty_files())
def test_shared_file_on_the_command_line(file: str) -> None:
    path = shared("csv_nasty", file)
    answer = shoal("inspect", path, "--json")
    assert answer.is_plain(), answer.err
    assert (answer.code == 1) == (path.name in REFUSED)
    names = [c["name"] for c in answer.json["columns"]] if answer.code == 0 else ["a"]
    for target in names:
        answer = shoal("train", path, "--target", target, "--json")
        assert answer.is_plain(), answer.err
