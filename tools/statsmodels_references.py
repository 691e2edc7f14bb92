"""Makes tests/losses/statsmodels.json: real tables fitted by statsmodels with weights, offsets and robust errors.

Needs statsmodels in the Python that runs it:

    PYTHONPATH=tests python tools/statsmodels_references.py SHARED_DATA_FOLDER

Nothing of Shoal is imported. Weights and offsets follow from the row's number, see `weights` and `offset`; columns are
standardised for the fit, which saves digits, and coefficients are given in the units of the table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from support.data.glm_tables import GlmTable, coded, glm_tables, linear_tables, offset, weights

OUT = Path(__file__).parents[1] / "tests" / "losses" / "statsmodels.json"
TABLES = ("penguin_sex", "auto_cylinders", "concrete_gamma")


def references(data: Path) -> dict[str, Any]:
    import statsmodels

    chosen = [*linear_tables(data), *(table for table in glm_tables(data) if table.name in TABLES)]
    return {
        "made_by": "tools/statsmodels_references.py",
        "versions": {"statsmodels": statsmodels.__version__, "numpy": np.__version__},
        "tables": {table.name: _of(table) for table in chosen},
    }


def _of(table: GlmTable) -> dict[str, Any]:
    X, y = coded(table)
    return {
        "source": table.source, "target": table.target, "model": table.model,
        "names": ["(intercept)", *X.columns],
        "weights": {kind: _weighted(table.model, X, y, kind) for kind in ("frequency", "importance")},
        "robust": {kind: _robust(table.model, X, y, kind) for kind in ("HC0", "HC1", "HC2", "HC3")},
        "offset": {kind: _offset(table.model, X, y, kind) for kind in _offsets(table.model)},
    }  # fmt: skip


def _robust(model: str, X: pd.DataFrame, y: Any, kind: str) -> list[float] | None:
    """Of least squares; a GLM has HC0 only, whatever is asked for."""
    import statsmodels.api as sm

    Z, back = _standardised(X)
    if model == "linear":
        fit = sm.OLS(y.to_numpy(), Z).fit(cov_type=kind)
    elif kind == "HC0":
        fit = _glm(model, y.to_numpy(), Z, cov_type=kind)
    else:
        return None
    errors: list[float] = np.sqrt(np.diag(back @ fit.cov_params() @ back.T)).tolist()
    return errors


def _offsets(model: str) -> tuple[str, ...]:
    return () if model == "linear" else ("added",) if model == "logistic" else ("added", "exposure")


def _offset(model: str, X: pd.DataFrame, y: Any, kind: str) -> dict[str, Any]:
    Z, back = _standardised(X)
    values = offset(len(X), kind)
    fit = _glm(model, y.to_numpy(), Z, offset=np.log(values) if kind == "exposure" else values)
    covariance = back @ fit.cov_params() @ back.T
    return {
        "by": "GLM(offset)", "coefficients": (back @ fit.params).tolist(),
        "std_errors": np.sqrt(np.diag(covariance)).tolist(), "deviance": float(fit.deviance),
        "null_deviance": float(fit.null_deviance), "first": np.asarray(fit.fittedvalues)[:5].tolist(),
    }  # fmt: skip


def _weighted(model: str, X: pd.DataFrame, y: Any, kind: str) -> dict[str, Any]:
    """With weights as statsmodels has them: WLS for a linear model, else a GLM with freq_weights or var_weights."""
    import statsmodels.api as sm

    w = weights(len(X), kind)
    kept = w > 0
    Z, back = _standardised(X)
    Z, y, w = Z[kept], y.to_numpy()[kept], w[kept]
    if model == "linear" and kind == "importance":
        fit, said = sm.WLS(y, Z, weights=w).fit(), "WLS"
    elif kind == "frequency":
        fit, said = _glm(model, y, Z, freq_weights=w), "GLM(freq_weights)"
    else:
        fit, said = _glm(model, y, Z, var_weights=w / w.mean()), "GLM(var_weights / their mean)"
    covariance = back @ fit.cov_params() @ back.T
    return {
        "by": said, "coefficients": (back @ fit.params).tolist(), "std_errors": np.sqrt(np.diag(covariance)).tolist(),
        "df": float(fit.df_resid), "log_likelihood": float(fit.llf) if model != "gamma" else None,
    }  # fmt: skip


def _glm(model: str, y: Any, Z: Any, cov_type: str = "nonrobust", **more: Any) -> Any:
    import statsmodels.api as sm

    families = sm.families
    family = {
        "linear": families.Gaussian(), "logistic": families.Binomial(), "poisson": families.Poisson(),
        "gamma": families.Gamma(families.links.Log()),
    }[model]  # fmt: skip
    return sm.GLM(y, Z, family, **more).fit(maxiter=500, tol=1e-15, tol_criterion="params", cov_type=cov_type)


def _standardised(X: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """[1, (x - mean) / sd], and the matrix that gives coefficients of [1, x] from those of it."""
    mean, sd = X.mean().to_numpy(), X.std(ddof=0).to_numpy()
    back = np.diag(np.append(1.0, 1 / sd))
    back[0, 1:] = -mean / sd
    return np.column_stack((np.ones(len(X)), (X.to_numpy() - mean) / sd)), back


if __name__ == "__main__":
    OUT.write_text(json.dumps(references(Path(sys.argv[1])), indent=1) + "\n")
    print(f"wrote {OUT}")
