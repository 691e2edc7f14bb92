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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.api.cv_estimators import ElasticNetCV, LassoCV, RidgeCV
    from shoal.api.estimators import ElasticNet, Lasso, LinearRegression, Ridge
    from shoal.api.fitted_model import FittedModel
    from shoal.api.loss_cv import LogisticRegressionCV
    from shoal.api.loss_estimators import GammaRegressor, LogisticRegression, LognormalRegressor, PoissonRegressor
    from shoal.api.module_runs import LearningRates, ModuleRun, module_run
    from shoal.api.penalty_path import PenaltyPath
    from shoal.api.robust_estimators import HuberRegressor, QuantileRegressor
    from shoal.client.service import RemoteShoal
    from shoal.errors import TrainingError
    from shoal.registry.calls import compare, drift, history, promote, rollback
    from shoal.results.answers.table import TableLook
    from shoal.tasks.workers import close_pools

__version__ = "0.1.0"

__all__ = [
    "ElasticNet",
    "ElasticNetCV",
    "FittedModel",
    "GammaRegressor",
    "HuberRegressor",
    "Lasso",
    "LassoCV",
    "LinearRegression",
    "LogisticRegression",
    "LogisticRegressionCV",
    "LognormalRegressor",
    "ModuleRun",
    "PenaltyPath",
    "PoissonRegressor",
    "QuantileRegressor",
    "Ridge",
    "RidgeCV",
    "TrainingError",
    "close_pools",
    "compare",
    "connect",
    "drift",
    "find_learning_rate",
    "fit",
    "history",
    "inspect",
    "load",
    "module_run",
    "path",
    "promote",
    "rollback",
    "train_module",
    "tune",
]

_ELSEWHERE = {
    **dict.fromkeys(("LinearRegression", "Ridge", "Lasso", "ElasticNet"), "shoal.api.estimators"),
    **dict.fromkeys(("HuberRegressor", "QuantileRegressor"), "shoal.api.robust_estimators"),
    **dict.fromkeys(
        ("LogisticRegression", "PoissonRegressor", "GammaRegressor", "LognormalRegressor"), "shoal.api.loss_estimators"
    ),
    "LogisticRegressionCV": "shoal.api.loss_cv",
    **dict.fromkeys(("RidgeCV", "LassoCV", "ElasticNetCV"), "shoal.api.cv_estimators"),
    "FittedModel": "shoal.api.fitted_model",
    **dict.fromkeys(("LearningRates", "ModuleRun", "module_run"), "shoal.api.module_runs"),
    "PenaltyPath": "shoal.api.penalty_path",
    "TrainingError": "shoal.errors",
    "close_pools": "shoal.tasks.workers",
    **dict.fromkeys(("compare", "drift", "promote", "rollback", "history"), "shoal.registry.calls"),
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
    model: str | None = None,
    *,
    sample_weight: Any = None,
    config: str | Path | Mapping[str, Any] | None = None,
    progress: Callable[[str, float], None] | None = None,
    **knobs: Any,
) -> FittedModel:
    """Fit a model to a CSV, CSV.gz, Parquet or svmlight file, or to a table in memory: exactly, or with
    solver="gradient". Several files are one table: a list of paths, a folder, or a pattern such as "part-*.csv".

    A table is a data frame of pandas or polars, an Arrow table, a dictionary of columns or an array; `target` is the
    name of a column, or, beside a table in memory, its values: `shoal.fit(X, y)`; or a formula, which names the columns
    as well: `shoal.fit("houses.csv", "price ~ rooms * C(city, ref='Oslo') + log(lot)")`.

    The knobs are those of the command line: alpha, l1_ratio, features, exclude, categorical, test_every, intercept,
    standardize, workers, delimiter, ... (`config.RunConfig` lists them all). A file is read once; a second fit finds
    its data set in the cache. `sample_weight` is the column that says how much each row counts (the knob `weights`;
    `weights_are` says what that means), or, beside a table in memory, one number a row. `config` is a YAML file of
    knobs, as `shoal train --config` takes it, or what would stand in one; knobs that are named here count more.
    `progress` is called with a stage and how much of it is done, from 0 to 1. The model is linear unless one is named.

    >>> shoal.fit("houses.csv", target="price", features=["rooms"])
    <FittedModel: linear model of 'price', 1 column>
      train: 4 rows, r2 0.8, adjusted_r2 0.7, rmse 5, mae 5
      (intercept)   95
      rooms         10
    """
    from shoal.api.fitted_model import fit_file, fit_frame

    frame, target = _table(data, target)
    frame, knobs = _weighted(frame, sample_weight, knobs)
    values = {**knobs, **_asked(target), **({"model": model} if model else {})}
    if config is not None:
        from shoal.settings.meaning import with_file

        values = with_file(config, values)
    return fit_file(data, values, progress) if frame is None else fit_frame(frame, values, progress)


