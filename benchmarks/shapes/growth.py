"""`python -m benchmarks.shapes.growth`: how time and memory grow with a table; writes docs/growth.md and its chart.

Each work is done at one, two, four and eight times its size, in turns. What counts is the power of the size by which
the processor time of all its processes grows from twice to eight times, beside that of the theory.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import math
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.contestants import Shoal
from benchmarks.processes import OtherWork
from benchmarks.report import processor
from benchmarks.tables import TINY, MadeTable, make
from shoal.report.svg import Plot, PlotAxis

ROOT = Path(__file__).parents[2]
PAGE, CHART = ROOT / "docs" / "growth.md", ROOT / "docs" / "images" / "growth.svg"
TIMES = (1, 2, 4, 8)
GRACE = 5.0  # seconds for processes that were left to end by themselves
PR_SET_CHILD_SUBREAPER = 36
ROOM = 0.15  # by which a measured power may lie above the theory's before it is called too much
COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea", "#dc2626", "#0891b2", "#4b5563", "#ca8a04")


@dataclass(frozen=True)
class GrowingWork:
    """Something to do with a table that is `times` its size; `power` is that by which theory lets its time grow."""

    name: str
    grows: str
    table: Callable[[int], MadeTable]
    options: tuple[str, ...]
    power: float
    why: str
    command: str = "train"


def _rows(columns: int, first: int) -> Callable[[int], MadeTable]:
    return lambda times: MadeTable(f"rows{columns}-{times * first}", times * first, columns)


def _columns(rows: int, first: int) -> Callable[[int], MadeTable]:
    return lambda times: MadeTable(f"columns{rows}-{times * first}", rows, times * first)


RIDGE, LASSO = ("--model", "ridge", "--alpha", "1"), ("--model", "lasso", "--alpha", "8")
STEPS = (*RIDGE, "--solver", "gradient", "--epochs", "20", "--tolerance", "0", "--workers", "1")
TALL, MORE = _rows(20, 500_000), _columns(20_000, 100)
FROM_TALL, FROM_MORE = "rows, from 500,000 x 20", "columns, from 20,000 x 100"
WORKS = (
    GrowingWork("ridge from the CSV", FROM_TALL, TALL, RIDGE, 1, "every cell is read once"),
    GrowingWork("ridge from the CSV", FROM_MORE, MORE, RIDGE, 2, "sums of all pairs of columns"),
    GrowingWork(
        "lasso, wide",
        "columns, from 300 x 2,500",
        _columns(300, 2_500),
        LASSO,
        2,
        "columns times weights, which are more with them",
    ),
    GrowingWork(
        "lasso, 10 folds", "rows, from 100,000 x 50", _rows(50, 100_000), ("--model", "lasso"), 1, "one reading", "tune"
    ),
    GrowingWork("20 passes of gradient steps", FROM_TALL, TALL, STEPS, 1, "rows times passes"),
    GrowingWork(
        "20 passes of gradient steps", FROM_MORE, MORE, STEPS, 2, "cells times passes, and the optimum beside them"
    ),
)


@dataclass(frozen=True)
class Growth:
    """Of one work: processor seconds at each size, without those that a thousand rows take, and peak bytes."""

    work: GrowingWork
    start: float
    seconds: tuple[float, ...]
    memory: tuple[int, ...]

    @property
    def power(self) -> float:
        """From the second size on: up to there it may be one process only."""
        return math.log(self.seconds[-1] / self.seconds[1]) / math.log(TIMES[-1] / TIMES[1])

    @property
    def memory_power(self) -> float:
        return math.log(self.memory[-1] / self.memory[1]) / math.log(TIMES[-1] / TIMES[1])

    @property
    def is_as_theory(self) -> bool:
        return self.power <= self.work.power + ROOM


def measured(shoal: Shoal, work: GrowingWork, folder: Path, repeats: int) -> Growth:
    """All sizes in each round; medians of the rounds."""
    tables = (TINY, *map(work.table, TIMES))
    seconds: list[list[float]] = [[] for _ in tables]
    memory = [0] * len(tables)
    for _ in range(repeats):
        for place, table in enumerate(tables):
            command = [*shoal.command, work.command, str(make(table, folder)), "--target", "y", *work.options, "--json"]
            before = _spent()
            outcome = shoal.run(command, watch_memory=True)
            seconds[place].append(_spent() - before)
            memory[place] = max(memory[place], outcome.peak_memory)
    start, *grown = map(median, seconds)
    return Growth(work, start, tuple(max(0.01, one - start) for one in grown), tuple(memory[1:]))


def _adopt_orphans() -> None:
    """Let processes whose parent ends become children of this one (Linux): their time is then counted as well."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def _spent() -> float:
    """Processor seconds of all processes that this one has started, and that they have started, and that have ended."""
    deadline = time.monotonic() + GRACE
    with contextlib.suppress(ChildProcessError):  # until there are none
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.02)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def drawn(found: Sequence[Growth]) -> str:
    """Times the time of the first size, over times the size; a dotted line grows as the size does."""
    curves = [[second / one.seconds[0] for second in one.seconds] for one in found]
    plot = Plot(
        PlotAxis(0.9, 9, "times the size", is_log=True),
        PlotAxis.powers([1, *np.concatenate(curves)], "times the time"),
        width=720,
        height=440,
    )
    plot.line([(times, float(times)) for times in TIMES], "guide")
    for number, curve in enumerate(curves):
        plot.line(list(zip(map(float, TIMES), curve, strict=True)), f"c{number}")
    style = "".join(f".c{number}{{stroke:{COLOURS[number % len(COLOURS)]}}}" for number in range(len(curves)))
    style += (
        ".line{fill:none;stroke-width:2}.guide{stroke:#999;stroke-dasharray:3 4}.grid{stroke:#ddd}.axis{stroke:#555}"
    )
    style += "text{font:12px sans-serif;fill:#333}"
    legend = "".join(
        f'<line x1="84" x2="108" y1="{26 + 17 * i}" y2="{26 + 17 * i}" class="line c{i}"/>'
        f'<text x="114" y="{30 + 17 * i}">{one.work.name}: {one.work.grows}</text>'
        for i, one in enumerate(found)
    )
    picture = plot.svg("Times the time over times the size, for each work").removesuffix("</svg>")
    opening, rest = picture.split(">", 1)
    background = '<rect width="100%" height="100%" fill="white"/>'
    return f'{opening} xmlns="http://www.w3.org/2000/svg"><style>{style}</style>{background}{rest}{legend}</svg>\n'


