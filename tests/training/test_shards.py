"""Shards: every training row once, the same bytes whoever makes them, and what is computed from them."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.data.terms import Indicator, Level, Number
from shoal.engines.base import Engine, WorkerEvent
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.errors import ConfigError, DataError, ResourceError, StateError
from shoal.models import LinearModel
from shoal.passes import shards as shard_requests
from shoal.passes.shards import product_of, shard_of
from shoal.solve.least_squares import Standardisation
from shoal.training.shards import Shards, derive, shard_count, spreads, top_eigenvalue
from support.engine_requests import Cut
from support.tables import opened, small_pieces, written

Floats = npt.NDArray[np.float64]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


# --- a small table, encoded by hand ---------------------------------------------------------------------

ROWS = 1500
ENCODING = Encoding(
    (Number("a", 0.5), Number("far", 0.0), Number("same", 0.0), Indicator("a"), Level("t", "x"), Level("t", "z")),
    {"t": ("x", "y", "z")},
    "target",
)


def frame() -> pd.DataFrame:
    import pandas as pd

    rng = np.random.default_rng(3)
    a, far = rng.normal(size=ROWS), 1e6 + rng.normal(size=ROWS)
    target = 2 * a + far + rng.normal(size=ROWS)
    table = pd.DataFrame({"a": a, "far": far, "same": 7.25, "t": rng.choice(list("xyz"), ROWS), "target": target})
    table.loc[rng.random(ROWS) < 0.2, "a"] = math.nan
    table.loc[rng.random(ROWS) < 0.1, "target"] = math.nan
    return table


def by_hand(table: pd.DataFrame) -> Floats:
    """(rows, terms + 1), the target last, NaN where it is missing."""
    columns = [
        table.a.fillna(0.5), table.far, table.same, table.a.isna(), table.t == "x", table.t == "z", table.target,
    ]  # fmt: skip
    return np.column_stack([column.astype(float) for column in columns])


def cut_into_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: pd.DataFrame) -> Dataset:
    path = written(tmp_path, table.to_csv(index=False))
    with small_pieces(monkeypatch, 6000, 500):
        dataset = opened(path)
    assert len(dataset.blocks) > 8
    return dataset


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    return cut_into_blocks(tmp_path, monkeypatch, frame())


def rows_and_units(split: Split, intercept: bool = True) -> tuple[Floats, Floats, Standardisation]:
    """Training and test rows by hand, in the units of the training rows, and those units."""
    raw = by_hand(frame())
    index = np.arange(ROWS)
    there, test = ~np.isnan(raw[:, -1]), split.is_test(index)
    train = raw[there & ~test]
    centre, scale = (train.mean(axis=0), train.std(axis=0)) if intercept else (np.zeros(7), np.ones(7))
    constant = np.array([False, False, True, False, False, False])
    scale[-1], scale[:-1][constant] = 1.0, 1.0
    units = Standardisation(centre[:-1], scale[:-1], constant, float(centre[-1]), intercept)
    Z = (raw - centre) / scale
    if intercept:
        Z[:, 2] = 0.0
    return Z[there & ~test], Z[there & test], units


def coordinator(engine: Engine, home: Path) -> Coordinator:
    return Coordinator(engine, home)


def derived(home: Path, dataset: Dataset, split: Split = Split(), **knobs: Any) -> Shards:  # noqa: B008
    units = knobs.pop("units", None) or rows_and_units(split)[2]
    with InlineEngine() as engine:
        return derive(coordinator(engine, home), dataset, ENCODING, split, units, **knobs)


def all_rows(shards: Shards) -> Floats:
    return np.concatenate([np.column_stack(shards.open(s)) for s in range(len(shards.rows))]).astype(np.float64)


def ordered(rows: Floats) -> Floats:
    """Rows in an order of their own; the noise in `target` makes it unambiguous."""
    return rows[np.argsort(rows[:, -1], kind="stable")]


def contents(shards: Shards) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(shards.directory).iterdir()}


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
    monkeypatch.setattr("shoal.training.shards.HELD_BYTES", 4 * 7 * most)
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


@pytest.mark.parametrize(("rows", "width", "dtype", "wanted", "expected"), [
    (0, 5, "float32", 0, 1), (63, 5, "float32", 0, 1), (128, 5, "float32", 0, 2), (10**5, 5, "float32", 0, 16),
    (2**24, 15, "float32", 0, 16), (2**24 + 1, 15, "float32", 0, 17), (2**24, 15, "float64", 0, 32),
    (10**5, 5, "float32", 40, 40), (3, 5, "float32", 40, 3), (2**24, 15, "float64", 2, 32),
])  # fmt: skip
def test_number_of_shards(rows: int, width: int, dtype: str, wanted: int, expected: int) -> None:
    assert shard_count(rows, width, dtype, wanted) == expected


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


# --- the cache ------------------------------------------------------------------------------------------


class Lazy(InlineEngine):
    """An engine that must not be asked."""

    def sweep(self, requests: Iterable[Any]) -> Iterator[Any]:
        raise AssertionError("the shards are made again")


def test_shards_are_found_again_and_others_for_other_questions(dataset: Dataset, home: Path) -> None:
    split = Split(every=5)
    _, _, units = rows_and_units(split)
    first = derived(home, dataset, split)
    with Lazy() as engine:
        assert derive(coordinator(engine, home), dataset, ENCODING, split, units) == first
    off = units.scale.copy()
    off[0] *= 1 + 1e-15
    others = [
        derived(home, dataset, split, units=units, seed=1),
        derived(home, dataset, split, units=units, shards=3),
        derived(home, dataset, split, units=units, dtype="float64"),
        derived(home, dataset, split, units=units, partition="contiguous"),
        derived(home, dataset, Split(every=6), units=units),
        derived(home, dataset, split, units=Standardisation(units.centre, off, units.constant, units.y_mean, True)),
        derived(home, dataset, split, units=Standardisation(units.centre, units.scale, units.constant, 1.0, True)),
    ]
    assert len({shards.directory for shards in (first, *others)}) == 8


DAMAGE: list[Callable[[Path], object]] = [
    lambda d: os.truncate(d / "shard-000001.bin", 100),
    lambda d: (d / "shard-000002.bin").unlink(),
    lambda d: os.truncate(d / "held.bin", 10),
    lambda d: (d / "manifest.json").unlink(),
    lambda d: (d / "manifest.json").write_text("[]"),
    lambda d: (d / "manifest.json").write_text("{"),
    lambda d: (d / "manifest.json").write_text(json.dumps({"rows": [1]})),
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_shards_are_made_anew(damage: Callable[[Path], object], dataset: Dataset, home: Path) -> None:
    first = derived(home, dataset, Split(every=5), shards=4)
    expected = contents(first)
    rows = all_rows(first)  # maps the files: they must not be read through these maps any more
    damage(Path(first.directory))
    again = derived(home, dataset, Split(every=5), shards=4)
    assert (again, contents(again)) == (first, expected)
    assert all_rows(again).tobytes() == rows.tobytes()


def test_a_file_cut_short_is_an_error_and_not_the_end_of_the_process(dataset: Dataset, home: Path) -> None:
    shards = derived(home, dataset, shards=4)
    shards.open(1)
    os.truncate(Path(shards.directory) / "shard-000001.bin", 100)
    with pytest.raises(StateError, match=r"expected \d+ bytes, found 100"):
        shards.open(1)
    shutil.rmtree(shards.directory)
    with pytest.raises(StateError, match="cannot be used"):
        shards.open(1)


def test_rows_are_read_only_and_mapped_once(dataset: Dataset, home: Path) -> None:
    shards = derived(home, dataset, shards=2)
    X, y = shards.open(0)
    assert X.flags.c_contiguous
    assert not X.flags.writeable
    assert not y.flags.writeable
    assert shards.open(0)[0] is X


# --- batches --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 7, 100, 5000])
def test_every_epoch_has_each_row_once(batch_size: int) -> None:
    shards = Shards("nowhere", (100, 0, 331, 7), 3, "float32", 0, 1.0)
    steps = shards.steps(batch_size)
    assert steps == math.ceil(331 / batch_size)
    orders = []
    for epoch in range(3):
        order: list[slice] = []
        for shard, rows in enumerate(shards.rows):
            batches = [shards.slice(5, epoch, shard, step, batch_size) for step in range(steps)]
            there = [batch for batch in batches if batch is not None]
            assert batches[len(there) :] == [None] * (steps - len(there))
            seen = np.concatenate([np.zeros(0, int), *(np.arange(rows)[batch] for batch in there)])
            assert sorted(seen) == list(range(rows))
            assert all(batch.stop - batch.start <= batch_size for batch in there)
            order += there
        orders.append(str(order))
    assert len(set(orders)) == (3 if batch_size < 331 else 1)


def test_batches_are_a_function_of_their_names_only() -> None:
    shards = Shards("nowhere", (1000, 1000), 3, "float32", 0, 1.0)

    def batches(seed: int, epoch: int, shard: int) -> list[slice | None]:
        return [shards.slice(seed, epoch, shard, step, 10) for step in range(100)]

    first = batches(1, 2, 0)
    others = [batches(1, 2, 1), batches(1, 3, 0), batches(2, 2, 0)]
    assert all(first != other for other in others)
    shard_requests._order.cache_clear()
    assert batches(1, 2, 0) == first
    expected = np.random.default_rng((1, 2, 0)).permutation(100)
    assert [batch.start // 10 for batch in first if batch] == expected.tolist()


# --- what the rows say ----------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [Split(), Split(every=5)], ids=["all", "every"])
def test_spreads(split: Split, dataset: Dataset, home: Path) -> None:
    raw = by_hand(frame())
    train = raw[~np.isnan(raw[:, -1]) & ~split.is_test(np.arange(ROWS))].astype(np.longdouble)
    with InlineEngine() as engine:
        found = spreads(coordinator(engine, home), dataset, ENCODING, split)
    assert found.n == len(train)
    np.testing.assert_allclose(found.mean, train.mean(axis=0).astype(float), rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(found.scatter, ((train - train.mean(axis=0)) ** 2).sum(axis=0).astype(float), rtol=1e-11)
    _, _, expected = rows_and_units(split)
    units = found.units(intercept=True, standardize=True)
    assert units.constant.tolist() == expected.constant.tolist()
    np.testing.assert_allclose(units.scale, expected.scale, rtol=1e-9)
    np.testing.assert_allclose(units.centre, expected.centre, rtol=1e-12)
    assert units.y_mean == pytest.approx(expected.y_mean, rel=1e-12)
    plain = found.units(intercept=False, standardize=False)
    assert (plain.y_mean, plain.centre.tolist(), plain.scale.tolist()) == (0.0, [0.0] * 6, [1.0] * 6)


def matrix(values: Floats, rows: int, seed: int) -> Floats:
    """Rows whose X'X / n has exactly these eigenvalues."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(rows, len(values))))[0]
    V = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    return np.asarray(U * np.sqrt(rows * values) @ V.T)


