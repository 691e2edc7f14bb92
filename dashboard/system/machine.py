"""What is at work on this machine and what it takes: cores, memory, disk, slots, process trees. No Streamlit.

One `Watch` serves all tabs: shares of a core are measured between two looks, and looks cost time.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from shoal.errors import ResourceError, StateError, TrainingError
from shoal.home import home, jobs_directory, runs_directory
from shoal.lazy.classes import dataclass
from shoal.metrics import WorkerSample
from shoal.runs import slots as run_slots
from shoal.runs import tickets as run_queue
from shoal.runs.commands import metrics_of
from shoal.runs.launch import Run

OFTEN = 1.5  # seconds that a look is good for


@dataclass(frozen=True)
class Machine:
    """The whole machine; bytes, and shares from 0 to 1."""

    cores: int
    cpu: float
    load: float | None  # processes that want a core, over the last minute
    memory_used: int
    memory_total: int
    disk_used: int
    disk_total: int


@dataclass(frozen=True)
class Slots:
    """What gradient runs may use together, what they do use, and how many wait."""

    total: int
    taken: int
    waiting: int | None  # None where the queue cannot be read


@dataclass(frozen=True)
class Tree:
    """A process with all that it started; `cpu` in cores, None at the first look; `memory` not shared."""

    processes: int
    cpu: float | None
    memory: int


@dataclass(frozen=True)
class Activity:
    """A run or job that waits or works."""

    run: Run
    task: str
    state: str
    pid: int | None
    since: float | None
    tree: Tree | None
    workers: tuple[WorkerSample, ...] = ()


@dataclass(frozen=True)
class Look:
    """All of it at one moment."""

    machine: Machine
    slots: Slots | None  # None where SHOAL_SLOTS makes no sense
    work: tuple[Activity, ...]


class Watch:
    """Looks at most every OFTEN seconds, whoever asks and however often."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: dict[int, psutil.Process] = {}
        self._last: tuple[float, Path, Look] | None = None
        self._times = _processor_times()

    def look(self) -> Look:
        with self._lock:
            now, place = time.monotonic(), home()
            if self._last is None or now - self._last[0] > OFTEN or self._last[1] != place:
                self._last = (now, place, self._look())
            return self._last[2]

    def _look(self) -> Look:
        work = tuple(sorted((self._work(run) for run in alive()), key=lambda work: work.state == "queued"))
        here = set(psutil.pids()) if self._processes else set()
        self._processes = {pid: process for pid, process in self._processes.items() if pid in here}
        return Look(machine(self._busy()), slots(), work)

    def _busy(self) -> float:
        """The share of all cores since the last look; not psutil's own count, which begins anew for every caller."""
        before, self._times = self._times, _processor_times()
        idle, total = (now - then for now, then in zip(self._times, before, strict=True))
        return 1 - idle / total if total > 0 else 0.0

    def _work(self, run: Run) -> Activity:
        pid = run.pid
        tree, ids = self._tree(pid) if pid else (None, set())
        workers = tuple(worker for worker in _workers(run) if worker.pid in ids) if pid else ()
        return Activity(run, run.task, run.state, pid, run.started_at, tree, workers)

    def _tree(self, pid: int) -> tuple[Tree | None, set[int]]:
        first = pid not in self._processes
        try:
            root = self._known(pid)
            family = [root, *(self._known(child.pid) for child in root.children(recursive=True))]
        except psutil.Error:
            return None, set()
        cpu, memory, ids = 0.0, 0, set()
        for process in family:
            with contextlib.suppress(psutil.Error):
                cpu += process.cpu_percent(None) / 100
                used = process.memory_info()
                memory += used.rss - getattr(used, "shared", 0)
                ids.add(process.pid)
        return Tree(len(ids), None if first else cpu, memory), ids

    def _known(self, pid: int) -> psutil.Process:
        """The same object at every look: it remembers what it measured before."""
        known = self._processes.get(pid)
        if known is None or not known.is_running():
            known = self._processes[pid] = psutil.Process(pid)
            known.cpu_percent(None)
        return known


def _processor_times() -> tuple[float, float]:
    """Seconds that all cores were idle, and all seconds."""
    times = psutil.cpu_times()
    counted_twice = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return times.idle + getattr(times, "iowait", 0.0), sum(times) - counted_twice


def machine(cpu: float) -> Machine:
    memory = psutil.virtual_memory()
    place = next(folder for folder in (home(), *home().parents) if folder.is_dir())
    disk = psutil.disk_usage(str(place))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return Machine(
        run_slots.cores(), cpu, load, memory.total - memory.available, memory.total,
        disk.total - disk.free, disk.total,
    )  # fmt: skip


def slots() -> Slots | None:
    try:
        total, free = run_queue.room()
    except TrainingError:
        return None
    waiting = _waiting()
    return Slots(total, total - free, None if waiting is None else len(waiting))


def _waiting() -> set[str] | None:
    with contextlib.suppress(TrainingError):
        return {one.run_id for one in run_queue.in_line()}
    return None


def alive() -> list[Run]:
    """Runs and jobs that wait or work, the newest first. The lock is looked at first: most have ended."""
    waiting = _waiting()
    runs = [
        run
        for run in _folders(runs_directory())
        if (run.is_waiting if waiting is None else run.id in waiting) or run.is_alive
    ]
    jobs = [run for task in _folders(jobs_directory()) for run in _folders(task.directory) if run.is_alive]
    return [*sorted(runs, key=lambda run: run.id, reverse=True), *jobs]


def _folders(folder: Path) -> Iterator[Run]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield Run(Path(entry.path))


def _workers(run: Run) -> list[WorkerSample]:
    if not run.is_gradient:
        return []
    with contextlib.suppress(StateError, ResourceError), metrics_of(run) as storage:
        return storage.workers() if storage else []
    return []
