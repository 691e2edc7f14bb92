"""Metrics of plug-ins on sparse rows, block by block; what a metric is, is in `fitting.own_metrics`."""

from __future__ import annotations

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.splits import Split
from shoal.fitting.model_file import usable
from shoal.fitting.own_metrics import MetricRows, OwnSum, metrics_named, summed, told
from shoal.fitting.reports import Trained
from shoal.settings.config import RunConfig
from shoal.sparse.prediction import weights_of
from shoal.sparse.table import open_table, scores


def with_sparse_metrics(coordinator: Coordinator, config: RunConfig, trained: Trained) -> Trained:
    """A fit with what the metrics of its config say of its rows, by one more pass over them."""
    if not config.metrics:
        return trained
    metrics, model, table = metrics_named(config.metrics), usable(trained.model), open_table(coordinator, config)
    weights, classes = weights_of(model), model.outcome.classes if model.outcome is not None else ()
    totals = [(OwnSum(), OwnSum())] * len(metrics)
    for part, train in table.trained(Split(config.test_every, config.test_fraction, config.seed)):
        said = model.intercept + scores(part.ends, part.indices, part.values, weights)
        predicted = np.asarray(said if model.loss is None else model.loss.mean(said))
        y = (part.labels == float(classes[1])).astype(np.float64) if classes else part.labels
        ones = np.ones(len(y))
        rows = [MetricRows(y[which], predicted[which], ones[which]) for which in (train, ~train)]
        totals = [
            (a.plus(summed(metric, rows[0])), b.plus(summed(metric, rows[1])))
            for (a, b), metric in zip(totals, metrics.values(), strict=True)
        ]
    return told(metrics, totals, trained)
