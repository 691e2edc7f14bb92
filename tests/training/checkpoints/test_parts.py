"""Checkpoints whose parameters were written by several shards: whole or not used, thinned and packed like all others."""

from __future__ import annotations

import itertools
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.errors import DiskFull, ResourceError
from shoal.parameters.stepping import StepMemory
from shoal.training.checkpoint_files import PART, part_name, parts_in
from shoal.training.checkpoints import Checkpoints, Snapshot
from shoal.training.part_files import PARTS, WIDTH, SavePart
from shoal.worker import SharedArray, Worker

SIZE = 100
SHARES = ([[0, 10], [40, 100]], [[10, 40]])  # of two shards


class Shards:
    """What shards have and write, without the processes."""

    def __init__(self) -> None:
        self._worker, self._tokens = Worker(), itertools.count()
        self.weights, self.mean = np.zeros((8, SIZE)), np.zeros((2, SIZE))
        names = [SharedArray(key, array.shape, array.dtype) for key, array in enumerate((self.weights, self.mean))]
        for name, array in zip(names, (self.weights, self.mean), strict=True):
            self._worker.hold(name, array)
        self._memory = StepMemory(names[0], names[0], names[0], (("mean", names[1]),))

    def write(self, folder: Path, step: int, shares: Any = SHARES) -> dict[str, Any]:
        token, parts = f"{next(self._tokens):08x}", []
        self.weights[step % 8], self.mean[1] = np.arange(SIZE) + step, np.arange(SIZE) * step
        for shard, stretches in enumerate(shares):
            name = part_name(step, shard, token)
            asked = SavePart(self._memory, np.array(stretches), step % 8, 1, str(folder / name), step)
            parts.append([name, self._worker.handle(asked)])
        return {PARTS: parts, WIDTH: SIZE}

    def save(self, store: Checkpoints, step: int) -> Path:
        meta = {**self.write(store.directory, step), "seconds": step}
        return store.save(Snapshot(step, meta, {"good": np.ones(3), "rule.steps": np.array([step])}))


def is_whole(found: Snapshot, step: int) -> bool:
    assert PARTS not in found.meta
    assert found.meta["seconds"] == step == found.arrays["rule.steps"][0]
    same = [np.array_equal(found.arrays["weights"], np.arange(SIZE) + step),
            np.array_equal(found.arrays["rule.mean"], np.arange(SIZE) * step)]  # fmt: skip
    return all(same) and found.arrays["good"].tolist() == [1, 1, 1]


def test_parts_become_one_snapshot_and_go_with_it(tmp_path: Path) -> None:
    shards, store = Shards(), Checkpoints(tmp_path, keep=2)
    for step in range(1, 12):
        shards.save(store, step)
        newest = store.newest()
        assert newest is not None
        assert is_whole(newest, step)
        there = {step for step, _ in parts_in(tmp_path)}
        assert there == {int(file.stem.removeprefix("step-")) for file in tmp_path.glob("*.ckpt")}, "no other parts"
    assert not parts_in(store.archive), "older ones are one file each"
    again = Checkpoints(tmp_path)
    assert again.steps() == store.steps()
    assert {10, 11} < set(again.steps())
    assert all(is_whole(again.load(step), step) for step in again.steps())
    store.forget_after(5)
    assert max(store.steps()) <= 5
    shards.save(store, 6)
    assert {step for step, _ in parts_in(tmp_path)} == {6}


def test_a_save_that_was_cut_off_harms_none_before(tmp_path: Path) -> None:
    """Between the parts and the checkpoint that names them; of a later step, and of the same one again."""
    shards, store = Shards(), Checkpoints(tmp_path)
    shards.save(store, 7)
    shards.write(tmp_path, 8)
    shards.write(tmp_path, 7, [[[0, 50]], [[50, 90]], [[90, 100]]])
    assert len(parts_in(tmp_path)) == 7
    newest = Checkpoints(tmp_path).newest()
    assert newest is not None
    assert is_whole(newest, 7)
    shards.save(store, 9)
    assert sorted(step for step, _ in parts_in(tmp_path)) == [7, 7, 7, 7, 7, 9, 9]
    shards.save(store, 7)
    assert sorted(step for step, _ in parts_in(tmp_path)) == [7, 7]


@pytest.mark.parametrize("harm", ["gone", "cut", "flipped", "of another step", "of another save"])
def test_a_part_that_is_harmed_is_told_and_the_one_before_is_used(harm: str, tmp_path: Path) -> None:
    said: list[str] = []
    shards = Shards()
    for step in (3, 4):
        shards.save(Checkpoints(tmp_path), step)
    part = sorted(path for step, path in parts_in(tmp_path) if step == 4)[1]
    whole = part.read_bytes()
    if harm == "gone":
        part.unlink()
    elif harm == "of another step":
        part.write_bytes(sorted(path for step, path in parts_in(tmp_path) if step == 3)[1].read_bytes())
    elif harm == "of another save":
        other = shards.write(tmp_path, 4, [[[10, 40]]])[PARTS][0][0]
        shards.weights[:] = 0.5
        part.write_bytes((tmp_path / other).read_bytes()[:-1] + b"?")
    else:
        part.write_bytes(whole[:-50] if harm == "cut" else whole[:200] + bytes([whole[200] ^ 4]) + whole[201:])
    newest = Checkpoints(tmp_path, warn=said.append).newest()
    assert newest is not None
    assert is_whole(newest, 3)
    assert len(said) == 1
    assert part.name in said[0]
    assert said[0].endswith("Step 3 is used instead.")


def test_where_a_part_cannot_be_written_a_plain_sentence_travels(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="could not be written: File exists") as caught:
        Shards().write(tmp_path / "file", 1)
    for error in (caught.value, DiskFull("The disk is full.")):  # as it comes from a shard's process
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error)
        assert str(copy) == str(error)


def test_names_of_parts_are_told_from_others() -> None:
    assert PART.fullmatch(part_name(12, 3, os.urandom(4).hex()))
    assert not PART.fullmatch("step-000000000012.ckpt")
