"""Predictions of `shoal plan` beside what was measured on the processes engine, and its chart for 1 to 256 nodes, for
docs/scaling.md: `make scaling`."""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.engines.processes import ProcessEngine
from shoal.engines.virtual import Network
from shoal.planning.constants import TimedEngine, measure
from shoal.planning.plan import PlanRequest, make_plan
from shoal.planning.rehearsal import Machines, Rehearsed, rehearse
from shoal.planning.sample import made_up, prepared
from shoal.settings.config import MODES
from shoal.settings.values import config_from
from shoal.storage.memory import MemoryStorage
from shoal.training.callbacks import Callback, Callbacks, RunView
from shoal.training.checkpoints import Checkpoints
from shoal.training.run import train_gradient
from shoal.training.session import Session
from shoal.utils import THREAD_LIMITS
from shoal.worker import Ping

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "scaling.md"
CHART = ROOT / "docs" / "images" / "scaling.svg"
BEGIN = "<!-- figures: written by `python -m benchmarks.scaling` -->"
ROWS, COLUMNS = 400_000, 20
EPOCHS = 40  # so that what a run costs once does not count
PLANNED = "2000000x50"
CHUNK = 50_000


def write_table(path: Path, rows: int, columns: int) -> None:
    """Standard normals, as `shoal plan` makes them up."""
    random = np.random.default_rng(0)
    w = random.normal(size=columns)
    line = ",".join(["%.6f"] * (columns + 1))
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join([*(f"x{j}" for j in range(columns)), "y"]) + "\n")
        for start in range(0, rows, CHUNK):
            X = random.normal(size=(min(CHUNK, rows - start), columns))
            y = X @ w + random.normal(size=len(X))
            file.writelines(line % tuple(row) + "\n" for row in np.column_stack((X, y)).tolist())


# ------------------------------------------------------------------ one measured run


def processor_seconds(pid: int) -> float:
    """Of all threads of a process, in nanoseconds where the system tells them."""
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    except (OSError, ValueError, IndexError):
        import psutil

        used = psutil.Process(pid).cpu_times()
        return float(used.user + used.system)


class RunWatch(Callback):
    """The clock and the processor seconds of server and workers between the begin and the end of the training."""

    def __init__(self, engine: ProcessEngine) -> None:
        self._engine = engine
        self.clock = 0.0
        self.server = 0.0
        self.workers: dict[int, float] = {}

    def _look(self) -> tuple[float, float, dict[int, float]]:
        workers = {rank: processor_seconds(pid) for rank, pid in self._engine.pids.items()}
        return time.perf_counter(), processor_seconds(os.getpid()), workers

    def run_started(self, run: RunView) -> None:
        self._before = self._look()

    def run_ended(self, run: RunView, state: str) -> None:
        clock, server, workers = self._look()
        self.clock, self.server = clock - self._before[0], server - self._before[1]
        self.workers = {rank: used - self._before[2].get(rank, used) for rank, used in workers.items()}


@dataclass(frozen=True)
class Measured:
    """One run: seconds of the clock, processor seconds of all workers and of the server, rounds."""

    clock: float
    workers: float
    server: float
    rounds: int


def measured(path: Path, home: Path, engine: ProcessEngine, mode: str, batch: int, local: int) -> Measured:
    config = config_from(
        {"file": str(path), "target": "y", "solver": "gradient", "mode": mode, "batch_size": batch,
         "workers": engine.workers, "local_steps": local, "checkpoint_seconds": 0, "epochs": EPOCHS}
    )  # fmt: skip
    watch = RunWatch(engine)
    with tempfile.TemporaryDirectory(dir=home) as folder:
        session = Session(
            MemoryStorage(), Checkpoints(Path(folder)), Callbacks([watch], print), lambda level, text: None,
            lambda standing: None,
        )  # fmt: skip
        trained = train_gradient(Coordinator(engine, home), config, session)
    assert trained.report.training is not None
    return Measured(watch.clock, sum(watch.workers.values()), watch.server, trained.report.training.rounds)


def latency_of(engine: ProcessEngine) -> float:
    """One way between this process and a worker that sleeps: the least, which nobody else has lengthened."""
    seconds = []
    for _ in range(200):
        started = time.perf_counter()
        for _ in engine.sweep([Ping()]):
            pass
        seconds.append(time.perf_counter() - started)
    return min(seconds) / 2


