"""Excel workbooks: a sheet is read as the table that it is, in its own types; what is wrong with a file is said."""

from __future__ import annotations

import datetime
import re
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest

import shoal
from shoal.data.formats import workbook_parts, workbooks
from shoal.errors import ConfigError, DataError
from shoal.settings import limits
from support.tables import column, opened
from support.tables import shoal as command

DAY = datetime.datetime(2021, 5, 3)


def workbook(path: Path, **sheets: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)  # type: ignore[arg-type]
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def sales(rows: int = 60) -> list[list[Any]]:
    body = [
        [DAY + datetime.timedelta(days=3 * i), round(0.1 * i, 2), f"K{i % 3}", i % 2 == 0, 4 * i] for i in range(rows)
    ]
    return [["day", "price", "kind", "new", "sold"], *body]


def test_cells_keep_their_types(tmp_path: Path) -> None:
    dataset = opened(workbook(tmp_path / "a.xlsx", Sales=sales()))
    kinds = {name: found.type for name, found in dataset.columns.items()}
    assert kinds == {
        "day": "datetime",
        "price": "numeric",
        "kind": "categorical",
        "new": "categorical",
        "sold": "numeric",
    }
    assert column(dataset, "day")[:2] == [18750.0, 18753.0]
    assert column(dataset, "price") == [round(0.1 * i, 2) for i in range(60)]
    assert column(dataset, "new")[:2] == ["true", "false"]


def test_titles_above_gaps_and_times(tmp_path: Path) -> None:
    rows = [["Sales of the year"], [], ["when", "x", "y"]]
    rows += [[DAY + datetime.timedelta(minutes=5 * i), None if i == 3 else i, i * 2] for i in range(40)]
    dataset = opened(workbook(tmp_path / "a.xlsx", S=rows))
    assert list(dataset.columns) == ["when", "x", "y"]
    assert column(dataset, "x")[2:5] == [2.0, None, 4.0]
    assert column(dataset, "when")[1] == pytest.approx(18750 + 5 / 1440, abs=1e-9)


