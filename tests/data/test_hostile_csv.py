"""Hostile files that hold a table: it is what a sensible person expects."""

from __future__ import annotations

import codecs
import csv
import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from support.data.plain import NAMES, PLAIN, ROWS, text_of
from support.tables import Cell, column, opened, small_pieces, table, written

# ------------------------------------------------------------------ tables that can be read


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
    "multi-line header cells": ('"first\nname","b\r\nc"\n1,2\n3,4\n', ["first name", "b c"], [[1.0, 2.0], [3.0, 4.0]], {}),
    "quoted newlines": ('n,s\n1,"a\nb"\n2,"\nc"\n3,"x,y"\n', ["n", "s"], [[1.0, "a\nb"], [2.0, "\nc"], [3.0, "x,y"]], {}),
    "doubled quotes": ('n,s\n1,"say ""hi"""\n2,"""";""\n3,""""\n', ["n", "s"],
                       [[1.0, 'say "hi"'], [2.0, '";""'], [3.0, '"']], {}),
    "backslash escapes": ('n,s\n1,"say \\"hi\\", she said"\n2,"b"\n3,"c\\"d"\n', ["n", "s"],
                          [[1.0, 'say "hi", she said'], [2.0, "b"], [3.0, 'c"d']], {}),
    "single quotes": ("n,s\n1,'a,b'\n2,'c'\n3,'d,e'\n", ["n", "s"], [[1.0, "a,b"], [2.0, "c"], [3.0, "d,e"]], {}),
    "quote in the middle of a field": ('n,s\n1,5" pipe\n2,6" pipe\n', ["n", "s"], [[1.0, '5" pipe'], [2.0, '6" pipe']], {}),
    "apostrophes": ("n,s\n1,don't\n2,it's\n3,'tis\n", ["n", "s"], [[1.0, "don't"], [2.0, "it's"], [3.0, "'tis"]], {}),
    "blanks around": ("a , b\n 1 , x \n2\t,\ty\n", ["a", "b"], [[1.0, "x"], [2.0, "y"]], {}),
    "blank before a quote": ('a, b\n1, "x, y"\n2, "z"\n', ["a", "b"], [[1.0, "x, y"], [2.0, "z"]], {}),
    "trailing delimiter in all lines": ("a,b,\n1,2,\n3,4,\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {}),
    "trailing delimiter in rows": ("a,b\n1,2,\n3,4,\n", ["a", "b", "2"], [[1.0, 2.0, None], [3.0, 4.0, None]], {}),
    "row names without a header": ("x,y\nr1,1,2\nr2,3,4\nr3,5,6\n", ["row_name", "x", "y"],
                                   [["r1", 1.0, 2.0], ["r2", 3.0, 4.0], ["r3", 5.0, 6.0]], {}),
    "preamble": ("Report of 2020\nmade by hand\n\na,b\n1,2\n3,4\n5,6\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], {}),
    "preamble given": ("x,y\nz,w\na,b\n1,2\n3,4\n", ["a", "b"], [[1.0, 2.0], [3.0, 4.0]], {"skip_lines": 2}),
    "title with delimiters": ("Sales of 2020,,\n,,\na,b,c\n1,2,x\n3,4,y\n5,6,z\n", ["a", "b", "c"],
                              [[1.0, 2.0, "x"], [3.0, 4.0, "y"], [5.0, 6.0, "z"]], {}),
    "first row of data with a gap": ("2/28/2008,1:00,NaN\n2/28/2008,2:00,5\n2/29/2008,3:00,6\n", POSITIONS,
                                     [[13937.0, 1.0, None], [13937.0, 2.0, 5.0], [13938.0, 3.0, 6.0]], {}),
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
    "currency": ("a,b\n$5,1\n$6.50,2\n", ["a", "b"], [[5.0, 1.0], [6.5, 2.0]], {}),
    "percent": ("a,b\n5%,1\n6%,2\n", ["a", "b"], [[5.0, 1.0], [6.0, 2.0]], {}),
    "underscores": ("a,b\n1_000,1\n2_000,2\n", ["a", "b"], [["1_000", 1.0], ["2_000", 2.0]], {}),
    "hexadecimal": ("a,b\n0x10,1\n0x11,2\n", ["a", "b"], [["0x10", 1.0], ["0x11", 2.0]], {}),
    "words that float() takes": ("a,b\ninf,1\nInfinity,2\n1e5,3\n", ["a", "b"], [["inf", 1.0], ["Infinity", 2.0], ["1e5", 3.0]], {}),
    "unicode digits": ("a,b\n١٢,1\n٣,2\n", ["a", "b"], [[12.0, 1.0], [3.0, 2.0]], {}),
    "overflow": ("a,b\n1e400,1\n2,2\n", ["a", "b"], [["1e400", 1.0], ["2", 2.0]], {}),
    "underflow": ("a,b\n1e-400,1\n5e-324,2\n", ["a", "b"], [[0.0, 1.0], [5e-324, 2.0]], {}),
    "minus sign of typographers": ("a,b\n−5,1\n−6,2\n", ["a", "b"], [[-5.0, 1.0], [-6.0, 2.0]], {}),
    "dates": ("d,n\n2020-02-29,1\n1969-12-31,2\n", ["d", "n"], [[18321.0, 1.0], [-1.0, 2.0]], {}),
    "dates day first": ("d,n\n31/12/2020,1\n01/02/2021,2\n", ["d", "n"], [[18627.0, 1.0], [18659.0, 2.0]], {}),
    "dates month first": ("d,n\n12/31/2020,1\n01/02/2021,2\n", ["d", "n"], [[18627.0, 1.0], [18629.0, 2.0]], {}),
    "dates with dots": ("d;n\n31.12.2020;1\n01.02.2021;2\n", ["d", "n"], [[18627.0, 1.0], [18659.0, 2.0]], {}),
    "moments before a comma": ("d,n\n2020-01-01 12:00:00,5\n2020-01-01T12:00:01,6\n", ["d", "n"],
                               [[1577880000 / 86400, 5.0], [1577880001 / 86400, 6.0]], {}),
    "moments with zones": ("d,n\n2020-01-01T12:00:00Z,5\n2020-01-01T12:00:00+02:00,6\n", ["d", "n"],
                           [[1577880000 / 86400, 5.0], [1577872800 / 86400, 6.0]], {}),
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
    "backslash escapes in few of the fields": ('1|u|v\n2|u|"w\\"2\\""\n"3"|u|v\n', POSITIONS,
                                               [[1.0, "u", "v"], [2.0, "u", 'w"2"'], [3.0, "u", "v"]], {}),
    "backslash escapes of a comma": ('n,s\n1,"Doe\\, Jo"\n2,"a (\\"b\\")"\n', ["n", "s"], [[1.0, "Doe, Jo"], [2.0, 'a ("b")']], {}),
    "backslash escapes in single quotes": ("1|u|v\n2|u|'w\\'2\\''\n'3'|u|v\n", POSITIONS,
                                           [[1.0, "u", "v"], [2.0, "u", "w'2'"], [3.0, "u", "v"]], {}),
    "a path that ends in a backslash": ('n,s\n1,"C:\\d\\"\n2,"say ""x"""\n', ["n", "s"], [[1.0, "C:\\d\\"], [2.0, 'say "x"']], {}),
    "json with escapes of its own": ('n,s\n1,"{""f"":""a \\"" b""}"\n2,"{}"\n', ["n", "s"], [[1.0, '{"f":"a \\" b"}'], [2.0, "{}"]], {}),
    "quotes within quotes": ('n,s\n1,"the "old" inn"\n2,"to "Bus""\n3,"x"\n', ["n", "s"],
                             [[1.0, 'the "old" inn'], [2.0, 'to "Bus"'], [3.0, "x"]], {}),
    "texts in single quotes": ("a,s\n1,'m'\n2,'z'\n3,NA\n4,'m'\n", ["a", "s"], [[1.0, "m"], [2.0, "z"], [3.0, None], [4.0, "m"]], {}),
    "cr cr lf": ('n,s\r\r\n1,x\r\r\n2,"y"\r\r\n3,z', ["n", "s"], [[1.0, "x"], [2.0, "y"], [3.0, "z"]], {}),
    "none as databases write it": ("n,s\n1,x\n\\N,\\N\n3,z\n", ["n", "s"], [[1.0, "x"], [None, None], [3.0, "z"]], {}),
    "errors of a spreadsheet": ("n,s\n1,x\n#REF!,y\n#NUM!,#NAME?\n", ["n", "s"], [[1.0, "x"], [None, "y"], [None, None]], {}),
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
    assert dataset.manifest.notes == ("The first 3 lines are above the table and are skipped.",)


def test_wide_table_of_20000_columns(tmp_path: Path) -> None:
    width = 20_000
    content = ",".join(f"c{i}" for i in range(width)) + "\n"
    content += "".join(",".join(str((r * 31 + i) % 97) for i in range(width)) + "\n" for r in range(3))
    dataset = opened(written(tmp_path, content))
    assert list(dataset.columns) == [f"c{i}" for i in range(width)]
    assert [column(dataset, f"c{i}") for i in (0, 9_999, width - 1)] == [
        [float((r * 31 + i) % 97) for r in range(3)] for i in (0, 9_999, width - 1)
    ]


# ------------------------------------------------------------------ against pandas


LIKE_PANDAS = ["plain", "crlf", "all quoted", "quoted newlines", "doubled quotes",
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
