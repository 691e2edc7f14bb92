"""Hostile files: the table is what a sensible person expects, or one plain message; never a traceback or lost rows."""

from __future__ import annotations

import codecs
import csv
import datetime
import decimal
import gzip
import io
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shoal.errors import DataError, TrainingError
from support.tables import SHARED, Cell, bad_places, column, opened, shared, shoal, small_pieces, table, written

NASTY = SHARED / "csv_nasty"
MISSING = {"", "NA"}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


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
            [datetime.datetime(2004, 1, 5, tzinfo=datetime.UTC).timestamp(), 17.49, 18.49, 17.44, 18.45],
            [datetime.datetime(2004, 1, 6, tzinfo=datetime.UTC).timestamp(), 16.73, 17.67, 16.19, 17.66],
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
    assert [line for line, _ in dataset.manifest.bad_rows] == BAD_LINES.get(path.name, [])


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


# ------------------------------------------------------------------ tables that can be read

ROWS = [[1.0, 2.5, "x"], [2.0, None, "y"], [3.0, -7.25, "x"], [4.0, 1e-3, "zz top"]]
NAMES = ["n", "value", "text"]


def text_of(
    rows: list[list[Cell]] = ROWS, header: list[str] | None = NAMES, delimiter: str = ",", end: str = "\n",
    decimal_mark: str = ".", quoting: Any = csv.QUOTE_MINIMAL,
) -> str:  # fmt: skip
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting)
    if header:
        writer.writerow(header)
    for row in rows:
        writer.writerow([
            "" if cell is None else cell if isinstance(cell, str) else repr(cell).replace(".", decimal_mark)
            for cell in row
        ])  # fmt: skip
    return out.getvalue()


PLAIN = text_of()
POSITIONS = ["0", "1", "2"]

