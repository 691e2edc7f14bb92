"""One command in a fresh process: how long it took, how much memory its tree held, what it left behind."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from support.processes import tree_memory

MARK = "SHOAL_BENCHMARK_RUN"  # in the environment of every process of a run, however it was detached
SAMPLING = 0.05  # seconds between two looks at the memory
GRACE = 0.5  # seconds for helpers to end after the process itself


@dataclass(frozen=True)
class ProcessOutcome:
    """What came of one run. `peak_memory`: bytes, 0 unless it was watched; `processor`: seconds of all cores, of the
    process and of those that it started and waited for."""

    seconds: float
    output: str
    peak_memory: int
    left_behind: tuple[str, ...]
    processor: float = 0.0


def run(command: Sequence[str], environment: Mapping[str, str], watch_memory: bool = False) -> ProcessOutcome:
    """Run `command` to its end; anything but success ends the benchmarks with its own words."""
    mark, segments = secrets.token_hex(8), shared_memory()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-tmp-") as scratch:
        variables = {**os.environ, **environment, MARK: mark, "TMPDIR": scratch}
        start, spent = time.perf_counter(), sum(os.times()[2:4])
        process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with memory_watched(process.pid if watch_memory else None) as memory:
            output, complaint = process.communicate()
        seconds, processor = time.perf_counter() - start, sum(os.times()[2:4]) - spent
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with code {process.returncode}: {complaint.strip()[-2000:]}")
        left = [*processes_left(mark), *sorted(shared_memory() - segments), *sorted(os.listdir(scratch))]
    return ProcessOutcome(seconds, output, max(memory, default=0), tuple(left), processor)


def shared_memory() -> set[str]:
    directory = Path("/dev/shm")
    return {str(entry) for entry in directory.iterdir()} if directory.is_dir() else set()


def processes_left(mark: str) -> list[str]:
    """Processes of a run that outlive it, after a moment of grace."""
    deadline = time.monotonic() + GRACE
    while (found := list(marked_processes(mark))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def marked_processes(mark: str) -> Iterator[str]:
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                yield f"process {process.pid}: {' '.join(process.cmdline())}"
        except psutil.Error:
            continue


class OtherWork:
    """How busy programs that are not ours keep the machine, from now on."""

    def __init__(self) -> None:
        self.start, self.spent = time.monotonic(), self._spent()

    @staticmethod
    def _spent() -> float:
        """Seconds of all cores for others: all that are not idle, without this process and its ended children."""
        everyone, ours = psutil.cpu_times(), os.times()
        return everyone.user + everyone.system - sum(ours[:4])

    def share(self) -> float:
        cores = os.cpu_count() or 1
        return max(0.0, self._spent() - self.spent) / (cores * (time.monotonic() - self.start))


# ------------------------------------------------------------------ memory


@contextmanager
def memory_watched(pid: int | None) -> Iterator[list[int]]:
    """Bytes held by the process tree under `pid`, sampled until the block ends; none without a pid."""
    samples: list[int] = []
    if pid is None:
        yield samples
        return
    over = threading.Event()
    sampler = threading.Thread(target=_sample, args=(psutil.Process(pid), samples, over))
    sampler.start()
    try:
        yield samples
    finally:
        over.set()
        sampler.join()


def _sample(root: psutil.Process, samples: list[int], over: threading.Event) -> None:
    while not over.wait(SAMPLING):
        samples.append(tree_memory(root))
