"""Cells of the kernel: tables of Python's csv in any range, and any bytes at all."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.data import block_reader
from shoal.data.dialects import Dialect
from shoal.errors import TrainingError
from shoal.kernels.csv_kernel import FieldKind
from support.data.csv_kernel import NO_MISSING, QUIET, Reading
from support.tables import opened, small_pieces, table, written

# ------------------------------------------------------------------ cells


CELL = st.text(
    st.one_of(st.sampled_from(list("\",;\t|\n\r'\\ ab")), st.characters(blacklist_categories=["Cs"])), max_size=12
).map(lambda s: "" if s.isspace() else s.strip(" \t"))  # blanks alone are no value, also in quotes


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    width = draw(st.integers(1, 5))
    return draw(st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1, max_size=12))


def written_by_python(rows: Sequence[Sequence[str]], **options: Any) -> str:
    out = io.StringIO()
    csv.writer(out, **options).writerows(rows)
    return out.getvalue()


@settings(QUIET, max_examples=400)
@given(
    tables(), st.sampled_from([",", ";", "\t", "|"]), st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.booleans(),
)  # fmt: skip
def test_tables_that_pythons_csv_wrote(
    tmp_path: Path, rows: list[list[str]], delimiter: str, end: str, quoting: Any, final: bool
) -> None:
    text = written_by_python(rows, delimiter=delimiter, lineterminator=end, quoting=quoting)
    if not final and not (len(rows[-1]) == 1 and text.endswith('"' + end)):
        text = text.removesuffix(end)
    if list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)) != rows:  # the writer left a CR unquoted
        text = written_by_python(rows, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    dialect = Dialect(delimiter=delimiter, missing=NO_MISSING)
    reading = Reading(tmp_path, text, [FieldKind.LEVEL] * len(rows[0]), dialect)
    assert reading.report.bad_count == 0
    assert reading.texts() == rows


@QUIET
@given(tables())
def test_tables_with_backslash_escapes(tmp_path: Path, rows: list[list[str]]) -> None:
    options: Any = {"quoting": csv.QUOTE_ALL, "doublequote": False, "escapechar": "\\", "lineterminator": "\n"}
    text = written_by_python(rows, **options)
    assert list(csv.reader(io.StringIO(text, newline=""), doublequote=False, escapechar="\\")) == rows
    reading = Reading(tmp_path, text, [FieldKind.LEVEL] * len(rows[0]), Dialect(escape="\\", missing=NO_MISSING))
    assert reading.texts() == rows


def test_text_after_a_closing_quote_belongs_to_the_field_as_in_pythons_csv(tmp_path: Path) -> None:
    text = '"a"b,1\n"a""b"c,2\n"x"y"z",3\n""d,4\n'
    theirs = [row[0] for row in csv.reader(io.StringIO(text))]
    ours = Reading(tmp_path, text, [FieldKind.LEVEL, FieldKind.LEVEL], Dialect())
    assert [row[0] for row in ours.texts()] == theirs


@pytest.mark.parametrize("length", [1, 63, 64, 65, 4095, 4096, 70_000, 600_000])
@pytest.mark.parametrize("quoted", [False, True])
def test_fields_of_any_length(length: int, quoted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_reader, "OVERLAP", 16)
    long = ("ab\n,cd" * length)[:length] if quoted else ("abcdef" * length)[:length]
    cell = f'"{long}"' if quoted else long
    reading = Reading(tmp_path, f"x,1\n{cell},2\ny,3", [FieldKind.LEVEL, FieldKind.NUMBER], Dialect(missing=NO_MISSING))
    assert [row[0] for row in reading.texts()] == ["x", long, "y"]
    assert reading.numbers[:, 0].tolist() == [1.0, 2.0, 3.0]


# ------------------------------------------------------------------ where ranges are cut


CUT = (
    'n,text,d\r\n1,plain,2020-01-01\r\n2.5,"with, delimiter",2020-01-02 03:04:05\r\n\r\n'
    '-3e-5,"new\r\nline ""quoted"" 1,2,3\r\n4,5,6\r\n",\r\n12345678901234567890123,,2020-02-29\r\n'
    'short\r\n6,"never closed,2020-01-06\r\n7,"a ""b""",2020-01-07\r\n8,x,2020-01-08'
)


CUT_LF = CUT.replace("\r\n", "\n")
CUT_CR = CUT.replace("\r\n", "\r")


