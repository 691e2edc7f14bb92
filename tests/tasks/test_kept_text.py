"""Cells of a text beside lines: what Python's csv reads of the same text, whatever is in the cells."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from shoal.data.first_look.source import inspect_text
from shoal.errors import DataError
from shoal.tasks import kept_text
from shoal.tasks.kept_columns import Keep
from shoal.tasks.kept_text import TextBeside, first_rows
from support.tables import written

CELLS = ["", "a", "ü ö", 'say "no"', "x;y", "x,y", "two\nlines", "1,5", "'", "end ", "\r\n;"]
ROWS = [[str(i), CELLS[i % len(CELLS)], CELLS[(i * 7 + 3) % len(CELLS)], str(i * i)] for i in range(150)]


def text_of(rows: list[list[str]]) -> str:
    made = io.StringIO(newline="")
    csv.writer(made, delimiter=";", lineterminator="\n").writerows(rows)
    return made.getvalue()


def beside(path: Path, places: tuple[int, ...], encoding: str = "utf-8") -> TextBeside:
    source = inspect_text(path, {"encoding": encoding, "delimiter": ";", "header": True}, (), ())
    names = source.layout.names
    return TextBeside(Keep(tuple(names[place] for place in places), places), source)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("made", ["7.5", '"ja, ""übrigens"""'])
@pytest.mark.parametrize("chunk", [40, 1 << 20])
@pytest.mark.parametrize("places", [(2, 0, 3), (0, 1, 2, 3)])
def test_cells_are_those_of_pythons_csv(
    encoding: str, made: str, chunk: int, places: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_text, "CHUNK", chunk)
    path = written(tmp_path, text_of([["n", "p", "q", "r"], *ROWS]).encode(encoding))
    joining = beside(path, places, encoding)
    lines = [f"{i},{made}\n".encode() for i in range(len(ROWS))]
    text = b"".join((joining.joined(b"".join(lines[:70])), joining.joined(b"".join(lines[70:]))))
    joining.finish()
    value = next(csv.reader([made]))[0]
    found = list(csv.reader(io.StringIO(text.decode(), newline="")))
    expected = [[*(row[place] for place in places), value] for row in ROWS]
    assert [[cell.strip(" ") for cell in row] for row in found] == [
        [cell.strip(" ") for cell in row] for row in expected
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_all_columns_of_plain_and_odd_rows(delimiter: str, end: str, tmp_path: Path) -> None:
    rows = ["a|b|c", "1|2|3", "4| 5 |6", "7|8", "9|10|11|12", "13||", 'x"y|1|2', "|", "14|15|16"]
    path = written(tmp_path, "".join(row.replace("|", delimiter) + end for row in rows))
    source = inspect_text(path, {"delimiter": delimiter, "header": True}, (), ())
    joining = TextBeside(Keep(("a", "b", "c"), (0, 1, 2)), source)
    found = joining.joined(b"".join(b"%d,p\n" % i for i in range(8))).decode()
    assert found == '1,2,3,p\n4,5,6,p\n7,8,,p\n9,10,11,p\n13,,,p\n"x""y",1,2,p\n,,,p\n14,15,16,p\n'


def test_what_is_no_row_has_no_line(tmp_path: Path) -> None:
    text = 'a;b\n1;x\n\n   \n2\n"open;3\n4;y;z\r\n5;\n'
    joining = beside(written(tmp_path, text), (1, 0))
    assert joining.joined(b"".join(b"%d,p\n" % i for i in range(5))) == b'x,1,p\n,2,p\n,"""open;3",p\ny,4,p\n,5,p\n'
    joining.finish()


def test_a_row_too_many_or_too_few_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, "a;b\n1;x\n2;y\n")
    with pytest.raises(DataError, match="not those that were predicted"):
        beside(path, (0,)).joined(b"0,p\n1,p\n2,p\n")
    joining = beside(path, (0,))
    joining.joined(b"0,p\n")
    with pytest.raises(DataError, match="not those that were predicted"):
        joining.finish()


def test_rows_longer_than_what_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_text, "CHUNK", 100)
    long = "z" * 5000
    path = written(tmp_path, f"a;b\n1;{long}\n2;{long}\n")
    assert beside(path, (1, 0)).joined(b"0,p\n1,p\n") == f"{long},1,p\n{long},2,p\n".encode()
    source = inspect_text(path, {"delimiter": ";", "header": True}, (), ())
    assert first_rows(source, 5) == [["1", long], ["2", long]]
