"""What `inspect` answers is one type: in Python, as JSON of the command line, and as what a job leaves for pages."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal
from shoal.results.answers.table import TableLook
from shoal.results.plain import Malformed
from support.tables import shoal as command

TEXT = "id,day,city,price,y\n" + "".join(
    f"{i},2021-05-{1 + i % 28:02d},{'ab'[i % 2]},{'n/k' if i == 7 else i * 1.5},{i * i}\n" for i in range(40)
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    path = tmp_path / "t.csv"
    path.write_text(TEXT + "1,2,3\n")
    return path


def test_python_the_command_line_and_a_file_say_the_same(file: Path) -> None:
    found = shoal.inspect(file, target="y")
    said = command("inspect", file, "--target", "y", "--json").json
    assert found.as_dict() == said
    assert TableLook.from_dict(said) == found
    assert found["columns"] == said["columns"]  # as before there was a type


def test_columns_have_what_is_known_of_their_kind(file: Path) -> None:
    found = shoal.inspect(file, target="y")
    assert (found.rows, found.bad_rows.lost, found.rows_read) == (41, 2, 39)  # a word among numbers, a short row
    assert [(bad.line, bad.file) for bad in found.bad_rows.first] == [(9, ""), (42, "")]
    day, city, price = (found.named[name] for name in ("day", "city", "price"))
    assert (day.min, day.max, day.is_measured) == ("2021-05-01", "2021-05-28", True)
    assert (city.levels, city.frequent, city.histogram) == (("a", "b"), (("a", 20), ("b", 19)), None)
    assert price.words == (("n/k", 1),)
    assert found.target is not None
    assert "'y'" in found.target.why


def test_an_answer_of_another_version_is_told_by_the_place_that_differs(file: Path) -> None:
    said = shoal.inspect(file).as_dict()
    said["columns"][2]["frequent"] = [["a", "20"]]
    with pytest.raises(Malformed, match=r"'columns\[2\].frequent\[0\]\[1\]' should be a whole number"):
        TableLook.from_dict(said)


def test_how_numbers_are_written_is_told_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    rows = "".join(f"{20 + i % 60} let;€ {i % 9 + 1}.{i % 900 + 100},50;{i % 7}\n" for i in range(200))
    path = tmp_path / "t.csv"
    path.write_text(f"age;price;rooms\n{rows}")
    found = shoal.inspect(path)
    assert [column.written_told for column in found.columns] == ["234,56 let", "€ 1.234,56", ""]
    assert found.decimal_told == " where a column is not written otherwise, as 2 are with ','"
    said = command("inspect", path).out
    assert "written 234,56 let" in said
    assert "decimal mark '.' where a column is not written otherwise, as 2 are with ','" in said
