"""Checkpoints through kills at any moment, failing calls and full disks."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from shoal.errors import ResourceError
from shoal.training import checkpoint_files, checkpoints
from shoal.training.checkpoints import Snapshot, encode
from shoal.utils import write_at
from support.gradient.checkpoints import PACKED, Store, files, identical, same, snapshot
from support.tables import mounted

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
            assert child.stderr is not None
            assert child.stdout.readline() == "ready\n"
            first = [child.stdout.readline() for _ in range(chance.randrange(3))]
            time.sleep(chance.uniform(0, 0.02))
            child.send_signal(signal.SIGKILL)
            out, err = child.stdout.read(), child.stderr.read()  # `communicate` would lose what was read ahead
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
    from shoal.training import checkpoint_files, checkpoints
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
    ("checkpoint_files", "write_at", 1, "before step 2"), ("checkpoint_files", "write_at", 1, "half of step 2"),
    ("os", "fsync", 1, "before step 2"), ("os", "replace", 1, "before step 2"), ("os", "fsync", 2, "after step 2"),
    ("checkpoint_files", "sync_folder", 2, "after step 2"), ("checkpoint_files", "write_at", 2, "half of the copy"),
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
        code = f"import sys; from pathlib import Path; from shoal.training.checkpoints import *; print(Checkpoints(Path({str(tmp_path)!r})).steps())"
        seen.append(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout)

    monkeypatch.setattr(checkpoint_files, "write_at", meanwhile)
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
        patch.setattr(checkpoint_files if call == "write_at" else os, call, fail)
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
    written = checkpoints.write_whole

    def refuse(path: Path, data: bytearray) -> None:
        if path.parent.name == "archive":
            raise OSError(errno.ENOSPC, "No space left on device")
        written(path, data)

    monkeypatch.setattr(checkpoints, "write_whole", refuse)
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