def as_shards(folder: Path, X: Floats, count: int) -> Shards:
    folder.mkdir(parents=True)
    parts = np.array_split(X.astype(np.float32), count)
    for shard, part in enumerate(parts):
        path = folder / f"shard-{shard:06d}.bin"
        path.write_bytes(part.tobytes() + bytes(4 * len(part)))
    return Shards(str(folder), tuple(map(len, parts)), X.shape[1], "float32", 0, 1.0)


SPECTRA: dict[str, Floats] = {
    "one": np.array([3.0]),
    "equal": np.ones(60),
    "two nearly equal": np.array([5.0, 4.999, *np.linspace(1, 0.1, 98)]),
    "many nearly equal": np.linspace(1.0, 0.9, 200),
    "one above many": np.array([1.05, *np.ones(180)]),
    "falling slowly": 1 / np.sqrt(np.arange(1, 201)),
    "falling fast": np.exp2(-np.arange(40.0)),
    "one direction": np.array([100.0, *np.full(120, 1e-3)]),
    "tiny": 1e-12 * np.linspace(1, 0, 50),
}


@pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA.keys())
def test_top_eigenvalue_is_an_upper_bound_and_not_far(spectrum: Floats, tmp_path: Path, home: Path) -> None:
    with InlineEngine() as engine:
        for seed in range(2):
            shards = as_shards(tmp_path / str(seed), matrix(spectrum, 400, seed), 3)
            X = np.concatenate([shards.open(s)[0] for s in range(3)]).astype(np.float64)
            true = np.linalg.eigvalsh(X.T @ X / 400)[-1]
            found = top_eigenvalue(coordinator(engine, home), shards, seed=seed)
            assert true <= found <= 1.1 * true