@dataclass(frozen=True)
class Compared:
    mode: str
    workers: int
    predicted: Rehearsed
    runs: list[Measured]

    @property
    def measured(self) -> Measured:
        """The least of each, as constants are measured: what else the machine does only adds to it."""
        columns = zip(*((run.clock, run.workers, run.server) for run in self.runs), strict=True)
        return Measured(*(min(column) for column in columns), round(median(run.rounds for run in self.runs)))

    @property
    def error(self) -> float:
        """Of the processor seconds of all."""
        found = self.measured
        return (self.predicted.worked + self.predicted.served) / (found.workers + found.server) - 1

    @property
    def clock_error(self) -> float:
        return self.predicted.seconds / self.measured.clock - 1


def compare(folder: Path, repeats: int) -> list[Compared]:
    path, home = folder / "table.csv", folder / "home"
    home.mkdir()
    write_table(path, ROWS, COLUMNS)
    found: list[Compared] = []
    engines = {workers: ProcessEngine(workers, preload=["shoal.passes.gradient_loop"]) for workers in (1, 2)}
    try:
        small = made_up(f"{ROWS}x{COLUMNS}", config_from({}), folder)
        assert small is not None
        with TimedEngine() as timed:
            ready = prepared(small, Coordinator(timed, folder / "sample"))
            constants = measure(ready, timed, (), ["none"])
            print(constants, flush=True)
            for workers, engine in engines.items():
                network = Network(latency_of(engine), math.inf)
                for mode in MODES:
                    config = replace(ready.objective.config, mode=mode, epochs=EPOCHS)
                    predicted = rehearse(ready, config, constants, Machines(workers, network))
                    shape = (mode, predicted.batch_size, predicted.local_steps)
                    runs = [measured(path, home, engine, *shape) for _ in range(repeats + 1)][
                        1:
                    ]  # the first one makes the copy
                    found.append(Compared(mode, workers, predicted, runs))
                    print(mode, workers, predicted, found[-1].measured, flush=True)
    finally:
        for engine in engines.values():
            engine.close()
    return found


# ------------------------------------------------------------------ the page


