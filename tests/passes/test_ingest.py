"""From file to data set: the same bytes whoever reads, progress, and nothing left behind when it goes wrong."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from shoal.coordinator import Coordinator
from shoal.data import files
from shoal.data.dataset import Dataset
from shoal.data.first_look.source import inspect_text
from shoal.engines.base import Engine
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.errors import DataError, ResourceError, SourceChanged
from shoal.home import UNFINISHED
from shoal.settings import limits
from shoal.settings.values import config_from
from shoal.utils import silent
from support.tables import column, files_of, mounted, numbers, opened, shoal, table, written

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def mixed_text(rows: int, seed: int = 0) -> str:
    """Numbers, dates, texts with newlines and quotes, missing values, and a few bad rows."""
    random = np.random.default_rng(seed)
    lines = ["id,x,when,what,y"]
    for i in range(rows):
        x = "" if i % 17 == 3 else repr(float(random.normal(1e6, 1)))
        what = ['"two\nlines, one ""cell"""', "plain", "NA", '"a,b"', f"level {i % 7}"][i % 5]
        lines.append(f"{i},{x},2020-01-{1 + i % 28:02d},{what},{random.integers(0, 99)}")
        if i % 997 == 500:
            lines.append("bad,row")
    return "\n".join(lines) + "\n"


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(limits, "BLOCK_BYTES", 10_007)
    return written(tmp_path, mixed_text(6_000), "mixed.csv")


def read(engine: Engine, path: Path, home: Path, progress: Any = silent, **knobs: Any) -> Dataset:
    return Coordinator(engine, home, progress).open(config_from({"file": str(path), **knobs}))


def leftovers(home: Path) -> list[str]:
    return [p.name for p in (home / "cache").glob(f"{UNFINISHED}*")] if (home / "cache").exists() else []


# ------------------------------------------------------------------ the same whoever reads


def test_ranges_follow_from_the_file_alone(mixed: Path) -> None:
    source = inspect_text(mixed, {}, (), ())
    ranges = source.ranges()
    assert ranges[0][0] == source.data_start
    assert ranges[-1][1] == source.size == mixed.stat().st_size
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
    assert all(end - begin == 10_007 for begin, end in ranges[:-1])


def test_same_bytes_inline_and_with_1_2_and_3_processes(mixed: Path, tmp_path: Path) -> None:
    with InlineEngine() as engine:
        inline = read(engine, mixed, tmp_path / "inline")
    expected = files_of(inline)
    assert len(inline.blocks) > 20
    assert inline.manifest.bad_count == 6
    assert len(inline.cells) == 10
    for workers in (1, 2, 3):
        with ProcessEngine(workers) as engine:
            assert files_of(read(engine, mixed, tmp_path / f"home{workers}")) == expected, workers


def test_the_table_is_that_of_the_file(mixed: Path) -> None:
    import csv

    dataset = opened(mixed)
    with mixed.open(newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) == 5][1:]
    found = table(dataset)
    assert len(found) == len(rows) == 6_000
    for ours, theirs in zip(found, rows, strict=True):
        assert ours["id"] == float(theirs[0])
        assert ours["x"] == (float(theirs[1]) if theirs[1] else None)
        assert ours["what"] == (theirs[3] if theirs[3] != "NA" else None)
        assert ours["y"] == float(theirs[4])


def test_column_statistics_are_those_of_all_rows(mixed: Path) -> None:
    dataset = opened(mixed)
    x = numbers(dataset, "x")
    bad = dataset.manifest.bad_count
    assert dataset.columns["x"].missing == np.isnan(x).sum() - bad
    assert dataset.columns["x"].minimum == np.nanmin(x)
    assert dataset.columns["x"].maximum == np.nanmax(x)
    every = np.column_stack([numbers(dataset, c.name) for c in dataset.number_columns])
    largest = np.sqrt(np.nansum(every**2, axis=1).max())
    assert dataset.manifest.largest_norm == pytest.approx(largest, rel=1e-12)


