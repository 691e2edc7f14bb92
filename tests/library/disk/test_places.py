"""Where the state of runs is, of files whose place is known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal.library.disk.places import places, resident

MB = 1 << 20


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    return tmp_path


def written(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path


def test_state_is_told_by_where_it_lies(home: Path) -> None:
    written(home / "cache" / "shards-1" / "shard-000000.bin", 3 * MB)
    written(home / "cache" / "some-table" / "block.bin", MB)  # not of a run
    run = home / "runs" / "20260101-000000-0000001"
    written(run / "checkpoints" / "step-000000000002.ckpt", 2 * MB)
    written(run / "checkpoints" / "archive" / "step-000000000001.ckpt", MB)
    written(run / "metrics.sqlite", 4096)
    written(home / "archive" / "old.tar.xz", 5000)
    found = {one.name: one for one in places()}
    assert {name: (one.disk, one.archive) for name, one in found.items()} == {
        "Batches": (3 * MB, 0), "Checkpoints": (2 * MB, MB), "Records": (4096, 0), "Whole runs": (0, 5000),
    }  # fmt: skip
    for one in found.values():
        assert one.memory is None or 0 <= one.memory <= one.disk + one.archive


def test_an_empty_home_and_a_file_that_is_gone_have_nothing(home: Path) -> None:
    assert all((one.memory or 0, one.disk, one.archive) == (0, 0, 0) for one in places())
    assert resident(home / "gone") in (0, None)
    assert resident(written(home / "empty", 0)) in (0, None)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="nothing can be put out of memory here")
def test_what_was_put_out_of_memory_is_not_told_as_in_it(home: Path) -> None:
    path = written(home / "file", 2 * MB + 5)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    out = resident(path)
    path.read_bytes()
    if out == 0 and resident(path) is not None:  # file systems that lie in memory keep all
        assert resident(path) == 2 * MB + 5
