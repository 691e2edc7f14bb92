"""Small files that would become very large: each is bounded, and refused with a sentence where it passes the bound."""

from __future__ import annotations

import contextlib
import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from shoal.data import block_reader, parquet_reader
from shoal.data.first_look.source import inspect_text
from shoal.data.parquet_reader import inspect_parquet, read_row_group
from shoal.errors import BadRowsError, DataError
from shoal.settings import limits
from support.tables import column, opened, written


@pytest.fixture
def short_rows(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(block_reader, "ROW_BYTES", 1 << 17)
    monkeypatch.setattr(block_reader, "OVERLAP", 1 << 12)
    monkeypatch.setattr(limits, "BLOCK_BYTES", 1 << 16)
    return 1 << 17


@pytest.mark.parametrize("mark", ["", '"'])
def test_a_row_without_an_end_is_refused_with_its_line(tmp_path: Path, short_rows: int, mark: str) -> None:
    rows = "".join(f"{i},{i / 7:.6f}\n" for i in range(100_000))
    path = written(tmp_path, f"a,b\n{rows}{mark}{'x' * 4 * short_rows}\n")
    with pytest.raises(BadRowsError, match=r"line 100,002 goes on for longer.*quote") as told:
        opened(path)
    assert "at most" in str(told.value)


def test_a_long_row_below_the_bound_is_read(tmp_path: Path, short_rows: int) -> None:
    long = "y" * (short_rows // 2)
    path = written(tmp_path, "a,b\n" + "1,x\n" * 70_000 + f'2,"{long}"\n3,z\n')
    dataset = opened(path)
    assert column(dataset, "a")[-2:] == [2.0, 3.0]
    assert column(dataset, "b")[-2:] == [long, "z"]


def test_a_quote_that_looks_open_from_the_middle_is_read(tmp_path: Path, short_rows: int) -> None:
    """A block that begins inside a quoted text takes its end for a beginning; the block before knows better."""
    inside = "1,x\n" * (short_rows // 6)
    rows = f'7,"{inside}"\n' + "5,w\n" * short_rows
    path = written(tmp_path, "a,b\n" + "1,x\n" * 1000 + rows)
    found = column(opened(path), "a")
    assert (found.count(1.0), found.count(7.0), found.count(5.0)) == (1000, 1, short_rows)


@pytest.mark.parametrize("mark", ["", '"'])
@pytest.mark.parametrize("filling", ["x", "x.", "-1"])
def test_a_first_look_at_an_endless_cell_takes_no_more_than_some_copies_of_it(
    tmp_path: Path, filling: str, mark: str
) -> None:
    """A pattern that remembers each of its steps would take thousands of bytes for each letter."""
    length = 300_000
    cell = (filling * length)[:length]
    path = written(tmp_path, f'a,b\n1,"{cell}{mark}\n'.encode(), "table.csv")
    tracemalloc.start()
    try:
        with contextlib.suppress(DataError):
            inspect_text(path, {}, (), ())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60 * length


def test_a_packed_file_that_grows_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNPACKED_LEAST", 1 << 20)
    packed = gzip.compress(b"a,b\n" + b"1,2\n" * 1_000_000)
    assert limits.most_unpacked(len(packed)) < 4_000_000
    with pytest.raises(DataError, match=r"to unpack to 1\.\d MB at most, but it goes on.*unpack it"):
        opened(written(tmp_path, packed, "table.csv.gz"))


def test_a_packed_table_of_the_usual_kind_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNPACKED_LEAST", 1 << 10)
    text = "a,b\n" + "".join(f"{i % 7},{i}\n" for i in range(20_000))
    assert opened(written(tmp_path, gzip.compress(text.encode()), "table.csv.gz")).rows == 20_000


def test_a_parquet_file_of_endless_rows_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNPACKED_LEAST", 1 << 20)
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": np.ones(1_000_000)}), path)
    with pytest.raises(DataError, match=r"says that it has 1,000,000 rows of 1 column, 8\.0 MB.*CSV"):
        opened(path)


def test_a_row_group_is_read_some_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_reader, "SLICE_BYTES", 1 << 18)
    rows = 300_000
    path, counted = tmp_path / "table.parquet", np.arange(rows) // 1000
    columns = {"a": counted * 1.0, "b": np.ones(rows), "c": np.ones(rows), "d": np.ones(rows)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=rows)
    tracemalloc.start()
    try:
        report = read_row_group(inspect_parquet(path, (), ()), 0, str(tmp_path / "block"), residues=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * rows, "a quarter of the block"
    block = np.fromfile(tmp_path / "block").reshape(rows, 4)
    assert report.rows == rows
    assert (block == np.column_stack([counted, np.ones((rows, 3))])).all()


def test_a_text_that_all_rows_share_is_held_once(tmp_path: Path) -> None:
    long, rows = "t" * 4096, 20_000
    path = tmp_path / "table.parquet"
    texts = pyarrow.array([long, "", None, "short"] * (rows // 4))
    pyarrow.parquet.write_table(pyarrow.table({"y": np.ones(rows), "text": texts}), path)
    usual = pyarrow.default_memory_pool()
    counting = pyarrow.proxy_memory_pool(usual)
    pyarrow.set_memory_pool(counting)
    try:
        dataset = opened(path)
    finally:
        pyarrow.set_memory_pool(usual)
    assert counting.max_memory() < rows * len(long) / 16
    assert column(dataset, "text") == [long, None, None, "short"] * (rows // 4)
