"""Makes tests/fitting/classes/mnlogit.json: classes of real tables by statsmodels' MNLogit, without penalty.

Needs statsmodels in the Python that runs it:

    python tools/multinomial_references.py SHARED_DATA_FOLDER

Nothing of Shoal is imported. MNLogit has each class against the first; coefficients that sum to 0 over the classes and
their standard errors follow from that. Columns are standardised for the fit, which saves digits, and figures are given
in the units of the table.
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
    fit = sm.MNLogit(places, np.column_stack((np.ones(len(X)), (X - mean) / sd))).fit(
        method="newton", maxiter=500, tol=1e-14, disp=False
    )
    params = back @ np.asarray(fit.params)  # (1 + p, K - 1)
    whole = np.kron(np.eye(len(classes) - 1), back)
    covariance = whole @ np.asarray(fit.cov_params()) @ whole.T
    K = len(classes)
    sums = np.vstack((np.zeros(K - 1), np.eye(K - 1))) - 1 / K  # from differences to the first class to sums of 0
    spread = np.kron(sums, np.eye(1 + len(columns)))
    errors = np.sqrt(np.diag(spread @ covariance @ spread.T)).reshape(K, -1)
    return {
        "target": target, "columns": columns, "classes": [str(one) for one in classes.tolist()], "rows": len(frame),
        "coefficients": (sums @ params.T).tolist(), "std_errors": errors.tolist(), "log_likelihood": float(fit.llf),
        "null_log_likelihood": float(fit.llnull), "first": np.asarray(fit.predict())[:3].tolist(),
    }  # fmt: skip


if __name__ == "__main__":
    OUT.write_text(json.dumps(references(Path(sys.argv[1])), indent=1) + "\n")
    print(f"wrote {OUT}")
