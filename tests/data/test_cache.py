"""Data sets on disk: found again when the file is what it was, made anew when it or they are not."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.coordinator import Coordinator
from shoal.data.cache import Cache
from shoal.data.dataset import Dataset
from shoal.engines.inline import InlineEngine
from shoal.home import MANIFEST, UNFINISHED
from shoal.settings.values import config_from
from support.tables import column, opened, shoal, table, written

TEXT = "a,b,c\n" + "".join(f"{i},{i * i % 11},{'xyz'[i % 3]}\n" for i in range(50))


class Lazy(InlineEngine):
    """An engine that must not be asked."""

    def sweep(self, requests: Iterable[Any]) -> Iterator[Any]:
        raise AssertionError("the file is read again")


def from_cache(path: Path, home: Path, **knobs: Any) -> Dataset:
    with Lazy() as engine:
        return Coordinator(engine, home).open(config_from({"file": str(path), **knobs}))


def sets(home: Path) -> list[Path]:
    return sorted(p for p in (home / "cache").iterdir() if p.name != "index")


def test_second_opening_reads_nothing(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, TEXT)
    first = opened(path)
    monkeypatch.setattr("shoal.passes.ingest.inspect_text", None)  # not even a look at the first bytes
    second = from_cache(path, home)
    assert second.directory == first.directory
    assert table(second) == table(first)


def change_keeping_size_and_time(path: Path) -> None:
    before = path.stat()
    path.write_text(path.read_text().replace("\n7,", "\n8,"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def replace_by_rename(path: Path) -> None:
    before = path.stat()
    other = path.with_suffix(".new")
    other.write_text(path.read_text().replace("\n7,", "\n8,"))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("8,1,x\n")


@pytest.mark.parametrize("change", [change_keeping_size_and_time, replace_by_rename, append])
def test_changed_file_is_noticed(change: Callable[[Path], None], tmp_path: Path) -> None:
    path = written(tmp_path, TEXT)
    opened(path)
    time.sleep(0.02)  # the kernel's clock for change times ticks every few milliseconds
    change(path)
    assert column(opened(path), "a").count(8.0) == 2


def test_touched_file_is_read_again_and_is_the_same_data_set(tmp_path: Path, home: Path) -> None:
    path = written(tmp_path, TEXT)
    first = opened(path)
    made = (first.directory / MANIFEST).stat().st_mtime_ns
    os.utime(path)
    second = opened(path)
    assert second.directory == first.directory
    assert (second.directory / MANIFEST).stat().st_mtime_ns == made
    assert sets(home) == [first.directory]
    from_cache(path, home)


def test_same_rows_under_another_header_are_another_data_set(tmp_path: Path) -> None:
    """The hashed ranges begin below the header."""
    first = opened(written(tmp_path, TEXT, "one.csv"))
    second = opened(written(tmp_path, TEXT.replace("a,b,c", "d,e,f"), "two.csv"))
    assert list(first.columns) == ["a", "b", "c"]
    assert list(second.columns) == ["d", "e", "f"]


def test_equal_files_share_their_blocks_and_keep_their_names(tmp_path: Path, home: Path) -> None:
    one, two = written(tmp_path, TEXT, "one.csv"), written(tmp_path, TEXT, "two.csv")
    assert opened(one).directory == opened(two).directory
    assert len(sets(home)) == 1
    assert Path(shoal("inspect", two, "--json").json["file"]) == two
    one.unlink()
    assert from_cache(two, home).rows == 50


@pytest.mark.parametrize("knobs", [
    {"categorical": ["a"]}, {"header": False}, {"missing": ["7"]}, {"delimiter": ";"}, {"numeric": ["c"]},
])  # fmt: skip
def test_other_questions_have_other_answers(knobs: dict[str, Any], tmp_path: Path, home: Path) -> None:
    path = written(tmp_path, TEXT)
    first, second = opened(path), opened(path, **knobs)
    assert first.directory != second.directory
    assert from_cache(path, home).directory == first.directory
    assert from_cache(path, home, **knobs).directory == second.directory


def test_parquet_files_of_one_size_are_told_apart(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = []
    for name, values in (("one", [1.0, 2.0, 3.0]), ("two", [4.0, 5.0, 6.0])):
        paths.append(tmp_path / f"{name}.parquet")
        table_ = pa.table({"a": values, "t": ["x", "y", name]})
        pq.write_table(table_, paths[-1], compression="none", use_dictionary=False, write_statistics=False)
    assert paths[0].stat().st_size == paths[1].stat().st_size
    assert [column(opened(path), "a") for path in paths] == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert column(opened(paths[1]), "t") == ["x", "y", "two"]


def truncate_block(directory: Path) -> None:
    os.truncate(directory / "block-000000.bin", 100)


def lengthen_block(directory: Path) -> None:
    with (directory / "block-000000.bin").open("ab") as file:
        file.write(b"more")


DAMAGE: list[Callable[[Path], object]] = [
    truncate_block,
    lengthen_block,
    lambda d: (d / "block-000000.bin").unlink(),
    lambda d: (d / MANIFEST).unlink(),
    lambda d: (d / MANIFEST).write_text(""),
    lambda d: (d / MANIFEST).write_text((d / MANIFEST).read_text()[:-40]),
    lambda d: (d / MANIFEST).write_text("[]"),
    lambda d: (d / "levels.npz").unlink(),
    lambda d: os.truncate(d / "levels.npz", 20),
    lambda d: os.truncate(d / "moments.npz", 20),
    shutil.rmtree,
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_data_set_is_noticed_and_made_anew(
    damage: Callable[[Path], object], tmp_path: Path, home: Path
) -> None:
    path = written(tmp_path, TEXT)
    dataset = opened(path)
    expected = table(dataset)
    damage(dataset.directory)
    again = opened(path)
    assert table(again) == expected
    assert sum(c.n for c in again.cells) == 50
    assert len(sets(home)) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"identity": {}}', '{"identity": 5, "key": "x"}'])
def test_damaged_index_entry_is_passed_over(content: str, tmp_path: Path, home: Path) -> None:
    path = written(tmp_path, TEXT)
    opened(path)
    (entry,) = (home / "cache" / "index").glob("*.json")
    entry.write_text(content)
    assert opened(path).rows == 50
    assert json.loads(entry.read_text())["key"]


def test_folder_of_a_living_writer_is_not_swept_and_that_of_a_dead_one_is(home: Path) -> None:
    cache = Cache(home)
    with cache.workshop() as alive:
        dead = cache.directory / f"{UNFINISHED}1-dead"
        dead.mkdir()
        (dead / "lock").touch()
        (dead / "block-000000.bin").write_bytes(b"half")
        just_made = cache.directory / f"{UNFINISHED}2-new"
        just_made.mkdir()
        forgotten = cache.directory / f"{UNFINISHED}3-old"
        forgotten.mkdir()
        os.utime(forgotten, (0, 0))
        cache.sweep()
        assert alive.exists()
        assert not dead.exists()
        assert just_made.exists()  # its writer may be about to lock it
        assert not forgotten.exists()
    assert not alive.exists()


def test_a_whole_looking_unfinished_folder_is_not_opened(tmp_path: Path, home: Path) -> None:
    path = written(tmp_path, TEXT)
    dataset = opened(path)
    dataset.directory.rename(home / "cache" / f"{UNFINISHED}9-whole")
    again = opened(path)
    assert UNFINISHED not in again.directory.name
    assert again.rows == 50


def test_workshop_that_a_sweep_removed_before_it_was_locked_is_made_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    cache, real, calls = Cache(home), fcntl.flock, []

    def flock(file: Any, operation: int) -> None:
        if not calls:
            calls.append(file)
            shutil.rmtree(Path(file.name).parent)
        real(file, operation)

    monkeypatch.setattr("shoal.data.cache.fcntl.flock", flock)
    with cache.workshop() as directory:
        assert directory.exists()
        (directory / "block").write_bytes(b"")
    assert sets(home) == []


def test_ctrl_c_before_a_workshop_is_locked_leaves_no_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: Any, operation: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shoal.data.cache.fcntl.flock", flock)
    with pytest.raises(KeyboardInterrupt), Cache(home).workshop():
        pass
    assert sets(home) == []


def test_a_late_block_of_an_abandoned_worker_does_not_stay(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = shutil.rmtree, []

    def rmtree(path: Path, **options: Any) -> None:
        real(path, **options)
        if not calls:  # as if a worker were between the listing and the last rmdir
            calls.append(path)
            Path(path).mkdir()
            (Path(path) / "block-000001.bin").write_bytes(b"late")

    monkeypatch.setattr("shoal.data.cache.shutil.rmtree", rmtree)
    with Cache(home).workshop():
        pass
    assert sets(home) == []


def test_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    dataset = opened(written(tmp_path, TEXT + "bad\n"))
    again = Dataset(dataset.directory)
    assert again.manifest == dataset.manifest
    assert again.manifest.bad_rows == ((52, "expected 3 fields, got 1", ""),)
