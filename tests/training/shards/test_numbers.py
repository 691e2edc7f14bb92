"""What is computed from shards: batches, spreads, the largest eigenvalue, gradients."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from shoal import data_pipeline
from shoal.data.dataset import Dataset
from shoal.data.splits import Split
from shoal.data_pipeline import Shards
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.files.checksums import checksum
from shoal.fitting.wide import spreads
from shoal.models import LinearModel
from shoal.passes.shards import product_of
from shoal.training.objectives.shards import top_eigenvalue
from support.gradient.shards import ENCODING, ROWS, Floats, by_hand, coordinator, frame, rows_and_units

# --- batches --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 7, 100, 5000])
def test_every_epoch_has_each_row_once(batch_size: int) -> None:
    shards = Shards("nowhere", (100, 0, 331, 7), 3, "float32", 0, 1.0, (), 0)
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
    shards = Shards("nowhere", (1000, 1000), 3, "float32", 0, 1.0, (), 0)

    def batches(seed: int, epoch: int, shard: int) -> list[slice | None]:
        return [shards.slice(seed, epoch, shard, step, 10) for step in range(100)]

    first = batches(1, 2, 0)
    others = [batches(1, 2, 1), batches(1, 3, 0), batches(2, 2, 0)]
    assert all(first != other for other in others)
    data_pipeline._order.cache_clear()
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
    files = [part.tobytes() + bytes(4 * len(part)) for part in parts]
    for shard, content in enumerate(files):
        (folder / f"shard-{shard:06d}.bin").write_bytes(content)
    checksums = tuple(map(checksum, files))
    return Shards(str(folder), tuple(map(len, parts)), X.shape[1], "float32", 0, 1.0, checksums, 0)


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