def everything(text: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    monkeypatch.setenv("SHOAL_HOME", str(home))
    dataset = opened(written(home.parent, text), numeric=["n", "d"], missing=[], skip_lines=0)
    manifest = dataset.manifest
    return (
        table(dataset),
        manifest.bad_rows,
        manifest.bad_count,
        dataset.rows,
        [c.levels for c in dataset.level_columns],
    )


@pytest.mark.parametrize("text", [CUT, CUT_LF, CUT_CR], ids=["crlf", "lf", "cr"])
def test_ranges_cut_at_every_byte_give_what_one_range_gives(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = everything(text, tmp_path / "whole", monkeypatch)
    end = text[8 : 9 + text.startswith("n,text,d\r\n")]
    assert [row["n"] for row in whole[0]] == [1.0, 2.5, -3e-5, 12345678901234567890123.0, 7.0, 8.0]
    assert whole[0][2]["text"] == f'new{end}line "quoted" 1,2,3{end}4,5,6{end}'
    assert [line for line, *_ in whole[1]] == [10, 11]
    for size in [*range(1, 40), *range(40, len(text) + 2, 7)]:
        with small_pieces(monkeypatch, block=size, overlap=1 + size % 3):
            assert everything(text, tmp_path / f"home{size}", monkeypatch) == whole, size


@settings(QUIET, max_examples=40)
@given(rows=tables(), size=st.integers(1, 60), seed=st.integers(0, 2**32))
def test_random_tables_in_small_ranges(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], size: int, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("pieces")
    width = len(rows[0])
    numbered = [[f"k{i}", *row] for i, row in enumerate(rows)]
    names = ["key", *(f"c{j}" for j in range(width))]
    with pytest.MonkeyPatch.context() as monkeypatch, small_pieces(monkeypatch, size, overlap=1 + seed % 8):
        monkeypatch.setenv("SHOAL_HOME", str(folder))
        cr = any("\r" in cell for row in rows for cell in row)  # which Python's writer may leave unquoted
        quoting: Any = csv.QUOTE_ALL if cr or seed % 2 else csv.QUOTE_MINIMAL
        path = written(folder, written_by_python([names, *numbered], lineterminator="\n", quoting=quoting))
        found = opened(path, categorical=names, missing=[], delimiter=",", quote='"', comment="", skip_lines=0,
                       header=True, encoding="utf-8")  # fmt: skip
    cells = [[cell or "" for cell in row.values()] for row in table(found)]
    assert cells == numbered


# ------------------------------------------------------------------ safety


def mutated(random_: random.Random, text: bytes) -> bytes:
    data = bytearray(text)
    for _ in range(random_.randint(1, 12)):
        at = random_.randrange(len(data) + 1)
        match random_.randrange(4):
            case 0:
                data[at : at + random_.randint(0, 9)] = b""
            case 1:
                data[at:at] = random_.choice(
                    [b'"', b"\n", b"\r", b",", b"\0", b"\\", b'""', b"\xff", b"1e", b"-", b"2020-01-01 1:"]
                )
            case 2:
                data[at : at + 1] = bytes([random_.randrange(256)])
            case _:
                data[at:at] = data[random_.randrange(len(data) + 1) :][: random_.randint(1, 40)]
    return bytes(data)


def corpus(count: int) -> Iterator[bytes]:
    random_ = random.Random(7)
    for i in range(count):
        yield random_.randbytes(random_.randint(0, 400)) if i % 5 == 0 else mutated(random_, CUT.encode())


def test_fuzzed_bytes_never_crash_and_account_for_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the script that is run with the sanitizers on: every path of the kernel, on what nobody meant to write."""
    for i, content in enumerate(corpus(150)):
        random_ = random.Random(i)
        monkeypatch.setenv("SHOAL_HOME", str(tmp_path / str(i)))
        path = written(tmp_path, content)
        try:
            whole = opened(path)
        except TrainingError:
            continue
        monkeypatch.setenv("SHOAL_HOME", str(tmp_path / f"{i}p"))
        with small_pieces(monkeypatch, random_.randint(1, 50), random_.randint(1, 9)):
            pieces = opened(path)
        assert pieces.rows == whole.rows
        assert pieces.manifest.bad_count == whole.manifest.bad_count
        assert table(pieces) == table(whole)


@settings(QUIET, max_examples=300)
@given(
    st.binary(max_size=300), st.sampled_from(",;\t| a"), st.sampled_from(['"', "'", ""]), st.sampled_from(["", "\\"]),
    st.sampled_from(["\n", "\r"]), st.sampled_from(["", "#"]), st.sampled_from(["", ",", "."]),
    st.lists(st.sampled_from([FieldKind.SKIP, FieldKind.NUMBER, FieldKind.DATE, FieldKind.LEVEL]), min_size=1, max_size=6), st.sampled_from([0, 1, 2, 4, 5, 6, 9]),
)  # fmt: skip
def test_any_bytes_in_any_dialect(
    tmp_path: Path, content: bytes, delimiter: str, quote: str, escape: str, newline: str, comment: str, thousands: str,
    kinds: list[FieldKind], order: int,
) -> None:  # fmt: skip
    decimal = "," if thousands == "." and delimiter != "," else "."
    dialect = Dialect(delimiter=delimiter, quote=quote, escape=escape, newline=newline, comment=comment,
                      thousands=thousands, decimal=decimal)  # fmt: skip
    reading = Reading(tmp_path, content, kinds, dialect, order)
    report = reading.report
    assert report.end - len(content) in (0, 1) or report.too_ragged  # 1: the newline that the last row lacks
    assert report.rows <= content.count(newline.encode()) + 1
    assert np.isfinite(reading.numbers[~np.isnan(reading.numbers)]).all()
    for codes, levels in zip(reading.codes, report.levels, strict=True):
        assert codes.size == 0 or (codes.min() >= -1 and codes.max() < len(levels))