def test_top_eigenvalue_of_noise_with_more_columns_than_rows(tmp_path: Path, home: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200, 600))
    with InlineEngine() as engine:
        found = top_eigenvalue(coordinator(engine, home), as_shards(tmp_path / "x", X, 4))
        assert 1 <= found / (np.linalg.norm(X, 2) ** 2 / 200) <= 1.1
        assert top_eigenvalue(coordinator(engine, home), as_shards(tmp_path / "0", 0 * X, 4)) == 0.0


def test_top_eigenvalue_has_the_same_bits_whatever_the_number_of_workers(tmp_path: Path, home: Path) -> None:
    shards = as_shards(tmp_path / "x", matrix(SPECTRA["falling slowly"], 4000, 0), 7)
    found = set()
    for workers in (1, 2, 3):
        with ProcessEngine(workers) as engine:
            found.add(top_eigenvalue(coordinator(engine, home), shards))
    assert len(found) == 1


# --- the kernels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "width"), [(0, 3), (1, 1), (17, 3), (30_000, 21), (999, 4000)])
def test_gradient(rows: int, width: int, dtype: type[np.float32 | np.float64]) -> None:
    rng = np.random.default_rng(rows)
    X: npt.NDArray[Any] = rng.normal(size=(rows, width)).astype(dtype)
    y: npt.NDArray[Any] = rng.normal(size=rows).astype(dtype)
    w = rng.normal(size=width)
    gradient, squares = LinearModel.gradient(X, y, w)
    exact = X.astype(float)
    residual = exact @ w - y
    size = np.abs(exact).T @ (np.abs(exact) @ np.abs(w) + np.abs(y))
    eps = float(np.finfo(dtype).eps)
    assert gradient.dtype == np.float64
    assert (np.abs(gradient - exact.T @ residual) <= 8 * eps * size).all()
    assert squares == pytest.approx(residual @ residual, rel=50 * eps)
    V = rng.normal(size=(width, 3))
    size = np.abs(exact).T @ (np.abs(exact) @ np.abs(V))
    assert (np.abs(product_of(X, V) - exact.T @ (exact @ V)) <= 8 * eps * size).all()


