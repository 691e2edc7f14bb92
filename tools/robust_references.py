"""Makes tests/fitting/robust/robust.json: real tables fitted by scikit-learn's and statsmodels' own robust models.

Needs statsmodels in the Python that runs it:

    PYTHONPATH=tests python tools/robust_references.py SHARED_DATA_FOLDER

Nothing of Shoal is imported. huber: the objective of scikit-learn's HuberRegressor without penalty, from where that
stops, by BFGS until nothing moves; standard errors (H1) by statsmodels' RLM at that scale. quantile: standard errors
(iid) by statsmodels' QuantReg. Columns are standardised for the fits, which saves digits; all is given in the units of
the table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from support.data.glm_tables import GlmTable, coded, glm_tables, linear_tables

OUT = Path(__file__).parents[1] / "tests" / "fitting" / "robust" / "robust.json"
TABLES = ("diabetes", "rain", "auto_gamma")
EPSILON, QUANTILES = 1.35, (0.1, 0.5, 0.9)


def tables(data: Path) -> Iterator[GlmTable]:
    yield from linear_tables(data)
    yield from (table for table in glm_tables(data) if table.name in TABLES)


def references(data: Path) -> dict[str, Any]:
    import sklearn
    import statsmodels

    versions = {"scikit-learn": sklearn.__version__, "statsmodels": statsmodels.__version__, "numpy": np.__version__}
    found = {table.name: _of(table) for table in tables(data)}
    return {"made_by": "tools/robust_references.py", "versions": versions, "tables": found}


def _of(table: GlmTable) -> dict[str, Any]:
    X, y = coded(table)
    mean, spread = X.to_numpy().mean(axis=0), X.to_numpy().std(axis=0)
    Z = (X.to_numpy() - mean) / spread
    back = np.eye(len(mean) + 1)
    back[0, 1:], back[1:, 1:] = -mean / spread, np.diag(1 / spread)
    return {
        "source": table.source, "target": table.target, "names": ["(intercept)", *X.columns],
        "huber": _huber(Z, y.to_numpy(), back),
        "quantile": {str(q): _quantile(Z, y.to_numpy(), back, q) for q in QUANTILES},
    }  # fmt: skip


def _huber(Z: np.ndarray, y: np.ndarray, back: np.ndarray) -> dict[str, Any]:
    import statsmodels.api as sm
    from scipy.optimize import minimize
    from sklearn.linear_model import HuberRegressor
    from sklearn.linear_model._huber import _huber_loss_and_gradient
    from statsmodels.robust.scale import HuberScale

    unit = float(np.std(y))
    first = HuberRegressor(epsilon=EPSILON, alpha=0.0, max_iter=100_000, tol=1e-10).fit(Z, y / unit)
    at = np.r_[first.coef_, first.intercept_, first.scale_]
    for _ in range(30):
        how = {"gtol": 1e-13, "maxiter": 10_000}
        own = (Z, y / unit, EPSILON, 0.0, np.ones(len(y)))
        at = minimize(_huber_loss_and_gradient, at, args=own, jac=True, method="BFGS", options=how).x
    scale = float(at[-1]) * unit

    class Given(HuberScale):
        def __call__(self, *args: Any) -> float:
            return scale

    norm = sm.robust.norms.HuberT(t=EPSILON)
    fit = sm.RLM(y, sm.add_constant(Z), M=norm).fit(scale_est=Given(), cov="H1", tol=1e-14, maxiter=10_000)
    coef = back @ (np.r_[at[-2], at[:-2]] * unit)
    errors = np.sqrt(np.diag(back @ fit.cov_params() @ back.T))
    return {"coefficients": coef.tolist(), "scale": scale, "std_errors": errors.tolist()}


def _quantile(Z: np.ndarray, y: np.ndarray, back: np.ndarray, q: float) -> dict[str, Any]:
    import statsmodels.api as sm

    fit = sm.QuantReg(y, sm.add_constant(Z)).fit(q=q, vcov="iid", max_iter=100_000, p_tol=1e-12)
    return {"std_errors": np.sqrt(np.diag(back @ fit.cov_params() @ back.T)).tolist()}


if __name__ == "__main__":
    OUT.write_text(json.dumps(references(Path(sys.argv[1])), indent=1) + "\n")
    print(OUT)
