"""Who is compared: the commands, each a fresh process that is given one CSV file."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.processes import ProcessOutcome, run

POLARS = "import sys, polars; polars.read_csv(sys.argv[1])"
DUCKDB = "import sys, duckdb; duckdb.sql('SET threads = 2'); duckdb.read_csv(sys.argv[1]).to_table('rows')"
PANDAS_SKLEARN = """
import sys, pandas
from sklearn.linear_model import Ridge
frame = pandas.read_csv(sys.argv[1])
Ridge(alpha=1.0).fit(frame.drop(columns="y").to_numpy(), frame["y"].to_numpy())
"""
IMPORTS = "import pandas, sklearn.linear_model"

Contestant = Callable[[], ProcessOutcome]


def polars_read(path: Path) -> Contestant:
    """Reading alone, nothing fitted, with the two threads that we have as workers."""
    return lambda: run([sys.executable, "-c", POLARS, str(path)], {"POLARS_MAX_THREADS": "2"})


def duckdb_read(path: Path) -> Contestant:
    """Reading alone, into a table in memory."""
    return lambda: run([sys.executable, "-c", DUCKDB, str(path)], {})


def pandas_sklearn(path: Path) -> Contestant:
    return lambda: run([sys.executable, "-c", PANDAS_SKLEARN, str(path)], {})


def imports() -> Contestant:
    return lambda: run([sys.executable, "-c", IMPORTS], {})


@dataclass
class Shoal:
    """The command `shoal train`, each time with an empty home, so that no cache helps; notes what it left."""

    command: list[str]
    homes: Path
    runs: int = 0
    left_behind: list[str] = field(default_factory=list)

    def ridge(self, path: Path, workers: int = 2, watch_memory: bool = False) -> Contestant:
        return lambda: self.train(path, workers, watch_memory)

    def train(self, path: Path, workers: int, watch_memory: bool) -> ProcessOutcome:
        options = ["--target", "y", "--model", "ridge", "--alpha", "1", "--workers", str(workers), "--json"]
        return self.run([*self.command, "train", str(path), *options], watch_memory)

    def run(self, command: list[str], watch_memory: bool = False) -> ProcessOutcome:
        with tempfile.TemporaryDirectory(prefix="home-", dir=self.homes) as home:
            outcome = run(command, {"SHOAL_HOME": home}, watch_memory)
        self.runs += 1
        self.left_behind += outcome.left_behind
        return outcome


def timings(outcome: ProcessOutcome) -> dict[str, float]:
    """Seconds by stage, as `shoal train --json` tells them."""
    seconds: dict[str, float] = json.loads(outcome.output)["timings"]
    return seconds
