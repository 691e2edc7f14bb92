"""`python -m benchmarks.reading.checksums`: what checksums take of a fit, with and without them in turns.

One process, one worker inside it, processor time. Each way has a home of its own; without them every checksum is 0,
so that all else is done alike. A cache that is found is proven as by a new process: nothing of it is remembered.
The share is the time inside checksums of a fit with them, which a busy machine slows like the rest; bytes that come
into the processor's cache there, and would come later otherwise, count in full, so that it is an upper bound. What
proving really adds to a pass over rows is told first, by pieces with and without it in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from shoal import data_pipeline
from shoal.coordinator import Coordinator
from shoal.data_pipeline import CHUNK_BYTES
from shoal.engines.inline import InlineEngine
from shoal.files import checksums, sealed
from shoal.passes.blocks import opened
from shoal.settings.values import config_from
from shoal.tasks.train import train_with

REPEATS = 15
SHAPES = ((200_000, 20), (500_000, 50))


def table(folder: Path, rows: int, columns: int) -> Path:
    path = folder / f"{rows}x{columns}.csv"
    random = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(",".join([*(f"x{i}" for i in range(columns)), "y"]) + "\n")
        for start in range(0, rows, 50_000):
            X = random.normal(size=(min(50_000, rows - start), columns))
            y = X.sum(1) + random.normal(size=len(X))
            line = ",".join(["%.5f"] * (columns + 1))
            file.write("\n".join(line % tuple(row) for row in np.column_stack((X, y)).tolist()) + "\n")
    return path


@contextlib.contextmanager
def without() -> Iterator[None]:
    """Every checksum is 0, and found to be."""
    real = checksums.checksum, sealed._checksum
    checksums.checksum = lambda data, before=0: 0
    sealed._checksum = lambda values, of: "00000000"
    try:
        yield
    finally:
        checksums.checksum, sealed._checksum = real


class Stopwatch:
    """Seconds of this thread inside checksums."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        real = checksums.checksum, sealed._checksum
        checksums.checksum, sealed._checksum = (self._timed(one) for one in real)
        try:
            yield
        finally:
            checksums.checksum, sealed._checksum = real

    def _timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            began = time.thread_time()
            try:
                return work(*arguments)
            finally:
                self.seconds += time.thread_time() - began

        return timed


def fitted(file: Path, home: Path) -> float:
    """Seconds of the processor for a fit by whoever knows nothing of the cache yet."""
    opened.cache_clear()
    data_pipeline._map.cache_clear()
    checksums._whole.clear()
    gc.collect()
    config = config_from({"file": str(file), "target": "y", "model": "ridge", "engine": "inline"})
    began = time.process_time()
    with InlineEngine() as engine:
        train_with(Coordinator(engine, home), config)
    return time.process_time() - began


def measured(file: Path, folder: Path, cache: str, repeats: int) -> dict[str, list[float]]:
    """Seconds in turns, each time the other way first; and the share of the time that is inside checksums."""
    watch = Stopwatch()
    ways = {"with": contextlib.nullcontext, "without": without, "share": watch.running}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-1, repeats):  # the first of each way warms up
        for name in list(ways)[:: 1 if number % 2 else -1]:
            home = folder / ("without" if name == "without" else "with")
            watch.seconds = 0.0
            if cache == "made":
                shutil.rmtree(home, ignore_errors=True)
            with ways[name]():
                seconds = fitted(file, home)
            if number >= 0:
                found[name].append(watch.seconds / seconds if name == "share" else seconds)
    return found


def in_a_pass(repeats: int) -> str:
    """What proving adds to the pass over rows that a fit ends with, piece by piece in turns, so that whatever else the
    machine does meets both ways alike."""
    rows = CHUNK_BYTES // (8 * 51)
    table, weights = np.random.default_rng(0).normal(size=(rows * 117, 51)), np.linspace(-1, 1, 50)  # 245 MB
    more, least, total = [], {True: math.inf, False: math.inf}, 0
    for number in range(2 * repeats):
        spent = {True: 0.0, False: 0.0}
        for place, start in enumerate(range(0, len(table), rows)):
            piece, proven = table[start : start + rows], bool((place + number) % 2)
            began = time.thread_time()
            if proven:
                total = checksums.checksum(piece, total)
            error = piece[:, 50] - piece[:, :50] @ weights
            piece[:, :50].T @ error, error @ error, np.abs(error).sum()
            spent[proven] += time.thread_time() - began
        more.append(spent[True] - spent[False])
        least = {way: min(least[way], spent[way]) for way in spent}
    size = table.nbytes / 2e9  # each way has every other piece
    least_more, median = least[True] - least[False], statistics.median(more)
    return (
        f"A pass over rows: {1000 * least[False] / size:.0f} ms a GB; proving adds {1000 * least_more / size:.1f} ms "
        f"(least of {2 * repeats} each), {1000 * median / size:.1f} ms (median of pairs)."
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading.checksums", description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--only-pass", action="store_true", help="only what proving adds to a pass over rows")
    chosen = parser.parse_args()
    print(f"machine load {os.getloadavg()[0]:.0f}, {chosen.repeats} repeats\n")
    print(f"{in_a_pass(chosen.repeats)}\n", flush=True)
    if chosen.only_pass:
        return 0
    print("| table | cache | without, least / median | with, least / median | more, least / median | share, median |")
    print("|---|---|---|---|---|---|")
    for rows, columns in SHAPES:
        with tempfile.TemporaryDirectory(prefix="shoal-checksums-") as name:
            folder = Path(name)
            os.environ["SHOAL_HOME"] = str(folder / "home")
            file = table(folder, rows, columns)
            for cache in ("made", "found"):
                print(_line(f"{rows:,} x {columns}", cache, measured(file, folder, cache, chosen.repeats)), flush=True)
    return 0


def _line(shape: str, cache: str, found: dict[str, list[float]]) -> str:
    without_, with_ = ((min(found[name]), statistics.median(found[name])) for name in ("without", "with"))
    more = " / ".join(f"{after / before - 1:+.1%}" for before, after in zip(without_, with_, strict=True))
    times = [" / ".join(f"{1000 * value:.0f}" for value in pair) + " ms" for pair in (without_, with_)]
    share = f"{statistics.median(found['share']):.1%}"
    return f"| {shape} | {cache} | {times[0]} | {times[1]} | {more} | {share} |"


if __name__ == "__main__":
    sys.exit(main())