def told(compared: Sequence[Compared], plan: dict[str, Any], load: float) -> str:
    lines = [
        BEGIN, "", "## Predicted and measured", "",
        f"{ROWS:,} x {COLUMNS}, training until converged with the batch size that the plan chose, rows in memory, on "
        f"{os.cpu_count()} cores under a load of {load:.1f}; the least of each figure in {len(compared[0].runs)} runs.",
        "",
        "The aim is 20 %, on a machine with nothing else to do: the clock means nothing under a load of more than 1, "
        "and processor seconds rise with it too, since every message finds its caches cold and wakes a process that "
        "has to wait. Rounds do not depend on the load.", "",
        "| mode | workers | rounds: predicted, measured | workers' seconds | server's seconds | error of both | "
        "clock: predicted, measured | error |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]  # fmt: skip
    for one in compared:
        found = one.measured
        lines.append(
            f"| {one.mode} | {one.workers} | {one.predicted.rounds}, {found.rounds} | "
            f"{one.predicted.worked:.3f}, {found.workers:.3f} | {one.predicted.served:.3f}, {found.server:.3f} | "
            f"{one.error:+.0%} | {one.predicted.seconds:.3f}, {found.clock:.3f} | {one.clock_error:+.0%} |"
        )
    within = sum(abs(one.error) <= 0.2 for one in compared)
    by_clock = sum(abs(one.clock_error) <= 0.2 for one in compared)
    lines += [
        "",
        f"Within 20 %: processor seconds {within} of {len(compared)}, the clock {by_clock} of {len(compared)}.",
    ]
    return "\n".join([*lines, "", *_plan_told(plan)]) + "\n"


def _plan_told(plan: dict[str, Any]) -> list[str]:
    kinds = list(dict.fromkeys((way["way"], way["compression"]) for way in plan["ways"]))
    cells = {(way["way"], way["compression"], way["nodes"]): way for way in plan["ways"]}
    counts = sorted({way["nodes"] for way in plan["ways"]})
    names = [kind[0] if kind[1] == "none" else f"{kind[0]} {kind[1]}" for kind in kinds]
    lines = [
        f"## 1 to 256 nodes: {plan['table']['name']}", "",
        f"Network {plan['network']}; seconds from the file to 10⁻⁶, reading included. The plan took "
        f"{plan['seconds']:.0f} s under a load of {plan['load']:.1f}.", "",
        "![Seconds over nodes](images/scaling.svg)", "",
        "| nodes | " + " | ".join(names) + " |", "|--:|" + "--:|" * len(names),
    ]  # fmt: skip
    for n in counts:
        lines.append(f"| {n} | " + " | ".join(f"{cells[(*kind, n)]['total']:.3g}" for kind in kinds) + " |")
    head = "| way | nodes | seconds | rows a second | traffic | node-hours | waiting | what limits it there |"
    lines += ["", head, "|---|--:|--:|--:|--:|--:|--:|---|"]
    for name, one in zip(names, plan["best"], strict=True):
        way = cells[one["way"], one["compression"], one["nodes"]]
        lines.append(
            f"| {name} | {one['nodes']}{'' if one['enough'] else '+'} | {one['total']:.3g} | "
            f"{way['rows_per_second']:.3g} | {way['nbytes'] / 1e6:.0f} MB | {way['node_hours']:.2g} | "
            f"{way['waiting']:.0%} | {one['limit_said'] or 'more nodes still help'} |"
        )
    return lines


COLOURS = ("#1b1b1b", "#2563eb", "#d97706", "#059669", "#9333ea")


def drawn(plan: dict[str, Any]) -> str:
    """Seconds over nodes, both in doublings; dashed with compression."""
    ways = plan["ways"]
    nodes, totals = [way["nodes"] for way in ways], [way["total"] for way in ways]
    width, height, left, top = 720, 420, 60, 20
    low, high = math.log(min(totals)), math.log(max(totals))

    def at(way: dict[str, Any]) -> str:
        x = left + (width - left - 140) * math.log2(way["nodes"]) / max(1.0, math.log2(max(nodes)))
        y = top + (height - top - 50) * (high - math.log(way["total"])) / max(high - low, 1e-9)
        return f"{x:.1f},{y:.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"',
             ' font-size="12">', '<rect width="100%" height="100%" fill="white"/>']  # fmt: skip
    for count in sorted(set(nodes)):
        x = at({"nodes": count, "total": min(totals)}).split(",")[0]
        parts.append(f'<text x="{x}" y="{height - 28}" text-anchor="middle">{count}</text>')
    for power in range(math.floor(low / math.log(10)), math.ceil(high / math.log(10)) + 1):
        y = float(at({"nodes": 1, "total": 10.0**power}).split(",")[1])
        if top <= y <= height - 45:
            parts.append(f'<line x1="{left}" x2="{width - 140}" y1="{y}" y2="{y}" stroke="#ddd"/>')
            parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{10.0**power:g} s</text>')
    parts.append(f'<text x="{(left + width - 140) / 2}" y="{height - 8}" text-anchor="middle">nodes</text>')
    kinds = list(dict.fromkeys((way["way"], way["compression"]) for way in ways))
    names = list(dict.fromkeys(kind[0] for kind in kinds))
    for place, kind in enumerate(kinds):
        line = " ".join(at(way) for way in ways if (way["way"], way["compression"]) == kind)
        colour, dash = (
            COLOURS[names.index(kind[0]) % len(COLOURS)],
            "" if kind[1] == "none" else ' stroke-dasharray="5 4"',
        )
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        y = top + 18 * place + 10
        parts.append(
            f'<line x1="{width - 130}" x2="{width - 105}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        parts.append(f'<text x="{width - 98}" y="{y + 4}">{kind[0]}{"" if kind[1] == "none" else " " + kind[1]}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--nodes", default="1,2,4,8,16,32,64,128,256")
    chosen = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in THREAD_LIMITS.items()):  # as a run has it: one BLAS thread
        os.execve(
            sys.executable, [sys.executable, "-m", "benchmarks.scaling", *sys.argv[1:]], os.environ | THREAD_LIMITS
        )
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="shoal-scaling-") as folder:
        compared = compare(Path(folder), chosen.repeats)
    nodes = tuple(map(int, chosen.nodes.split(",")))
    plan = make_plan(config_from({"file": PLANNED}), PlanRequest(nodes))
    text = PAGE.read_text("utf-8").split(BEGIN)[0].rstrip() + "\n\n"
    PAGE.write_text(text + told(compared, plan, load), "utf-8")
    CHART.write_text(drawn(plan), "utf-8")
    print(f"written: {PAGE} and {CHART}")
