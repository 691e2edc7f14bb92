"""`python -m benchmarks.shapes.yes_no`: a logistic model with an L2 penalty from a CSV, beside pandas and scikit-learn.

Both start as fresh processes, in turns, and have to come to the same coefficients.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars

from benchmarks.contestants import Shoal
from benchmarks.processes import ProcessOutcome, run

PEER = """
import json, sys, pandas
from sklearn.linear_model import LogisticRegression
frame = pandas.read_csv(sys.argv[1])
X, y = frame.drop(columns="y").to_numpy(), frame["y"].to_numpy()
found = LogisticRegression(C=1.0, max_iter=1000, tol=float(sys.argv[2])).fit(X, y)
print(json.dumps(found.coef_[0].tolist()))
"""
TIGHT = "1e-8"  # of the run that coefficients are compared with; the others have the usual tolerance


def make(path: Path, rows: int, columns: int) -> None:
    random = np.random.default_rng(1)
    X = random.normal(size=(rows, columns)).round(4)
    eta = X @ random.normal(size=columns) * 0.3 - 0.5
    table = {f"x{j}": X[:, j] for j in range(columns)}
    polars.DataFrame({**table, "y": (random.random(rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)}).write_csv(path)


def peer(path: Path, tolerance: str = "1e-4") -> ProcessOutcome:
    return run([sys.executable, "-c", PEER, str(path), tolerance], {}, watch_memory=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes.yes_no", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        path = Path(folder) / "yes_no.csv"
        make(path, chosen.rows, chosen.columns)
        shoal = Shoal([sys.executable, "-P", "-m", "shoal.cli.app"], Path(folder))
        fit = [*shoal.command, "train", str(path), "--target", "y", "--model", "logistic", "--shrink", "ridge",
               "--alpha", "1", "--set", "standardize=false", "--workers", "2", "--json"]  # fmt: skip
        own, theirs = [], []
        for _ in range(chosen.repeats):
            own.append(shoal.run(fit, watch_memory=True))
            theirs.append(peer(path))
        found = list(json.loads(own[-1].output)["coefficients"].values())
        expected = json.loads(peer(path, TIGHT).output)
    for name, outcomes in (("shoal", own), ("pandas + scikit-learn", theirs)):
        seconds, spent = ([getattr(outcome, of) for outcome in outcomes] for of in ("seconds", "processor"))
        memory = max(outcome.peak_memory for outcome in outcomes) / 1e6
        print(
            f"{name}: {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}), "
            f"{statistics.median(spent):.2f} s of processors ({min(spent):.2f} to {max(spent):.2f}), {memory:,.0f} MB"
        )
    for what, of in (("time", "seconds"), ("processor time", "processor")):
        ratios = [getattr(other, of) / getattr(one, of) for one, other in zip(own, theirs, strict=True)]
        print(f"ratio of pairs by {what}: {', '.join(f'{ratio:.1f}' for ratio in ratios)}")
    print(f"largest difference of coefficients: {np.abs(np.array(found) - expected).max():.1e}")


if __name__ == "__main__":
    main()