def test_column_that_turns_to_text_is_read_again_by_all_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BLOCK_BYTES", 5_000)
    monkeypatch.setattr(files, "SAMPLE_BYTES", 2_000)
    rows = [(i, str(i) if i < 5_000 else f"w{i % 50}", i * 3) for i in range(6_000)]
    path = written(tmp_path, "a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    with ProcessEngine(3) as engine:
        dataset = read(engine, path, tmp_path / "home")
        assert dataset.is_whole()
        assert numbers(dataset, "c").tolist() == [float(c) for _, _, c in rows]
    assert dataset.columns["b"].type == "text"
    assert column(dataset, "b") == [b for _, b, _ in rows]


def test_progress_rises_to_one(mixed: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    with InlineEngine() as engine:
        read(engine, mixed, tmp_path / "home", lambda stage, part: seen.append((stage, part)))
    reading = [part for stage, part in seen if stage == "reading"]
    assert reading == sorted(reading)
    assert reading[-1] == 1.0
    assert len(reading) > 20


# ------------------------------------------------------------------ the file changes meanwhile


def once(action: Callable[[], object], after: float = 0.2) -> Callable[[str, float], None]:
    """A progress callback that acts once, in the middle of the reading."""
    done: list[bool] = []

    def progress(stage: str, part: float) -> None:
        if stage == "reading" and part > after and not done:
            done.append(True)
            action()

    return progress


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("1,2,2020-01-01,x,3\n")


def overwrite(path: Path) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(-200, os.SEEK_END)
        file.write(b"9")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [append, overwrite, lambda path: os.truncate(path, 30_000), Path.unlink])
def test_file_that_changes_while_it_is_read(change: Callable[[Path], object], mixed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with InlineEngine() as engine, pytest.raises(DataError) as caught:
        read(engine, mixed, home, once(lambda: change(mixed)))
    assert (
        isinstance(caught.value, SourceChanged) or "shorter" in str(caught.value) or "No such file" in str(caught.value)
    )
    assert leftovers(home) == []
    assert [p for p in (home / "cache").iterdir() if p.name != "index"] == []


# ------------------------------------------------------------------ processes die


def test_worker_killed_in_the_middle_gives_the_same_data_set(mixed: Path, tmp_path: Path) -> None:
    with InlineEngine() as inline:
        expected = files_of(read(inline, mixed, tmp_path / "inline"))
    lost: list[Any] = []
    with ProcessEngine(2, on_event=lambda event: lost.append(event) if event.kind == "lost" else None) as engine:
        kill = once(lambda: os.kill(engine.pids[0], signal.SIGKILL))
        assert files_of(read(engine, mixed, tmp_path / "killed", kill)) == expected
    assert [event.signal for event in lost] == [signal.SIGKILL]
    assert leftovers(tmp_path / "killed") == []


SCRIPT = """
    import os, signal, sys
    from shoal.settings import limits
    limits.BLOCK_BYTES = 10_007
    from pathlib import Path
    from shoal.settings.values import config_from
    from shoal.coordinator import Coordinator
    from shoal.engines.processes import ProcessEngine

    def progress(stage, part):
        if stage == "reading" and part > 0.3:
            print(*engine.pids.values(), flush=True)
            {action}

    with ProcessEngine(2) as engine:
        Coordinator(engine, Path({home!r}), progress).open(config_from({{"file": {path!r}}}))
"""


def script(path: Path, home: Path, action: str) -> list[str]:
    text = textwrap.dedent(SCRIPT).format(home=str(home), path=str(path), action=action)
    return [sys.executable, "-c", text]


def test_half_written_data_set_of_a_killed_process_is_never_taken_and_swept(mixed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = subprocess.run(script(mixed, home, "os.kill(os.getpid(), signal.SIGKILL)"), capture_output=True, timeout=90)
    assert done.returncode == -signal.SIGKILL, done.stderr
    workers = [int(pid) for pid in done.stdout.split()]
    assert len(workers) == 2
    _, alive = psutil.wait_procs([psutil.Process(p) for p in workers if psutil.pid_exists(p)], timeout=60)
    assert alive == []
    assert len(leftovers(home)) == 1
    assert list((home / "cache" / leftovers(home)[0]).rglob("block-*.bin"))
    with InlineEngine() as engine:
        dataset = read(engine, mixed, home)
    assert leftovers(home) == []
    assert dataset.rows == 6_006


def test_interrupt_in_the_middle_leaves_nothing(mixed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = subprocess.run(script(mixed, home, "signal.raise_signal(signal.SIGINT)"), capture_output=True, timeout=90)
    assert done.returncode == -signal.SIGINT, done.stderr
    assert leftovers(home) == []
    assert all(not psutil.pid_exists(int(pid)) for pid in done.stdout.split())


def test_two_processes_read_the_same_file_at_once(mixed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    command = script(mixed, home, "pass")
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    for process in both:
        assert process.communicate(timeout=90)[1] == b""
        assert process.returncode == 0
    assert leftovers(home) == []
    sets = [p for p in (home / "cache").iterdir() if p.name != "index"]
    assert len(sets) == 1
    assert Dataset(sets[0]).is_whole()


# ------------------------------------------------------------------ the disk is full

LIMITED = """
    import resource, sys
    from shoal.cli import app as cli
    from shoal.tasks import train
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
    sys.exit(cli.main(["inspect", {path!r}, "--engine", {engine!r}]))
"""


@pytest.mark.parametrize(("content", "limit", "engine"), [
    ("plain", 100_000, "inline"), ("plain", 100_000, "processes"), ("gzip", 100_000, "inline"),
])  # fmt: skip
def test_full_disk_is_said_and_nothing_is_left(content: str, limit: int, engine: str, tmp_path: Path) -> None:
    import gzip

    text = "a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(30_000))
    path = written(tmp_path, gzip.compress(text.encode()) if content == "gzip" else text)
    code = textwrap.dedent(LIMITED).format(limit=limit, path=str(path), engine=engine)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90)
    assert done.returncode == 1
    assert done.stderr.startswith("shoal: The disk is full")
    assert "SHOAL_HOME" in done.stderr
    assert "Traceback" not in done.stderr
    assert leftovers(tmp_path / "home") == []
    assert list((tmp_path / "home").rglob("*.bin")) == []


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "tiny", megabytes=1) as folder:
        yield folder


def test_file_system_that_runs_full(tiny_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BLOCK_BYTES", 100_000)
    path = written(tmp_path, "a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(120_000)))
    with InlineEngine() as engine, pytest.raises(ResourceError, match="disk is full"):
        read(engine, path, tiny_disk)
    assert leftovers(tiny_disk) == []
    small = written(tmp_path, "a,b\n1,2\n", "small.csv")
    with InlineEngine() as engine:  # and the room is there again
        assert read(engine, small, tiny_disk).rows == 1


@pytest.mark.parametrize("home", ["a file", "below a file", "/proc/shoal", "/dev/null/x"])
def test_folder_that_cannot_be_written(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a file").write_text("")
    place = {"a file": tmp_path / "a file", "below a file": tmp_path / "a file" / "deep"}.get(home, Path(home))
    monkeypatch.setenv("SHOAL_HOME", str(place))
    answer = shoal("inspect", written(tmp_path, "a,b\n1,2\n"))
    assert answer.code == 1
    assert answer.is_plain(), answer.err
    assert "SHOAL_HOME" in answer.err


def test_read_only_cache_still_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read once can be looked at by who may not write; only new work is refused."""
    path = written(tmp_path, "a,b\n1,2\n3,4\n")
    assert shoal("train", path, "--target", "b").code == 0

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("shoal.files.sealed.write_atomically", refuse)
    answer = shoal("inspect", path, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["columns"][0]["distinct"] == 2


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own peak of one reading, for a file and one six times as long: buffers are per block."""
    import tracemalloc

    monkeypatch.setattr(limits, "BLOCK_BYTES", 200_000)
    peaks = []
    for times in (30, 180):
        path = written(tmp_path, "a,b\n" + "123456.789,1\n" * 4_000 * times, f"{times}.csv")
        tracemalloc.start()
        with InlineEngine() as engine:
            read(engine, path, tmp_path / f"h{times}")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_index_names_what_was_asked(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n1,2\n")
    opened(path)
    entries = list((tmp_path / "home" / "cache" / "index").glob("*.json"))
    assert [json.loads(e.read_text())["question"]["path"] for e in entries] == [str(path)]
    assert time.time() - entries[0].stat().st_mtime < 3600
