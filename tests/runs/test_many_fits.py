"""Many fits started at a time by one process: they come from a warm one, on which nothing depends."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from shoal.errors import Reason
from shoal.processes.run import main as main_of_run
from shoal.runs import scheduling, spawning
from shoal.runs.commands import end_process
from shoal.runs.folder import PATIENCE
from shoal.runs.launch import Run, launch, list_runs, resume
from shoal.settings.values import config_from
from support.runs import run_home, small_table, until
from support.tables import mounted


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In a home of its own, where the first fit is one of many already; the warm process is gone at the end."""
    monkeypatch.setattr(spawning, "MANY", 0)
    monkeypatch.setattr(spawning, "IDLE", 0.2)
    with run_home(tmp_path / "home", monkeypatch):
        yield small_table(tmp_path)
        until(lambda: spawning._warmth()._warm is None)


def fits(table: Path, count: int) -> list[Run]:
    return [launch(config_from({"file": str(table), "target": "y"})) for _ in range(count)]


def warm_number() -> int:
    warm = spawning._warmth()._warm
    assert warm is not None
    return warm._process.pid


def assert_right(runs: list[Run], table: Path) -> None:
    until(lambda: all(run.state == "finished" for run in runs))
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    X = np.column_stack([np.ones(len(rows)), rows[:, :3]])
    known = np.linalg.lstsq(X, rows[:, 3], rcond=None)[0]
    for run in runs:
        assert run.result is not None
        found = run.result["coefficients"]
        np.testing.assert_allclose([run.result["intercept"], *(found[name] for name in "abc")], known, rtol=1e-9)


def test_they_are_right_and_the_warm_process_is_gone_when_idle(table: Path) -> None:
    assert_right(fits(table, 5), table)


def test_a_warm_process_that_is_killed_loses_nothing(table: Path) -> None:
    runs = fits(table, 3)
    os.kill(warm_number(), signal.SIGKILL)  # it has hardly begun to import
    until(lambda: any(run.is_alive for run in runs))
    assert_right(runs, table)


def stopped_warm_process(table: Path) -> psutil.Process:
    """One that has been told of a fit, and does nothing about it or any other until it is woken."""
    fits(table, 1)
    warm = psutil.Process(warm_number())
    warm.suspend()
    until(lambda: warm.status() == psutil.STATUS_STOPPED)
    return warm


def test_a_warm_process_that_is_killed_counts_for_nothing_afterwards(table: Path) -> None:
    warm = stopped_warm_process(table)
    runs = fits(table, 2)
    warm.kill()
    assert_right([*runs, *list_runs()], table)
    until(lambda: not spawning._alive)  # or all later fits would seem to be some of many


def test_fits_of_a_stopped_one_are_begun_without_it(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawning, "SILENT", 0.2)
    warm = stopped_warm_process(table)
    assert_right([*fits(table, 2), *list_runs()], table)
    until(lambda: not warm.is_running() or warm.status() == psutil.STATUS_ZOMBIE)


def test_one_that_does_not_listen_keeps_nobody_waiting(table: Path, tmp_path: Path) -> None:
    """Words that it does not read fill the way to it, and then fits begin in another way."""
    warm = stopped_warm_process(table)
    assert not all(spawning._warmth().start_fit(tmp_path / f"no run {number}") for number in range(5000))
    warm.resume()
    assert_right(list_runs(), table)


