"""Tables with bad rows: counted, located, and no other row lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.tables import Cell, bad_places, column, opened, shoal, small_pieces, table, written

# name: (text, rows that can be read, lines of those that cannot, knobs)
DAMAGED: dict[str, tuple[str, list[list[Cell]], list[int], dict[str, Any]]] = {
    "short row": ("a,b,c\n1,2,3\n4,5\n6,7,8\n", [[1.0, 2.0, 3.0], [6.0, 7.0, 8.0]], [3], {}),
    "long row": ("a,b\n1,2\n3,4,5\n6,7\n", [[1.0, 2.0], [6.0, 7.0]], [3], {}),
    "a word at the foot": ("a,b\n1,2\n3,4\n5,6\nover\n", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [5], {}),
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
    assert [bad.line for bad in dataset.manifest.bad_rows] == lines
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
    monkeypatch.setattr(files_module(), "SAMPLE_BYTES", 200)
    with small_pieces(monkeypatch, 256, 16):
        dataset = opened(path)
    assert column(dataset, "a") == [a for a, _ in rows]
    assert column(dataset, "b") == [float(b) for _, b in rows]


def files_module() -> Any:
    from shoal.data import files

    return files


def test_dates_with_garbage_further_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = [f"2020-01-{1 + i % 28:02d}" for i in range(300)]
    path = written(tmp_path, "d,n\n" + "".join(f"{d},1\n" for d in good) + "soon,2\n")
    monkeypatch.setattr(files_module(), "SAMPLE_BYTES", 500)
    dataset = opened(path)
    assert dataset.columns["d"].type == "datetime"
    assert dataset.manifest.bad_rows == ((302, "column 'd': expected a date, got 'soon'", ""),)
    assert bad_places(dataset) == {300}
