"""Checkpoint files: what goes in comes out, and the older become sparse. What a run keeps in them is not tested here."""

from __future__ import annotations

import itertools
import json
import math
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from shoal.errors import ConfigError, StateError
from shoal.training.checkpoints import Checkpoints, Snapshot, decode, encode, spread
from support.gradient.checkpoints import PACKED, PLAIN, Store, files, identical, same, snapshot

# ------------------------------------------------------------------ what goes in comes out


KINDS = ["?", "i1", "u1", "i2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", ">f8", ">i4", ">u2"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
any_array = st.sampled_from(KINDS).flatmap(
    lambda kind: arrays_of.arrays(
        np.dtype(kind), arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    )
)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**60),
    st.dictionaries(st.text(), json_values, max_size=3),
    st.dictionaries(st.text(), any_array, max_size=3),
    st.booleans(),
)
def test_what_goes_in_comes_out(
    step: int, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], pack: bool
) -> None:
    back = decode(encode(Snapshot(step, meta, arrays), pack))
    assert (back.step, back.meta, list(back.arrays)) == (step, meta, list(arrays))
    for name, array in arrays.items():
        assert identical(back.arrays[name], array.astype(array.dtype.newbyteorder("=")))
        assert back.arrays[name].flags.writeable


def test_the_file_is_what_the_documentation_says(tmp_path: Path) -> None:
    """Read with nothing but the standard library, by the description at the top of the module."""
    data = (
        Store(tmp_path)
        .save(Snapshot(3, {"seed": 1}, {"w": np.array([1.5, -2.0]), "k": np.array([[7]], "i4")}))
        .read_bytes()
    )
    assert data[:8] == b"SHOALCK1"
    end = 16 + int.from_bytes(data[8:16], "little")
    assert json.loads(data[16:end]) == {
        "step": 3, "meta": {"seed": 1}, "packed": "", "arrays": [["w", "<f8", [2]], ["k", "<i4", [1, 1]]],
    }  # fmt: skip
    assert data[end:-32] == bytes.fromhex("000000000000f83f 00000000000000c0 07000000")
    assert data[-32:] == blake2b(data[:-32], digest_size=32).digest()


def test_arrays_of_any_order_and_origin(tmp_path: Path) -> None:
    base = np.arange(24.0).reshape(4, 6)
    arrays = {
        "turned": base.T,
        "strided": base[::2, 1::3],
        "fortran": np.asfortranarray(base),
        "none": base[:0],
        "one": np.float64(3.5),
    }
    Store(tmp_path).save(Snapshot(1, {}, arrays))  # type: ignore[arg-type]
    back = Store(tmp_path).load(1).arrays
    for name, array in arrays.items():
        assert identical(back[name], np.array(array, order="C")), name


def test_special_numbers_keep_their_bits(tmp_path: Path) -> None:
    odd = np.array([0x7FF8000000000001, 0xFFF0000000000000, 0x8000000000000000, 1], np.uint64).view(np.float64)
    Store(tmp_path).save(Snapshot(1, {"best": math.inf, "last": 0.1 + 0.2}, {"odd": odd}))
    back = Store(tmp_path).newest()
    assert back is not None
    assert identical(back.arrays["odd"], odd)
    assert back.meta == {"best": math.inf, "last": 0.1 + 0.2}


