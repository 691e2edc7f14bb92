"""Predictions with the marks of their table."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.files.table_style import USUAL, Rewriting, TableStyle, table_style

GERMAN = TableStyle(";", ",", "cp1252")


def test_only_numbers_that_were_predicted_change_their_mark() -> None:
    lines = b'id,note,prediction,lower\n1.5,"a;b, c",-12.25,1e-05\n2.5,"two\nlines",,3\n'
    found = Rewriting(GERMAN, 2)(lines).decode("cp1252")
    assert found == 'id;note;prediction;lower\r\n1.5;"a;b, c";-12,25;1e-05\r\n2.5;"two\nlines";;3\r\n'


def test_words_among_predictions_stay() -> None:
    assert Rewriting(GERMAN, 2)(b"a,3.5 bis 4,0.25\n") == b"a;3.5 bis 4;0,25\r\n"


@pytest.mark.parametrize(("encoding", "begins"), [("utf-8", b"\xef\xbb\xbf"), ("utf-16", b"\xff\xfe"), ("cp1252", b"")])
def test_the_mark_of_an_encoding_stands_once(encoding: str, begins: bytes, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("köln,1.5\n" * 25_000)
    found = b"".join(Rewriting(TableStyle("\t", ",", encoding), 1).pieces(path))
    assert found.startswith(begins)
    assert found.decode(encoding).removeprefix("\ufeff") == "köln\t1,5\r\n" * 25_000


def test_classes_that_the_tables_encoding_lacks_are_written_in_utf_8() -> None:
    dialect = {"delimiter": ";", "decimal": ",", "encoding": "cp1252"}
    assert table_style(dialect, ["ja", "nein"]) == GERMAN
    assert table_style(dialect, ["łódź"]) == TableStyle(";", ",", "utf-8")


def test_what_is_usual_gets_no_mark() -> None:
    assert Rewriting(USUAL, 1)(b"a,1.5\n") == b"a,1.5\r\n"
