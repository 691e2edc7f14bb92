"""What every test must leave behind: nothing. Fixtures of one subject belong to its own test module."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import signal
import sys
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import psutil
import pytest

from shoal.home import UMASK
from shoal.utils import THREAD_LIMITS
from support.collecting import persons_home
from support.collecting.extras import pytest_make_collect_report
from support.collecting.packing import pytest_collection_modifyitems, pytest_xdist_make_scheduler
from support.collecting.persons_home import pytest_unconfigure
from support.processes import command_of
from support.team.postgres import empty_database, outage, postgres, team_database

__all__ = [
    "empty_database",
    "outage",
    "postgres",
    "pytest_collection_modifyitems",
    "pytest_make_collect_report",
    "pytest_unconfigure",
    "pytest_xdist_make_scheduler",
    "team_database",
]

pytest.register_assert_rewrite("support.engines.contract")

persons_home.stand_in()
os.environ.update(THREAD_LIMITS)  # before NumPy is imported: the bits of BLAS depend on threads, and workers have one

hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)  # a busy machine is no fault of a test
hypothesis.settings.load_profile("patient")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background: processes of tests would be deaf too
    signal.signal(signal.SIGINT, signal.default_int_handler)

NOTHING_SKIPPED = (
    "SHOAL_NOTHING_SKIPPED"  # set where shared data, a browser, Prometheus, PostgreSQL and all extras have to be there
)
WANTED = re.compile(
    "shared|chromium|browser|playwright|promtool|psycopg|PostgreSQL is not|is not installed", re.IGNORECASE
)
HERE = Path(__file__).parent
SHARED_MEMORY = Path("/dev/shm")
NAMED = ("shoal", "psm_", "sem.mp-", "pymp-")  # ours, and those that multiprocessing gives
DESCRIPTORS = "/proc/self/fd"
TASKS = "/proc/self/task"  # Linux; each thread's children are listed in it
CLOSING = 3.0  # seconds for a thread that ends to close what it had
GRACE = 30.0  # seconds for a process that was told to end; the machine may be busy


_skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and WANTED.search(str(report.longrepr)) and os.environ.get(NOTHING_SKIPPED):
        _skipped.append(report.nodeid)


def pytest_collection_finish() -> None:
    """Folders of tests are known by bare names once they are collected, and `sparse` is one that scipy looks for: there
    it would find the folder, and take it for the package of that name."""
    for name, module in list(sys.modules.items()):
        if "." not in name and getattr(module, "__file__", "") is None and (HERE / name).is_dir() and name != "support":
            del sys.modules[name]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skipped or persons_home.written():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name in _skipped:
        terminalreporter.write_line(f"{NOTHING_SKIPPED} is set, but this was skipped: {name}", red=True)
    if found := persons_home.written():
        told = f"tests wrote into the home of whoever runs them (~/.shoal): {found}. Give each a SHOAL_HOME."
        terminalreporter.write_line(told, red=True)


def children() -> set[int]:
    """Direct ones, from the kernel's own list: psutil reads all processes of the machine, 10 ms a test and more."""
    try:
        lists = [_read(f"{TASKS}/{task}/children") for task in os.listdir(TASKS)]
    except OSError:  # another system, or a thread that ended just now
        return {child.pid for child in psutil.Process().children()}
    return {int(number) for line in lists for number in line.split()}


