"""`python -m benchmarks.scaling.slow_link`: gradient runs between hosts with slow cables, for docs/cluster.md.

Needs root: a head without cores and two nodes of one core as network namespaces, each node with a cable of its own: as
fast as the kernel, or of 10 ms each way and 50 Mbit/s. What is told is the rows a second in training of a
model of many classes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from support.engines.hosts import DISK, Hosts, Link

LINKS: dict[str, Link | None] = {"fast": None, "slow": (0.010, 50e6)}
WAYS = {
    "sync": ["--mode", "sync"],
    "sync, half": ["--mode", "sync", "--compression", "half"],
    "sync, topk": ["--mode", "sync", "--compression", "topk"],
    "local, 16 steps": ["--mode", "local", "--local-steps", "16"],
    "local, 16 steps, topk": ["--mode", "local", "--local-steps", "16", "--compression", "topk"],
}


def write_classes(path: Path, rows: int, columns: int, classes: int) -> None:
    """Many classes of many columns: a message is as long as the weights, columns times classes of them."""
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, columns)).round(3)
    y = (X @ random.normal(size=(columns, classes)) + random.gumbel(size=(rows, classes))).argmax(axis=1)
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join([*(f"x{j}" for j in range(columns)), "y"]) + "\n")
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            file.write(",".join(map(str, row)) + f",c{label}\n")


@contextmanager
def hosts_with(link: Link | None, rows: int, columns: int, classes: int) -> Iterator[Hosts]:
    hosts = Hosts(link)
    try:
        write_classes(hosts.head.disk("table.csv"), rows, columns, classes)
        hosts.head.start(
            sys.executable, "-m", "support.engines.hosts", f"{DISK}/table.csv", hosts.head.address,
            *(node.address for node in hosts.nodes), stdout=subprocess.DEVNULL,
        )  # fmt: skip
        hosts.start()
        yield hosts
    finally:
        hosts.close()


def rows_a_second(hosts: Hosts, *more: str) -> tuple[float, int]:
    """And the rounds."""
    words = ["train", f"http://{hosts.head.address}:8000/table.csv", "--target", "y", "--solver", "gradient",
             "--engine", "ray", "--cluster", hosts.address, "--workers", "2", "--tolerance", "0", "--json"]  # fmt: skip
    said = json.loads(hosts.head.shoal(*words, *more))
    return said["train"]["rows"] * said["epochs"] / said["timings"]["train"], said["rounds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=800)
    parser.add_argument("--classes", type=int, default=50)
    parser.add_argument("--more", default="--model multinomial --epochs 20 --batch-size 1250 --shards 2")
    parser.add_argument("--links", default="fast,slow")
    parser.add_argument("--ways", default=";".join(WAYS), help="some of them, with ; between")
    chosen = parser.parse_args()
    print("| link | way | load | rows/s | rounds |\n|---|---|--:|--:|--:|")
    for name in chosen.links.split(","):
        with hosts_with(LINKS[name], chosen.rows, chosen.columns, chosen.classes) as hosts:
            for way, flags in ((way, WAYS[way]) for way in chosen.ways.split(";")):
                load = os.getloadavg()[0]
                speed, rounds = rows_a_second(hosts, *flags, *chosen.more.split())
                print(f"| {name} | {way} | {load:.1f} | {speed:,.0f} | {rounds} |", flush=True)


if __name__ == "__main__":
    main()
