"""A fit in plain values: what `train --json` prints, what a run stores and what a model file is made from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shoal.data.terms import Number
from shoal.fitting.exact import Fit
from shoal.models import Array
from shoal.solve.conformal import prediction_interval
from shoal.solve.inference import Inference


def finite(value: Any) -> Any:
    """The same with None for what JSON cannot say (NaN, infinities), also inside lists and dictionaries."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    if isinstance(value, (np.floating, float)):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def report(fit: Fit) -> dict[str, Any]:
    """What is said about a fit, as plain values: the object that `train --json` prints, less run and timings."""
    config, solution, names = fit.config, fit.solution, fit.prepared.encoding.names
    columns = int(np.count_nonzero(solution.w)) if config.model in ("lasso", "elasticnet") else solution.rank
    certificate = solution.certificate
    said: dict[str, Any] = finite({
        "model": config.model,
        "target": config.target,
        "alpha": None if config.model == "linear" else config.alpha,
        "l1_ratio": config.l1_ratio if config.model == "elasticnet" else None,
        "intercept": solution.intercept,
        "coefficients": _named(names, solution.coef),
        "coefficients_standardized": _named(names, solution.w),
        "train": fit.sums.train.scores(columns, config.intercept),
        "test": fit.sums.test.scores(columns, config.intercept),
        "inference": _inference(names, fit.inference) if fit.inference else None,
        "prediction_interval": prediction_interval(
            fit.sums.calibration, fit.sums.test.rows, config.solver == "gradient" and bool(config.patience)
        ),
        "certificate": {
            "kind": certificate.kind, "value": certificate.value, "relative": certificate.relative,
            "rests_on": certificate.rests_on,
        },
        "condition": fit.condition,
        "unique": solution.unique,
        "rows_read": fit.prepared.dataset.rows,
        "rows_dropped": fit.rows_dropped,
        "filled": _filled(fit),
        "warnings": list(fit.notes) + _unseen(fit.sums.unseen),
    })  # fmt: skip
    return said


def _filled(fit: Fit) -> dict[str, dict[str, float]]:
    """The columns with missing numbers, in how many rows of the file, and what stands in for them."""
    if fit.config.impute == "drop":
        return {}
    columns = fit.prepared.dataset.columns
    numbers = [t for t in fit.prepared.encoding.terms if isinstance(t, Number) and columns[t.column].missing]
    return {t.column: {"rows": columns[t.column].missing, "value": t.fill} for t in numbers}


def _unseen(count: int) -> list[str]:
    return (
        [f"{count} test rows have a level that no training row has; its 0/1 columns are all 0 there."] if count else []
    )


def _named(names: list[str], values: Array) -> dict[str, float]:
    return dict(zip(names, values.tolist(), strict=True))


def _inference(names: list[str], found: Inference) -> dict[str, Any]:
    def rows(estimates: Any, labels: list[str]) -> dict[str, Any]:
        parts = zip(
            labels, estimates.value, estimates.std_error, estimates.t, estimates.p_value, estimates.low, estimates.high,
            strict=True,
        )  # fmt: skip
        keys = ("estimate", "std_error", "t", "p_value", "low", "high")
        return {label: dict(zip(keys, map(float, rest), strict=True)) for label, *rest in parts}

    return {
        "confidence": found.confidence,
        "coefficients": rows(found.coef, names),
        "intercept": next(iter(rows(found.intercept, ["intercept"]).values())) if found.intercept else None,
        "residual_sd": found.residual_sd,
        "residual_df": found.residual_df,
        "f": found.f,
        "f_p_value": found.f_p_value,
        "r2": found.r2,
        "adjusted_r2": found.adjusted_r2,
    }
