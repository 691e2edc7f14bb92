"""What a person has to know of how a file was read is said: odd numbers, blanks, quotes, names that come again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.tables import column, opened, table, written
from support.tables import shoal as command

# name: (the values of a column, words of a note)
MIXED: dict[str, tuple[list[str], str]] = {
    "units": (["11.5 kg", "71 g", "96.25 kg"], "different units or currencies ('11.5 kg', '71 g')"),
    "currencies": (["$ 34.15", "€ 5.64", "$ 1.50"], "different units or currencies ('$ 34.15', '€ 5.64')"),
    "thousands as letters": (["1.2k", "500", "3M"], "shortened ('1.2k', '3M')"),
    "decimal marks": (["1,5", "2.5", "3,25", "7"], "points and commas as decimal marks ('2.5', '1,5')"),
    "one unit": (["11.5 kg", "71 kg", "96.25 kg"], "numbers written like 1234.56 kg"),
    "names": (["B1", "C2", "3M"], ""),
    "sizes": (["S", "M", "XL"], ""),
}


@pytest.mark.parametrize("name", MIXED)
def test_numbers_of_several_ways_in_one_column_are_said(name: str, tmp_path: Path) -> None:
    cells, words = MIXED[name]
    text = "v;y\n" + "".join(f"{cell};{i}.5\n" for i, cell in enumerate(cells))
    notes = " ".join(opened(written(tmp_path, text)).manifest.notes)
    assert words in notes if words else not notes


def test_blanks_in_quotes_are_missing(tmp_path: Path) -> None:
    rows = ['"  ",a,1\n', '4,"   ",2\n', '"\u00a0\u00a0",c,3\n', *(f"{i},d,{i}\n" for i in range(30))]
    dataset = opened(written(tmp_path, "x,k,y\n" + "".join(rows)))
    assert column(dataset, "x")[:4] == [None, 4.0, None, 0.0]
    assert column(dataset, "k")[:4] == ["a", None, "c", "d"]
    assert dataset.columns["x"].missing == 2
    assert dataset.columns["k"].missing == 1
    assert dataset.columns["k"].levels == ("a", "c", "d")
    assert dataset.manifest.bad_count == 0


def test_a_column_of_quoted_blanks_and_numbers_is_one_of_numbers(tmp_path: Path) -> None:
    text = "x,y\n" + "".join('"      ",1\n' if i % 2 else f"{i},2\n" for i in range(20))
    assert opened(written(tmp_path, text)).columns["x"].type == "numeric"


def test_single_quotes_and_escapes_are_said(tmp_path: Path) -> None:
    dataset = opened(written(tmp_path, "k,x\n'a, b',1\n'c',2\n'd, e',3\n"))
    assert column(dataset, "k") == ["a, b", "c", "d, e"]
    assert "quoted by '" in " ".join(dataset.manifest.notes)
    dataset = opened(written(tmp_path, 'k,x\n"a \\"b\\", c",1\n"d",2\n', "escaped.csv"))
    assert column(dataset, "k") == ['a "b", c', "d"]
    assert "A \\ within quotes" in " ".join(dataset.manifest.notes)


def test_quotes_that_stand_alone_are_said_and_inches_are_not(tmp_path: Path) -> None:
    rows = "".join(f"part {i % 3},{i}\n" for i in range(50))
    damaged = opened(written(tmp_path, f'k,x\n{rows}""part of it",1\n'))
    assert (
        "Column 'k' has a text with a quote that stands alone, as damaged lines have: part of it\"."
        in damaged.manifest.notes
    )
    assert opened(written(tmp_path, f'k,x\n{rows}"5"" pipe",1\n"a ""b"" c",2\n', "inches.csv")).manifest.notes == ()


def test_names_that_come_again_are_no_rows_that_could_not_be_read(tmp_path: Path) -> None:
    again = "".join(("x,y\n" if i in (50, 100) else "") + f"{i},{i % 7}\n" for i in range(150))
    path = written(tmp_path, f"x,y\n{again}")
    done = command("inspect", path)
    assert "could not be read" not in done.out
    assert "The names of the columns come again in 2 rows, which are left out." in done.out + done.err
    with path.open("a") as file:
        file.write("oops,1\n")
    found = json.loads(command("inspect", path, "--json").out)["bad_rows"]
    assert (found["count"], found["repeated"], [entry["line"] for entry in found["first"]]) == (3, 2, [154])
    assert "1 row could not be read" in command("inspect", path).out
    assert len(table(opened(path))) == 150