def _table(data: Any, target: Any) -> tuple[Any, str]:
    """A data frame of a table in memory, None for a file; and the target's name in it."""
    from shoal.api.tables import as_frame, with_target
    from shoal.words import tidy_name

    return (as_frame(data), tidy_name(target)) if isinstance(target, str) else with_target(data, target)


def _asked(target: str) -> dict[str, str]:
    """What is to be predicted, by its name or by a formula."""
    return {"formula": target} if "~" in target else {"target": target}


def _weighted(frame: Any, sample_weight: Any, knobs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The same with weights of rows as a column of the frame, which a knob names."""
    if sample_weight is None:
        return frame, knobs
    from shoal.api.tables import with_weights

    frame, name = (frame, sample_weight) if isinstance(sample_weight, str) else with_weights(frame, sample_weight)
    return frame, {**knobs, "weights": name}


def path(
    data: Any,
    target: Any,
    model: str = "lasso",
    *,
    alphas: Sequence[float] | None = None,
    n_alphas: int | None = None,
    l1_ratio: float | Sequence[float] | None = None,
    folds: int | None = None,
    fold_by: str = "",
    sample_weight: Any = None,
    progress: Callable[[str, float], None] | None = None,
    **knobs: Any,
) -> PenaltyPath:
    """The models of a file or of a table in memory (see `fit`) at all penalties of a path, exact at each.

    The alphas are those given, or `n_alphas` (100) from the data: from the smallest that leaves no column down, in
    equal ratios. With `folds` also the cross-validated mean squared error at each of them, the best alpha and the
    largest within one standard error of it; `fold_by` is row (hash beside `test_every`), hash, group:COLUMN or
    time:COLUMN, and of several mixing ratios of an elastic net the best is chosen. The other knobs are those of `fit`.

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
    frame, knobs = _weighted(frame, sample_weight, knobs)
    values = {**knobs, **_asked(target), "model": model}
    return path_of_data(data if frame is None else frame, values, request, folds is not None, progress)


def tune(data: Any, target: Any, model: str = "lasso", *, folds: int = 10, **options: Any) -> PenaltyPath:
    """The penalty by cross-validation, as `shoal tune` finds it: a `path` with folds, whose `best_model()` and
    `one_se_model()` are the two usual choices.

    >>> round(shoal.tune("houses.csv", target="price", folds=4, alphas=[4.0, 1.0]).best_model().alpha, 9)
    1.0
    """
    return path(data, target, model, folds=folds, **options)


def connect(url: str, token: str | None = None) -> RemoteShoal:
    """Shoal on another machine: a dashboard at `url`, with a token that `shoal token` made there (or SHOAL_TOKEN).

    Its `fit`, `load`, `inspect`, `predict` and `tune` work there; a model that was fitted comes here, and can do what
    one fitted at home can. `start` gives a run to be followed, stopped or left alone.
    """
    from shoal.client.service import RemoteShoal

    return RemoteShoal(url, token)


def load(path: str | Path) -> FittedModel:
    """A model from the file that `FittedModel.save` or `shoal train --out` wrote, or a saved one: "NAME", "NAME:3" or
    "NAME@champion".

    >>> shoal.fit("houses.csv", target="price").save("model.json")
    >>> shoal.load("model.json").intercept == shoal.fit("houses.csv", target="price").intercept
    True
    """
    from shoal.api.fitted_model import FittedModel
    from shoal.fitting.model_file import load_model
    from shoal.library.aliases import model_path

    return FittedModel(load_model(model_path(path), hashes=True).file)


def inspect(path: str | Path | Sequence[str | Path], **knobs: Any) -> TableLook:
    """What is in a file, or in several that are one table: dialect, rows, columns with types and flags, rows that
    cannot be read. Its `as_dict()` is the object that `shoal inspect --json` prints.

    >>> [column.type for column in shoal.inspect("houses.csv").columns]
    ['numeric', 'categorical', 'numeric']
    """
    from shoal.settings.values import config_from
    from shoal.tasks.train import looked as look
    from shoal.tasks.workers import kept_coordinator

    config = config_from({**knobs, "file": [str(path)] if isinstance(path, (str, Path)) else list(path)})
    with kept_coordinator(config) as coordinator:
        return coordinator.cache.mending(lambda: look(coordinator, config))


def train_module(
    module: Any,
    data: Any,
    loss: Any = None,
    *,
    test: Any = None,
    wait: bool = True,
    config: str | Path | Mapping[str, Any] | None = None,
    progress: Callable[[str, float], None] | None = None,
    **knobs: Any,
) -> ModuleRun:
    """Train a `torch.nn.Module` by gradient steps of worker processes (needs `pip install 'shoal[torch]'`).

    `data` is (X, y), arrays or tensors with a row each, or a Dataset of such pairs; for a module with several inputs X
    is a tuple of them; `test` is the same for rows that
    are only looked at (or `test_every`, `test_fraction`). `loss(output, target)` is a function or module with a name,
    or the name of a function of `torch.nn.functional`; cross-entropy for whole numbers as targets, else squares.

    The knobs are those of gradient runs: mode ("sync", "ssp", "async", "local"), workers, epochs, batch_size (rows of
    a shard in a step), step_rule ("adamw"), learning_rate, weight_decay, clip, schedule, warmup, compression, patience,
    precision, shards, seed, mixed_precision, gradient_checkpointing, compile_mode, device, ...; `config` is a YAML file
    of them, or what would stand in one. The run is a process of its own: `shoal show last` and the dashboard see and
    steer it. When it has ended the module that was given has learnt. With `wait=False` the answer comes at once; its
    `wait()` waits, its `send()` steers.

        run = shoal.train_module(net, (X, y), "cross_entropy", test=(X_new, y_new), mode="ssp", workers=2, epochs=3)
        run.report.test.score
    """
    from shoal.api.module_runs import train_module
    from shoal.utils import silent

    if config is not None:
        from shoal.settings.meaning import with_file

        knobs = with_file(config, {**knobs, "model": "module"})
        del knobs["model"]
    return train_module(module, data, loss, test, wait, progress or silent, knobs)


def find_learning_rate(
    module: Any,
    data: Any,
    loss: Any = None,
    *,
    lowest: float = 1e-6,
    highest: float = 1.0,
    steps: int = 100,
    **knobs: Any,
) -> LearningRates:
    """Which learning rate is worth a try for `train_module`: steps that grow from `lowest` to `highest`, as Smith
    (2017) proposes, in this process; nothing of the module changes.

    The answer has `rates`, the smoothed `losses` and what is `suggested`: a tenth of the rate at the lowest loss. Of
    the knobs, mode, shards, batch_size, step_rule, momentum, weight_decay, precision and seed have a say.

        found = shoal.find_learning_rate(net, (X, y), "cross_entropy")
        run = shoal.train_module(net, (X, y), "cross_entropy", learning_rate=found.suggested)
    """
    from shoal.api.module_runs import find_learning_rate

    return find_learning_rate(module, data, loss, lowest, highest, steps, knobs)
