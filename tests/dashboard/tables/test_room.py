"""Room for uploads that come at the same time: each by itself would fit, all of them together do not."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from shoal.dashboard.tables.room import Room

FREE, SPARE = 1_000, 100  # bytes


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With so much free, less what was written to it."""
    usage = shutil.disk_usage(tmp_path)

    def left(_: Path) -> object:
        return usage._replace(free=FREE - sum(path.stat().st_size for path in tmp_path.iterdir()))

    monkeypatch.setattr(shutil, "disk_usage", left)
    return tmp_path


def test_what_is_kept_for_one_is_not_promised_to_another(disk: Path) -> None:
    room = Room()
    assert room.keep("first", 600, disk, SPARE)
    assert not room.keep("second", 301, disk, SPARE)
    assert room.keep("third", 300, disk, SPARE)
    assert room.left(disk, SPARE) == 0
    (disk / "part").write_bytes(b"x" * 600)
    assert room.take("first", 600, disk, SPARE)  # as it was promised
    room.give_back("third")
    assert room.left(disk, SPARE) == 300


def test_uploads_that_do_not_say_how_large_they_are_stop_at_the_same_mark(disk: Path) -> None:
    """Pieces of eight at a time; whatever their order, what is written never touches what is spared."""
    room, written = Room(), threading.Lock()

    def send(name: str) -> None:
        for number in range(50):
            with written:  # a piece is written once it may be
                if not room.take(name, 10, disk, SPARE):
                    return
                (disk / f"{name}-{number}").write_bytes(b"x" * 10)

    threads = [threading.Thread(target=send, args=(f"upload{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(path.stat().st_size for path in disk.iterdir()) == FREE - SPARE


def test_a_promise_is_kept_beside_others_that_take_what_is_left(disk: Path) -> None:
    room = Room()
    assert room.keep("said", 500, disk, SPARE)
    taken = 0
    while room.take("unsaid", 10, disk, SPARE):
        (disk / f"unsaid-{taken}").write_bytes(b"x" * 10)
        taken += 10
    assert taken == FREE - SPARE - 500
    assert room.take("said", 500, disk, SPARE)
