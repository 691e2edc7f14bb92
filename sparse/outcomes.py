"""One exact fit of a yes/no model to a file of sparse rows, by Newton steps that fill in no zeros (`solve.rows`).

A label has two values, such as -1 and 1 or 0 and 1; the larger is the yes unless `positive` names the other.
"""

from __future__ import annotations

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.data.terms import Number
from shoal.errors import ConfigError, DataError, Remedy
from shoal.files.parts import title
from shoal.fitting.losses.report import class_scores
from shoal.fitting.reports import Trained, certified, finite, named_values, warned
from shoal.fitting.targets import TwoValues, value_notes
from shoal.kernels.threads import one_thread
from shoal.losses.base import LossOfRows
from shoal.losses.logistic import Logistic
from shoal.losses.named import penalty_beside
from shoal.metrics import Timings
from shoal.models import Array
from shoal.passes.losses import LossSums, PartScores
from shoal.results.findings import Routine
from shoal.results.fit import FitReport, FitScores, PredictionInterval
from shoal.results.model import WITH_LOSS, Design, ModelFile, Origin
from shoal.results.outcome import Outcome, OutcomeScores
from shoal.settings.config import RunConfig
from shoal.settings.strength import strength
from shoal.solve.conformal import prediction_sets
from shoal.solve.ranking import Ranked, calibration, grid_for, threshold_curve
from shoal.solve.rows.steps import RowsOptimum, minimise_rows
from shoal.solve.rows.wide import NOT_PROVEN
from shoal.sparse.fit import Indices, check_memory, training_rows
from shoal.sparse.table import LABEL, SparseTable, column_name, open_table, scores

FEW = 3  # different labels that are named where two are expected


def fit_sparse_outcome(coordinator: Coordinator, config: RunConfig, timings: Timings) -> Trained:
    loss, split = Logistic(), Split(config.test_every, config.test_fraction, config.seed)
    with timings.stage("ingest"):
        table = open_table(coordinator, config)
        values, yes = two_values(table, config, split)
    check_memory(table)
    with timings.stage("rows"), one_thread, np.errstate(over="ignore", invalid="ignore"):
        rows, there = training_rows(table, config, split)
        y = np.concatenate([part.labels[train] == yes for part, train in table.trained(split)]).astype(np.float64)
    mean = float(y.mean())
    constant = loss.eta(mean)
    with timings.stage("solve"), one_thread:
        penalty = penalty_beside(loss, config.shrink, strength(config), config.l1_ratio, rows.n)
        found = minimise_rows(rows, LossOfRows(loss, y), penalty, constant)
    weights = np.zeros(table.columns)
    weights[there] = found.coef
    with timings.stage("score"):
        parts = _scored(table, split, yes, weights, found.intercept, constant if config.intercept else 0.0)
    return _described(table, config, values, found, there, mean, *parts)


def two_values(table: SparseTable, config: RunConfig, split: Split) -> tuple[TwoValues, float]:
    """Which labels there are, in how many training rows each, and which is the yes."""
    seen: dict[float, int] = {}
    for part, train in table.trained(split):
        labels, place = np.unique(part.labels, return_inverse=True)
        for label, rows in zip(labels.tolist(), np.bincount(place, train, len(labels)).tolist(), strict=True):
            seen[label] = seen.get(label, 0) + int(rows)
        if len(seen) > FEW:
            break
    found = sorted(seen)
    names = [f"{label:g}" for label in found]
    if len(found) != 2:
        shown = ", ".join(names[:FEW]) + (" and others" if len(names) > FEW else "")
        raise DataError(
            f"Expected labels of two values, such as -1 and 1, for a logistic model, got {shown}.",
            Remedy.set("Predict them as numbers", "model", "ridge"),
        )
    if config.positive and config.positive not in names:
        raise ConfigError(
            f"Expected positive to be one of the two labels, {names[0]} or {names[1]}, got '{config.positive}'.",
            Remedy.choose("Name one of these two", "positive"), knobs=["positive"],
        )  # fmt: skip
    at = names.index(config.positive) if config.positive else 1
    for label, name in zip(found, names, strict=True):
        if not seen[label]:
            raise DataError(
                f"Expected training rows of both labels, got none with {name}. Keep fewer or other rows for testing."
            )
    plain = found == [0.0, 1.0] and at == 1
    rows = seen[found[1 - at]], seen[found[at]]
    return TwoValues((names[1 - at], names[at]), rows, None if plain else found[at]), found[at]


