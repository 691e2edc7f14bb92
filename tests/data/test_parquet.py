"""Parquet files: types, bad rows and damage."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np

from support.tables import column, opened, shoal, table


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
        "moment": [day.timestamp() / 86400, None, 0.0],
        "zone": [day.timestamp() / 86400, None, 0.0],
        "date": [1614816000 / 86400, None, 1.0],
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


def test_what_means_none_beside_the_usual_texts(tmp_path: Path) -> None:
    path = parquet(tmp_path, {"a": [1.0, -999.0, 3.0], "b": ["x", "k.A.", "z"], "c": [-999.0, 5.0, 6.0]})
    dataset = opened(path, also_missing=["k.A.", "a=-999"])
    assert column(dataset, "a") == [1.0, None, 3.0]
    assert column(dataset, "b") == ["x", None, "z"]
    assert column(dataset, "c") == [-999.0, 5.0, 6.0]
    assert dataset.columns["b"].levels == ("x", "z")
