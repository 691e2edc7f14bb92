"""Makes tests/fitting/classes/mnlogit.json: classes of real tables by statsmodels' MNLogit, without penalty.

Needs statsmodels in the Python that runs it:

    python tools/multinomial_references.py SHARED_DATA_FOLDER

Nothing of Shoal is imported. Robust errors are those of MNLogit's cov_type="HC0"; HC3 is written out here, row by row,
from its probabilities: each row's (I - L)^-1 (y - P) with L = W u' A^-1 u (Mancl and DeRouen 2001). MNLogit has each
class against the first; coefficients that sum to 0 over the classes and their standard errors follow from that. Columns
are standardised for the fit, which saves digits, and figures are given in the units of the table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

OUT = Path(__file__).parents[1] / "tests" / "fitting" / "classes" / "mnlogit.json"
TABLES: dict[str, tuple[str, list[str]]] = {
    "penguins.csv": ("island", ["bill_depth_mm", "body_mass_g", "year"]),
    "auto_mpg.csv": ("cylinders", ["mpg", "acceleration"]),
    "seattle_weather.csv": ("weather", ["temp_max", "temp_min", "wind"]),
}


def references(data: Path) -> dict[str, Any]:
    import statsmodels

    found = {name: _of(data / "regression" / name, *what) for name, what in TABLES.items()}
    return {
        "made_by": "tools/multinomial_references.py",
        "versions": {"statsmodels": statsmodels.__version__, "numpy": np.__version__},
        "tables": found,
    }


def _of(path: Path, target: str, columns: list[str]) -> dict[str, Any]:
    import statsmodels.api as sm

    frame = pd.read_csv(path)[[target, *columns]].dropna()
    classes, places = np.unique(frame[target].to_numpy(), return_inverse=True)
    X = frame[columns].to_numpy(float)
    mean, sd = X.mean(axis=0), X.std(axis=0)
    back = np.diag(np.append(1.0, 1 / sd))
    back[0, 1:] = -mean / sd
    Z = np.column_stack((np.ones(len(X)), (X - mean) / sd))
    fit = sm.MNLogit(places, Z).fit(method="newton", maxiter=500, tol=1e-14, disp=False)
    robust = sm.MNLogit(places, Z).fit(method="newton", maxiter=500, tol=1e-14, disp=False, cov_type="HC0")
    params = back @ np.asarray(fit.params)  # (1 + p, K - 1)
    whole = np.kron(np.eye(len(classes) - 1), back)
    K = len(classes)
    sums = np.vstack((np.zeros(K - 1), np.eye(K - 1))) - 1 / K  # from differences to the first class to sums of 0
    spread = np.kron(sums, np.eye(1 + len(columns))) @ whole
    kinds = {"std_errors": np.asarray(fit.cov_params()), "HC0": np.asarray(robust.cov_params()),
             "HC3": _without_each(Z, places, np.asarray(fit.predict()), np.asarray(fit.cov_params()))}  # fmt: skip
    errors = {
        kind: np.sqrt(np.diag(spread @ covariance @ spread.T)).reshape(K, -1).tolist()
        for kind, covariance in kinds.items()
    }
    return {
        "target": target, "columns": columns, "classes": [str(one) for one in classes.tolist()], "rows": len(frame),
        "coefficients": (sums @ params.T).tolist(), **errors, "log_likelihood": float(fit.llf),
        "null_log_likelihood": float(fit.llnull), "first": np.asarray(fit.predict())[:3].tolist(),
    }  # fmt: skip


def _without_each(Z: np.ndarray, places: np.ndarray, P: np.ndarray, bread: np.ndarray) -> np.ndarray:
    """The sandwich of HC3."""
    meat = np.zeros_like(bread)
    for u, place, own in zip(Z, places, P[:, 1:], strict=True):
        came = (np.arange(1, len(own) + 1) == place).astype(float)
        L = (np.diag(own) - np.outer(own, own)) @ np.kron(np.eye(len(own)), u) @ bread
        L = L @ np.kron(np.eye(len(own)), u).T
        score = np.kron(np.linalg.solve(np.eye(len(own)) - L, came - own), u)
        meat += np.outer(score, score)
    return bread @ meat @ bread


if __name__ == "__main__":
    OUT.write_text(json.dumps(references(Path(sys.argv[1])), indent=1) + "\n")
    print(f"wrote {OUT}")
