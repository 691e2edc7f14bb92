"""Choosing a penalty for a survey: answers in words to questions that say nearly the same, so that dummy columns nearly
depend on one another; against pandas + scikit-learn."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.cases import Measurement, interleaved, ratio, spans, warm
from benchmarks.contestants import Shoal
from benchmarks.processes import run
from benchmarks.shapes.wide import ONE_THREAD

ROWS, QUESTIONS = 1_800, 200
ANSWERS = np.array(["strongly disagree", "disagree", "neither", "agree", "strongly agree"])
PEER = """
import sys, warnings, pandas
from sklearn.linear_model import LassoCV
from sklearn.preprocessing import StandardScaler
warnings.simplefilter("ignore")
frame = pandas.read_csv(sys.argv[1])
y = frame.pop("y")
X = StandardScaler().fit_transform(pandas.get_dummies(frame, drop_first=True))
LassoCV(alphas=100, cv=10, n_jobs=2).fit(X, y)
"""


def make(directory: Path) -> Path:
    """One mood behind all answers; a twentieth of them is missing."""
    path = directory / "survey.csv"
    if not path.exists():
        random = np.random.default_rng(2)
        mood = random.normal(size=(ROWS, 1))
        given = np.clip(np.rint(2 + 0.9 * mood + 0.6 * random.normal(size=(ROWS, QUESTIONS))), 0, 4).astype(int)
        said = np.where(random.random(given.shape) < 0.05, None, ANSWERS[given])
        y = 62 + 14 * mood[:, 0] + 3 * (given[:, 3] > 2) + random.normal(0, 8, ROWS)
        columns = {f"question {k}: is it as you expected?": said[:, k].tolist() for k in range(QUESTIONS)}
        pl.DataFrame({**columns, "y": y.round(1)}).write_csv(path)
    return path


def survey(shoal: Shoal, directory: Path, repeats: int) -> list[Measurement]:
    path = make(directory)
    warm(path)
    race = interleaved(
        {
            "shoal": lambda: shoal.run([*shoal.command, "tune", str(path), "--target", "y", "--model", "lasso"]),
            "pandas + LassoCV": lambda: run([sys.executable, "-c", PEER, str(path)], ONE_THREAD),
        },
        repeats,
    )
    what = (
        f"{ROWS:,} x {QUESTIONS} answers in words: CSV to a lasso chosen by 10 folds / pandas + scikit-learn (LassoCV)"
    )
    return [Measurement(what, ratio(race, "shoal", "pandas + LassoCV"), "x", 1, detail=spans(race))]
