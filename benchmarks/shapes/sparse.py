"""Lasso and ridge on a sparse matrix in memory, one value in a thousand, against others who take such."""

from __future__ import annotations

import importlib.util
import json
import sys

from benchmarks.cases import Measurement, interleaved, span
from benchmarks.contestants import Contestant
from benchmarks.processes import ProcessOutcome, run

SIZE, VALUES = 20_000, 400_000
MADE = f"""
import json, sys, time, warnings
import numpy as np, scipy.sparse as sp
warnings.simplefilter("ignore")
random = np.random.default_rng(0)
at = random.integers(0, {SIZE}, (2, {VALUES}))
X = sp.csr_matrix((random.standard_normal({VALUES}), at), ({SIZE}, {SIZE}))
y = X[:, :100] @ random.normal(size=100) * 3 + 0.1 * random.standard_normal({SIZE})
alpha = 0.1 * np.abs(X.T @ (y - y.mean())).max() / {SIZE}
"""
FITTED = """
model.fit(X[:200], y[:200])  # what is compiled or imported at first is not the fit
start = time.process_time()
model.fit(X, y)
print(json.dumps(time.process_time() - start))
"""
LASSO = {
    "shoal": "import shoal; model = shoal.Lasso(alpha)",
    "scikit-learn": "from sklearn.linear_model import Lasso; model = Lasso(alpha, tol=1e-10, max_iter=100_000)",
    "celer": "from celer import Lasso; model = Lasso(alpha, tol=1e-10)",
    "skglm": "from skglm import Lasso; model = Lasso(alpha, tol=1e-10)",
}
RIDGE = {
    "shoal": "import shoal; model = shoal.Ridge(1.0)",
    "scikit-learn": "from sklearn.linear_model import Ridge; model = Ridge(1.0, solver='sparse_cg', tol=1e-10)",
}


def sparse(repeats: int) -> list[Measurement]:
    """Processor time of the fit alone, after a small one; those that are not installed are left out."""
    return [one for name, way in (("lasso", LASSO), ("ridge", RIDGE)) for one in _race(name, way, repeats)]


def _race(name: str, ways: dict[str, str], repeats: int) -> list[Measurement]:
    there = {who: way for who, way in ways.items() if who in ("shoal", "scikit-learn") or importlib.util.find_spec(who)}
    race = interleaved({who: _fit(way) for who, way in there.items()}, repeats)
    seconds = {who: [_seconds(one) for one in outcomes] for who, outcomes in race.items()}
    detail = "; ".join(f"{who} {span(found)}" for who, found in seconds.items())
    title = f"{SIZE:,} x {SIZE:,}, {VALUES:,} values: {name}, processor time"
    return [
        Measurement(f"{title} / {who}", _ratio(seconds["shoal"], found), "x", 1, detail=detail if i == 0 else "")
        for i, (who, found) in enumerate(list(seconds.items())[1:])
    ]


def _fit(way: str) -> Contestant:
    return lambda: run([sys.executable, "-c", MADE + way + FITTED], {})


def _ratio(ours: list[float], theirs: list[float]) -> float:
    """The median over rounds, both of which were run one after the other."""
    return sorted(a / b for a, b in zip(ours, theirs, strict=True))[len(ours) // 2]


def _seconds(outcome: ProcessOutcome) -> float:
    return float(json.loads(outcome.output.strip().splitlines()[-1]))
