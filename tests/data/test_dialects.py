"""Finding out how a file is written: random tables in every dialect come back, and given values are taken as given."""

from __future__ import annotations

import csv
import io
import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from shoal.data.dialects import DEFAULT_MISSING, Dialect, column_names, dialect_from, split
from shoal.data.first_look.source import inspect_text
from shoal.data.kinds import number_of
from shoal.data.sniffing import detect, looks_like_header
from shoal.errors import ConfigError, DataError
from support.tables import opened, table, written


def sample(
    seed: int, delimiter: str, decimal: str, end: str, header: bool, quoting: Any, preamble: bool = False
) -> tuple[str, list[list[Any]]]:
    """A table of numbers and words with gaps, as text and as cells."""
    random_ = random.Random(seed)
    words = [
        "alpha",
        "beta gamma",
        "with, comma",
        "semi; colon",
        'a "quote"',
        "new\nline",
        "pipe | d",
        "tab\tbed",
        "Ünï",
    ]
    rows: list[list[Any]] = [
        [random_.randint(-500, 500), round(random_.uniform(-10, 10), random_.randint(1, 6)),
         None if random_.random() < 0.2 else round(random_.uniform(0, 1e5), 2), random_.choice(words)]
        for _ in range(random_.randint(12, 60))
    ]  # fmt: skip
    out = io.StringIO()
    if preamble:
        out.write(f"Report made by hand{end}{end}")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting)
    if header:
        writer.writerow(["count", "size", "price", "label"])
    for row in rows:
        writer.writerow(["" if c is None else c if isinstance(c, str) else str(c).replace(".", decimal) for c in row])
    return out.getvalue(), rows


CASES = [
    (delimiter, decimal, end, header, quoting)
    for delimiter, decimal in ((",", "."), (";", "."), (";", ","), ("\t", "."), ("\t", ","), ("|", "."), ("|", ","))
    for end, header, quoting in itertools.product(
        ("\n", "\r\n", "\r"), (True, False), (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
    )
]


@pytest.mark.parametrize(("delimiter", "decimal", "end", "header", "quoting"), CASES)
def test_dialects_are_found_out(delimiter: str, decimal: str, end: str, header: bool, quoting: Any) -> None:
    for seed in range(4):
        text, _ = sample(seed, delimiter, decimal, end, header, quoting)
        found = detect(text.encode(), at_end=True)
        expected = (delimiter, decimal, "\r" if end == "\r" else "\n", header, '"')
        assert (found.delimiter, found.decimal, found.newline, found.header, found.quote) == expected, seed


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "utf-32"])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_tables_come_back_in_every_encoding(encoding: str, delimiter: str, tmp_path: Path) -> None:
    text, rows = sample(5, delimiter, ".", "\r\n", True, csv.QUOTE_MINIMAL, preamble=delimiter == ";")
    dataset = opened(written(tmp_path, text.encode(encoding)))
    assert list(dataset.columns) == ["count", "size", "price", "label"]
    found = [list(row.values()) for row in table(dataset)]
    assert found == [[None if c is None else c if isinstance(c, str) else float(c) for c in row] for row in rows]


@pytest.mark.parametrize(("text", "width"), [
    ("a b c\n", 1), ("one\ntwo\nthree\n", 1), ("x: 1\ny: 2\n", 1), ("the quick brown fox\njumps over the lazy dog\n", 1),
])  # fmt: skip
def test_prose_is_one_column(text: str, width: int) -> None:
    found = detect(text.encode(), at_end=True)
    assert {len(row) for row in split(text.encode(), found, at_end=True)} == {width}


@pytest.mark.parametrize(("rows", "expected"), [
    ([["a", "b"], ["1", "2"]], True), ([["1", "2"], ["3", "4"]], False), ([["a", "b"], ["c", "d"]], True),
    ([["x", "b"], ["x", "d"]], False), ([["id", ""], ["1", "x"]], True), ([["2020-01-01", "5"], ["2020-01-02", "6"]], False),
    ([["", "2019", "2020"], ["A", "1", "2"], ["B", "3", "4"]], True), ([["1999", "x"], ["2000", "y"]], False),
    ([["a", "b"]], True), ([["1", "b"]], False), ([["NA", "x"], ["1", "y"]], True),
])  # fmt: skip
def test_headers(rows: list[list[str]], expected: bool) -> None:
    assert looks_like_header(rows) is expected


