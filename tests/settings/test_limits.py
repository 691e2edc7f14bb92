"""How large things are made, by figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.settings.limits import (
    MB,
    block_bytes,
    cells_from_reading,
    most_block_bytes,
    shard_count,
    too_many_workers,
    worker_count,
)
from shoal.settings.values import config_from


@pytest.mark.parametrize(("knobs", "small", "large"), [
    ({}, 0, 3), ({"engine": "inline"}, 0, 0), ({"engine": "processes"}, 3, 3), ({"workers": 5}, 0, 5),
    ({"solver": "gradient"}, 3, 3), ({"solver": "gradient", "workers": 2}, 2, 2),
])  # fmt: skip
def test_workers_by_the_size_of_the_file(knobs: dict[str, Any], small: int, large: int) -> None:
    config = config_from({"file": "t.csv", **knobs})
    assert [worker_count(config, size, cores=3) for size in (MB, 200 * MB)] == [small, large]


@pytest.mark.parametrize(("rows", "row_bytes", "wanted", "expected"), [
    (0, 24, 0, 1), (63, 24, 0, 1), (128, 24, 0, 2), (10**5, 24, 0, 16),
    (2**24, 64, 0, 16), (2**24 + 1, 64, 0, 17), (2**24, 128, 0, 32),
    (10**5, 24, 40, 40), (3, 24, 40, 3), (2**24, 128, 2, 32),
])  # fmt: skip
def test_number_of_shards(rows: int, row_bytes: int, wanted: int, expected: int) -> None:
    assert shard_count(rows, row_bytes, wanted) == expected


@pytest.mark.parametrize(("numbers", "megabytes"), [(1, 8), (360, 8), (512, 16), (1024, 64), (5000, 64)])
def test_blocks_of_wide_tables_are_larger(numbers: int, megabytes: int) -> None:
    """64 bytes for each pair of columns, from 8 MB to 64 MB."""
    assert block_bytes(numbers) // MB == megabytes


@pytest.mark.parametrize(
    ("numbers", "size", "megabytes"), [(20_000, 64 * MB, 30), (4000, 12 * MB, 8), (4000, 33 * MB, 64), (50, 1, 8)]
)
def test_blocks_of_few_rows_are_small(numbers: int, size: int, megabytes: int) -> None:
    """Where there are fewer rows than columns, no block is large for the sake of its sums."""
    assert most_block_bytes(numbers, size) // MB == megabytes


@pytest.mark.parametrize(("numbers", "test_every", "cells"), [
    (5, 0, 10), (5, 5, 10), (5, 4, 4), (5, 50, 50), (5, 51, 10),
    (228, 0, 10), (229, 0, 1), (2895, 0, 1), (2896, 0, 0), (361, 4, 4), (362, 4, 1),
])  # fmt: skip
def test_sums_that_are_kept_from_reading(numbers: int, test_every: int, cells: int) -> None:
    """Ten cells while 80 p (p + 1) bytes are at most 4 MB, one while 8 p (p + 1) are at most 64 MB."""
    assert cells_from_reading(numbers, test_every) == cells


@pytest.mark.parametrize("model", ["module", "mlp", "linear"])
def test_a_network_has_no_more_processes_than_a_machine_can_use_and_says_so(model: str) -> None:
    config = config_from({"file": "t.csv", "target": "y", "model": model, "solver": "gradient", "workers": 100})
    found = [worker_count(config, MB, cores) for cores in (1, 2, 64)]
    assert found == ([100, 100, 100] if model == "linear" else [8, 8, 100])
    told = too_many_workers(config, found[1], 2)
    assert told.startswith("" if model == "linear" else "100 workers were asked for, 8 are there")
    assert bool(told) == (model != "linear")
