"""Shards: every training row once, the same bytes whoever makes them."""

from __future__ import annotations

import itertools
import shutil
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split, shard_of
from shoal.data.terms import Number
from shoal.engines.base import WorkerEvent
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.errors import ConfigError, DataError, ResourceError
from shoal.fitting.wide import spreads
from shoal.solve.least_squares import Standardisation
from shoal.training.objectives.shards import derive
from support.engine_requests import Cut
from support.gradient.shards import (
    ENCODING,
    Floats,
    all_rows,
    by_hand,
    contents,
    coordinator,
    derived,
    frame,
    rows_and_units,
)

# --- a small table, encoded by hand ---------------------------------------------------------------------


def ordered(rows: Floats) -> Floats:
    """Rows in an order of their own; the noise in `target` makes it unambiguous."""
    return rows[np.argsort(rows[:, -1], kind="stable")]


# --- the copy -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", ["hash", "contiguous"])
@pytest.mark.parametrize("split", [Split(), Split(every=5), Split(fraction=0.3, seed=4)], ids=["all", "every", "part"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_training_row_is_in_one_shard(
    dtype: str, split: Split, partition: str, dataset: Dataset, home: Path
) -> None:
    train, test, units = rows_and_units(split)
    # The same seed as the split's: shards must not follow the choice of test rows.
    shards = derived(home, dataset, split, units=units, shards=7, dtype=dtype, partition=partition, seed=split.seed)
    found = all_rows(shards)
    assert shards.rows == tuple(len(shards.open(s)[1]) for s in range(7))
    assert (shards.total, shards.width, shards.dtype) == (len(train), 6, dtype)
    assert shards.open(0)[0].dtype == dtype
    tight: Any = {"rtol": 2e-7, "atol": 1e-7} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-9}
    np.testing.assert_allclose(ordered(found), ordered(train), **tight)
    assert not found[:, 2].any()
    assert shards.largest_row == pytest.approx(max((row[:-1] ** 2).sum() for row in train), rel=1e-9)
    assert max(shards.rows) - min(shards.rows) <= (1 if partition == "contiguous" else 0.4 * max(shards.rows))
    held = shards.held()
    assert shards.held_rows == len(test)
    if held is None:
        assert not len(test)
    else:
        np.testing.assert_allclose(np.column_stack(held), test, **tight)  # in file order


def test_contiguous_shards_follow_the_file_and_are_shuffled_within(dataset: Dataset, home: Path) -> None:
    train, _, _ = rows_and_units(Split())
    shards = derived(home, dataset, shards=4, dtype="float64", partition="contiguous")
    ends = [len(train) * s // 4 for s in range(5)]
    for shard, (first, last) in enumerate(itertools.pairwise(ends)):
        rows = np.column_stack(shards.open(shard))
        np.testing.assert_allclose(ordered(rows), ordered(train[first:last]), atol=1e-9)
        assert not np.allclose(rows, train[first:last])


def test_hashed_shards_mix_the_file_and_another_seed_mixes_it_otherwise(dataset: Dataset, home: Path) -> None:
    one, other = (derived(home, dataset, shards=3, seed=seed) for seed in (0, 1))
    assert ordered(all_rows(one)).tobytes() == ordered(all_rows(other)).tobytes()
    assert contents(one)["shard-000000.bin"] != contents(other)["shard-000000.bin"]
    index = np.arange(100_000)
    shares = np.bincount(shard_of(index, 5, 10).astype(int)) / 10_000
    assert len(shares) == 10
    assert np.abs(shares - 1).max() < 0.05  # five standard deviations
    both = np.histogram2d(shard_of(index, 5, 4), shard_of(index, 6, 4), bins=4)[0] / 6250
    assert np.abs(both - 1).max() < 0.07


def test_without_an_intercept_rows_are_as_they_are(dataset: Dataset, home: Path) -> None:
    train, _, units = rows_and_units(Split(), intercept=False)
    shards = derived(home, dataset, units=units, dtype="float64")
    np.testing.assert_allclose(ordered(all_rows(shards)), ordered(train), rtol=1e-14)
    assert (all_rows(shards)[:, 2] == 7.25).all()


def test_rows_that_miss_a_value_are_left_out_where_that_is_asked_for(dataset: Dataset, home: Path) -> None:
    raw = by_hand(frame())
    wanted = raw[~np.isnan(raw[:, -1]) & (raw[:, 3] == 0)][:, [0, 1, 6]]
    encoding = Encoding((Number("a", 0.0), Number("far", 0.0)), {}, "target", drop_missing=True)
    plain = Standardisation(np.zeros(2), np.ones(2), np.zeros(2, bool), 0.0, False)
    with InlineEngine() as engine:
        shards = derive(coordinator(engine, home), dataset, encoding, Split(), plain, dtype="float64", shards=2)
    np.testing.assert_allclose(ordered(all_rows(shards)), ordered(wanted), rtol=1e-12)


@pytest.mark.parametrize("most", [100, 300])
def test_held_rows_are_thinned_evenly(most: int, dataset: Dataset, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, test, _ = rows_and_units(Split(every=3))
    monkeypatch.setattr("shoal.training.objectives.shards.HELD_BYTES", 4 * 7 * most)
    shards = derived(home, dataset, Split(every=3))
    held = shards.held()
    assert held is not None
    assert 0.8 * most <= shards.held_rows <= most
    found = np.column_stack(held)
    places = [int(np.flatnonzero(np.isclose(test[:, -1], row[-1], rtol=0, atol=1e-6))[0]) for row in found]
    np.testing.assert_allclose(found, test[places], rtol=2e-7, atol=1e-7)
    steps = np.diff(places)
    assert steps.min() >= 1
    assert steps.max() <= 3 * len(test) / most
    assert places[-1] > 0.95 * len(test)


def test_what_cannot_be_is_refused_in_plain_words(dataset: Dataset, home: Path) -> None:
    _, _, units = rows_and_units(Split())
    with pytest.raises(ConfigError, match="hash or contiguous"):
        derived(home, dataset, partition="random")
    with pytest.raises(DataError, match="training rows, got none"):
        derived(home, dataset, Split(every=1), units=units)
    tiny = Standardisation(units.centre, units.scale * 1e-33, units.constant, units.y_mean, True)
    with pytest.raises(ConfigError, match="precision float64"):
        derived(home, dataset, units=tiny)
    assert derived(home, dataset, units=tiny, dtype="float64").largest_row > 1e60


# --- who makes them does not matter ---------------------------------------------------------------------


def test_same_bytes_whoever_makes_them(dataset: Dataset, home: Path) -> None:
    split = Split(fraction=0.2)
    _, _, units = rows_and_units(split)
    made: list[dict[str, bytes]] = []
    for workers in (0, 1, 2, 3):
        with ProcessEngine(workers) if workers else InlineEngine() as engine:
            passes = coordinator(engine, home)
            shards = derive(passes, dataset, ENCODING, split, units, shards=5, seed=9)
            measured = spreads(passes, dataset, ENCODING, split)
        made.append(contents(shards) | {"spreads": measured.mean.tobytes() + measured.scatter.tobytes()})
        shutil.rmtree(shards.directory)
    assert len(made[0]) == 5 + 3
    assert all(one == made[0] for one in made)


class CutShort(ProcessEngine):
    """Kills workers at the third request of each sweep, and at its last."""

    def __init__(self, folder: Path, events: list[WorkerEvent]) -> None:
        self.folder, self.sweeps = folder, 0
        super().__init__(2, on_event=events.append)

    def sweep(self, requests: Iterable[Any]) -> Iterator[Any]:
        listed = list(requests)
        self.sweeps += 1
        for i in (2, len(listed) - 1):
            listed[i] = Cut(listed[i], str(self.folder / f"cut-{self.sweeps}-{i}"))
        return super().sweep(listed)


def test_workers_killed_while_they_write_change_nothing(dataset: Dataset, home: Path, tmp_path: Path) -> None:
    split, events = Split(every=4), list[WorkerEvent]()
    expected = contents(derived(home, dataset, split, shards=5))
    shutil.rmtree(home / "cache" / next(p.name for p in (home / "cache").glob("shards-*")))
    with CutShort(tmp_path, events) as engine:
        units = rows_and_units(split)[2]
        shards = derive(coordinator(engine, home), dataset, ENCODING, split, units, shards=5)
    assert [event.signal for event in events if event.kind == "lost"] == [signal.SIGKILL] * 4
    assert contents(shards) == expected


def test_full_disk_is_said_and_nothing_stays(dataset: Dataset, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: memoryview, offset: int) -> None:
        raise OSError(28, "No space left on device")

    before = sorted(p.name for p in (home / "cache").iterdir())
    monkeypatch.setattr("shoal.passes.shards.write_at", full)
    with pytest.raises(ResourceError, match="disk is full"):
        derived(home, dataset)
    assert sorted(p.name for p in (home / "cache").iterdir()) == before
