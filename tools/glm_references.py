"""Makes tests/losses/references.json: real tables fitted by R's glm and glmnet and by statsmodels, to tight tolerances.

Needs R with the package glmnet and, in the Python that runs it, statsmodels:

    PYTHONPATH=tests python tools/glm_references.py SHARED_DATA_FOLDER

Nothing of Shoal is imported. Unpenalised models are R's, and refused unless statsmodels agrees; penalised ones are
glmnet's (scikit-learn's for gamma, which glmnet has by another algorithm), with columns scaled by their population
standard deviation.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from support.data.glm_tables import GlmTable, coded, glm_tables

OUT = Path(__file__).parents[1] / "tests" / "losses" / "references.json"
AGREE = 1e-7
R = r"""
args <- commandArgs(TRUE)
d <- read.csv(file.path(args[1], "design.csv"), check.names = FALSE)
family <- switch(args[2], logistic = binomial(), poisson = poisson(), gamma = Gamma(link = "log"))
X <- as.matrix(d[, -ncol(d), drop = FALSE]); y <- d[, ncol(d)]
m <- glm(y ~ X, family, control = glm.control(epsilon = 1e-15, maxit = 200))
s <- summary(m)
say <- function(x) paste0("[", paste(formatC(as.vector(x), digits = 17, format = "g"), collapse = ", "), "]")
cat('{"coefficients": ', say(coef(m)), ', "std_errors": ', say(s$coefficients[, 2]), ', "p": ',
    say(s$coefficients[, 4]), ', "deviance": ', say(m$deviance), ', "null_deviance": ', say(m$null.deviance),
    ', "dispersion": ', say(s$dispersion), ', "log_likelihood": ', say(as.numeric(logLik(m))), sep = "")
if (args[2] != "gamma") {
  library(glmnet)
  for (mix in c(0, 0.5, 1)) {
    lambda <- as.numeric(args[3 + 2 * mix])
    f <- glmnet(X, y, family = if (args[2] == "logistic") "binomial" else "poisson", alpha = mix,
                lambda = lambda * c(8, 4, 2, 1), thresh = 1e-20, maxit = 1e7)
    cat(', "glmnet_', mix, '": ', say(c(f$a0[4], as.vector(f$beta[, 4]))), sep = "")
  }
}
cat("}\n")
"""


def references(data: Path) -> dict[str, Any]:
    found = {table.name: _of(table) for table in glm_tables(data)}
    return {"made_by": "tools/glm_references.py", "versions": _versions(), "tables": found}


def _of(table: GlmTable) -> dict[str, Any]:
    X, y = coded(table)
    lambdas = _lambdas(X, y)
    theirs = _by_r(table.model, X, y, lambdas)
    other = _by_statsmodels(table.model, X, y)
    found, size = np.array(theirs["coefficients"]), np.array(theirs["std_errors"])
    apart = (np.abs(found - other["coefficients"]) / np.maximum(np.abs(found), size)).max()
    if not apart < AGREE:
        raise SystemExit(f"{table.name}: R and statsmodels are {apart:.1e} apart")
    penalised = _penalised(table.model, X, y, lambdas, theirs)
    return {
        "source": table.source, "target": table.target, "model": table.model, "rows": len(X),
        "names": ["(intercept)", *X.columns],
        "coefficients": theirs["coefficients"], "std_errors": theirs["std_errors"], "p": theirs["p"],
        "deviance": theirs["deviance"][0], "null_deviance": theirs["null_deviance"][0],
        "dispersion": theirs["dispersion"][0], "log_likelihood": other["log_likelihood"],
        "r_and_statsmodels_apart": float(apart), "penalised": penalised,
    }  # fmt: skip


def _lambdas(X: pd.DataFrame, y: Any) -> list[float]:
    """A share of the penalty that leaves nothing: for ridge, the mixture and lasso."""
    Z = (X - X.mean()) / X.std(ddof=0)
    strongest = float(np.abs(Z.to_numpy().T @ (y - y.mean()).to_numpy()).max()) / len(y)
    return [0.05 * strongest, 0.08 * strongest, 0.05 * strongest]


def _by_r(model: str, X: pd.DataFrame, y: Any, lambdas: list[float]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        X.assign(**{"(target)": y}).to_csv(Path(folder) / "design.csv", index=False, float_format="%.17g")
        (Path(folder) / "fit.R").write_text(R)
        arguments = [folder, model, *(repr(value) for value in lambdas)]
        done = subprocess.run(
            ["Rscript", str(Path(folder) / "fit.R"), *arguments], capture_output=True, text=True, check=True
        )
        found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
        return found


def _by_statsmodels(model: str, X: pd.DataFrame, y: Any) -> dict[str, Any]:
    import statsmodels.api as sm

    families = sm.families
    family = {
        "logistic": families.Binomial(), "poisson": families.Poisson(), "gamma": families.Gamma(families.links.Log())
    }[model]  # fmt: skip
    Z = (X - X.mean()) / X.std(ddof=0)  # digits: the columns may lie far from zero
    fit = sm.GLM(y, sm.add_constant(Z), family).fit(maxiter=500, tol=1e-15, tol_criterion="params")
    coef = fit.params.to_numpy()[1:] / X.std(ddof=0).to_numpy()
    intercept = fit.params.iloc[0] - coef @ X.mean().to_numpy()
    return {"coefficients": [intercept, *coef], "log_likelihood": float(fit.llf)}


def _penalised(model: str, X: pd.DataFrame, y: Any, lambdas: list[float], theirs: dict[str, Any]) -> dict[str, Any]:
    if model != "gamma":
        named = {"ridge": ("0", 0), "elasticnet": ("0.5", 1), "lasso": ("1", 2)}
        return {
            shrink: {"lambda": lambdas[i], "coefficients": theirs[f"glmnet_{mix}"], "by": "glmnet"}
            for shrink, (mix, i) in named.items()
        }
    from sklearn.linear_model import GammaRegressor

    scale = X.std(ddof=0).to_numpy()
    alpha = lambdas[0] / float(y.mean())
    fit = GammaRegressor(alpha=alpha, solver="newton-cholesky", tol=1e-14, max_iter=1000)
    fit.fit((X - X.mean()).to_numpy() / scale, y)
    coef = fit.coef_ / scale
    intercept = float(fit.intercept_ - coef @ X.mean().to_numpy())
    return {"ridge": {"lambda": alpha, "coefficients": [intercept, *coef.tolist()], "by": "scikit-learn"}}


def _versions() -> dict[str, str]:
    import sklearn
    import statsmodels

    asked = 'cat(R.version.string, "|", as.character(packageVersion("glmnet")))'
    r, glmnet = subprocess.run(["Rscript", "-e", asked], capture_output=True, text=True, check=True).stdout.split(" | ")
    return {"R": r, "glmnet": glmnet, "statsmodels": statsmodels.__version__, "scikit-learn": sklearn.__version__}


if __name__ == "__main__":
    OUT.write_text(json.dumps(references(Path(sys.argv[1])), indent=1) + "\n")