def test_what_was_told_is_begun_though_the_starter_is_gone(table: Path, tmp_path: Path) -> None:
    """The starter is killed while the warm process is still to begin its fits."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", STARTER, str(table)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    warm = psutil.Process(int(done.stdout))
    assert warm.status() == psutil.STATUS_STOPPED
    assert not any(run.is_alive for run in list_runs())
    warm.resume()
    assert len(list_runs()) == 3
    assert_right(list_runs(), table)
    until(lambda: not warm.is_running() or warm.status() == psutil.STATUS_ZOMBIE)


STARTER = """
import os, signal, sys
from shoal.runs import scheduling, spawning
from shoal.runs.launch import launch
from shoal.settings.values import config_from
spawning.MANY = 0
config = config_from({"file": sys.argv[1], "target": "y"})
launch(config)
warm = spawning._warmth()._warm._process.pid
os.kill(warm, signal.SIGSTOP)
launch(config), launch(config)
print(warm, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_fit_that_a_full_disk_keeps_from_beginning_says_so(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full between the launch of a fit and its beginning."""
    with mounted(tmp_path / "tiny", megabytes=8) as folder:
        monkeypatch.setenv("SHOAL_HOME", str(folder / "home"))
        warm = stopped_warm_process(table)
        monkeypatch.setattr("shoal.runs.folder.PATIENCE", 0.0)  # it is not looked at before
        with open(folder / "full", "wb", buffering=0) as full, contextlib.suppress(OSError):
            while full.write(b" " * 4096):
                pass
        warm.resume()
        until(lambda: not spawning._alive)
        (run,) = list_runs()
        assert (run.state, run.standing.reason) == ("interrupted", Reason.OUT_OF_DISK)
        assert "Its disk is full" in run.cause
        (folder / "full").unlink()
        assert_right([resume(run)], table)


def test_it_outlives_the_thread_that_asked_for_it(table: Path) -> None:
    """As pages are drawn by threads that end."""
    thread = threading.Thread(target=fits, args=(table, 1))
    thread.start()
    number = warm_number() if until(lambda: spawning._warmth()._warm) else 0
    thread.join()
    until(lambda: not spawning._warmth()._told)
    assert warm_number() == number
    assert_right(list_runs(), table)


def test_a_fit_that_was_stopped_before_it_began_stays_so(table: Path) -> None:
    warm = stopped_warm_process(table)
    (run,) = fits(table, 1)
    end_process(run)
    assert run.state == "stopped"
    warm.resume()
    until(lambda: spawning._warmth()._warm is None)
    assert (run.state, run.result) == ("stopped", None)


def test_a_fit_that_has_ended_is_not_done_by_a_second_process(table: Path) -> None:
    (run,) = fits(table, 1)
    assert_right([run], table)
    until(lambda: not run.is_alive)
    before = {path.name: path.stat().st_mtime_ns for path in run.directory.iterdir() if path.name != "lock"}
    main_of_run(run.directory)
    assert {path.name: path.stat().st_mtime_ns for path in run.directory.iterdir() if path.name != "lock"} == before


def test_a_killed_fork_ends_no_other_and_gives_its_turn_back(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-P", "-c", TURNS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1", "1", "1"]


def test_a_process_that_is_killed_before_its_lock_is_missed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after the time that one may take to begin."""
    with run_home(tmp_path / "home", monkeypatch):
        (run,) = fits(small_table(tmp_path), 1)
        (process,) = (child for child in psutil.Process().children() if run.id in " ".join(child.cmdline()))
        process.kill()  # it has hardly begun to import
        until(lambda: not run.is_active)
        assert time.time() - run.directory.stat().st_mtime < PATIENCE
        assert (run.state, run.standing.reason) == ("interrupted", Reason.KILLED)
        resume(run)
        assert_right([run], tmp_path / "table.csv")


BOTH = """
import os, signal, sys
import psutil
from shoal.runs.launch import launch
from shoal.settings.values import config_from
print(launch(config_from({"file": sys.argv[1], "target": "y"})).id, flush=True)
for child in psutil.Process().children():
    child.kill()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_one_whose_starter_is_killed_with_it_is_missed_at_once_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_home(tmp_path / "home", monkeypatch):
        table = small_table(tmp_path)
        done = subprocess.run([sys.executable, "-P", "-c", BOTH, str(table)], capture_output=True, text=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        (run,) = list_runs()
        assert run.id == done.stdout.strip()
        assert not (run.directory / "started").exists()
        until(lambda: not run.is_active)
        assert time.time() - run.directory.stat().st_mtime < PATIENCE
        assert (run.state, run.standing.reason) == ("interrupted", Reason.KILLED)
        resume(run)
        assert_right([run], table)


def test_the_end_of_a_process_that_is_told_late_is_not_that_of_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looked between a new start and the lock of its process took it for interrupted again."""
    killed_again, real = threading.Event(), scheduling.begin
    with run_home(tmp_path / "home", monkeypatch):
        (run,) = fits(small_table(tmp_path), 1)
        until(lambda: run.pid)
        (reaper,) = (one for one in threading.enumerate() if one.name == f"reaper-{run.id}")
        ended = spawning._ended
        monkeypatch.setattr(spawning, "_ended", lambda *said: (killed_again.wait(), ended(*said)))

        def begin(*what: Any) -> None:
            killed_again.set()
            reaper.join()
            assert (run.state, run.started_at) == ("preparing", None)
            real(*what)

        os.kill(run.pid or 0, signal.SIGKILL)
        until(lambda: run.state == "interrupted")
        monkeypatch.setattr(scheduling, "begin", begin)
        resume(run)
        assert killed_again.is_set()
        assert_right([run], tmp_path / "table.csv")


TURNS = """
import array, fcntl, os, pathlib, signal, socket, tempfile, termios
from shoal.processes import warm as module
module.cores = lambda: 1
warm = module.Warm(socket.socketpair()[0])

def left():
    count = array.array("i", [0])
    fcntl.ioctl(warm._turns, termios.FIONREAD, count)
    return count[0]

ready, told = os.pipe()
def at_work(directory, hosted, place):
    with warm._turn(place):
        os.write(told, b".")
        signal.pause()
warm._become = at_work
kept = tempfile.TemporaryDirectory()
folder = pathlib.Path(kept.name)
warm._start("one", folder, None)
os.read(ready, 1)
print(left())
(pid,) = warm.children
os.kill(pid, signal.SIGKILL)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
warm._bury()
print(left())
print(int((folder / "started").exists()))  # that it is gone can be told at once
os.fork = lambda: (_ for _ in ()).throw(BlockingIOError)  # as many processes as the system allows
print(int(not warm._start("two", folder, None) and not warm.children))
"""


def _umask() -> Callable[[], object]:
    before = os.umask(0o027)
    return lambda: os.umask(before)


def _open_files() -> Callable[[], object]:
    low, high = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (low - 1, high))
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (low, high))


def _environment() -> Callable[[], object]:
    os.environ["SHOAL_SLOTS"] = "2"  # put back with the home
    return lambda: None


def _other_code() -> Callable[[], object]:
    folder = Path(spawning._code_folders()[-1])
    (folder / "upgraded.py").touch()
    return lambda: (folder / "upgraded.py").unlink()


@pytest.mark.parametrize("change", [_environment, _umask, _open_files, _other_code])
def test_it_begins_nothing_that_a_new_process_would_begin_otherwise(
    change: Callable[[], Callable[[], object]], table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package" / "part").mkdir(parents=True)
    monkeypatch.setattr(spawning, "CODE", tmp_path / "package")
    spawning._code_folders.cache_clear()
    warm = stopped_warm_process(table)  # what it is told stays so
    put_back = change()
    try:
        told = set(spawning._warmth()._told)
        runs = fits(table, 1)
        assert set(spawning._warmth()._told) == told
    finally:
        put_back()
        warm.resume()
        spawning._code_folders.cache_clear()
    assert_right([*runs, *list_runs()], table)
