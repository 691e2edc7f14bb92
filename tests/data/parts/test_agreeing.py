"""Several files as one table: the answer is that of one file, and a part that differs is named."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.data.parts.assembly import combined_notes
from shoal.errors import DataError, TrainingError
from support.tables import column, opened, table

ROWS = 90


def rows() -> pd.DataFrame:
    chance = np.random.default_rng(5)
    x, z = chance.normal(size=ROWS), chance.normal(size=ROWS)
    city = np.where(np.arange(ROWS) < 80, np.array(["Oslo", "Bergen"])[np.arange(ROWS) % 2], "Tromsø")  # late level
    y = 3 * x - z + (city == "Oslo") + 0.1 * chance.normal(size=ROWS)
    day = pd.date_range("2021-01-01", periods=ROWS).strftime("%Y-%m-%d")
    return pd.DataFrame({"x": x.round(6), "z": z.round(6), "city": city, "day": day, "y": y.round(6)})


def parts(folder: Path, pieces: Sequence[str | bytes], name: str = "part-{}.csv") -> str:
    for number, piece in enumerate(pieces):
        path = folder / name.format(number)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(piece if isinstance(piece, bytes) else piece.encode())
    return str(folder / name.format("*"))


def pieces(count: int, **options: Any) -> list[str]:
    ends = np.linspace(0, ROWS, count + 1).astype(int)
    return [rows()[a:b].to_csv(index=False, **options) for a, b in itertools.pairwise(ends)]


def whole(tmp_path: Path) -> shoal.FittedModel:
    path = tmp_path / "whole.csv"
    rows().to_csv(path, index=False)
    return shoal.fit(path, "y", test_every=5)


def same(found: shoal.FittedModel, expected: shoal.FittedModel) -> None:
    assert list(found.coefficients) == list(expected.coefficients)
    np.testing.assert_allclose(list(found.coefficients.values()), list(expected.coefficients.values()), rtol=1e-11)
    np.testing.assert_allclose(found.intercept, expected.intercept, rtol=1e-11)


def test_parts_give_the_answer_of_the_file_they_came_from(tmp_path: Path) -> None:
    pattern = parts(tmp_path / "p", pieces(12))  # part-10 comes after part-9, not after part-1
    found, expected = shoal.fit(pattern, "y", test_every=5), whole(tmp_path)
    same(found, expected)
    np.testing.assert_allclose(found.predict(pattern), expected.predict(tmp_path / "whole.csv"), rtol=1e-11)
    assert table(opened(pattern)) == table(opened(tmp_path / "whole.csv"))


def test_columns_are_matched_by_name(tmp_path: Path) -> None:
    other = rows()[["y", "day", "city", "z", "x"]]
    pattern = parts(tmp_path / "p", [pieces(2)[0], other[45:].to_csv(index=False)])
    same(shoal.fit(pattern, "y", test_every=5), whole(tmp_path))


def test_folders_lists_and_other_packings(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    first, second, third = pieces(3)
    parts(folder, [first], "a-{}.csv")
    parts(folder, [gzip.compress(second.encode())], "b-{}.csv.gz")
    rows()[60:].to_parquet(folder / "c.parquet")
    expected = whole(tmp_path)
    same(shoal.fit(folder, "y", test_every=5, parts="alike", categorical=["day"]), shoal.fit(
        tmp_path / "whole.csv", "y", test_every=5, categorical=["day"]))  # fmt: skip
    (folder / "c.parquet").unlink()
    parts(folder, [third], "c-{}.csv")
    named = [folder / "a-0.csv", folder / "b-0.csv.gz", folder / "c-0.csv"]
    same(shoal.fit(named, "y", test_every=5), expected)
    same(shoal.fit(folder, "y", test_every=5), expected)
    assert shoal.inspect([str(path) for path in named])["rows"] == ROWS


def test_a_folder_is_its_tables_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    parts(folder, pieces(2))
    (folder / "README.txt").write_text("about,this\n")
    (folder / ".DS_Store").write_bytes(b"\0\1")
    (folder / "_SUCCESS").write_text("")
    parts(folder / "older", pieces(2))
    found = shoal.inspect(folder)
    assert found["rows"] == ROWS
    assert "Other files of the folder are left out: README.txt, _SUCCESS, older/." in found["notes"]
    (tmp_path / "q" / "year=2023").mkdir(parents=True)
    with pytest.raises(DataError, match=r"got year=2023/\. Name the files themselves"):
        shoal.inspect(tmp_path / "q")


def test_what_is_said_of_many_files_is_said_once(tmp_path: Path) -> None:
    money = ["price;y\n" + "".join(f"€ {i + 30 * part},50;{i}\n" for i in range(30)) for part in range(5)]
    pattern = parts(tmp_path / "p", [*money, "price;y\n"])
    notes = shoal.inspect(pattern)["notes"]
    assert "part-5.csv: There are no rows below the header." in notes
    assert len([note for note in notes if "holds numbers written like" in note]) == 1


def test_notes_of_some_files_name_the_fewer() -> None:
    names = [f"{i}.csv" for i in range(6)]
    assert combined_notes(names, [["a"], *[["a", "b"]] * 4, []], ["5.csv"]) == ["a", "All files but 0.csv: b"]
    assert combined_notes(names, [["c"], ["c"], *[[]] * 4]) == ["0.csv, 1.csv: c"]


def test_what_says_nothing_does_no_harm(tmp_path: Path) -> None:
    """An empty part, one of a header, one with a byte-order mark, other line ends."""
    first, second, third = pieces(3)
    header = first.splitlines()[0]
    odd = ["", header + "\n", "\ufeff" + second, third.replace("\n", "\r\n"), b"\xef\xbb\xbf", header]
    pattern = parts(tmp_path / "p", [first, *odd])
    same(shoal.fit(pattern, "y", test_every=5), whole(tmp_path))
    notes = shoal.inspect(pattern)["notes"]
    assert "part-1.csv: The file is empty and adds no rows." in notes
    assert "part-5.csv: The file is empty and adds no rows." in notes


def test_a_part_without_values_takes_the_kinds_of_others(tmp_path: Path) -> None:
    pattern = parts(tmp_path / "p", ["a,b,c\n,,\n,,\n", "a,b,c\n1,x,2021-05-03\n2,y,2021-05-04\n", "a,b,c\n3,,\n"])
    columns = {column["name"]: column["type"] for column in shoal.inspect(pattern)["columns"]}
    assert columns == {"a": "numeric", "b": "categorical", "c": "datetime"}


DIFFERENT = {
    "missing": ("a,b\n1,2\n3,4\n", "a\n5\n", "'part-1.csv' has no column 'b', which 'part-0.csv' has. ", "common"),
    "renamed": ("a,b\n1,2\n3,4\n", "a,B\n5,6\n", "(it has 'B' instead)", "common"),
    "extra": ("a,b\n1,2\n3,4\n", "c,a,b\n5,6,7\n", "'part-1.csv' has a column 'c', which 'part-0.csv' does not", "common"),
    "delimiter": ("a,b\n1,2\n3,4\n", "a;b\n5;6\n7;8\n", "delimiter ';' in place of ','", "mixed"),
    "decimal": ("a;b\n1.5;2\n3.5;4\n", "a;b\n5,5;6\n7,5;8\n", "decimal mark ',' in place of '.'", "mixed"),
    "encoding": ("a,b\né,2\nö,4\n".encode(), "a,b\né,6\nö,8\n".encode("cp1252"), "encoding '", "mixed"),
    "notation": ("a,b\n€ 1.5,2\n€ 3.5,4\n", "a,b\n$ 5.5,6\n$ 7.5,8\n", "such as $ 1234.56 in 'part-1.csv'", "mixed"),
    "dates": ("a,b\n2021-05-03,2\n2021-05-04,4\n", "a,b\n31.12.2021,6\n30.12.2021,8\n", "such as 31.12.2021", "mixed"),
    "kind": ("a,b\n1,2\n3,4\n", "a,b\nx,6\ny,8\n", "holds numbers in 'part-0.csv', but texts in 'part-1.csv'", ""),
    "no header": ("a,b\n1,2\n3,4\n", "5,6\n7,8\n", "'part-1.csv' has no row with the names of the columns", ""),
}  # fmt: skip


@pytest.mark.parametrize(("first", "second", "said", "way"), DIFFERENT.values(), ids=DIFFERENT)
def test_a_file_that_differs_is_named(
    tmp_path: Path, first: str | bytes, second: str | bytes, said: str, way: str
) -> None:
    pattern = parts(tmp_path / "p", [first, second])
    with pytest.raises(DataError) as refused:
        shoal.inspect(pattern)
    assert said in str(refused.value)
    if way:
        assert f"--parts {way}" in str(refused.value)
        assert shoal.inspect(pattern, parts=way)["rows"] == 2 + len(second.splitlines()) - 1
        assert shoal.inspect(pattern, parts="any")["rows"] == 2 + len(second.splitlines()) - 1


def test_what_is_said_of_a_kind_helps(tmp_path: Path) -> None:
    pattern = parts(tmp_path / "p", ["a,b\n1,2\n3,4\n", "a,b\nx,6\ny,8\n"])
    with pytest.raises(DataError, match=r"--categorical a"):
        shoal.inspect(pattern)
    assert shoal.inspect(pattern, categorical=["a"])["columns"][0]["type"] == "categorical"


def test_a_column_that_turns_to_text_far_below_is_named(tmp_path: Path) -> None:
    numbers = "a,b\n" + "".join(f"{i},{i}\n" for i in range(1000))
    pattern = parts(tmp_path / "p", [numbers, numbers + "".join(f"{i},word{i}\n" for i in range(400))])
    with pytest.raises(DataError, match=r"Column 'b' holds numbers in 'part-0.csv', but also texts in 'part-1.csv'"):
        shoal.inspect(pattern)


def test_what_one_part_leaves_open_another_settles(tmp_path: Path) -> None:
    """The order of dates, the mark of decimals, the encoding, the notation of plain numbers."""
    dated = parts(tmp_path / "d", ["a,d\n1,03/04/2021\n2,05/06/2021\n", "a,d\n3,31/12/2021\n4,30/12/2021\n"])
    expected = [pd.Timestamp("2021-04-03"), pd.Timestamp("2021-06-05")]
    days = column(opened(dated), "d")[:2]
    assert [pd.Timestamp("1970-01-01") + pd.Timedelta(days=day) for day in days] == expected
    marked = parts(tmp_path / "m", ["a;b\n1;2\n3;4\n", "a;b\n1,5;2\n2,5;3\n"])
    assert column(opened(marked), "a") == [1, 3, 1.5, 2.5]
    coded = parts(tmp_path / "c", ["a,b\nx,1\ny,2\n", "a,b\né,1\nö,2\n".encode("cp1252")])
    assert column(opened(coded), "a") == ["x", "y", "é", "ö"]
    priced = parts(tmp_path / "n", ["a,b\n1200,1\n15,2\n", 'a,b\n"1,500",1\n"2,500",2\n'])
    assert column(opened(priced), "a") == [1200, 15, 1500, 2500]


def test_lines_are_those_of_their_part(tmp_path: Path) -> None:
    good = "a,b\n" + "".join(f"{i},{i}\n" for i in range(200))
    pattern = parts(tmp_path / "p", [good, good.replace("\n7,7\n", "\n7,7x9!\n"), good])
    found = shoal.inspect(pattern)["bad_rows"]
    assert found["first"] == [{"file": "part-1.csv", "line": 9, "problem": "column 'b': expected a number, got '7x9!'"}]
    with pytest.raises(TrainingError, match=r"part-1.csv, line 9: "):
        shoal.fit(pattern, "a", on_bad_rows="stop")
    binary = parts(tmp_path / "r", ["a,b\n1,2\n3,4\n", bytes(1000)])
    with pytest.raises(TrainingError, match=r"part-1.csv: Expected a text table"):
        shoal.inspect(binary)


def test_an_empty_column_without_a_name_at_the_end_is_left_out_of_a_part_too(tmp_path: Path) -> None:
    first, second = pieces(2)
    trailing = "".join(f"{line},\n" for line in second.splitlines())
    pattern = parts(tmp_path / "p", [first, trailing])
    same(shoal.fit(pattern, "y", test_every=5), whole(tmp_path))
    said = "part-1.csv: A column at the end without a name and without any value is left out."
    assert said in shoal.inspect(pattern)["notes"]
    pattern = parts(tmp_path / "q", [trailing, trailing.splitlines()[0] + "\n", first])
    assert [column["name"] for column in shoal.inspect(pattern)["columns"]] == list(rows())


@pytest.mark.parametrize("allowed", ["common", "any"])
def test_the_file_that_lacks_a_column_is_named_first(allowed: str, tmp_path: Path) -> None:
    first = pieces(3)[0]
    few = rows()[30:60].drop(columns=["z", "city"]).to_csv(index=False)
    more = rows()[60:].assign(extra=1).to_csv(index=False)
    pattern = parts(tmp_path / "p", ["", first, few, more])
    notes = shoal.inspect(pattern, parts=allowed)["notes"]
    assert notes[:2] == [
        "'city', 'z' are left out: part-2.csv does not have them.", "'extra' is left out: only part-3.csv has it.",
    ]  # fmt: skip
    for knobs in ({"target": "z"}, {"target": "y", "features": ["x", "z"]}, {"target": "y", "weights": "z"}):
        with pytest.raises(TrainingError, match=r"'z' is left out of the table: part-2\.csv does not have it"):
            shoal.fit(pattern, parts=allowed, **knobs)
