"""CSV to a fitted lasso, and to one whose penalty folds choose, where columns are more than rows, against pandas +
scikit-learn; runs are made in contestants."""

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
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # beside two jobs more of them take far longer
CHOOSING = """
import sys, warnings, pandas
from sklearn.linear_model import LassoCV
from sklearn.preprocessing import StandardScaler
warnings.simplefilter("ignore")
frame = pandas.read_csv(sys.argv[1])
y = frame.pop("y")
LassoCV(alphas=100, cv=10, n_jobs=2).fit(StandardScaler().fit_transform(frame), y)
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
    fitted = Measurement(what, ratio(race, "shoal", "pandas + scikit-learn"), "x", 1, detail=spans(race))
    return [fitted, choosing(shoal, table, path, repeats)]


def choosing(shoal: Shoal, table: MadeTable, path: Path, repeats: int) -> Measurement:
    """100 penalties in 10 folds; ours are exact in every fold, each with units of its own, and the peer, with one
    standardisation for all folds, stops at its own tolerance, 1e-4."""
    options = ["--target", "y", "--model", "lasso", "--json"]
    race = interleaved(
        {
            "shoal": lambda: shoal.run([*shoal.command, "tune", str(path), *options]),
            "pandas + LassoCV": lambda: run([sys.executable, "-c", CHOOSING, str(path)], ONE_THREAD),
        },
        repeats,
    )
    what = f"{table.title}: CSV to a lasso chosen by 10 folds / pandas + scikit-learn (LassoCV)"
    return Measurement(what, ratio(race, "shoal", "pandas + LassoCV"), "x", 1, detail=spans(race))