@pytest.mark.parametrize(
    "array", [np.array([None]), np.array(["a"]), np.array([b"a"]), np.array(["2020"], "M8[s]"), np.zeros(1, "i4,f8")]
)
def test_what_is_not_numbers_is_refused_before_anything_is_written(array: npt.NDArray[Any], tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'odd'"):
        Store(tmp_path).save(Snapshot(1, {}, {"odd": array}))
    with pytest.raises(TypeError):
        Store(tmp_path).save(Snapshot(1, {"object": object()}))
    assert files(tmp_path) == []


def test_saved_and_loaded_snapshots_are_copies(tmp_path: Path) -> None:
    w, meta = np.ones(3), {"a": [1]}
    store = Store(tmp_path)
    store.save(Snapshot(1, meta, {"w": w}))
    w[:], meta["a"] = 9, []
    for _ in range(2):
        newest = store.newest()
        assert newest is not None
        assert newest.arrays["w"].tolist() == [1, 1, 1]
        assert newest.meta == {"a": [1]}
        newest.arrays["w"][:] = 5


def test_memory_first_then_disk_then_archive(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=1)
    for step in (10, 20):
        store.save(snapshot(step))
    assert files(tmp_path) == [PACKED, PLAIN]
    (tmp_path / PLAIN).unlink()
    assert same(store.newest(), snapshot(20))
    assert same(store.load(20), snapshot(20))
    assert same(Store(tmp_path).newest(), snapshot(10))
    assert same(Store(tmp_path).load(10), snapshot(10))


def test_where_memory_is_short_the_newest_is_on_disk_alone(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=1)
    for step in (10, 20):
        store.save(snapshot(step))
    store.hold(False)
    assert same(store.newest(), snapshot(20))
    (tmp_path / PLAIN).unlink()
    assert same(store.newest(), snapshot(10)), "it was still in memory"
    store.save(snapshot(20))
    (tmp_path / PLAIN).unlink()
    assert same(store.newest(), snapshot(10))
    store.hold(True)
    store.save(snapshot(20))
    (tmp_path / PLAIN).unlink()
    assert same(store.newest(), snapshot(20))


def test_nothing_saved_yet(tmp_path: Path) -> None:
    store = Store(tmp_path / "not" / "there")
    assert (store.newest(), store.steps(), store.said) == (None, [], [])
    assert not (tmp_path / "not").exists()
    with pytest.raises(StateError, match=r"step 5 is not there.*none"):
        store.load(5)


@pytest.mark.parametrize("keep", [0, -1])
def test_keep_must_be_at_least_one(keep: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="keep_checkpoints"):
        Checkpoints(tmp_path, keep)


# ------------------------------------------------------------------ age


@pytest.mark.parametrize(("keep", "gap"), [(1, 1), (5, 1000), (2, 7)])
def test_the_newest_stay_plain_and_the_older_become_sparse(keep: int, gap: int, tmp_path: Path) -> None:
    store, count = Store(tmp_path, keep), 60
    for i in range(count):
        store.save(snapshot(i * gap, size=3))
    steps, newest = store.steps(), (count - 1) * gap
    assert len(files(tmp_path)) == len(steps)
    assert len(list(tmp_path.glob("*.ckpt"))) == keep
    assert steps[-keep:] == [newest - i * gap for i in reversed(range(keep))]
    assert steps[0] == 0
    assert len(steps) - keep <= math.log2(newest) + 1
    ages = [newest - step for step in reversed(steps[:-keep])]
    assert all(older <= 4 * younger for younger, older in itertools.pairwise(ages))  # no hole in the past
    for step in steps:
        assert same(Store(tmp_path).load(step), snapshot(step, size=3))
    assert store.said == []


def test_many_saves_leave_few_and_no_holes() -> None:
    kept: set[int] = set()
    for newest in range(1, 20_001):
        kept = spread({*kept, newest - 1}, newest)
    assert len(kept) <= math.log2(20_000) + 1
    ages = sorted(20_000 - step for step in kept)
    assert ages[-1] == 20_000
    assert all(older <= 4 * younger for younger, older in itertools.pairwise(ages))


def test_archive_is_packed_only_where_that_helps(tmp_path: Path) -> None:
    sparse, dense = np.zeros(100_000), np.random.default_rng(0).normal(size=100_000)
    for name, values in {"sparse": sparse, "dense": dense}.items():
        store = Store(tmp_path / name, keep=1)
        store.save(Snapshot(1, {}, {"w": values}))
        store.save(Snapshot(2))
        size = (tmp_path / name / "archive" / "step-000000000001.ckpt").stat().st_size
        assert size < 5_000 if name == "sparse" else 800_000 <= size < 801_000
        assert identical(Store(tmp_path / name).load(1).arrays["w"], values)


def test_going_on_from_an_earlier_step_forgets_the_later_ones(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=2)
    for step in (1, 2, 3, 4, 5, 6):
        store.save(snapshot(step))
    before = store.steps()
    store.forget_after(4)
    kept = [step for step in before if step <= 4]
    assert store.steps() == kept
    assert same(store.newest(), snapshot(kept[-1]))
    assert len(files(tmp_path)) == len(kept)
    again = Store(tmp_path, keep=2)
    again.save(snapshot(9))
    again.save(snapshot(7))  # without having been told
    assert max(again.steps()) == 7
    assert same(again.newest(), snapshot(7))
    assert same(Store(tmp_path).newest(), snapshot(7))


def test_a_step_saved_again_replaces_the_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(snapshot(5))
    store.save(Snapshot(5, {"second": True}))
    assert store.steps() == [5]
    assert same(Store(tmp_path).newest(), Snapshot(5, {"second": True}))