def page(found: Sequence[Growth], repeats: int, others: float) -> str:
    heads = ("work", "grows by", "start", "seconds", "power", "theory", "as theory", "MB", "power")
    rows = [heads, ["---"] * len(heads), *map(_cells, found)]
    return "\n".join([
        "# Growth", "",
        "Written by `python -m benchmarks.shapes.growth`: each work at one, two, four and eight times its size.",
        "Seconds are processor time of all processes, which other work on the machine changes little, without those of",
        "the start, which are what 1,000 x 20 take. The power is that from twice to eight times the size, and may be",
        f"{ROOM:g} above the theory's. Memory is the peak of all processes.", "",
        f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, medians of {repeats} rounds;",
        f"other programs took {others:.0%} of the cores.", "",
        "![Times the time over times the size](images/growth.svg)", "",
        *(f"| {' | '.join(row)} |" for row in rows), "",
    ])  # fmt: skip


def _cells(one: Growth) -> list[str]:
    return [
        one.work.name, one.work.grows, f"{one.start:.2f}", " / ".join(f"{s:.2f}" for s in one.seconds),
        f"{one.power:.2f}", f"{one.work.power:g} ({one.work.why})", "yes" if one.is_as_theory else "NO",
        " / ".join(f"{size / 1e6:.0f}" for size in one.memory), f"{one.memory_power:.2f}",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes.growth", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    _adopt_orphans()
    others = OtherWork()
    with tempfile.TemporaryDirectory(prefix="shoal-growth-") as name:
        folder = Path(name)
        shoal = Shoal([str(Path(sys.executable).with_name("shoal"))], folder)
        found = []
        for work in WORKS:
            found.append(measured(shoal, work, folder, chosen.repeats))
            print(f"{work.name}, {work.grows}: {found[-1].seconds}, power {found[-1].power:.2f}", flush=True)
    PAGE.write_text(page(found, chosen.repeats, others.share()))
    CHART.write_text(drawn(found))
    print(f"Written to {PAGE.relative_to(ROOT)} and {CHART.relative_to(ROOT)}")
    sys.exit(not all(one.is_as_theory for one in found))


if __name__ == "__main__":
    main()
