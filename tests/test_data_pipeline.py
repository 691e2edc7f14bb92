"""Batches as training takes them: every row once an epoch, and the same rows however they are brought in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.data_pipeline import Batches, Shards, shard_path
from shoal.files.checksums import checksum

WIDTH, ROWS = 3, (50, 0, 7, 301)


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    """Shards whose rows all differ: y counts through all of them."""
    checksums: tuple[int, ...] = ()
    for shard in range(len(ROWS)):
        y = np.arange(sum(ROWS[:shard]), sum(ROWS[: shard + 1]), dtype=np.float64)
        X = np.column_stack([y + column for column in range(WIDTH)])
        content = X.tobytes() + y.tobytes()
        Path(shard_path(str(tmp_path), shard)).write_bytes(content)
        checksums += (checksum(content),)
    return Shards(str(tmp_path), ROWS, WIDTH, "float64", 0, 1.0, checksums, 0)


@pytest.mark.parametrize("how", [{}, {"ahead": 2}, {"ahead": 1000}, {"tight": True}], ids=str)
@pytest.mark.parametrize("batch_size", [1, 7, 64, 1000])
def test_every_row_comes_once_an_epoch(batch_size: int, how: dict[str, Any], shards: Shards) -> None:
    batches, targets = Batches(shards, queue=3), []
    for epoch in range(2):
        steps = range(shards.steps(batch_size) + 1)
        came = [batches.batch(5, epoch, s, step, batch_size, **how) for s in range(len(ROWS)) for step in steps]
        assert all(len(y) <= batch_size for _, y in came)
        assert all((y[:, None] + np.arange(WIDTH) == X).all() for X, y in came)
        targets.append(np.concatenate([y for _, y in came]).tolist())
        assert sorted(targets[-1]) == list(range(sum(ROWS)))
    assert batch_size == 1000 or targets[0] != targets[1]


@pytest.mark.parametrize("tight", [False, True])
def test_a_whole_shard_is_in_the_order_of_its_file(tight: bool, shards: Shards) -> None:
    batches = Batches(shards)
    for shard, rows in enumerate(ROWS):
        X, y = batches.whole(shard, tight)
        assert y.tolist() == list(range(sum(ROWS[:shard]), sum(ROWS[:shard]) + rows))
        assert X.shape == (rows, WIDTH)
    assert batches.seconds > 0