# name: (bytes, names, rows, knobs)
READABLE: dict[str, tuple[str | bytes, list[str], list[list[Cell]], dict[str, Any]]] = {
    "plain": (PLAIN, NAMES, ROWS, {}),
    "no final newline": (PLAIN.rstrip("\n"), NAMES, ROWS, {}),
    "crlf": (text_of(end="\r\n"), NAMES, ROWS, {}),
    "crlf without the last": (text_of(end="\r\n").rstrip(), NAMES, ROWS, {}),
    "lone cr": (text_of(end="\r"), NAMES, ROWS, {}),
    "lone cr with a quoted newline": ('n,s\r1,"a\nb"\r2,c\r3,d\r', ["n", "s"], [[1.0, "a\nb"], [2.0, "c"], [3.0, "d"]], {}),
    "mixed lf and crlf": (PLAIN.replace("\n", "\r\n", 2), NAMES, ROWS, {}),
    "tab": (text_of(delimiter="\t"), NAMES, ROWS, {}),
    "semicolon": (text_of(delimiter=";"), NAMES, ROWS, {}),
    "pipe": (text_of(delimiter="|"), NAMES, ROWS, {}),
    "semicolon and decimal comma": (text_of(delimiter=";", decimal_mark=","), NAMES, ROWS, {}),
    "tab and decimal comma": (text_of(delimiter="\t", decimal_mark=","), NAMES, ROWS, {}),
    "decimal comma given": (text_of(delimiter=";", decimal_mark=","), NAMES, ROWS, {"decimal": ","}),
    "all quoted": (text_of(quoting=csv.QUOTE_ALL), NAMES, ROWS, {}),
    "utf-8 bom": (codecs.BOM_UTF8 + PLAIN.encode(), NAMES, ROWS, {}),
    "bom and quotes": (codecs.BOM_UTF8 + text_of(quoting=csv.QUOTE_ALL).encode(), NAMES, ROWS, {}),
    "bom and no header": (codecs.BOM_UTF8 + b"1,2\n3,4\n", ["0", "1"], [[1.0, 2.0], [3.0, 4.0]], {}),
    "utf-16 with bom": (PLAIN.encode("utf-16"), NAMES, ROWS, {}),
    "utf-16 le without bom": (PLAIN.encode("utf-16-le"), NAMES, ROWS, {}),
    "utf-16 be without bom": (PLAIN.encode("utf-16-be"), NAMES, ROWS, {}),
    "utf-16 be with bom": (codecs.BOM_UTF16_BE + PLAIN.encode("utf-16-be"), NAMES, ROWS, {}),
    "utf-16 given though bom": (codecs.BOM_UTF16_LE + PLAIN.encode("utf-16-le"), NAMES, ROWS, {"encoding": "utf-16-le"}),
    "utf-32 with bom": (PLAIN.encode("utf-32"), NAMES, ROWS, {}),
    "utf-8-sig given": (codecs.BOM_UTF8 + PLAIN.encode(), NAMES, ROWS, {"encoding": "utf-8-sig"}),
    "latin-1": ("n,s\n1,café\n2,naïve\n".encode("latin-1"), ["n", "s"], [[1.0, "café"], [2.0, "naïve"]], {}),
    "cp1252": ("n,s\n1,“a”\n2,€5\n".encode("cp1252"), ["n", "s"], [[1.0, "“a”"], [2.0, "€5"]], {}),
    "cp1250 given": ("n,s\n1,łódź\n2,x\n".encode("cp1250"), ["n", "s"], [[1.0, "łódź"], [2.0, "x"]], {"encoding": "cp1250"}),
    "shift-jis given": ("n,s\n1,表\n2,x\n".encode("shift_jis"), ["n", "s"], [[1.0, "表"], [2.0, "x"]], {"encoding": "shift_jis"}),
    "emoji": ("n,😀\n1,a😀b\n2,x\n", ["n", "😀"], [[1.0, "a😀b"], [2.0, "x"]], {}),
    "no header": (text_of(header=None), POSITIONS, ROWS, {}),
    "no header, all numbers": ("1,2\n3,4\n5,6\n", ["0", "1"], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], {}),
    "no header given": ("a,b\nc,d\n", ["0", "1"], [["a", "b"], ["c", "d"]], {"header": False}),
    "header given though numbers": ("1,2\n3,4\n", ["1", "2"], [[3.0, 4.0]], {"header": True}),
    "years as names": ("country,2019,2020\nA,1.5,2\nB,3,4\n", ["country", "2019", "2020"], [["A", 1.5, 2.0], ["B", 3.0, 4.0]], {}),
    "header only": ("a,b,c\n", ["a", "b", "c"], [], {}),
    "header only, no newline": ("a,b,c", ["a", "b", "c"], [], {}),
    "one column": ("a\n1\n2\n", ["a"], [[1.0], [2.0]], {}),
    "one column of text": ("name\nann\nbob\nann\n", ["name"], [["ann"], ["bob"], ["ann"]], {}),
    "one row": ("a,b\n1,2\n", ["a", "b"], [[1.0, 2.0]], {}),
    "one cell": ("5\n", ["0"], [[5.0]], {}),
    "multi-line header cells": ('"first\nname","b\r\nc"\n1,2\n3,4\n', ["first\nname", "b\r\nc"], [[1.0, 2.0], [3.0, 4.0]], {}),
    "quoted newlines": ('n,s\n1,"a\nb"\n2,"\n"\n3,"x,y"\n', ["n", "s"], [[1.0, "a\nb"], [2.0, "\n"], [3.0, "x,y"]], {}),
    "doubled quotes": ('n,s\n1,"say ""hi"""\n2,"""";""\n3,""""\n', ["n", "s"],
                       [[1.0, 'say "hi"'], [2.0, '";""'], [3.0, '"']], {}),
    "backslash escapes": ('n,s\n1,"say \\"hi\\", she said"\n2,"b"\n3,"c\\"d"\n', ["n", "s"],
                          [[1.0, 'say "hi", she said'], [2.0, "b"], [3.0, 'c"d']], {}),
    "single quotes": ("n,s\n1,'a,b'\n2,'c'\n3,'d,e'\n", ["n", "s"], [[1.0, "a,b"], [2.0, "c"], [3.0, "d,e"]], {}),
    "quote in the middle of a field": ('n,s\n1,5" pipe\n2,6" pipe\n', ["n", "s"], [[1.0, '5" pipe'], [2.0, '6" pipe']], {}),
    "apostrophes": ("n,s\n1,don't\n2,it's\n3,'tis\n", ["n", "s"], [[1.0, "don't"], [2.0, "it's"], [3.0, "'tis"]], {}),
    "blanks around": ("a , b\n 1 , x \n2\t,\ty\n", ["a", "b"], [[1.0, "x"], [2.0, "y"]], {}),
    "blank before a quote": ('a, b\n1, "x, y"\n2, "z"\n', ["a", "b"], [[1.0, "x, y"], [2.0, "z"]], {}),
    "trailing delimiter in all lines": ("a,b,\n1,2,\n3,4,\n", ["a", "b", "2"], [[1.0, 2.0, None], [3.0, 4.0, None]], {}),
    "trailing delimiter in rows": ("a,b\n1,2,\n3,4,\n", ["a", "b", "2"], [[1.0, 2.0, None], [3.0, 4.0, None]], {}),
    "row names without a header": ("x,y\nr1,1,2\nr2,3,4\nr3,5,6\n", ["row_name", "x", "y"],
                                   [["r1", 1.0, 2.0], ["r2", 3.0, 4.0], ["r3", 5.0, 6.0]], {}),
    "preamble": ("Report of 2020\nmade by hand\n\na,b\n1,2\n3,4\n5,6\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], {}),
    "preamble given": ("x,y\nz,w\na,b\n1,2\n3,4\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {"skip_lines": 2}),
    "title with delimiters": ("Sales of 2020,,\n,,\na,b,c\n1,2,x\n3,4,y\n5,6,z\n", ["a", "b", "c"],
                              [[1.0, 2.0, "x"], [3.0, 4.0, "y"], [5.0, 6.0, "z"]], {}),
    "first row of data with a gap": ("2/28/2008,1:00,NaN\n2/28/2008,2:00,5\n2/29/2008,3:00,6\n", POSITIONS,
                                     [[1204156800.0, "1:00", None], [1204156800.0, "2:00", 5.0], [1204243200.0, "3:00", 6.0]], {}),
    "quotes that are letters, given": ('a\tb\n1\t"Quoted" start\n2\t"open\n3\t5" pipe\n', ["a", "b"],
                                       [[1.0, '"Quoted" start'], [2.0, '"open'], [3.0, '5" pipe']], {"quote": ""}),
    "words between spaces": ('name place "what is it"\n' + "".join(f'ann rome "x {i}"\n' for i in range(6)),
                             ["name", "place", "what is it"], [["ann", "rome", f"x {i}"] for i in range(6)], {}),
    "comments": ("# made by hand\n# twice, or more\na,b\n1,2\n# in the middle\n3,4\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {}),
    "comment given": ("a,b\n% no\n1,2\n% more, of\n3,4\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {"comment": "%"}),
    "header with a hash": ("#a,b\n1,2\n3,4\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {}),
    "hash in the data": ("a,b\n#1,2\n#2,4\n", ["a", "b"], [["#1", 2.0], ["#2", 4.0]], {}),
    "empty lines": ("\n\na,b\n\n1,2\n\n\n3,4\n\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {}),
    "lines of blanks": ("a,b\n1,2\n   \n3,4\n\t\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {}),
    "empty crlf lines": ("a,b\r\n\r\n1,2\r\n\r\n3,4\r\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {}),
    "missing tokens": ("a,b\n1,NA\nnull,2\nNaN,?\n4,N/A\n", ["a", "b"],
                       [[1.0, None], [None, 2.0], [None, None], [4.0, None]], {}),
    "missing given": ("a,b\n1,-999\n2,3\n", ["a", "b"], [[1.0, None], [2.0, 3.0]], {"missing": ["-999"]}),
    "missing given as a quoted number": ('a,b\n1,"-999"\n2,3.5\n-999,4\n', ["a", "b"], [[1.0, None], [2.0, 3.5], [None, 4.0]], {"missing": ["-999"]}),
    "missing given is all that is missing": ("a,b\nNA,1\nx,2\n", ["a", "b"], [["NA", 1.0], ["x", 2.0]], {"missing": ["-999"]}),
    "rows of commas only": ("a,b\n1,2\n,\n3,4\n", ["a", "b"], [[1.0, 2.0], [None, None], [3.0, 4.0]], {}),
    "thousands": ('a,b\n"1,234",1\n"12,345,678.5",2\n-7,3\n', ["a", "b"], [[1234.0, 1.0], [12345678.5, 2.0], [-7.0, 3.0]], {}),
    "european thousands": ("a;b\n1.234,5;1\n12.345.678,25;2\n-7,0;3\n", ["a", "b"],
                           [[1234.5, 1.0], [12345678.25, 2.0], [-7.0, 3.0]], {}),
    "swiss thousands": ("a;b\n1'234.5;1\n12'345'678.25;2\n", ["a", "b"], [[1234.5, 1.0], [12345678.25, 2.0]], {}),
    "spaces as thousands": ("a;b\n1 234.5;1\n12 345 678.25;2\n", ["a", "b"], [[1234.5, 1.0], [12345678.25, 2.0]], {}),
    "thousands given": ("a;b\n1.234;1\n2.345;2\n", ["a", "b"], [[1234.0, 1.0], [2345.0, 2.0]], {"thousands": ".", "decimal": ","}),
    "not thousands": ('a,b\n"1,23",1\n"12,34,567",2\n', ["a", "b"], [["1,23", 1.0], ["12,34,567", 2.0]], {"decimal": "."}),
    "signs and points": ("a,b\n+1,.5\n-2,5.\n+.5e1,-.25E-1\n", ["a", "b"], [[1.0, 0.5], [-2.0, 5.0], [5.0, -0.025]], {}),
    "leading zeros": ("a,b\n007,1\n010,2\n", ["a", "b"], [[7.0, 1.0], [10.0, 2.0]], {}),
    "negative zero": ("a,b\n-0,1\n-0.0,2\n", ["a", "b"], [[-0.0, 1.0], [-0.0, 2.0]], {}),
    "currency": ("a,b\n$5,1\n$6.50,2\n", ["a", "b"], [["$5", 1.0], ["$6.50", 2.0]], {}),
    "percent": ("a,b\n5%,1\n6%,2\n", ["a", "b"], [["5%", 1.0], ["6%", 2.0]], {}),
    "underscores": ("a,b\n1_000,1\n2_000,2\n", ["a", "b"], [["1_000", 1.0], ["2_000", 2.0]], {}),
    "hexadecimal": ("a,b\n0x10,1\n0x11,2\n", ["a", "b"], [["0x10", 1.0], ["0x11", 2.0]], {}),
    "words that float() takes": ("a,b\ninf,1\nInfinity,2\n1e5,3\n", ["a", "b"], [["inf", 1.0], ["Infinity", 2.0], ["1e5", 3.0]], {}),
    "unicode digits": ("a,b\n١٢,1\n٣,2\n", ["a", "b"], [["١٢", 1.0], ["٣", 2.0]], {}),
    "overflow": ("a,b\n1e400,1\n2,2\n", ["a", "b"], [["1e400", 1.0], ["2", 2.0]], {}),
    "underflow": ("a,b\n1e-400,1\n5e-324,2\n", ["a", "b"], [[0.0, 1.0], [5e-324, 2.0]], {}),
    "minus sign of typographers": ("a,b\n−5,1\n−6,2\n", ["a", "b"], [["−5", 1.0], ["−6", 2.0]], {}),
    "dates": ("d,n\n2020-02-29,1\n1969-12-31,2\n", ["d", "n"], [[1582934400.0, 1.0], [-86400.0, 2.0]], {}),
    "dates day first": ("d,n\n31/12/2020,1\n01/02/2021,2\n", ["d", "n"], [[1609372800.0, 1.0], [1612137600.0, 2.0]], {}),
    "dates month first": ("d,n\n12/31/2020,1\n01/02/2021,2\n", ["d", "n"], [[1609372800.0, 1.0], [1609545600.0, 2.0]], {}),
    "dates with dots": ("d;n\n31.12.2020;1\n01.02.2021;2\n", ["d", "n"], [[1609372800.0, 1.0], [1612137600.0, 2.0]], {}),
    "moments before a comma": ("d,n\n2020-01-01 12:00:00,5\n2020-01-01T12:00:01,6\n", ["d", "n"],
                               [[1577880000.0, 5.0], [1577880001.0, 6.0]], {}),
    "moments with zones": ("d,n\n2020-01-01T12:00:00Z,5\n2020-01-01T12:00:00+02:00,6\n", ["d", "n"],
                           [[1577880000.0, 5.0], [1577872800.0, 6.0]], {}),
    "days that do not exist": ("d,n\n2021-02-29,1\n2021-13-01,2\n", ["d", "n"], [["2021-02-29", 1.0], ["2021-13-01", 2.0]], {}),
    "numbers beside words": ("a,b\n1,1\nx,2\n3,3\n", ["a", "b"], [["1", 1.0], ["x", 2.0], ["3", 3.0]], {}),
    "truth values": ("a,b\ntrue,1\nFalse,2\n", ["a", "b"], [["true", 1.0], ["False", 2.0]], {}),
    "names like knobs": ("target,model,alpha\n1,2,3\n4,5,6\n", ["target", "model", "alpha"], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], {}),
    "names with marks": ('"a,b","c=d","e;f"\n1,2,3\n4,5,6\n', ["a,b", "c=d", "e;f"], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], {}),
    "duplicate names": ("a,a,a\n1,2,3\n4,5,6\n", ["a", "a.1", "a.2"], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], {}),
    "duplicate names that meet their replacement": ("a,a.1,a\n1,2,3\n4,5,6\n", ["a", "a.1", "a.2"],
                                                    [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], {}),
    "blank names": (",b,\n1,2,3\n4,5,6\n", ["0", "b", "2"], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], {}),
    "more names than cells": ("a,b,c\n1,2\n3,4\n5,6\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], {}),
    "delimiter given": ("a:b\n1:2\n3:4\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {"delimiter": ":"}),
    "tab given by name": (text_of(delimiter="\t"), NAMES, ROWS, {"delimiter": "\\t"}),
    "quote given": ("a,b\n1,~x,y~\n2,z\n", ["a", "b"], [[1.0, "x,y"], [2.0, "z"]], {"quote": "~"}),
    "space delimited": ("a b c\n1 2 3\n4 5 6\n7 8 9\n", ["a", "b", "c"], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], {}),
    "commas in text of a semicolon file": ("a;b\nx, y;1\nz, w, v;2\n", ["a", "b"], [["x, y", 1.0], ["z, w, v", 2.0]], {}),
    "json in a field": ('a,b\n1,"{""k"": [1, 2]}"\n2,"{}"\n', ["a", "b"], [[1.0, '{"k": [1, 2]}'], [2.0, "{}"]], {}),
    "nul bytes in text": ("a,b\n1,x\0y\n2,z\n" + "3,ordinary text that goes on\n" * 4, ["a", "b"],
                          [[1.0, "x\0y"], [2.0, "z"], *[[3.0, "ordinary text that goes on"]] * 4], {}),
    "control characters": ("a,b\n1,x\x01y\n2,z\x7f\n", ["a", "b"], [[1.0, "x\x01y"], [2.0, "z\x7f"]], {}),
    "control-z at the end": ("a,b\n1,2\n3,4\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {}),
    "vertical tabs and line separators": ("a,b\n1,x\x0by\n2,z\u2028w\n3,n\x85m\n", ["a", "b"],
                                          [[1.0, "x\x0by"], [2.0, "z\u2028w"], [3.0, "n\x85m"]], {}),
    "non-breaking space": ("a,b\n1,\u00a0x\n2,y\n", ["a", "b"], [[1.0, "\u00a0x"], [2.0, "y"]], {}),
    "text of one megabyte": ("a,b\n1,x\n2," + "y" * (1 << 20) + "\n3,z\n", ["a", "b"],
                             [[1.0, "x"], [2.0, "y" * (1 << 20)], [3.0, "z"]], {}),
    "quoted text of one megabyte": ('a,b\n1,x\n2,"' + "y,\n" * (1 << 19) + '"\n3,z\n', ["a", "b"],
                                    [[1.0, "x"], [2.0, "y,\n" * (1 << 19)], [3.0, "z"]], {}),
    "number of 5000 digits": ("a,b\n" + "7" * 300 + "." + "3" * 4700 + ",1\n2,2\n", ["a", "b"],
                              [[float("7" * 300), 1.0], [2.0, 2.0]], {}),
    "gzip": (gzip.compress(PLAIN.encode()), NAMES, ROWS, {}),
    "gzip with bom": (gzip.compress(codecs.BOM_UTF8 + PLAIN.encode()), NAMES, ROWS, {}),
    "gzip of utf-16": (gzip.compress(PLAIN.encode("utf-16")), NAMES, ROWS, {}),
    "gzip in two members": (gzip.compress(PLAIN.encode()[:20]) + gzip.compress(PLAIN.encode()[20:]), NAMES, ROWS, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", READABLE)
def test_table_is_as_expected(name: str, tmp_path: Path) -> None:
    content, names, rows, knobs = READABLE[name]
    dataset = opened(written(tmp_path, content), **knobs)
    assert list(dataset.columns) == names
    assert [list(row.values()) for row in table(dataset)] == rows
    assert dataset.manifest.bad_count == 0


@pytest.mark.parametrize("name", [n for n, case in READABLE.items() if len(case[0]) < 10_000])
def test_pieces_of_a_few_bytes_give_the_same_table(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, _, rows, knobs = READABLE[name]
    with small_pieces(monkeypatch, block=7):
        dataset = opened(written(tmp_path, content), **knobs)
    assert [list(row.values()) for row in table(dataset)] == rows
    assert dataset.manifest.bad_count == 0


def test_lines_above_the_table_are_passed_over_and_said(tmp_path: Path) -> None:
    dataset = opened(written(tmp_path, READABLE["preamble"][0]))
    assert dataset.manifest.notes == ("The first 3 lines stand above the table and are passed over.",)


def test_wide_table_of_20000_columns(tmp_path: Path) -> None:
    width = 20_000
    content = ",".join(f"c{i}" for i in range(width)) + "\n"
    content += "".join(",".join(str((r * 31 + i) % 97) for i in range(width)) + "\n" for r in range(3))
    dataset = opened(written(tmp_path, content))
    assert list(dataset.columns) == [f"c{i}" for i in range(width)]
    assert [column(dataset, f"c{i}") for i in (0, 9_999, width - 1)] == [
        [float((r * 31 + i) % 97) for r in range(3)] for i in (0, 9_999, width - 1)
    ]


# ------------------------------------------------------------------ tables with bad rows: counted, located, not lost

# name: (text, rows that can be read, lines of those that cannot, knobs)
DAMAGED: dict[str, tuple[str, list[list[Cell]], list[int], dict[str, Any]]] = {
    "short row": ("a,b,c\n1,2,3\n4,5\n6,7,8\n", [[1.0, 2.0, 3.0], [6.0, 7.0, 8.0]], [3], {}),
    "long row": ("a,b\n1,2\n3,4,5\n6,7\n", [[1.0, 2.0], [6.0, 7.0]], [3], {}),
    "footer": ("a,b\n1,2\n3,4\n5,6\nTotal: 12\n", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [5], {}),
    "comment in the middle": ("a,b\n1,2\n# no\n3,4\n", [[1.0, 2.0], [3.0, 4.0]], [3], {}),
    "quote never closed": ('a,b\n1,x\n2,"y\n3,z\n4,w\n', [[1.0, "x"], [3.0, "z"], [4.0, "w"]], [3], {}),
    "quote never closed in the last row": ('a,b\n1,x\n2,z\n3,"y\n', [[1.0, "x"], [2.0, "z"]], [4], {}),
    "quote closed by that of a later row": (
        'a,b\n1,x\n2,"y\n3,z\n4,"w"\n5,v\n', [[1.0, "x"], [3.0, "z"], [4.0, "w"], [5.0, "v"]], [3], {}),
    "quote never closed after a quoted newline": (
        'a,b,c\n1,"p\nq",x\n2,"r\ns","y\n3,t,z\nbad\n', [[1.0, "p\nq", "x"], [3.0, "t", "z"]], [4, 7], {}),
    "lines are counted past quoted newlines": ('a,b\n1,"x\ny\nz"\n2,u\n3\n4,v\n', [[1.0, "x\ny\nz"], [2.0, "u"], [4.0, "v"]], [6], {}),
    "lines are counted past empty lines": ("a,b\n1,2\n\n\n3\n4,5\n", [[1.0, 2.0], [4.0, 5.0]], [5], {}),
    "lines are counted past a preamble": ("T\n\na,b\n1,2\n3,4\n5\n6,7\n", [[1.0, 2.0], [3.0, 4.0], [6.0, 7.0]], [6], {}),
    "crlf": ("a,b\r\n1,2\r\n3\r\n4,5\r\n", [[1.0, 2.0], [4.0, 5.0]], [3], {}),
    "number given, word found": ("a,b\n1,2\nx,3\n4,5\n", [[1.0, 2.0], [4.0, 5.0]], [3], {"numeric": ["a"]}),
    "infinity where numbers are given": ("a,b\n1,2\ninf,3\n4,5\n", [[1.0, 2.0], [4.0, 5.0]], [3], {"numeric": ["a"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("block", [1 << 20, 3])
def test_bad_rows_are_located_and_nothing_else_is_lost(
    name: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, rows, lines, knobs = DAMAGED[name]
    path = written(tmp_path, text)
    with small_pieces(monkeypatch, block):
        dataset = opened(path, **knobs)
    assert [list(row.values()) for row in table(dataset)] == rows
    assert dataset.manifest.bad_count == len(lines)
    assert [line for line, _ in dataset.manifest.bad_rows] == lines
    assert dataset.rows == len(rows) + len(lines)


def test_bad_rows_stop_a_fit_or_are_skipped_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(30)) + "1\n2,3,4\n")
    stopped = shoal("train", path, "--target", "b")
    assert stopped.code == 1
    assert "line 32" in stopped.err
    assert "--on-bad-rows skip" in stopped.err
    found = shoal("train", path, "--target", "b", "--on-bad-rows", "skip", "--json").json
    assert found["rows_dropped"] == {"bad_row": 2}
    assert found["rows_read"] == 32
    assert found["train"]["rows"] == 30


def test_a_few_bad_rows_in_many_are_left_out_and_said_but_not_with_stop(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(300)) + "1\n2,3,4\n")
    answer = shoal("train", path, "--target", "b", "--json")
    assert answer.code == 0
    assert answer.json["rows_dropped"] == {"bad_row": 2}
    assert any("line 302" in warning for warning in answer.json["warnings"])
    assert shoal("train", path, "--target", "b", "--on-bad-rows", "stop").code == 1


def test_more_bad_rows_than_good_ones_in_a_block_are_all_counted(tmp_path: Path) -> None:
    """More than 65,536 of them once passed for rows of missing values."""
    good, bad = 2_000, 70_000
    path = written(tmp_path, "a,b\n" + "1,2\n" * good + "3\n" * bad)
    dataset = opened(path)
    assert dataset.manifest.bad_count == bad
    assert dataset.columns["a"].missing == 0


def test_column_that_turns_to_text_in_the_last_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(str(i), str(i % 5)) for i in range(400)] + [(f"w{i}", "1") for i in range(60)]
    path = written(tmp_path, "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    monkeypatch.setattr(data_pipeline_module(), "SAMPLE_BYTES", 200)
    with small_pieces(monkeypatch, 256, 16):
        dataset = opened(path)
    assert column(dataset, "a") == [a for a, _ in rows]
    assert column(dataset, "b") == [float(b) for _, b in rows]


def data_pipeline_module() -> Any:
    from shoal import data_pipeline

    return data_pipeline


def test_dates_with_garbage_further_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = [f"2020-01-{1 + i % 28:02d}" for i in range(300)]
    path = written(tmp_path, "d,n\n" + "".join(f"{d},1\n" for d in good) + "soon,2\n")
    monkeypatch.setattr(data_pipeline_module(), "SAMPLE_BYTES", 500)
    dataset = opened(path)
    assert dataset.columns["d"].type == "datetime"
    assert dataset.manifest.bad_rows == ((302, "column 'd': expected a date, got 'soon'"),)
    assert bad_places(dataset) == {300}


# ------------------------------------------------------------------ what holds no table: one plain message


def xlsx() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return out.getvalue()


BROKEN_GZIP = bytearray(gzip.compress(os.urandom(400_000), compresslevel=1))
BROKEN_GZIP[1000:1400] = bytes(400)
REFUSALS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "bom only": (codecs.BOM_UTF8, "empty"),
    "utf-16 bom only": (codecs.BOM_UTF16_LE, "empty"),
    "white space": (b" \n\t\n\r\n", "empty"),
    "comments only": (b"# a\n# b\n", ""),
    "gzip of nothing": (gzip.compress(b""), "empty"),
    "gzip cut short": (gzip.compress(PLAIN.encode() * 1000)[:-20], "could not be|damaged|end-of-stream"),
    "gzip with a broken middle": (bytes(BROKEN_GZIP), "could not be"),
    "gzip header only": (b"\x1f\x8b\x08\x00", "could not be"),
    "gzip followed by garbage": (gzip.compress(PLAIN.encode()) + b"garbage", "could not be"),
    "zip": (xlsx(), "zip archive or an Excel"),
    "old excel": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "old Excel"),
    "bzip2": (b"BZh91AY&SY" + bytes(60), "bzip2"),
    "xz": (b"\xfd7zXZ\x00" + bytes(60), "xz"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(60), "zstd"),
    "pdf": (b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\n", "PDF"),
    "utf-32 without bom": (PLAIN.encode("utf-32-le"), "binary"),
    "zeros": (bytes(5000), "binary"),
    "parquet cut short": (b"PAR1" + bytes(40), "not a whole Parquet"),
    "parquet magic only": (b"PAR1", "not a whole Parquet"),
    "one line of two megabytes": (b"1," * (1 << 20), "longer than 1 MB"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_no_table_is_refused_in_one_paragraph(name: str, tmp_path: Path) -> None:
    content, words = REFUSALS[name]
    path = written(tmp_path, content)
    if words:
        with pytest.raises(TrainingError, match=words):
            opened(path)
    answer = shoal("inspect", path)
    assert answer.is_plain(), answer.err
    assert not words or answer.code == 1


@pytest.mark.parametrize("seed", range(8))
def test_random_bytes_are_read_or_refused(seed: int, tmp_path: Path) -> None:
    random_bytes = random.Random(seed).randbytes(3000)
    answer = shoal("inspect", written(tmp_path, random_bytes))
    assert answer.is_plain(), answer.err


def test_paths_that_are_no_readable_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path, tmp_path / "absent.csv", tmp_path / ("x" * 300), tmp_path / "pipe", tmp_path / "loop",
                 Path("/dev/null"), Path("/proc/self/mem")):  # fmt: skip
        answer = shoal("inspect", path)
        assert answer.code == 1, path
        assert answer.is_plain(), answer.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can become someone who may not read the file")
def test_file_without_permission(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    path.chmod(0o000)
    code = (
        f"import os, sys; import pathlib; from shoal.cli import app as cli; from shoal.tasks import train as runs;"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534);"
        f"sys.exit(cli.main(['inspect', {str(path)!r}]))"
    )
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder != Path("/tmp") and folder.is_relative_to("/tmp"):
            folder.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("shoal: ")
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "name", ["new\nline.csv", "ünï 'quoted' \"x\".csv", "-dash.csv", "caf\udce9.csv", "y" * 240 + ".csv", "a%s{}.csv"]
)
def test_file_names_of_all_sorts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, PLAIN, name)
    monkeypatch.chdir(tmp_path)
    answer = shoal("inspect", "--json", "--", name)
    assert answer.code == 0, answer.err
    assert answer.json["rows"] == 4
    assert Path(answer.json["file"]).name == name


# ------------------------------------------------------------------ Parquet


def parquet(folder: Path, columns: dict[str, Any], **options: Any) -> Path:
    import pyarrow
    import pyarrow.parquet

    path = folder / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)
    return path


def test_parquet_types(tmp_path: Path) -> None:
    import pyarrow as pa

    day = datetime.datetime(2021, 3, 4, 5, 6, 7, tzinfo=datetime.UTC)
    path = parquet(tmp_path, {
        "int": pa.array([1, None, 2**60]),
        "unsigned": pa.array([0, 2**64 - 1, 5], pa.uint64()),
        "half": pa.array(np.array([0.5, 1, 2], np.float16)),
        "double": pa.array([1.5, None, float("nan")]),
        "decimal": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3.50")]),
        "bool": pa.array([True, False, None]),
        "text": pa.array(["x", "", None]),
        "dictionary": pa.array(["p", None, "q"]).dictionary_encode(),
        "coded": pa.array([7, None, 9]).dictionary_encode(),
        "moment": pa.array([int(day.timestamp()) * 10**9 + 1, None, 0], pa.timestamp("ns")),
        "zone": pa.array([int(day.timestamp()) * 1000, None, 0], pa.timestamp("ms", tz="Asia/Tokyo")),
        "date": pa.array([day.date(), None, datetime.date(1970, 1, 2)]),
        "list": pa.array([[1], [2], None]),
        "struct": pa.array([{"a": 1}, {"a": 2}, None]),
        "nothing": pa.nulls(3),
    }, row_group_size=2)  # fmt: skip
    dataset = opened(path)
    assert {name: column(dataset, name) for name in dataset.columns} == {
        "int": [1.0, None, 2.0**60],
        "unsigned": [0.0, 2.0**64, 5.0],
        "half": [0.5, 1.0, 2.0],
        "double": [1.5, None, None],
        "decimal": [1.25, None, -3.5],
        "bool": ["true", "false", None],
        "text": ["x", None, None],
        "dictionary": ["p", None, "q"],
        "coded": [7.0, None, 9.0],
        "moment": [day.timestamp(), None, 0.0],
        "zone": [day.timestamp(), None, 0.0],
        "date": [1614816000.0, None, 86400.0],
    }
    assert dataset.columns["text"].missing == 2
    said = " ".join(dataset.manifest.notes)
    assert all(f"'{name}'" in said for name in ("list", "struct", "nothing"))


def test_parquet_infinities_are_bad_rows_not_missing_values(tmp_path: Path) -> None:
    dataset = opened(parquet(tmp_path, {"a": [1.0, float("inf"), 3.0], "b": ["x", "y", "z"]}))
    assert dataset.manifest.bad_count == 1
    assert table(dataset) == [{"a": 1.0, "b": "x"}, {"a": 3.0, "b": "z"}]


def test_parquet_without_rows_and_with_one_name_twice(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert opened(parquet(tmp_path, {"a": pa.array([], pa.float64())})).rows == 0
    assert shoal("train", tmp_path / "table.parquet", "--target", "a").is_plain()
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    assert table(opened(tmp_path / "twice.parquet")) == [{"a": 1.0, "a.1": 2.0}]


def test_parquet_with_damaged_pages_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path, {"a": [f"text number {i}" for i in range(5000)]}, compression="snappy")
    content = bytearray(path.read_bytes())
    content[200:2200] = b"\xff" * 2000
    path.write_bytes(content)
    answer = shoal("inspect", path)
    assert answer.code == 1
    assert answer.is_plain(), answer.err


# ------------------------------------------------------------------ against pandas

LIKE_PANDAS = ["plain", "crlf", "all quoted", "quoted newlines", "doubled quotes", "multi-line header cells",
               "signs and points", "missing tokens", "rows of commas only", "empty lines", "one column",
               "leading zeros", "underflow", "json in a field", "duplicate names", "years as names"]  # fmt: skip


@pytest.mark.parametrize("name", LIKE_PANDAS)
def test_same_table_as_pandas(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, READABLE[name][0])
    dataset = opened(path)
    with path.open(newline="") as file:  # or pandas turns quoted CRLF into LF
        frame = pd.read_csv(file, na_values=["?"])
    assert list(dataset.columns) == [str(c) for c in frame.columns]
    for ours, theirs in zip(dataset.columns, frame.columns, strict=True):
        expected = [None if pd.isna(v) else v if isinstance(v, str) else float(v) for v in frame[theirs]]
        assert column(dataset, ours) == expected
