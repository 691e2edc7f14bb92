"""Checkpoints: whole or not there, through kills, full disks, damage and age. What a run keeps in them is not tested here."""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from shoal.errors import ConfigError, ResourceError, StateError
from shoal.training import checkpoints
from shoal.training.checkpoints import Checkpoints, Damaged, Snapshot, decode, encode, spread
from shoal.utils import write_at
from support.tables import mounted

ROOT = Path(__file__).parents[2]
PLAIN, PACKED = "step-000000000020.ckpt", "archive/step-000000000010.ckpt"


def snapshot(step: int, size: int = 50) -> Snapshot:
    """Content that follows from the step, so that a mix of two is seen."""
    values = np.random.default_rng(step).normal(size=size)
    return Snapshot(step, {"config": {"alpha": 0.1}, "cursor": [step, 7]}, {"w": values, "steps": np.arange(step % 5)})


def same(a: Snapshot | None, b: Snapshot) -> bool:
    return (
        a is not None
        and (a.step, a.meta) == (b.step, b.meta)
        and list(a.arrays) == list(b.arrays)
        and all(identical(a.arrays[name], b.arrays[name]) for name in b.arrays)
    )


def identical(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


class Store(Checkpoints):
    """With the warnings at hand."""

    def __init__(self, directory: Path, keep: int = 5) -> None:
        self.said: list[str] = []
        super().__init__(directory, keep, self.said.append)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


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


# ------------------------------------------------------------------ damage


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Step 20 plain, step 10 packed in the archive."""
    folder = tmp_path_factory.mktemp("saved")
    store = Store(folder, keep=1)
    for step in (10, 20):
        store.save(Snapshot(step, {"cursor": step}, {"w": np.repeat(np.arange(8.0), 8)}))
    header = json.loads((folder / PACKED).read_bytes()[16:].split(b"\x78\x01")[0])
    assert header["packed"] == "zlib"
    return folder


def test_every_single_bit_matters(saved: Path) -> None:
    for name in (PLAIN, PACKED):
        whole = (saved / name).read_bytes()
        for bit in range(8 * len(whole)):
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            with pytest.raises(Damaged):
                decode(damaged)


def test_every_length_but_the_right_one_is_refused(saved: Path) -> None:
    for name in (PLAIN, PACKED):
        whole = (saved / name).read_bytes()
        for length in range(len(whole)):
            with pytest.raises(Damaged):
                decode(whole[:length])
        for more in (b"\0", b"x", whole):
            with pytest.raises(Damaged):
                decode(whole + more)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_bytes_whatever_do_anything_but_be_refused(data: st.DataObject) -> None:
    content = data.draw(st.binary(max_size=200))
    start = data.draw(st.sampled_from([b"", b"SHOALCK", b"SHOALCK1", b"SHOALCK1" + (40).to_bytes(8, "little")]))
    with pytest.raises(Damaged):
        decode(start + content)


FORGED = [
    b"{}", b"[]", b"7", b"\xff", b'{"step":1}', b'{"step":"x","meta":{},"packed":"","arrays":[]}',
    b'{"step":1,"meta":5,"packed":"","arrays":[]}', b'{"step":1,"meta":{},"packed":"","arrays":[["w","<f8",[9]]]}',
    b'{"step":1,"meta":{},"packed":"","arrays":[["w","|O",[1]]]}', b'{"step":1,"meta":{},"packed":"","arrays":[["w","<f8",[-1]]]}',
    b'{"step":1,"meta":{},"packed":"","arrays":[["w","<f8"]]}', b'{"step":1,"meta":{},"packed":"zlib","arrays":[["w","<f8",[1]]]}',
    b'{"step":1,"meta":{},"packed":"","arrays":[["w","<f8",[1.0]]]}', b'{"step":1,"meta":{},"packed":"","arrays":[["w","<f8",["1"]]]}',
]  # fmt: skip


@pytest.mark.parametrize("header", FORGED)
def test_a_right_checksum_over_nonsense_is_still_refused(header: bytes) -> None:
    data = b"SHOALCK1" + len(header).to_bytes(8, "little") + header + b"12345678"
    with pytest.raises(Damaged):
        decode(data + blake2b(data, digest_size=32).digest())


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)


DAMAGE = {
    "torn": lambda path: os.truncate(path, path.stat().st_size * 2 // 3),
    "one byte short": lambda path: os.truncate(path, path.stat().st_size - 1),
    "empty": lambda path: os.truncate(path, 0),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "magic flipped": lambda path: flip(path, 0),
    "version flipped": lambda path: flip(path, 7),
    "length flipped": lambda path: flip(path, 9),
    "header flipped": lambda path: flip(path, 30),
    "payload flipped": lambda path: flip(path, -50),
    "checksum flipped": lambda path: flip(path, -1),
    "foreign": lambda path: path.write_text("a,b\n1,2\n"),
    "another step": lambda path: path.write_bytes(encode(snapshot(19))),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_newest_is_skipped_and_said(damage: str, saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(saved, folder)
    DAMAGE[damage](folder / PLAIN)  # type: ignore[no-untyped-call]
    store = Store(folder)
    assert store.steps() == [10]
    newest = store.newest()
    assert newest is not None
    assert newest.step == newest.meta["cursor"] == 10
    assert len(store.said) == 1
    assert f"'{folder / PLAIN}'" in store.said[0]
    assert "Step 10 is used instead" in store.said[0]
    with pytest.raises(StateError, match=r"step 20 cannot be used.*Choose one of the others: 10\."):
        store.load(20)


@pytest.mark.parametrize("damage", DAMAGE)
def test_all_damaged_is_said_and_is_none(damage: str, saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(saved, folder)
    for name in (PLAIN, PACKED):
        DAMAGE[damage](folder / name)  # type: ignore[no-untyped-call]
    store = Store(folder)
    assert store.newest() is None
    assert len(store.said) == 2
    assert all("There is no other to use instead." in text for text in store.said)
    assert store.steps() == []


def test_damage_done_after_a_file_was_found_whole_is_seen(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(saved, folder)
    store = Store(folder)
    assert store.steps() == [10, 20]
    flip(folder / PLAIN, 40)
    assert store.steps() == [10]


def test_a_damaged_one_that_grows_old_is_removed_and_said(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=1)
    store.save(snapshot(10))
    flip(tmp_path / "step-000000000010.ckpt", 40)
    store.save(snapshot(20))
    assert files(tmp_path) == [PLAIN]
    assert len(store.said) == 1
    assert "step-000000000010.ckpt" in store.said[0]


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    others = ["notes.txt", "step-1.ckpt", "step-000000000020.ckpt.bak", ".step-x.tmp", "archive/readme"]
    (tmp_path / "archive").mkdir()
    for name in others:
        (tmp_path / name).write_text("mine")
    store = Store(tmp_path, keep=1)
    for step in range(0, 50, 10):
        store.save(snapshot(step))
    store.forget_after(-1)
    assert files(tmp_path) == sorted(others)
    assert store.said == []


# ------------------------------------------------------------------ kills

SAVING = """
    import sys
    from pathlib import Path
    import numpy as np
    from shoal.training.checkpoints import Checkpoints, Snapshot
    store = Checkpoints(Path({folder!r}), keep=2)
    last = store.newest()
    step = last.step if last else 0
    print("ready", flush=True)
    while True:
        step += 1
        values = np.random.default_rng(step).normal(size=(step % 7) * 4_000 + 50)
        values[: len(values) // 2] = 0
        store.save(Snapshot(step, {{"cursor": step}}, {{"w": values}}))
        print(step, flush=True)
"""


def expected(step: int) -> npt.NDArray[np.float64]:
    values = np.random.default_rng(step).normal(size=(step % 7) * 4_000 + 50)
    values[: len(values) // 2] = 0
    return values


def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    folder, chance, acknowledged = tmp_path / "run", random.Random(7), 0
    code = textwrap.dedent(SAVING).format(folder=str(folder))
    for _ in range(20):
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            first = [child.stdout.readline() for _ in range(chance.randrange(3))]
            time.sleep(chance.uniform(0, 0.02))
            child.send_signal(signal.SIGKILL)
            out, err = child.communicate(timeout=60)
        assert err == ""
        assert child.returncode == -signal.SIGKILL
        lines = [*first, *out.split("\n")[:-1]]  # a last line without its end was not said in full
        acknowledged = max(acknowledged, *map(int, lines)) if lines else acknowledged
        store = Store(folder, keep=2)
        newest = store.newest()
        assert not any(name.endswith(".tmp") for name in files(folder) if folder.exists())
        assert (newest.step if newest else 0) in (acknowledged, acknowledged + 1)
        if newest:
            assert newest.meta == {"cursor": newest.step}
            assert identical(newest.arrays["w"], expected(newest.step))
            acknowledged = newest.step  # the next one goes on from there
        for step in store.steps():
            assert identical(store.load(step).arrays["w"], expected(step))
        assert store.said == []
    assert acknowledged > 10


SUICIDE = """
    import os, signal, sys
    from pathlib import Path
    from shoal.training import checkpoints
    import numpy as np
    def numbered(step):
        return checkpoints.Snapshot(step, {{}}, {{"w": np.full(50, float(step))}})
    store = checkpoints.Checkpoints(Path({folder!r}), keep=1)
    store.save(numbered(1))
    place, calls = {module}, 0
    real = place.{call}
    def deadly(*arguments):
        global calls
        calls += 1
        if calls == {number}:
            if {half!r}:
                os.write(arguments[0], bytes(arguments[1])[:100])
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)
    place.{call} = deadly
    store.save(numbered(2))
"""
# The second save writes step 2 and then copies step 1 to the archive, for which it first makes that folder.
MOMENTS = [
    ("checkpoints", "write_at", 1, "before step 2"), ("checkpoints", "write_at", 1, "half of step 2"),
    ("os", "fsync", 1, "before step 2"), ("os", "replace", 1, "before step 2"), ("os", "fsync", 2, "after step 2"),
    ("checkpoints", "sync_folder", 2, "after step 2"), ("checkpoints", "write_at", 2, "half of the copy"),
    ("os", "fsync", 4, "before the copy"), ("os", "replace", 2, "before the copy"), ("os", "fsync", 5, "after the copy"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "call", "number", "moment"), MOMENTS)
def test_a_kill_at_each_step_of_a_save(module: str, call: str, number: int, moment: str, tmp_path: Path) -> None:
    half, unfinished, saved = "half" in moment, "after" not in moment, "copy" in moment or "after" in moment
    code = textwrap.dedent(SUICIDE).format(folder=str(tmp_path), module=module, call=call, number=number, half=half)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    assert any(name.endswith(".tmp") for name in files(tmp_path)) == unfinished
    assert ("archive/step-000000000001.ckpt" in files(tmp_path)) == (moment == "after the copy")
    store = Store(tmp_path, keep=1)
    assert not any(name.endswith(".tmp") for name in files(tmp_path))
    assert store.steps() == ([1, 2] if saved else [1])
    newest = store.newest()
    assert newest is not None
    assert newest.arrays["w"].tolist() == [2.0 if saved else 1.0] * 50
    store.save(Snapshot(3))
    assert len(files(tmp_path)) == len(store.steps()) == (3 if saved else 2)
    assert store.said == []


def test_what_is_being_written_by_a_live_process_is_not_taken_for_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, seen = Store(tmp_path), []
    store.save(snapshot(1))

    def meanwhile(descriptor: int, data: memoryview, offset: int) -> None:
        write_at(descriptor, data, offset)
        code = (
            f"import sys; from shoal.training.checkpoints import *; print(Checkpoints(Path({str(tmp_path)!r})).steps())"
        )
        seen.append(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout)

    monkeypatch.setattr(checkpoints, "write_at", meanwhile)
    store.save(snapshot(2))
    assert seen == ["[1]\n"]
    assert Store(tmp_path).steps() == [1, 2]


def test_content_then_name_then_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill cannot show, but a loss of power would: the order in which things reach the disk."""
    store, calls = Store(tmp_path), []
    store.save(snapshot(1))
    fsync, replace = os.fsync, os.replace

    def spy_sync(descriptor: int) -> None:
        calls.append("sync folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "sync file")
        fsync(descriptor)

    def spy_replace(a: Any, b: Any) -> None:
        assert Path(a).stat().st_size == len(encode(snapshot(2)))
        calls.append("rename")
        replace(a, b)

    monkeypatch.setattr(os, "fsync", spy_sync)
    monkeypatch.setattr(os, "replace", spy_replace)
    store.save(snapshot(2))
    assert calls == ["sync file", "rename", "sync folder"]


@pytest.mark.parametrize("call", ["write_at", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_failure_at_any_call_leaves_the_last_good_one(
    call: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    store.save(snapshot(1))
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}

    def fail(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints if call == "write_at" else os, call, fail)
        with pytest.raises(ResourceError, match="The one before is untouched") as raised:
            store.save(snapshot(2))
    assert ("disk is full" in str(raised.value)) == (code in (errno.ENOSPC, errno.EDQUOT))
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == before
    assert same(store.newest(), snapshot(1))
    store.save(snapshot(2))
    assert store.steps() == [1, 2]


def test_an_interrupt_in_the_middle_leaves_no_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.save(snapshot(1))

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.save(snapshot(2))
    assert files(tmp_path) == ["step-000000000001.ckpt"]


# ------------------------------------------------------------------ full disks

LIMITED = """
    import resource, sys
    from pathlib import Path
    import numpy as np
    from shoal.training.checkpoints import Checkpoints, Snapshot
    from shoal.errors import ResourceError
    store = Checkpoints(Path({folder!r}), keep=1)
    store.save(Snapshot(1, {{}}, {{"w": np.ones(100)}}))
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
    try:
        store.save(Snapshot(2, {{}}, {{"w": np.ones(10_000)}}))
    except ResourceError as error:
        print(error)
    print(store.newest().step)
    store.save(Snapshot(3, {{}}, {{"w": np.ones(100)}}))
"""


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    code = textwrap.dedent(LIMITED).format(folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    said, newest = done.stdout.splitlines()
    assert said.startswith("The disk is full: there is no room for the checkpoint")
    assert newest == "1"
    assert files(tmp_path) == ["archive/step-000000000001.ckpt", "step-000000000003.ckpt"]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "tiny", megabytes=1) as folder:
        yield folder


def test_file_system_that_runs_full(tiny_disk: Path) -> None:
    folder = tiny_disk / "run"
    store, good = Store(folder, keep=3), 0

    def fill() -> None:
        nonlocal good
        for step in range(1, 20):
            store.save(snapshot(step, size=30_000))  # 240 kB each, and they do not pack
            good = step

    with pytest.raises(ResourceError, match="disk is full"):
        fill()
    assert good >= 3
    assert not any(name.endswith(".tmp") for name in files(folder))
    assert same(store.newest(), snapshot(good, size=30_000))
    assert same(Store(folder).newest(), snapshot(good, size=30_000))
    again = Store(folder, keep=3)
    again.save(snapshot(50, size=1000))  # what fits is saved all the same
    assert again.steps()[-1] == 50


def test_no_room_for_the_archive_leaves_the_old_one_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, keep=1)
    store.save(snapshot(10))
    written = checkpoints._write

    def refuse(path: Path, data: bytearray) -> None:
        if path.parent.name == "archive":
            raise OSError(errno.ENOSPC, "No space left on device")
        written(path, data)

    monkeypatch.setattr(checkpoints, "_write", refuse)
    store.save(snapshot(20))
    assert store.steps() == [10, 20]
    assert len(store.said) == 1
    assert "step-000000000010.ckpt" in store.said[0]
    monkeypatch.undo()
    store.save(snapshot(30))
    assert files(tmp_path) == [PACKED, "archive/step-000000000020.ckpt", "step-000000000030.ckpt"]


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="could not be written"):
        Store(tmp_path / "file" / "run").save(snapshot(1))