def _scored(
    table: SparseTable, split: Split, yes: float, weights: Array, intercept: float, null: float
) -> tuple[PartScores, PartScores]:
    """Of training and of test rows, block by block."""
    loss, grid = Logistic(), grid_for(table.rows)
    found = [PartScores.none(), PartScores.none()]
    for part, train in table.trained(split):
        y = (part.labels == yes).astype(np.float64)
        eta = intercept + scores(part.ends, part.indices, part.values, weights)
        for i, own in enumerate((train, ~train)):
            if own.any():
                mine, at = y[own], eta[own]
                pair = at, np.full(len(at), null)
                sums, known = (LossSums.of(loss, mine, one, loss.at(mine, one).value) for one in pair)
                found[i] = found[i].merge(PartScores(sums, known, (Ranked.rows(mine, at, grid),))).settled()
    return found[0], found[1]


def _described(
    table: SparseTable, config: RunConfig, values: TwoValues, found: RowsOptimum, there: Indices, mean: float,
    train: PartScores, test: PartScores,
) -> Trained:  # fmt: skip
    used = np.flatnonzero(found.coef)
    names = [column_name(index) for index in there[used].tolist()]
    said = (
        f"Sparse rows: {table.values:,} values; of {len(there):,} columns in the training rows {len(used):,} have a "
        "weight, and the others are not in the model."
    )
    alone = config.shrink == "lasso"  # beside an L2 part there is one answer; without, dependent columns may share it
    report = FitReport(
        model=config.model,
        target=config.target,
        alpha=finite(strength(config)),
        l1_ratio=config.l1_ratio if config.shrink == "elasticnet" else None,
        intercept=finite(found.intercept),
        coefficients=named_values(names, found.coef[used]),
        coefficients_standardized=named_values(names, found.w[used]),
        train=FitScores(rows=train.sums.rows),
        test=FitScores(rows=test.sums.rows),
        prediction_interval=_sets(table, test),
        certificate=certified(found.certificate),
        unique=not alone,
        rows_read=table.rows,
        outcome=_outcome(table, config, values, found, mean, train, test),
        **warned((Routine(said), *value_notes(values, False), *((NOT_PROVEN,) if alone else ()))),
    )  # fmt: skip
    encoding = Encoding(tuple(Number(name, 0.0) for name in names), {}, LABEL)
    origin = Origin(title(config.file), table.content, table.rows)
    model = ModelFile(report, Design(tuple(encoding.as_list())), config.as_dict(), origin, WITH_LOSS)
    return Trained(None, report, model)


def _sets(table: SparseTable, test: PartScores) -> PredictionInterval:
    """Sets of labels by the test rows; scores that were rounded down are taken for as bad as they may be."""
    found, loss, grid = Ranked.together(test.ranked), Logistic(), grid_for(table.rows)
    p = np.concatenate((loss.mean(found.eta), loss.mean(found.eta + grid)))
    nothing = np.zeros(len(found.eta))
    no, yes = np.concatenate((nothing, found.no)), np.concatenate((found.yes, nothing))
    return prediction_sets(p, no, yes, test.sums.rows)


def _outcome(
    table: SparseTable, config: RunConfig, values: TwoValues, found: RowsOptimum, mean: float, train: PartScores,
    test: PartScores,
) -> Outcome:  # fmt: skip
    loss, ranked = Logistic(), [Ranked.together(part.ranked) for part in (train, test)]
    told = []
    for part, order in zip((train, test), ranked, strict=True):
        if not part.sums.rows:
            told.append(OutcomeScores())
            continue
        own, known = class_scores(mean, part.sums, part.null, order)
        told.append(OutcomeScores(part.sums.rows, finite(own), finite(known)))
    honest = ranked[1] if test.sums.rows else ranked[0]
    middle = loss.mean(honest.eta + grid_for(table.rows) / 2)
    return Outcome(
        loss=loss.name, link=loss.link, shrink=config.shrink, classes=values.names, class_rows=values.rows,
        numbers=True, train=told[0], test=told[1],
        log_likelihood=finite(train.sums.likelihood), null_log_likelihood=finite(train.null.likelihood),
        deviance=finite(train.sums.deviance), null_deviance=finite(train.null.deviance), sweeps=found.steps,
        curve=threshold_curve(loss.mean(honest.eta), honest.no, honest.yes),
        calibration=calibration(middle, honest.no, honest.yes),
    )  # fmt: skip
