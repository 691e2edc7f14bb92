"""Damaged checkpoints: refused, said, and never taken for whole."""

from __future__ import annotations

import os
import shutil
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import StateError
from shoal.training.checkpoints import Damaged, decode, encode
from support.gradient.checkpoints import PACKED, PLAIN, Store, files, snapshot


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


def of_a_later_format(path: Path) -> bytes:
    """A checkpoint as a later Shoal would write it: what follows the number is its own affair."""
    content = bytearray(encode(snapshot(20)))
    content[7:8] = b"2"
    content[8:40] = bytes(32)
    path.write_bytes(content)
    return bytes(content)


def test_a_later_format_is_named_and_never_removed(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(saved, folder)
    content = of_a_later_format(folder / PLAIN)
    store = Store(folder)
    assert store.steps() == [10]
    with pytest.raises(
        StateError, match=r"is of format 2, where this Shoal reads format 1.*with the Shoal that wrote it"
    ):
        store.newest()
    store.forget_after(10)
    assert (folder / PLAIN).read_bytes() == content


def test_what_a_later_format_left_behind_outlives_all_that_is_thinned_out(tmp_path: Path) -> None:
    content = of_a_later_format(tmp_path / "step-000000000001.ckpt")
    store = Store(tmp_path, keep=1)
    for step in range(2, 40):
        store.save(snapshot(step))
    store.forget_after(0)
    assert (tmp_path / "step-000000000001.ckpt").read_bytes() == content