def _read(name: str) -> bytes:
    """All of a file of the kernel's, without what `open` does besides: this is read twice a test."""
    descriptor = os.open(name, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def new_processes(before: set[int]) -> list[psutil.Process]:
    """Descendants that came since; not those of an earlier child, such as a browser of several tests."""
    came = []
    for number in children() - before:
        with contextlib.suppress(psutil.NoSuchProcess):
            child = psutil.Process(number)
            came += [child, *child.children(recursive=True)]
    return [process for process in came if not is_tracker(process)]


def is_tracker(process: psutil.Process) -> bool:
    """The resource tracker of multiprocessing lives as long as the interpreter, on purpose."""
    return "multiprocessing.resource_tracker" in command_of(process)


def segments() -> set[str]:
    try:
        return {name for name in os.listdir(SHARED_MEMORY) if name.startswith(NAMED)}
    except OSError:  # another system
        return set()


def abandoned(names: set[str]) -> set[str]:
    """Those that stay, and that nobody has mapped but processes of this one: what other programs work with is no concern
    of ours, and what such a program leaves when it is killed its tracker removes a moment later."""
    deadline = time.monotonic() + CLOSING
    while (left := names & segments()) and (left := unmapped(left)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def unmapped(names: set[str]) -> set[str]:
    """By the numbers of files: whoever makes a semaphore has it mapped under the name that it had before it was whole."""
    own = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    mapped: set[int] = set()
    for number in {process.pid for process in psutil.process_iter()} - own:
        with contextlib.suppress(OSError):  # it ended, or is somebody's whose memory is not ours to look at
            lines = _read(f"/proc/{number}/maps").splitlines()
            mapped |= {int(line.split()[4]) for line in lines if bytes(SHARED_MEMORY) in line}
    return {name for name in names if _number_of(SHARED_MEMORY / name) not in mapped}


def _number_of(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def descriptors() -> Counter[str]:
    """Open pipes, sockets and anonymous files, by kind; other files are opened by imports and logging."""
    kinds: Counter[str] = Counter()
    try:
        numbers = os.listdir(DESCRIPTORS)
    except OSError:  # another system
        return kinds
    for number in numbers:
        try:
            target = os.readlink(f"{DESCRIPTORS}/{number}")
        except OSError:
            continue
        if target.startswith(("pipe:", "socket:", "/memfd:")):
            kinds[target.split(":")[0]] += 1
    return kinds


def rights() -> tuple[str, str]:
    """Of files that this process makes, and of those that its children are told to make."""
    mask = os.umask(0)
    os.umask(mask)
    return oct(mask), os.environ.get(UMASK, "")


_LOOPS: weakref.WeakSet[asyncio.BaseEventLoop] = weakref.WeakSet()  # that were seen before


def new_loops() -> int:
    """Open event loops that threads of pages hold, of whichever test: each has two sockets of its own."""
    loops = [each for each in gc.get_objects() if isinstance(each, asyncio.BaseEventLoop) and each not in _LOOPS]
    _LOOPS.update(loops)
    return sum(not loop.is_closed() for loop in loops)


def kept_open(before: Counter[str]) -> Counter[str]:
    """What is open beyond that, once threads that are ending have closed theirs."""
    deadline, loops = time.monotonic() + CLOSING, 0
    while grown := descriptors() - before:
        loops += new_loops()
        grown -= Counter({"socket": 2 * loops})
        if not grown or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return grown


@pytest.fixture(scope="session", autouse=True)
def _imported_once() -> Iterator[None]:
    """What was imported stays: without this, every collection below looks through all of it, 0.1 s a test."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Fails where something imported NumPy before this file could limit its threads."""
    import numpy as np  # noqa: F401 - what it loads is looked at
    from threadpoolctl import threadpool_info

    many = [library["filepath"] for library in threadpool_info() if library["num_threads"] != 1]
    assert not many, f"NumPy was imported before tests/conftest.py and uses several threads: {many}"


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    processes = children()
    memory, files, mask = segments(), descriptors(), rights()
    yield
    came = new_processes(processes)
    _, alive = psutil.wait_procs(came, timeout=GRACE) if came else ([], [])
    names = [f"{process.pid} {command_of(process)}" for process in alive if process.is_running()]
    for process in alive:
        process.kill()  # or the next test would be blamed as well
    if segments() - memory or descriptors() - files:
        gc.collect()  # what only waits for that is not left behind; it takes a while, so not after every test
    made = segments() - memory
    left = abandoned(made) if made else set()
    grown = kept_open(files)
    changed = "" if rights() == mask else f", rights of files {rights()} instead of {mask}"
    if names or left or grown or changed:
        pytest.fail(f"left behind: processes {names}, /dev/shm {sorted(left)}, descriptors {dict(grown)}{changed}")
