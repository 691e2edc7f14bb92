"""Metrics of plug-ins: sums over rows, which merge, and what they come to; on training and test rows of a fit, and on
rows at hand while a run goes on. What is built in is in `metrics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shoal import plugins
from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.splits import Split, Yes
from shoal.errors import ConfigError
from shoal.fitting.model_file import SavedModel, usable
from shoal.fitting.reports import Trained
from shoal.lazy.classes import dataclass
from shoal.losses.layers import RowMean, expected
from shoal.models import Array
from shoal.passes.blocks import BlockRequest
from shoal.results.fit import OwnMetric
from shoal.settings.config import RunConfig
from shoal.settings.when import CLASSES
from shoal.words import listed
from shoal.worker import Worker


class Metric:
    """One number for how good predictions are; made without arguments. It travels to workers, so it is picklable."""

    better = "lower"  # or "higher"
    of_classes = False  # whether it knows what to do with several classes

    def sums(self, y: Array, predicted: Array, weight: Array) -> Array:
        """Sums (k,) over some rows, added up over all: targets (0 and 1 of yes and no), predictions, weights (n,).

        With `of_classes`, of a model of K classes: their places in its order, and the probabilities of all (n, K).
        """
        raise NotImplementedError

    def value(self, sums: Array) -> float:
        """What the sums of all rows come to."""
        raise NotImplementedError


class MetricRows(NamedTuple):
    """Targets (n,), what a model says of them, (n,) or (n, K) of classes, and how much each counts (n,)."""

    y: Array
    predicted: Array
    weight: Array


class OwnSum(NamedTuple):
    """The sums of one metric over some rows; or what went wrong, in words."""

    sums: Array | None = None
    problem: str = ""

    def plus(self, other: OwnSum) -> OwnSum:
        if problem := self.problem or other.problem:
            return OwnSum(None, problem)
        if self.sums is None or other.sums is None:
            return other if self.sums is None else self
        if self.sums.shape != other.sums.shape:
            return OwnSum(None, f"its sums have {len(self.sums)} numbers of some rows and {len(other.sums)} of others")
        return OwnSum(self.sums + other.sums)


def summed(metric: Metric, rows: MetricRows) -> OwnSum:
    """Over these rows; a plug-in may do anything, so that what it raises is its answer."""
    if not len(rows.y):
        return OwnSum()
    try:
        found = np.asarray(metric.sums(*rows), np.float64)
        return OwnSum(found) if found.ndim == 1 else OwnSum(None, f"expected its sums as (k,), got {found.shape}")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
        return OwnSum(None, f"{type(error).__name__}: {error}")


def settled(metric: Metric, total: OwnSum) -> tuple[float | None, str]:
    """The value, None without rows or where it is not finite; and what went wrong."""
    if total.sums is None:
        return None, total.problem
    try:
        value = float(metric.value(total.sums))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plug-in's
        return None, f"{type(error).__name__}: {error}"
    return (value if np.isfinite(value) else None), ""


@dataclass(frozen=True)
class SumMetrics(BlockRequest):
    """The sums of metrics over the training rows of a block, and over its test rows."""

    coef: Array
    intercept: float | Array
    mean: RowMean | None
    metrics: tuple[Metric, ...]

    def answer(self, worker: Worker) -> list[tuple[OwnSum, OwnSum]]:
        totals = [(OwnSum(), OwnSum())] * len(self.metrics)
        for chunk in self.chunks():
            predicted = expected(chunk.X, self.coef, self.intercept, self.mean)
            weight = np.ones(len(chunk.y)) if chunk.weight is None else chunk.weight
            test = self.split.is_test(chunk.row)
            known = np.isfinite(predicted.reshape(len(predicted), -1)).all(axis=1)  # not where a gap leaves a row out
            parts = [
                MetricRows(chunk.y[which], predicted[which], weight[which]) for which in (known & ~test, known & test)
            ]
            found = [(summed(metric, parts[0]), summed(metric, parts[1])) for metric in self.metrics]
            totals = [(a.plus(c), b.plus(d)) for (a, b), (c, d) in zip(totals, found, strict=True)]
        return totals


def metrics_named(names: Sequence[str]) -> dict[str, Metric]:
    return {name: plugins.make(plugins.METRICS, name, Metric) for name in dict.fromkeys(names)}


def check_metrics(config: RunConfig) -> None:
    """Before a fit begins: whoever waits an hour for a model is not told then that a metric is not there."""
    of_numbers = [name for name, metric in metrics_named(config.metrics).items() if not metric.of_classes]
    if of_numbers and config.model == CLASSES:
        raise ConfigError(
            f"Expected metrics of several classes beside model {CLASSES}, got {listed(of_numbers)}: made for one "
            "number a row. Leave them out, or let their classes say of_classes = True.", knobs=["metrics", "model"],
        )  # fmt: skip


def with_metrics(coordinator: Coordinator, dataset: Dataset, config: RunConfig, trained: Trained) -> Trained:
    """A fit with what the metrics of its config say of its rows, by one more pass over them."""
    if not config.metrics:
        return trained
    metrics, model = metrics_named(config.metrics), usable(trained.model)
    totals = [(OwnSum(), OwnSum())] * len(metrics)
    for found in coordinator.swept("own metrics", _requests(dataset, config, model, tuple(metrics.values()))):
        totals = [(a.plus(c), b.plus(d)) for (a, b), (c, d) in zip(totals, found, strict=True)]
    return told(metrics, totals, trained)


def told(metrics: Mapping[str, Metric], totals: Sequence[tuple[OwnSum, OwnSum]], trained: Trained) -> Trained:
    """The fit with what the sums of its training and test rows come to."""
    own, problems = {}, []
    for (name, metric), (of_train, of_test) in zip(metrics.items(), totals, strict=True):
        (train, wrong), (test, too) = settled(metric, of_train), settled(metric, of_test)
        own[name] = OwnMetric(train, test, str(metric.better))
        if wrong or too:
            problems.append(f"The metric '{name}' failed ({wrong or too}). Correct it; the model is none the worse.")
    said = replace(trained.report, own_metrics=own, warnings=(*problems, *trained.report.warnings))
    return replace(trained, report=said, model=replace(trained.model, report=replace(said, timings={}, run_id="")))


def _requests(dataset: Dataset, config: RunConfig, model: SavedModel, metrics: tuple[Metric, ...]) -> list[SumMetrics]:
    encoding, coef, intercept, mean = model.fitted
    yes: Yes = None
    if model.outcome is not None and (names := model.outcome.classes):
        values = tuple(map(float, names)) if model.outcome.numbers else names
        yes = values[1] if len(values) == 2 else values
    dropping = config.impute == "drop"  # the rows that the fit had
    encoding = replace(encoding, target=model.target, yes=yes, weights=config.weights, drop_missing=dropping)
    split = Split(config.test_every, config.test_fraction, config.seed)
    rest = encoding, split, coef, intercept, mean, metrics
    return [SumMetrics(str(dataset.directory), block, *rest) for block in dataset.blocks]


class LiveMetrics:
    """What metrics say of rows at hand while a run goes on; one that fails is told once and left out."""

    def __init__(self, names: Sequence[str], warn: Callable[[str], None]) -> None:
        self._metrics, self._warn = metrics_named(names), warn

    def __bool__(self) -> bool:
        return bool(self._metrics)

    def values(self, rows: MetricRows | None) -> dict[str, float | None]:
        """By name; empty where no rows are at hand."""
        found: dict[str, float | None] = {}
        for name, metric in [*self._metrics.items()] if rows is not None and len(rows.y) else ():
            assert rows is not None
            found[name], problem = settled(metric, summed(metric, rows))
            if problem:
                del self._metrics[name], found[name]
                self._warn(f"The metric '{name}' failed ({problem}). The run goes on without it; correct the metric.")
        return found
