"""Rows that are no data: each is told from data, left out of it, and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shoal
from support.tables import Cell, fitted, opened, table, written

SPECTRA = [[0.5 + (7 * i + 3 * j) % 11 / 10 for j in range(4)] for i in range(8)]


def lines(rows: list[list[Any]], delimiter: str = ",") -> str:
    return "".join(delimiter.join(map(str, row)) + "\n" for row in rows)


DATA = "1,2,3\n4,5,6\n7,8,9\n"
THREE: list[list[Cell]] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]


# name: (text, names, rows, words of a note)
FILES: dict[str, tuple[str, list[str], list[list[Cell]], str]] = {
    "wavelengths": ("400,402.5,405,410\n" + lines(SPECTRA), ["400", "402.5", "405", "410"], [[*row] for row in SPECTRA], "although it has numbers"),
    "a title of two cells and an empty line": ("Export;made 2026-11-01;;;\n\nno;day;a;b;c\n" + "".join(f"{i};2021-05-0{1 + i % 9};{i % 3};{i % 5};{i}\n" for i in range(9)), ["no", "day", "a", "b", "c"], [[float(i), float(18748 + i % 9), float(i % 3), float(i % 5), float(i)] for i in range(9)], "above the table"),
    "years": ("2019,2020,2021\n1.5,2,3\n2,4,1\n", ["2019", "2020", "2021"], [[1.5, 2.0, 3.0], [2.0, 4.0, 1.0]], "although it has numbers"),
    "numbers that are data": ("1,2,3\n2,1,5\n3,3,3\n", ["0", "1", "2"], [[1.0, 2.0, 3.0], [2.0, 1.0, 5.0], [3.0, 3.0, 3.0]], "read as data"),
    "preamble one field short": ("Report,Q3\na,b,c\n1,2,3\n4,5,6\n7,8,9\n", ["a", "b", "c"], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], "above the table"),
    "preamble one field long": ("Report,Q3,made,today\na,b,c\n1,2,3\n4,5,6\n7,8,9\n", ["a", "b", "c"], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], "above the table"),
    "units below the names": ("height,mass,who\ncm,kg,\n180,75.5,a\n170,60,b\n175,70,c\n", ["height", "mass", "who"], [[180.0, 75.5, "a"], [170.0, 60.0, "b"], [175.0, 70.0, "c"]], "The row below the names (cm, kg)"),
    "names in two rows": ("2020,,2021,\nin,out,in,out\n1,2,3,4\n5,6,7,8\n9,10,11,12\n", ["2020 in", "2020 out", "2021 in", "2021 out"],
                          [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]], "second line"),
    "years below names that come twice": ("sales,sales,cost,cost\n2020,2021,2020,2021\n10,20,5,6\n11,22,7,8\n", ["sales 2020", "sales 2021", "cost 2020", "cost 2021"],
                                          [[10.0, 20.0, 5.0, 6.0], [11.0, 22.0, 7.0, 8.0]], "2020, 2021, 2020, 2021"),
    "years below merged names": (";Revenue;;Cost;\nRegion;2020;2021;2020;2021\nN;10;20;5;6\nS;11;22;7;8\n", ["Region", "Revenue 2020", "Revenue 2021", "Cost 2020", "Cost 2021"],
                                 [["N", 10.0, 20.0, 5.0, 6.0], ["S", 11.0, 22.0, 7.0, 8.0]], "second line"),
    "quarters below merged names": ("at,Q,,R,\n,1,2,1,2\nN,10,20,5,6\nS,11,22,7,8\n", ["at", "Q 1", "Q 2", "R 1", "R 2"],
                                    [["N", 10.0, 20.0, 5.0, 6.0], ["S", 11.0, 22.0, 7.0, 8.0]], "second line"),
    "names that come twice over data": ("x,x,y,y\n1,2,1,3\n2,3,4,1\n4,5,6,2\n", ["x", "x.1", "y", "y.1"], [[1.0, 2.0, 1.0, 3.0], [2.0, 3.0, 4.0, 1.0], [4.0, 5.0, 6.0, 2.0]], "comes twice"),
    "names that come twice over years": ("x,x\n2001,2003\n2002,2004\n2004,2010\n", ["x", "x.1"], [[2001.0, 2003.0], [2002.0, 2004.0], [2004.0, 2010.0]], "comes twice"),
    "totals": ("shop,units\na,5\nb,7\nc,1\nTotal,13\n", ["shop", "units"], [["a", 5.0], ["b", 7.0], ["c", 1.0]], "'Total'"),
    "totals in German": ("Ort;Menge\nA;5\nB;7\nC;1\nGesamtsumme;13\n", ["Ort", "Menge"], [["A", 5.0], ["B", 7.0], ["C", 1.0]], "'Gesamtsumme'"),
    "a level of that name": ("shop,units\na,5\nTotal,5\nb,7\nTotal,12\n", ["shop", "units"], [["a", 5.0], ["Total", 5.0], ["b", 7.0], ["Total", 12.0]], ""),
    "sep": ("sep=;\na;b\n1;2,5\n3;4,5\n", ["a", "b"], [[1.0, 2.5], [3.0, 4.5]], "first line is above"),
    "sep in quotes": ('"sep=|"\r\na|b\r\n1|2.5\r\n3|4.5\r\n', ["a", "b"], [[1.0, 2.5], [3.0, 4.5]], "first line is above"),
    "a delimiter too many in the header": ("a,b,c,\n1,2,3\n4,5,6\n7,8,9\n", ["a", "b", "c"], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], "The header has 4 names"),
    "a delimiter too many among the names": ("a,,b,c\n" + DATA, ["a", "b", "c"], THREE, "The header has 4 names"),
    "another delimiter in the header": ("a;b;c\n" + DATA, ["a", "b", "c"], THREE, "has ';' between its names"),
    "a quote opened at the first name": ('"a,b,"c"\n' + DATA, ["a", "b", "c"], THREE, "never closed"),
    "a quote behind a name": ('a,b",c\n' + DATA, ["a", "b", "c"], THREE, "stands alone"),
    "inches": ('a,5" pipe,c\n' + DATA, ["a", '5" pipe', "c"], THREE, ""),
    "a title above data": ("All of it\n" + DATA, ["0", "1", "2"], THREE, "above the table"),
    "a quote too many in the header": ('a,"b,c\n1,2,3\n4,5,6\n7,8,9\n', ["a", "b", "c"], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], "never closed"),
    "quoted decimal commas": ('a,b\n"1,5","2,25"\n"3,5","4,75"\n"5,1","6,5"\n', ["a", "b"], [[1.5, 2.25], [3.5, 4.75], [5.1, 6.5]], "1.234,56"),
    "lines within quotes": ('"a,b,c"\n"1,2,x"\n"3,4,y"\n', ["a,b,c"], [["1,2,x"], ["3,4,y"]], "within quotes as a whole; if ',' is between"),
    "prose": ('a line of words\nand another "one"\nand more\nof it here\n', ["a line of words"], [['and another "one"'], ["and more"], ["of it here"]], "read as one column"),
    "one column of numbers": ("x\n1\n2\n3\n", ["x"], [[1.0], [2.0], [3.0]], ""),
    "blanks and quotes": ('name "the x"\n"b c" 1.5\n"c d" 2.5\n"d e f" 3.5\n', ["name", "the x"], [["b c", 1.5], ["c d", 2.5], ["d e f", 3.5]], ""),
    "aligned by blanks": ("1  2 3\n4  5 6\n7  8 9\n", ["0", "1", "2", "3"], [[1.0, None, 2.0, 3.0], [4.0, None, 5.0, 6.0], [7.0, None, 8.0, 9.0]], "several blanks"),
    "colons": ("a:b\n1:x\n2:y\n3:z\n", ["a:b"], [["1:x"], ["2:y"], ["3:z"]], "':' is between"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_rows_that_are_no_data_are_left_out_and_said(name: str, tmp_path: Path) -> None:
    text, names, rows, words = FILES[name]
    dataset = opened(written(tmp_path, text))
    assert list(dataset.columns) == names
    assert [list(row.values()) for row in table(dataset)] == rows
    assert words in " ".join(dataset.manifest.notes)


def test_names_that_come_again_are_left_out_and_no_fault(tmp_path: Path) -> None:
    rows = [f"{i},{2 * i + i % 3}\n" for i in range(1500)]
    text = "".join(("x,y\n" if i % 100 == 0 else "") + row for i, row in enumerate(rows))
    path = written(tmp_path, text)
    dataset = opened(path)
    assert len(table(dataset)) == 1500
    assert "The names of the columns come again in 14 rows, which are left out." in dataset.manifest.notes
    assert shoal.inspect(path)["rows"] == 1500
    said = fitted(path, "y")
    assert (said["rows_read"], said["rows_dropped"]) == (1500, {})  # no row of the table is missing
    report = fitted(path, "y", on_bad_rows="stop")
    assert report["train"]["rows"] == 1500
    assert dataset.columns["x"].words == ()


def test_what_was_guessed_can_be_said_otherwise(tmp_path: Path) -> None:
    path = written(tmp_path, FILES["wavelengths"][0])
    dataset = opened(path, header=False)
    assert len(table(dataset)) == 9
    assert dataset.manifest.notes == ()
    path = written(tmp_path, FILES["units below the names"][0], "units.csv")
    assert opened(path, header=True).columns["height"].type == "categorical"


def test_what_is_said_of_one_file_is_not_said_of_another_with_the_same_table(tmp_path: Path) -> None:
    for name in ("a delimiter too many among the names", "another delimiter in the header"):
        text, _, _, words = FILES[name]
        assert words in " ".join(opened(written(tmp_path, text, f"{name}.csv")).manifest.notes)
    assert opened(written(tmp_path, "a,b,c\n" + DATA, "clean.csv")).manifest.notes == ()
