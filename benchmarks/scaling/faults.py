"""`python -m benchmarks.scaling.faults`: random faults under runs on a cluster of this machine; does a bit differ?

A head without cores and two nodes of one core, which have no disk in common. `make cluster-soak` does thirty.
"""

from __future__ import annotations

import argparse
import math
import os
import secrets
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from support.engines.storm import Damage, Storm
from support.engines.yard import Yard
from support.training import Trainer

MODES = ("sync", "local")


def write_table(path: Path, rows: int = 2000) -> None:
    chance = np.random.default_rng(0)
    X = chance.normal(size=(rows, 6)).round(5)
    y = (X @ np.arange(6.0) + chance.normal(size=rows)).round(5)
    names = ",".join([*(f"x{i}" for i in range(6)), "y"])
    np.savetxt(path, np.column_stack((X, y)), "%.5f", ",", header=names, comments="")


def stormed(folder: Path, mode: str, faults: int, seed: int) -> Damage:
    from shoal.engines.cluster.connection import Connection
    from shoal.engines.cluster.engine import RayEngine

    os.environ["SHOAL_HOME"] = str(folder / "home")
    path = folder / "table.csv"
    write_table(path)
    (folder / "yard").mkdir()
    yard = Yard(folder / "yard", os.environ["RAY_AUTH_TOKEN"])
    try:
        with RayEngine(2, Connection.to(yard.address), restarts=1000) as engine:
            return Storm(yard, engine, faults, seed).under(Trainer(folder), path, "y", mode=mode)
    finally:
        yard.close()


def told(mode: str, found: Damage, seconds: float) -> str:
    lines = [
        f"mode {mode}: {found.kinds.total()} faults under {found.rounds:,} rounds in {seconds:.0f} s: "
        f"{found.differing} rounds differ, weights {'the same' if found.same_weights else 'DIFFER'}"
    ]
    for kind, count in sorted(found.kinds.items()):
        lines.append(
            f"  {count:3} x {kind:14} noticed {_spread(found.noticed[kind])}, back {_spread(found.mended[kind])}"
        )
    return "\n".join(lines)


def _spread(seconds: list[float]) -> str:
    return f"{min(seconds):.1f} / {statistics.median(seconds):.1f} / {max(seconds):.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    from shoal.training import recorder

    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(16)  # one for all: a process of Ray keeps the first that it saw
    recorder.BUDGET = math.inf  # every round is put on record
    wrong = False
    print(f"lowest / median / highest; load {os.getloadavg()[0]:.1f}")
    for number, mode in enumerate(MODES):
        faults = chosen.faults // len(MODES) + (number < chosen.faults % len(MODES))
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="shoal-storm-", ignore_cleanup_errors=True) as folder:
            found = stormed(Path(folder), mode, faults, chosen.seed + number)
        print(told(mode, found, time.monotonic() - began), flush=True)
        wrong = wrong or bool(found.differing) or not found.same_weights
    sys.exit(wrong)


if __name__ == "__main__":
    main()
