"""Predictions beside the columns of their file, rows without one named, and readings that are those of training."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest

import shoal
from shoal.data.files import read_sample
from shoal.data.sniffing import detect
from support.tables import shoal as command
from support.tables import written

NEW = (
    'id;name;x;note\n007;"Mül;ler\nA";1,5;7\n008;"B ""b""";k.A.;x\n009;C;2,5;8\n   \n010;D;4;9\n\n011;E;;1\n012;F;0,5\n'
)
IDS = ["007", "008", "009", "010", "011", "012"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rows = "".join(f"{i};{i / 4:.2f};{i % 5};{2 + 3 * i / 4:.2f}\n".replace(".", ",") for i in range(200))
    path = written(tmp_path, f"id;x;note;y\n{rows}", "train.csv")
    shoal.fit(path, target="y", features=["x"], test_every=5).save(tmp_path / "m.json")
    return tmp_path / "m.json"


def predicted(model: Path, file: Path, *flags: str) -> tuple[list[list[str]], dict[str, Any]]:
    out = file.with_name("predictions.csv")
    answer = command("predict", model, file, "--out", out, "--json", *flags)
    assert answer.code == 0, answer.err
    return list(csv.reader(io.StringIO(out.read_text("utf-8"), newline=""))), answer.json


def test_kept_columns_are_as_they_are_in_the_file(model: Path, tmp_path: Path) -> None:
    (head, *rows), said = predicted(model, written(tmp_path, NEW, "new.csv"), "--keep", "id,name", "--interval", "0.9")
    assert head == ["id", "name", "prediction", "lower", "upper"]
    assert [row[:2] for row in rows][:3] == [["007", "Mül;ler\nA"], ["008", 'B "b"'], ["009", "C"]]
    assert [row[0] for row in rows] == IDS
    assert [bool(row[2]) for row in rows] == [True, False, True, True, True, False]
    assert float(rows[0][2]) == pytest.approx(6.5)
    assert float(rows[0][3]) <= 6.5 <= float(rows[0][4])
    assert said["kept"] == ["id", "name"]
    assert (said["rows"], said["bad_rows"]) == (6, 2)
    assert [entry["line"] for entry in said["not_predicted"]] == [4, 10]
    assert said["not_predicted"][0]["problem"] == "column 'x': expected a number, got 'k.A.'"


@pytest.mark.parametrize(
    ("keep", "kept"),
    [("all", ["id", "name", "x", "note"]), ("ids", ["id", "name"]), ("x", ["x"]), ("note,ids", ["id", "name", "note"])],
)
def test_what_is_kept(keep: str, kept: list[str], model: Path, tmp_path: Path) -> None:
    (head, *_), said = predicted(model, written(tmp_path, NEW, "new.csv"), "--keep", keep)
    assert (head, said["kept"]) == ([*kept, "prediction"], kept)


def test_without_ids_all_columns_are_kept(model: Path, tmp_path: Path) -> None:
    text = "x;g;prediction\n" + "".join(f"{i},5;{i % 2};{i % 3}\n" for i in range(20))
    (head, *_), _ = predicted(model, written(tmp_path, text, "new.csv"), "--keep", "ids")
    assert head == ["x", "g", "prediction", "prediction_1"]


def test_a_column_without_name_and_value_is_not_kept(model: Path, tmp_path: Path) -> None:
    text = "x;g;\n" + "".join(f"{i},5;{i % 2};\n" for i in range(20)) + "\nprinted by a till\n"
    (head, *_), said = predicted(model, written(tmp_path, text, "new.csv"), "--keep", "all")
    assert head == ["x", "g", "prediction"]
    assert (said["rows"], said["bad_rows"]) == (20, 0)  # what is printed at the foot is no row


def test_a_column_that_is_not_there_is_named(model: Path, tmp_path: Path) -> None:
    answer = command("predict", model, written(tmp_path, NEW, "new.csv"), "--out", tmp_path / "o.csv", "--keep", "nmae")
    assert answer.code != 0
    assert "Did you mean 'name'" in answer.err
    assert not (tmp_path / "o.csv").exists()


def test_rows_of_many_pieces_stay_beside_their_predictions(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.tasks.kept_text.CHUNK", 50)
    text = "# by hand\nid,x\n" + "".join(f'"{i}\n{"z" * (i % 90)}",{i}\n' for i in range(300))
    (_, *rows), _ = predicted(model, written(tmp_path, text, "new.csv"), "--keep", "id")
    assert [row[0].split("\n")[0] for row in rows] == [str(i) for i in range(300)]
    assert [float(row[1]) for row in rows] == pytest.approx([2 + 3 * i for i in range(300)])


def test_workbooks_and_parquet_files_keep_columns_too(model: Path, tmp_path: Path) -> None:
    table = pd.DataFrame({"id": [f"a{i}" for i in range(6)], "x": [0.5 * i for i in range(6)]})
    table.to_parquet(tmp_path / "new.parquet")
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    for row in [list(table.columns), *table.itertuples(index=False)]:
        sheet.append(list(row))
    book.save(tmp_path / "new.xlsx")
    for name in ("new.parquet", "new.xlsx"):
        (_, *rows), _ = predicted(model, tmp_path / name, "--keep", "id")
        assert [row[0] for row in rows] == list(table["id"])
        assert [float(row[1]) for row in rows] == pytest.approx(list(2 + 3 * table["x"]))


def test_python_writes_them_as_well(model: Path, tmp_path: Path) -> None:
    said = shoal.load(model).predict_to(written(tmp_path, NEW, "new.csv"), tmp_path / "o.csv", keep="ids")
    assert said["kept"] == ["id", "name"]
    assert (tmp_path / "o.csv").read_text().startswith("id,name,prediction\n007,")


# ------------------------------------------------------------------ what a row needs


def test_columns_that_the_model_does_not_use_lose_no_row(model: Path, tmp_path: Path) -> None:
    text = "x;amount\n" + "".join(f"{i},5;{'?!' if i % 10 == 3 else i}\n" for i in range(100))
    (_, *rows), said = predicted(model, written(tmp_path, text, "new.csv"))
    assert (said["bad_rows"], said["not_predicted"]) == (0, [])
    assert all(row[1] for row in rows)


def test_columns_of_weight_zero_need_not_be_there(tmp_path: Path) -> None:
    rows = "".join(f"{i},{(i * 37) % 11},{'uv'[i % 2]},{5 * i}\n" for i in range(100))
    path = written(tmp_path, f"a,b,g,y\n{rows}", "train.csv")
    model = shoal.fit(path, target="y", model="lasso", alpha=20.0)
    assert {name for name, value in model.coefficients.items() if value} == {"a"}
    new = written(tmp_path, "a\n1\n2\n", "new.csv")
    found = model.predict(new)
    assert found == pytest.approx(model.predict(pd.DataFrame({"a": [1, 2]})))
    assert found == pytest.approx(model.predict(pd.DataFrame({"a": [1, 2], "b": [3, 4], "g": ["u", "w"]})))


@pytest.mark.parametrize("times", [False, True])
def test_predicted_dates_are_written_as_dates(times: bool, tmp_path: Path) -> None:
    after = pd.date_range("2021-01-01", periods=200, freq="31h" if times else "2D")
    shape = "%Y-%m-%d %H:%M:%S" if times else "%d.%m.%Y"
    rows = "".join(f"{i},{i % 3},{day.strftime(shape)}\n" for i, day in enumerate(after))
    path = written(tmp_path, f"x,g,when\n{rows}", "train.csv")
    model = shoal.fit(path, target="when", features=["x"], test_every=5)
    model.save(tmp_path / "m.json")
    (head, *found), _ = predicted(
        tmp_path / "m.json", written(tmp_path, "x\n10\n\n1000\n", "new.csv"), "--interval", "0.9"
    )
    assert head == ["row", "prediction", "lower", "upper"]
    expected = [after[10], after[0] + 1000 * (after[1] - after[0])]
    assert [row[1] for row in found] == [str(day) if times else str(day.date()) for day in expected]
    assert all(row[2] <= row[1] <= row[3] for row in found)


# ------------------------------------------------------------------ readings


@pytest.mark.parametrize(
    ("train", "new", "value"),
    [
        ("1.234,50", "1.234", 1234.0),  # a point groups digits, as in training
        ("1234,50", "1,234", 1.234),  # a comma is the decimal mark
        ("1234.50", "1.234", 1.234),
        ("1,234.50", "1,234", 1234.0),
        ("1.234,50", "1234.5", 1234.5),  # written otherwise, and that can be told
    ],
)
def test_a_text_means_the_number_that_it_meant_in_training(train: str, new: str, value: float, tmp_path: Path) -> None:
    styles = {"1.234,50": lambda v: f"{v:,.2f}".translate(str.maketrans(",.", ".,")), "1234,50": lambda v: f"{v:.2f}".replace(".", ","),
              "1234.50": lambda v: f"{v:.2f}", "1,234.50": lambda v: f"{v:,.2f}"}  # fmt: skip
    values = [100.5 + 37.25 * i for i in range(100)]
    rows = "".join(f"{styles[train](v)};{i};{v:.0f}\n" for i, v in enumerate(values))
    model = shoal.fit(written(tmp_path, f"x;i;y\n{rows}", "train.csv"), target="y", features=["x"])
    file = written(tmp_path, f"x;i\n{new};1\n{new};2\n", "new.csv")
    assert model.predict(file) == pytest.approx([value, value], abs=0.6)


def test_a_sample_that_ends_within_a_comment_is_told_apart(tmp_path: Path) -> None:
    """Lines that are skipped and do not end in the sample: nothing is waited for."""
    head = b"# c\na,b\n" + b"1,2\n" * 100
    path = written(tmp_path, head + b"# " + b"x" * (2 << 20) + b"\n3,4\n")
    sample, at_end = read_sample(path)
    assert not at_end
    assert detect(sample, at_end).delimiter == ","


def test_a_column_that_is_empty_in_new_rows_is_doubted_before_anything_is_said(tmp_path: Path) -> None:
    """Half of what the target is rests on x, and half on the colour."""
    lines = [f"{i % 7},{'' if i % 25 == 3 else i * i % 11},{'red' if i % 3 else 'blue'},{'' if i % 2 else i % 5}," +
             f"{i % 7 + 9 * (i * i % 11) + 50 * (i % 3)}" for i in range(200)]  # fmt: skip
    train = written(tmp_path, "\n".join(["a,x,colour,seldom,y", *lines]) + "\n", "train.csv")
    shoal.fit(train, target="y", test_every=5).save(tmp_path / "m.json")
    new = written(
        tmp_path, "a,x,colour,seldom\n" + "".join(f"{i % 7},{'4' if i < 3 else ''},,\n" for i in range(30)), "new.csv"
    )
    _, said = predicted(tmp_path / "m.json", new, "--interval", "0.9")
    x, colour = said["doubts"]  # not seldom, which had no value in half of the training rows
    assert x.startswith("Column 'x' has no value in 27 of 30 rows, which was so in 4 % of the training rows; ")
    assert "intervals around them, do not hold there" in x
    assert colour.startswith("Column 'colour' has no value in 30 of 30 rows; ")
    assert not [note for note in said["warnings"] if "'x'" in note or "'colour'" in note]
    shown = command(
        "predict", tmp_path / "m.json", new, "--out", tmp_path / "p.csv", "--interval", "0.9"
    ).out.splitlines()
    assert shown[1] == f"warning: {x}"
    assert shown[3].startswith("with intervals of 90 %")
    few = written(
        tmp_path, "a,x,colour,seldom\n" + "".join(f"{i % 7},{'4' if i else ''},red,1\n" for i in range(30)), "few.csv"
    )
    _, said = predicted(tmp_path / "m.json", few)
    assert said["doubts"] == []
    assert any(note.startswith("Column 'x' has no value in 1 row; ") for note in said["warnings"])


def test_names_that_come_again_are_told_once(model: Path, tmp_path: Path) -> None:
    file = written(tmp_path, "id;x\n1;2,5\nid;x\n2;3,5\nid;x\n3;4,5\n", "pages.csv")
    rows, said = predicted(model, file)
    assert [bool(row[1]) for row in rows[1:]] == [True, False, True, False, True]
    assert said["warnings"] == ["The names of the columns come again in 2 rows, which are left out."]
    broken = written(tmp_path, "id;x\n1;2,5\nid;x\n2;oops\n3;4,5\n", "broken.csv")
    _, said = predicted(model, broken)
    (note,) = (note for note in said["warnings"] if "could not be read" in note)
    assert note.startswith("1 row could not be read and has no prediction: ")
    assert "oops" in note
