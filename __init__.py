"""Shoal in Python: `fit` a file or data frame, its whole `path`, `load`, `inspect`, and scikit-learn estimators.

Importing this is cheap: NumPy, pandas and scikit-learn are imported by what needs them.

>>> import shoal
>>> model = shoal.fit("houses.csv", target="price", model="ridge", alpha=1.0)
>>> {name: round(value, 9) for name, value in model.coefficients.items()}
{'rooms': 8.0, 'garden=yes': 8.0}
>>> model.predict("houses.csv").round(9).tolist()
[103.0, 119.0, 111.0, 127.0]
>>> round(model.refit(alpha=4.0).coefficients["rooms"], 9)
5.0
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.api.cv_estimators import ElasticNetCV, LassoCV, RidgeCV
    from shoal.api.estimators import ElasticNet, Lasso, LinearRegression, Ridge
    from shoal.api.fitted_model import FittedModel
    from shoal.api.penalty_path import PenaltyPath
    from shoal.errors import TrainingError
    from shoal.tasks.workers import close_pools

__version__ = "0.1.0"

__all__ = [
    "ElasticNet",
    "ElasticNetCV",
    "FittedModel",
    "Lasso",
    "LassoCV",
    "LinearRegression",
    "PenaltyPath",
    "Ridge",
    "RidgeCV",
    "TrainingError",
    "close_pools",
    "fit",
    "inspect",
    "load",
    "path",
    "tune",
]

_ELSEWHERE = {
    **dict.fromkeys(("LinearRegression", "Ridge", "Lasso", "ElasticNet"), "shoal.api.estimators"),
    **dict.fromkeys(("RidgeCV", "LassoCV", "ElasticNetCV"), "shoal.api.cv_estimators"),
    "FittedModel": "shoal.api.fitted_model",
    "PenaltyPath": "shoal.api.penalty_path",
    "TrainingError": "shoal.errors",
    "close_pools": "shoal.tasks.workers",
}


def __getattr__(name: str) -> Any:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'shoal' has no attribute '{name}'")
    return getattr(importlib.import_module(_ELSEWHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def fit(
    data: Any,
    target: Any,
    model: str = "linear",
    *,
    progress: Callable[[str, float], None] | None = None,
    **knobs: Any,
) -> FittedModel:
    """Fit a model to a CSV, CSV.gz or Parquet file, or to a table in memory: exactly, or (files)
    with solver="gradient".

    A table is a data frame of pandas or polars, an Arrow table, a dictionary of columns or an array; `target` is the
    name of a column, or, beside a table in memory, its values: `shoal.fit(X, y)`.

    The knobs are those of the command line: alpha, l1_ratio, features, exclude, categorical, test_every, intercept,
    standardize, workers, delimiter, ... (`config.RunConfig` lists them all). A file is read once; a second fit finds
    its data set in the cache. `progress` is called with a stage and how much of it is done, from 0 to 1.

    >>> shoal.fit("houses.csv", target="price", features=["rooms"])
    <FittedModel: linear model of 'price', 1 column>
      train: 4 rows, r2 0.8, adjusted_r2 0.7, rmse 5, mae 5
      (intercept)   95
      rooms         10
    """
    from shoal.api.fitted_model import fit_file, fit_frame

    frame, target = _table(data, target)
    values = {**knobs, "target": target, "model": model}
    return fit_file(data, values, progress) if frame is None else fit_frame(frame, values, progress)


def _table(data: Any, target: Any) -> tuple[Any, str]:
    """A data frame of a table in memory, None for a file; and the target's name in it."""
    from shoal.api.tables import as_frame, with_target

    return (as_frame(data), target) if isinstance(target, str) else with_target(data, target)


def path(
    data: Any,
    target: Any,
    model: str = "lasso",
    *,
    alphas: Sequence[float] | None = None,
    n_alphas: int | None = None,
    l1_ratio: float | Sequence[float] = 0.5,
    folds: int | None = None,
    fold_by: str = "row",
    progress: Callable[[str, float], None] | None = None,
    **knobs: Any,
) -> PenaltyPath:
    """The models of a file or of a table in memory (see `fit`) at all penalties of a path, exact at each.

    The alphas are those given, or `n_alphas` (100) from the data: from the smallest that leaves no column down, in
    equal ratios. With `folds` also the cross-validated mean squared error at each of them, the best alpha and the
    largest within one standard error of it; `fold_by` is row, hash, group:COLUMN or time:COLUMN, and of several
    mixing ratios of an elastic net the best is chosen. The other knobs are those of `fit`.

    >>> path = shoal.path("houses.csv", target="price", alphas=[8.0, 4.0, 1.0], folds=4)
    >>> path
    <PenaltyPath: lasso models of 'price', 3 alphas, 8 to 1>
      best: alpha = 1, 2 of 2 columns, mean squared error 16 +- 9.2
      1-SE: alpha = 1, 2 of 2 columns, mean squared error 16 +- 9.2
      4 folds by row, 4 rows
    >>> path.coefficients["rooms"].round(9).to_dict()
    {8.0: 2.0, 4.0: 6.0, 1.0: 9.0}
    >>> round(path.model_at(2.0).coefficients["rooms"], 9)
    8.0
    """
    from shoal.api.penalty_path import path_of_data
    from shoal.tasks.tune import TuningRequest

    request = TuningRequest(10 if folds is None else folds, fold_by, l1_ratio, alphas, n_alphas)
    frame, target = _table(data, target)
    values = {**knobs, "target": target, "model": model}
    return path_of_data(data if frame is None else frame, values, request, folds is not None, progress)


def tune(data: Any, target: Any, model: str = "lasso", *, folds: int = 10, **options: Any) -> PenaltyPath:
    """The penalty by cross-validation, as `shoal tune` finds it: a `path` with folds, whose `best_model()` and
    `one_se_model()` are the two usual choices.

    >>> round(shoal.tune("houses.csv", target="price", folds=4, alphas=[4.0, 1.0]).best_model().alpha, 9)
    1.0
    """
    return path(data, target, model, folds=folds, **options)


def load(path: str | Path) -> FittedModel:
    """A model from the file that `FittedModel.save` or `shoal train --out` wrote.

    >>> shoal.fit("houses.csv", target="price").save("model.json")
    >>> shoal.load("model.json").intercept == shoal.fit("houses.csv", target="price").intercept
    True
    """
    from shoal.api.fitted_model import FittedModel
    from shoal.fitting.model_file import load_model

    return FittedModel(load_model(Path(path)).file)


def inspect(path: str | Path, **knobs: Any) -> dict[str, Any]:
    """What is in a file: dialect, rows, columns with types and flags, rows that cannot be read.

    >>> [column["type"] for column in shoal.inspect("houses.csv")["columns"]]
    ['numeric', 'categorical', 'numeric']
    """
    from shoal.fitting.inspection import inspect as look
    from shoal.settings.values import config_from
    from shoal.tasks.workers import kept_coordinator

    config = config_from({**knobs, "file": str(path)})
    with kept_coordinator(config) as coordinator:
        return coordinator.cache.mending(lambda: look(coordinator, coordinator.open(config), config))
