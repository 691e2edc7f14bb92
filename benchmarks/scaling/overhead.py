"""`python -m benchmarks.scaling.overhead`: the same fits by worker processes and on a cluster, in turns.

A cluster of this machine: a head without cores and two nodes of one core, which have no disk in common and are up
already, beside two worker processes: whole commands from the file, with nothing kept from the one before; and the
memory of the process that asks, for a file and for one of a quarter of its rows. The figures are in docs/cluster.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.scaling.comparison import write_table
from support.engines.yard import Yard

GRADIENT = ("--solver", "gradient", "--epochs", "40", "--tolerance", "0")


@dataclass(frozen=True)
class Took:
    """One command: seconds of the clock and of all processors, bytes that its process had at most, what it printed."""

    clock: float
    processor: float
    memory: int
    said: dict[str, Any]


class Meter:
    """Processor seconds of all that a process has started, meanwhile; looked at again and again, since Ray's workers
    are nobody's children when they end."""

    def __init__(self, pid: int, home: str) -> None:
        self._top, self._over, self._home = psutil.Process(pid), threading.Event(), home
        self.memory = 0  # bytes that the process of a gradient run had at most
        self._before = self._look()
        self._last = dict(self._before)
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> float:
        self._over.set()
        self._thread.join()
        return sum(used - self._before.get(which, 0.0) for which, used in self._last.items())

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self._last |= self._look()
            self._look_at_run()

    def _look_at_run(self) -> None:
        """It is nobody's child."""
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "shoal.processes.run" in words and any(word.startswith(self._home) for word in words):
                with contextlib.suppress(psutil.NoSuchProcess):
                    self.memory = max(self.memory, process.memory_info().rss)

    def _look(self) -> dict[tuple[int, float], float]:
        found = {}
        for process in (self._top, *self._top.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                found[process.pid, process.create_time()] = sum(process.cpu_times()[:2])
        return found


class Field:
    """A cluster that is up, and commands beside and on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.token = folder, secrets.token_hex(16)
        (folder / "yard").mkdir()
        self.yard = Yard(folder / "yard", self.token)

    def processes(self, table: Path, *more: str) -> Took:
        return self._run(table, "--engine", "processes", *more)

    def ray(self, table: Path, *more: str) -> Took:
        return self._run(table, "--engine", "ray", "--cluster", self.yard.address, *more)

    def _run(self, table: Path, *more: str) -> Took:
        home = self.folder / "home"
        for kept in (home, *self.yard.folder.glob("home-*")):
            shutil.rmtree(kept, ignore_errors=True)
        words = [
            sys.executable,
            "-m",
            "shoal.cli.app",
            "train",
            str(table),
            "--target",
            "y",
            "--workers",
            "2",
            "--json",
        ]
        environment = {**os.environ, "SHOAL_HOME": str(home), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}
        meter, began = Meter(self.yard.process.pid, str(home)), time.monotonic()
        with (self.folder / "said.json").open("w+") as out:
            process = subprocess.Popen([*words, *more], env=environment, stdout=out, stderr=subprocess.PIPE)
            assert process.stderr is not None
            complaint = process.stderr.read()
            _, status, used = os.wait4(process.pid, 0)
            clock = time.monotonic() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(complaint.decode(errors="replace"))
            out.seek(0)
            said = json.load(out)
        processor = used.ru_utime + used.ru_stime + meter.stop()
        return Took(clock, processor, meter.memory or used.ru_maxrss * 1024, said)

    def close(self) -> None:
        self.yard.close()


def rows_a_second(took: Took) -> float:
    said = took.said
    return float(said["train"]["rows"] * said["epochs"] / said["timings"]["train"])


def compare(field: Field, table: Path, repeats: int) -> None:
    print("| repeat, load | processes: s, processor s | ray: s, processor s | ratio of s, of processor s |")
    print("|---|--:|--:|--:|")
    ratios, pairs = [], []
    for number in range(repeats):
        load = os.getloadavg()[0]
        here, there = field.processes(table), field.ray(table)
        ratios.append(there.clock / here.clock)
        pairs.append((here.clock, there.clock))
        cells = [f"{number + 1}, {load:.1f}", *(f"{one.clock:.2f}, {one.processor:.2f}" for one in (here, there))]
        cells.append(f"{ratios[-1]:.2f}, {there.processor / here.processor:.2f}")
        print("|", " | ".join(cells), "|", flush=True)
    print(f"exact: median ratio {median(ratios):.2f}; quickest of each "
          f"{min(there for _, there in pairs) / min(here for here, _ in pairs):.2f}", flush=True)  # fmt: skip


def compare_steps(field: Field, table: Path, repeats: int) -> None:
    print("| repeat, load | processes: rows/s | ray: rows/s | ratio |\n|---|--:|--:|--:|")
    ratios = []
    for number in range(repeats):
        load = os.getloadavg()[0]
        here, there = rows_a_second(field.processes(table, *GRADIENT)), rows_a_second(field.ray(table, *GRADIENT))
        ratios.append(there / here)
        print(f"| {number + 1}, {load:.1f} | {here:.3g} | {there:.3g} | {ratios[-1]:.2f} |", flush=True)
    print(f"gradient: median ratio {median(ratios):.2f}", flush=True)


def compare_memory(field: Field, table: Path, quarter: Path) -> None:
    for name, more in (("exact", ()), ("gradient", GRADIENT)):
        short, long = field.ray(quarter, *more), field.ray(table, *more)
        print(f"memory of the process that asks, {name}: {short.memory / 1e6:.0f} MB for a quarter of the rows, "
              f"{long.memory / 1e6:.0f} MB for all: {long.memory / short.memory - 1:+.0%}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--table", type=Path, help="one that is there already, with a target y")
    parser.add_argument("--what", default="exact,gradient,memory")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-overhead-", ignore_cleanup_errors=True) as name:
        folder, table = Path(name), chosen.table
        if table is None:
            write_table(table := folder / "table.csv", chosen.rows, chosen.columns)
        field = Field(folder)
        try:
            if "exact" in chosen.what:
                compare(field, table, chosen.repeats)
            if "gradient" in chosen.what:
                compare_steps(field, table, chosen.repeats)
            if "memory" in chosen.what:
                compare_memory(field, table, _quarter(table, folder / "quarter.csv"))
        finally:
            field.close()


def _quarter(table: Path, target: Path) -> Path:
    """The first quarter of its lines, or nearly so."""
    size = table.stat().st_size // 4
    with table.open("rb") as source, target.open("wb") as out:
        while source.tell() < size:
            out.write(source.readline())
    return target


if __name__ == "__main__":
    main()