def test_formulas_are_the_values_that_were_stored(tmp_path: Path) -> None:
    """openpyxl stores no values of formulas; a spreadsheet does, as here."""
    path = workbook(tmp_path / "a.xlsx", S=[["a", "b"], *([i, f"=A{i + 2}*2"] for i in range(5))])
    with zipfile.ZipFile(path) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    sheet = parts["xl/worksheets/sheet1.xml"].decode()
    for i in range(5):
        sheet = sheet.replace(f"<f>A{i + 2}*2</f><v />", f"<f>A{i + 2}*2</f><v>{2 * i}</v>")
        sheet = sheet.replace(f"<f>A{i + 2}*2</f><v></v>", f"<f>A{i + 2}*2</f><v>{2 * i}</v>")
    parts["xl/worksheets/sheet1.xml"] = sheet.encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    assert column(opened(path), "b") == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_the_sheet_is_chosen_by_name_or_number_and_said(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", Empty=[], First=sales(), Second=[["p", "q"], *([i, i * i] for i in range(30))])
    assert "'First' is read" in " ".join(opened(path).notes)
    assert list(opened(path, sheet="Second").columns) == ["p", "q"]
    assert list(opened(path, sheet="3").columns) == ["p", "q"]
    assert list(opened(path, sheet="second").columns) == ["p", "q"]
    with pytest.raises(ConfigError, match="Expected one of the sheets Empty, First, Second, got 'Secnd'"):
        opened(path, sheet="Secnd")
    assert command("inspect", path, "--sheet", "Second", "--json").json["sheets"] == ["Empty", "First", "Second"]


def test_a_sheet_of_what_is_no_workbook_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(ConfigError, match="is no workbook"):
        opened(tmp_path / "a.csv", sheet="x")


def test_models_are_fitted_to_workbooks_and_predict_them(tmp_path: Path) -> None:
    model = shoal.fit(workbook(tmp_path / "a.xlsx", S=sales()), target="sold", features=["day", "price"])
    rows = workbook(tmp_path / "b.xlsx", Notes=[["read me"]], New=sales(10))
    assert model.predict(rows, sheet="New") == pytest.approx([4.0 * i for i in range(10)], abs=1e-8)


def rewritten(path: Path, part: str, change: Callable[[bytes], bytes]) -> Path:
    """One part of a workbook changed; one that is not there is made of nothing."""
    with zipfile.ZipFile(path) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    parts[part] = change(parts.get(part, b""))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def added(path: Path, part: str, end: bytes, more: bytes) -> Path:
    """More elements before the end of a part."""
    return rewritten(path, part, lambda data: data.replace(end, more + end, 1))


@pytest.mark.parametrize("part", ["xl/workbook.xml", "xl/worksheets/sheet1.xml"])
def test_damaged_workbooks_are_said_to_be(part: str, tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", S=sales())
    rewritten(path, part, lambda data: data[: len(data) // 2])
    with pytest.raises(DataError, match="not a whole Excel workbook"):
        opened(path)


def test_a_workbook_that_unpacks_to_far_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.data.formats.workbooks.most_unpacked", lambda size: 10_000)
    with pytest.raises(DataError, match=r"to unpack to .* at most"):
        opened(workbook(tmp_path / "a.xlsx", S=sales(400)))


SPREADSHEET = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SHARED = b"application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
SHEET, STYLES = "xl/worksheets/sheet1.xml", "xl/styles.xml"


def test_very_many_shared_texts_are_refused_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text of nothing has 5 bytes, packed to less than one, and becomes 100: 18 million of them were 744 kB."""
    monkeypatch.setattr(limits, "MARKS_LEAST", 20_000)
    path = workbook(tmp_path / "a.xlsx", S=sales())
    part = b'<Override PartName="/xl/sharedStrings.xml" ContentType="%s"/>' % SHARED
    added(path, "[Content_Types].xml", b"</Types>", part)
    texts = b'<sst xmlns="%s">%s</sst>' % (SPREADSHEET, b"<si/>" * 15_000)
    assert opened(rewritten(path, "xl/sharedStrings.xml", lambda _: texts)).rows == 60
    added(path, "xl/sharedStrings.xml", b"</sst>", b"<si/>" * 15_000)
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match=r"at most 20,000 elements .* in 'xl/sharedStrings.xml' of 'a.xlsx'.*CSV"):
        opened(path)


@pytest.mark.parametrize(
    ("end", "more"), [(b"</row>", b"<c/>" * 9000), (b"</sheetData>", b'<row r="1"/>' * 9000)], ids=["cells", "rows"]
)
def test_a_row_of_very_many_cells_and_rows_that_never_come_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes, more: bytes
) -> None:
    monkeypatch.setattr(workbook_parts, "ROW_MARKS", 8000)
    path = workbook(tmp_path / "a.xlsx", S=sales(600))
    assert opened(path).rows == 600, "more marks than that in all, but in many rows"
    with pytest.raises(DataError, match=r"at most 8,000 elements .* in a row in 'xl/worksheets/sheet1.xml'"):
        opened(added(path, SHEET, end, more))


def test_very_many_styles_are_refused(tmp_path: Path) -> None:
    path = added(workbook(tmp_path / "a.xlsx", S=sales()), STYLES, b"</cellXfs>", b"<xf/>" * 200_000)
    with pytest.raises(DataError, match=r"at most 200,000 elements .* in 'xl/styles.xml'"):
        opened(path)


def test_a_sheet_ends_where_excel_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a row is a few bytes, the empty rows before it are not."""
    monkeypatch.setattr(workbooks, "SHEET_ROWS", 5000)
    far = b'<row r="%d"><c r="A%d"><v>1</v></c></row>'
    path = workbook(tmp_path / "a.xlsx", S=sales(), Far=sales())
    added(path, "xl/worksheets/sheet2.xml", b"</sheetData>", far % (999_999_999, 999_999_999))
    assert opened(path).rows == 60
    with pytest.raises(DataError, match=r"at most 5,000 rows in a sheet, as Excel has them, but 'Far' of 'a.xlsx'"):
        opened(path, sheet="Far")


def test_a_sheet_whose_text_grows_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cell at the far right makes a line of 16 kB."""
    path = workbook(tmp_path / "a.xlsx", S=sales())
    added(path, SHEET, b"</sheetData>", b'<row><c r="XFD1"><v>1</v></c></row>' * 500)
    monkeypatch.setattr(limits, "UNPACKED_LEAST", 2 << 20)
    with pytest.raises(DataError, match=r"to unpack to 2\.1 MB at most, but it goes on.*CSV"):
        opened(path)


def test_sheets_without_anything_in_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="got empty ones only"):
        opened(workbook(tmp_path / "a.xlsx", A=[], B=[]))


def test_notes_before_the_table_are_not_read_as_one(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", Notes=[["Made on Monday"], ["by hand"]], Sales=sales())
    dataset = opened(path)
    assert dataset.rows == 60
    assert "'Sales' is read, since 'Notes' has no table. Others (sheet): Notes." in " ".join(dataset.manifest.notes)
    assert list(opened(path, sheet="Notes").columns) == ["Made on Monday"]


def test_what_openpyxl_warns_of_is_not_printed(tmp_path: Path) -> None:
    plain, odd = workbook(tmp_path / "a.xlsx", Sales=sales()), tmp_path / "odd.xlsx"
    with zipfile.ZipFile(plain) as whole, zipfile.ZipFile(odd, "w") as without:
        for name in whole.namelist():
            text = re.sub(rb"<cellStyles.*</cellStyles>", b"", whole.read(name), flags=re.DOTALL)
            without.writestr(name, text)
    with pytest.warns(UserWarning, match="no default style"):
        openpyxl.load_workbook(odd)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert opened(odd).rows == 60
    assert caught == []


def test_a_title_merged_names_totals_and_a_footnote_are_no_rows(tmp_path: Path) -> None:
    above = [["Report by shop"], [], ["Shop", "", "Weather", "", "Result"], ["Name", "Day", "Warm", "Rain", "Sales"]]
    body = [["KBA"[i % 3], DAY + datetime.timedelta(days=i), i % 7 + 0.5, i % 4, 100 + 3 * i] for i in range(40)]
    foot = [["Total", None, None, None, sum(row[4] for row in body)], [], ["Source: tills"]]  # type: ignore[misc]
    dataset = opened(workbook(tmp_path / "a.xlsx", Data=[*above, *body, *foot]))
    assert list(dataset.columns) == ["Shop Name", "Shop Day", "Weather Warm", "Weather Rain", "Result Sales"]
    assert column(dataset, "Result Sales") == [100.0 + 3 * i for i in range(40)]
    notes = " ".join(dataset.manifest.notes)
    assert "left out, and the line below as well" in notes
    assert "The first 2 lines are above the table" in notes
