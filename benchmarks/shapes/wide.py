"""CSV to fitted lasso where columns are more than rows, against pandas + scikit-learn; runs are made in contestants."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.cases import Measurement, interleaved, ratio, spans, warm
from benchmarks.contestants import Shoal
from benchmarks.processes import run
from benchmarks.tables import MadeTable

ALPHA = "8"
PEER = """
import sys, pandas
from sklearn.linear_model import Lasso
from sklearn.preprocessing import StandardScaler
frame = pandas.read_csv(sys.argv[1])
y = frame.pop("y")
Lasso(alpha=float(sys.argv[2])).fit(StandardScaler().fit_transform(frame), y)
"""


def wide(shoal: Shoal, table: MadeTable, path: Path, repeats: int) -> list[Measurement]:
    """Exact lasso on standardised columns, as the command line has it; the peer stops at its own tolerance, 1e-4."""
    warm(path)
    options = ["--target", "y", "--model", "lasso", "--alpha", ALPHA, "--json"]
    race = interleaved(
        {
            "shoal": lambda: shoal.run([*shoal.command, "train", str(path), *options]),
            "pandas + scikit-learn": lambda: run([sys.executable, "-c", PEER, str(path), ALPHA], {}),
        },
        repeats,
    )
    what = f"{table.title}: CSV to fitted lasso / pandas + scikit-learn"
    return [Measurement(what, ratio(race, "shoal", "pandas + scikit-learn"), "x", 1, detail=spans(race))]
