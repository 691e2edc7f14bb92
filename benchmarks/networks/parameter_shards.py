"""What one step takes with 1, 2 and 4 parameter shards, by the number of parameters; printed as the table of
docs/networks.md. No worker computes meanwhile, as in mode sync, where all of them wait for the step.

All counts take turns, `--repeats` times; a figure is the median of the turns, each by its median step, with the
quickest and slowest turn. Four updates are added up in a step, as those of four shards of rows. Beside it stands the
processor time of a step in all processes together: where other programs want the cores, more processes are given more
of them, and only processor time tells what the work itself takes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil

from shoal.engines.base import Engine
from shoal.engines.processes import ProcessEngine
from shoal.models import NoPenalty
from shoal.parameters.shards import ShardedParameters
from shoal.parameters.stepping import VectorStep
from shoal.passes.board import ServerBoard
from shoal.passes.parcels import server_board
from shoal.steps.compression import make_compression
from shoal.steps.optimizers import SGD, AdamW, StepRule
from shoal.steps.placement import pieces_of

SIZES = {"10 k": 10_000, "1 M": 1_000_000, "50 M": 50_000_000}
COUNTS = (1, 2, 4)
ROWS = (32,) * 4
LEAST, SECONDS = 3, 1.0  # steps of a turn, and how long they take at least


def rules(width: int) -> dict[str, StepRule]:
    return {"sgd": SGD(width), "adamw": AdamW(width)}


@contextlib.contextmanager
def vector(engine: Engine, width: int) -> Iterator[tuple[ServerBoard, ShardedParameters]]:
    """Parameters in layers of a tenth of them each, and updates in their slots."""
    board = server_board(engine.allocate if engine.maps else None, len(ROWS), width)
    pieces = pieces_of([(f"layer{i}", width // 10) for i in range(10)])
    held = ShardedParameters(board, np.zeros(width), pieces, engine, 3, lambda kind, text, **data: None)
    for shard in range(len(ROWS)):
        make_compression("none", width, 1.0).encode(
            np.random.default_rng(shard).standard_normal(width), board._slots[shard]
        )
    try:
        yield board, held
    finally:
        held.release()
        for shared in board.memory:
            engine.release(shared)


def here(held: ShardedParameters) -> bool:
    held.tick()
    return held.count == 1 or sum(line["state"] == "here" for line in held.table()) == held.count


def processor_seconds(held: ShardedParameters) -> float:
    """Of this process and all shards so far."""
    pids = {line["pid"] for line in held.table() if line["pid"]} | {os.getpid()}
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(used.user + used.system for used in times)


def turn(held: ShardedParameters, step: Any, version: int) -> tuple[float, float, int]:
    """The median of some steps, the first left out, and their mean processor time; the version after them."""
    took: list[float] = []
    used = processor_seconds(held)
    while len(took) <= LEAST or sum(took) < SECONDS:
        started = time.perf_counter()
        held.apply(step, version)
        version += 1
        held.publish(version)
        took.append(time.perf_counter() - started)
    return float(np.median(took[1:])), (processor_seconds(held) - used) / len(took), version


def measured(engine: Engine, width: int, repeats: int) -> Iterator[tuple[str, dict[int, list[tuple[float, float]]]]]:
    with vector(engine, width) as (_, held):
        encoding = make_compression("none", width, 1.0)
        step = VectorStep(tuple(range(len(ROWS))), (encoding,) * len(ROWS), ROWS, 1e-3, 0, 0.0, NoPenalty())
        for name, rule in rules(width).items():
            held.begin(rule)
            version = 0
            held.publish(version)
            found: dict[int, list[tuple[float, float]]] = {count: [] for count in COUNTS}
            for _ in range(repeats):
                for count in COUNTS:
                    held.scale(count)
                    while not here(held):
                        time.sleep(0.05)
                    seconds, used, version = turn(held, step, version)
                    found[count].append((seconds, used))
            yield name, found


def opened(cluster: bool) -> Engine:
    if not cluster:
        return ProcessEngine(1)
    from shoal.engines.cluster.connection import Connection
    from shoal.engines.cluster.engine import RayEngine

    return RayEngine(1, Connection.to("", os.cpu_count() or 1))


def told(turns: list[tuple[float, float]]) -> str:
    seconds, used = 1e3 * np.array(turns).T
    return f"{np.median(seconds):.3g} ({seconds.min():.3g} to {seconds.max():.3g}); {np.median(used):.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(SIZES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cluster", action="store_true", help="shards as actors of a small cluster of this machine")
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ms a step (quickest to slowest turn); of processors")
    print("| parameters | step rule |" + "".join(f" {count} |" for count in COUNTS))
    print("|---|---|" + "---|" * len(COUNTS))
    with opened(chosen.cluster) as engine:
        for name, width in SIZES.items():
            if chosen.only in (None, name):
                for rule, found in measured(engine, width, chosen.repeats):
                    print(f"| {name} | {rule} | " + " | ".join(told(found[c]) for c in COUNTS) + " |", flush=True)


if __name__ == "__main__":
    main()