@pytest.mark.parametrize("unit", [1e-25, 1e25])
def test_squares_of_small_and_large_units_are_kept_in_single_precision(unit: float) -> None:
    y = (unit * np.random.default_rng(0).normal(size=1000)).astype(np.float32)
    _, squares = LinearModel.gradient(np.ones((1000, 2), np.float32), y, np.zeros(2))
    assert squares == pytest.approx((y.astype(float) ** 2).sum(), rel=1e-9)


@pytest.mark.parametrize("width", [1, 8, 50, 333])
def test_gradient_of_a_slice_depends_on_its_rows_only(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they lie: at any place in the shard and at any address."""
    monkeypatch.setattr("shoal.models.CHUNK_BYTES", 32 * 1024)
    rng = np.random.default_rng(width)
    X, y = rng.normal(size=(3001, width)).astype(np.float32), rng.normal(size=3001).astype(np.float32)
    w = rng.normal(size=width)
    expected = LinearModel.gradient(X[700:2101].copy(), y[700:2101].copy(), w)
    for offset in (0, 1, 2, 3, 5):
        room = np.empty(X.size + 16, np.float32)[offset : offset + X.size].reshape(X.shape)
        room[...] = X
        gradient, squares = LinearModel.gradient(room[700:2101], y[700:2101], w)
        assert (gradient.tobytes(), squares) == (expected[0].tobytes(), expected[1])
