"""Batches: every row once, in an order that depends on seed and epoch only."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from shoal.data_pipeline import batches, prefetched
from shoal.errors import ConfigError, DataError
from support.data.encoding import Array


class Table:
    """Rows sorted by their target, in blocks; rows() says who was asked."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes, self.edges = sizes, np.concatenate([[0], np.cumsum(sizes)])
        self.asked: list[int] = []

    def block_sizes(self) -> list[int]:
        return self.sizes

    def rows(self, block: int) -> tuple[Array, Array]:
        self.asked.append(block)
        y = np.arange(self.edges[block], self.edges[block + 1], dtype=float)
        return np.column_stack([y, -y]), y


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_every_row_comes_once(batch: int) -> None:
    table = Table([10, 0, 33, 1, 250, 7])
    got = list(batches(table, batch, seed=3, mixed_blocks=2))
    assert [len(y) for _, y in got[:-1]] == [batch] * (len(got) - 1)
    assert 0 < len(got[-1][1]) <= batch
    assert sorted(np.concatenate([y for _, y in got]).tolist()) == list(range(301))
    assert all(np.array_equal(X[:, 0], y) and np.array_equal(X[:, 1], -y) for X, y in got)


def test_batches_depend_on_seed_and_epoch_only() -> None:
    def order(seed: int, epoch: int, prefetch: int = 2) -> list[float]:
        return np.concatenate([y for _, y in batches(Table([50] * 8), 32, seed, epoch, prefetch=prefetch)]).tolist()

    assert order(1, 0) == order(1, 0) == order(1, 0, prefetch=7)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_sorted_rows_are_mixed() -> None:
    table = Table([500] * 64)
    means = np.array([y.mean() for _, y in batches(table, 100, seed=0)])
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.25
    assert means.std() < 1.5 * np.arange(32_000).std() / 10  # as for rows drawn at random
    spread = np.arange(32_000).std()
    within = np.array([y.std() for _, y in batches(table, 100, seed=0)])
    assert within.mean() > 0.6 * spread  # a batch of the file in its own order has 0.003 of it


def test_leaving_early_stops_the_thread_and_the_reading() -> None:
    before = threading.active_count()
    table = Table([100] * 50)
    source = batches(table, 10, seed=0, mixed_blocks=1)
    next(source)
    source.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
    assert len(table.asked) < 10


def test_errors_of_the_source_come_out_where_items_are_used() -> None:
    def failing() -> Any:
        yield 1
        raise DataError("no more")

    items = prefetched(failing(), 2)
    assert next(items) == 1
    with pytest.raises(DataError, match="no more"):
        next(items)
    with pytest.raises(ConfigError, match="batch size"):
        batches(Table([1]), 0, seed=0)