def test_names_are_unique_and_none_is_empty() -> None:
    names, notes = column_names(["a", "", "a", " b ", "a.1", ""], 6, header=True, last_is_empty=False)
    assert names == ["a", "1", "a.1", "b", "a.1.1", "5"]
    assert len(notes) == 3
    assert column_names([], 3, header=False, last_is_empty=False) == (["0", "1", "2"], [])
    assert column_names(["#a", "# b"], 2, header=True, last_is_empty=False) == (["a", "b"], [])
    assert column_names(["#a", "b", "#c"], 3, header=True, last_is_empty=False) == (["a", "b", "#c"], [])


def test_dialect_comes_back_from_a_manifest() -> None:
    dialect = Dialect(delimiter=";", decimal=",", thousands=".", skip_lines=3, missing=("", "x"))
    assert dialect_from(dialect.as_dict()) == dialect


@pytest.mark.parametrize("overrides", [
    {"delimiter": ";"}, {"decimal": ","}, {"thousands": "'"}, {"quote": "'"}, {"comment": "%"}, {"header": False},
    {"skip_lines": 1}, {"encoding": "cp1252"}, {"escape": "\\"},
])  # fmt: skip
def test_given_values_are_taken_as_they_are(overrides: dict[str, Any]) -> None:
    found = detect(b"a,b\n1,2\n3,4\n", at_end=True, overrides=overrides)
    for name, value in overrides.items():
        assert getattr(found, name) == value


@pytest.mark.parametrize(("overrides", "words"), [
    ({"delimiter": ""}, "delimiter"), ({"delimiter": "ab"}, "delimiter"), ({"delimiter": "é"}, "delimiter"),
    ({"quote": "xx"}, "quote"), ({"encoding": "nope"}, "nope"), ({"encoding": "rot13"}, "rot13"), ({"colour": 1}, "colour"),
    ({"delimiter": ",", "decimal": ","}, "also the decimal mark"),
])  # fmt: skip
def test_given_values_that_cannot_be(overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        detect(b"a,b\n1,2\n", at_end=True, overrides=overrides)


@pytest.mark.parametrize("token", [t for t in DEFAULT_MISSING if t])
@pytest.mark.parametrize("quote", ["", '"'])
def test_every_missing_token_in_numbers_and_texts(token: str, quote: str, tmp_path: Path) -> None:
    text = f"n,t\n1,x\n{quote}{token}{quote},{quote}{token}{quote}\n3,y\n"
    rows = [list(row.values()) for row in table(opened(written(tmp_path, text)))]
    assert rows == [[1.0, "x"], [None, None], [3.0, "y"]]


def test_sample_that_ends_in_the_middle_of_a_row_or_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first megabyte ends anywhere: the last row of it is left to the reader of the whole file."""
    text = "näme,välue\n" + "".join(f'"ä{i},\nb",{i}\n' for i in range(40))
    for size in range(60, 110):
        monkeypatch.setattr("shoal.data.files.SAMPLE_BYTES", size)
        source = inspect_text(written(tmp_path, text), {}, (), ())
        assert source.layout.names == ("näme", "välue")
        assert (source.dialect.delimiter, source.dialect.encoding) == (",", "utf-8")


@pytest.mark.parametrize("raw", [b"", b"\n\n", b"\xef\xbb\xbf", b"   \t\n"])
def test_nothing_is_refused(raw: bytes) -> None:
    with pytest.raises(DataError, match="empty"):
        detect(raw, at_end=True)


@pytest.mark.parametrize(("text", "dialect", "value"), [
    ("1,234.5", Dialect(thousands=",", delimiter=";"), 1234.5), ("1.234,5", Dialect(thousands=".", decimal=",", delimiter=";"), 1234.5),
    ("1,234,56", Dialect(thousands=",", delimiter=";"), None), ("0.5", Dialect(decimal=",", delimiter=";"), None),
    (" 5 ", Dialect(), 5.0), ("1e400", Dialect(), None), ("inf", Dialect(), None), ("nan", Dialect(), None), ("", Dialect(), None),
    ("1_0", Dialect(), None), ("5" * 400, Dialect(), None), ("٣", Dialect(), None),
])  # fmt: skip
def test_general_reader_of_numbers(text: str, dialect: Dialect, value: float | None) -> None:
    assert number_of(text, dialect) == value
