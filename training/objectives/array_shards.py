"""Rows that came as arrays, in shards: dealt out once and found again; those of tables are in `shards`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shoal.coordinator import Coordinator
from shoal.data.cache import digest
from shoal.data.splits import Split
from shoal.data_pipeline import Shards, held_path, shard_path
from shoal.errors import DataError, StateError
from shoal.files import sealed
from shoal.home import MANIFEST, SHARDS
from shoal.networks.stored import StoredRows
from shoal.passes.shards import write_rows
from shoal.training.objectives.shards import found_shards
from shoal.utils import disk_errors

FORMAT = 1  # of what is written here; another number means another cache key


def deal_arrays(
    coordinator: Coordinator, rows: StoredRows, split: Split, *, shards: int, seed: int, partition: str
) -> Shards:
    """The cached shards of these rows if they are whole, else made: test rows aside, the rest dealt out, shuffled."""
    key = f"{SHARDS}{digest(['arrays', rows.key, asdict(split), shards, seed, partition, FORMAT])}"
    cache = coordinator.cache
    found = found_shards(cache, cache.directory / key)
    if found is not None:
        return found
    with cache.workshop() as workshop, disk_errors():
        folder = workshop / "shards"
        folder.mkdir()
        made = _deal(coordinator, folder, rows, split, shards, seed, partition)
        sealed.write(folder / MANIFEST, {**asdict(made), "directory": ""}, of=key)
        placed = found_shards(cache, cache.place(folder, key))
    if placed is None:
        raise StateError("The shards of the training rows were removed while they were made. Try again.")
    return placed


def _deal(
    coordinator: Coordinator, folder: Path, rows: StoredRows, split: Split, count: int, seed: int, partition: str
) -> Shards:
    rows.prove()  # once: from here on each shard has its own checksum
    X, y = _flat(rows, "X"), _flat(rows, "y")
    every = np.arange(len(X))
    test = np.zeros(len(X), bool) if rows.test_rows else split.is_test(every)
    train = every[~test]
    if not len(train):
        raise DataError("Expected training rows, got none. Keep fewer rows for testing.")
    if partition == "hash":
        train = np.random.default_rng((seed, len(train))).permutation(train)
    checksums, counts = [], []
    for shard, part in enumerate(np.array_split(train, count)):
        order = np.random.default_rng((seed, shard)).permutation(part)
        checksums.append(int(write_rows(shard_path(str(folder), shard), X, y, order)[0, 1]))
        counts.append(len(order))
        coordinator.progress("shuffling", (shard + 1) / (count + 1))
    held_X, held_y, held = X, y, every[test]
    if rows.test_rows:
        held_X, held_y, held = _flat(rows, "test_X"), _flat(rows, "test_y"), np.arange(rows.test_rows)
    checksum = int(write_rows(held_path(str(folder)), held_X, held_y, held)[0, 1])  # an empty file of none
    beside = ("target",) * (y.shape[1] if y.ndim > 1 else 1)
    return Shards(
        str(folder), tuple(counts), X.shape[1], rows.dtype, len(held), 0.0, tuple(checksums), checksum, beside=beside
    )


def _flat(rows: StoredRows, name: str) -> npt.NDArray[np.generic]:
    """Each row as a line of numbers of the common type; a target of one number as that."""
    values = rows.open(name)
    flat = values.reshape(len(values), -1)
    flat = flat[:, 0] if name.endswith("y") and flat.shape[1] == 1 else flat
    return flat.astype(rows.dtype, copy=False)
