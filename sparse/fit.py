"""One exact fit to a file of sparse rows: from the values that are there, zeros are never filled in.

The answer is that of a table of cells with the same values; a model file has the columns with a weight only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.coordinator import Coordinator
from shoal.data.encoding import Encoding
from shoal.data.splits import Split
from shoal.data.terms import Number
from shoal.errors import ConfigError, DataError, OutOfMemory, Remedy
from shoal.files.parts import title
from shoal.fitting.exact import check_rows
from shoal.fitting.reports import Trained, finite, named_values, warned
from shoal.kernels.threads import one_thread
from shoal.metrics import Residuals, Timings
from shoal.models import Array, penalty_for
from shoal.passes.blocks import CALIBRATION_ROWS, CALIBRATION_SEED
from shoal.results.findings import Routine
from shoal.results.fit import FitCertificate, FitReport, GradientTraining
from shoal.results.model import Design, ModelFile, Origin
from shoal.settings.config import RunConfig
from shoal.settings.limits import SHARD_BYTES, SOLVING, memory_for_exact, sparse_bytes
from shoal.settings.strength import strength
from shoal.settings.when import MODELS
from shoal.solve.conformal import prediction_interval
from shoal.solve.paths import Solution
from shoal.solve.rows.sparse import SparseRows
from shoal.solve.rows.wide import solve_wide
from shoal.sparse.table import LABEL, SparseTable, column_name, open_table, scores
from shoal.utils import available_memory

MEANT = {
    "file", "target", "model", "alpha", "l1_ratio", "intercept", "standardize", "test_every", "test_fraction", "seed",
    "engine", "workers", "out", "register", "confidence", "on_bad_rows", "max_memory", "comment",
    "metrics",
}  # fmt: skip
OF_STEPS = {
    "solver", "mode", "epochs", "tolerance", "finish_passes", "max_seconds", "patience", "batch_size", "local_steps",
    "staleness", "step_rule", "learning_rate", "schedule", "warmup", "decay", "decay_every", "momentum", "weight_decay",
    "clip", "compression", "top_k", "prefetch", "io_queue_size", "shards", "partition", "callbacks",
    "checkpoint_seconds", "keep_checkpoints", "checkpoint_strategy", "on_worker_loss", "restarts", "retries",
    "recovery",
}  # fmt: skip
LOGISTIC, OF_YES_NO = "logistic", {"shrink", "positive"}
VECTORS = 24  # of all weights that a gradient run holds: copies for workers, the step and its memory, the best so far
Indices = npt.NDArray[np.intp]


def suited(config: RunConfig) -> RunConfig:
    """The config with the label as its target; what there is for tables of cells only is refused."""
    if config.target not in ("", LABEL):
        raise ConfigError(
            f"Expected the label of each sparse row to be predicted, got '{config.target}'. Leave the target out, or "
            f"say {LABEL}.", knobs=["target"],
        )  # fmt: skip
    if config.nonnegative:
        raise ConfigError(
            "Coefficients of sparse rows have no bound at 0. Leave nonnegative out.", knobs=["nonnegative"]
        )
    if config.model not in (*MODELS, LOGISTIC) or config.engine == "ray":
        raise ConfigError(
            "Sparse rows are fitted by linear, ridge, lasso, elastic-net and logistic models on one machine. Choose "
            "one of these.", knobs=["model", "engine"],
        )  # fmt: skip
    if config.model == LOGISTIC and config.solver == "gradient":
        raise ConfigError(
            "Gradient steps on sparse rows are for linear models; a logistic one is fitted exactly.",
            Remedy.set("Fit it exactly", "solver", "exact"), knobs=["model", "solver"],
        )  # fmt: skip
    if config.model == LOGISTIC and config.shrink == "none":
        raise ConfigError(
            "Expected a penalty for a logistic model of sparse rows, got none: columns as many as these mostly tell "
            "all rows apart, and coefficients have no end.",
            Remedy.set("Shrink them", "shrink", "ridge"), knobs=["shrink"],
        )  # fmt: skip
    knobs = RunConfig.knobs()
    meant = (
        MEANT
        | (OF_STEPS if config.solver == "gradient" else set())
        | (OF_YES_NO if config.model == LOGISTIC else set())
    )
    if odd := [name for name, knob in knobs.items() if name not in meant and getattr(config, name) != knob.default]:
        raise ConfigError(f"For sparse rows there is no {', '.join(odd)}. Leave it out.", knobs=odd)
    return replace(config, target=LABEL)


def fit_sparse(coordinator: Coordinator, config: RunConfig, timings: Timings) -> Trained:
    with timings.stage("ingest"):
        table = open_table(coordinator, config)
    check_memory(table)
    split = Split(config.test_every, config.test_fraction, config.seed)
    with timings.stage("rows"), one_thread, np.errstate(over="ignore", invalid="ignore"):
        rows, there = training_rows(table, config, split)
    with timings.stage("solve"), one_thread:
        solution = solve_wide(rows, penalty_for(config.model, strength(config), config.l1_ratio, rows.n))
    weights = np.zeros(table.columns)
    weights[there] = solution.coef
    with timings.stage("score"):
        sums = residuals(table, split, weights, solution.intercept)
    return described_sparse(table, config, solution, there, *sums)


def check_memory(table: SparseTable) -> None:
    """What the fit would take is refused before it is taken."""
    need = sparse_bytes(table.values, table.columns, table.rows)
    free = memory_for_exact(available_memory())
    if need > free:
        raise OutOfMemory(
            f"An exact fit to {table.values:,} values in {table.rows:,} rows and {table.columns:,} columns needs "
            f"{need / 1e6:,.0f} MB, but only {free / 1e6:,.0f} MB may be used. Use fewer rows or more memory."
        )


def check_steps_memory(table: SparseTable) -> None:
    """The same of a gradient run, which holds vectors of all columns and a shard of rows at a time."""
    need, free = 8 * VECTORS * table.columns + SHARD_BYTES, memory_for_exact(available_memory())
    if need > free:
        raise OutOfMemory(
            f"Gradient steps of {table.columns:,} columns need {need / 1e6:,.0f} MB, but only {free / 1e6:,.0f} MB may "
            "be used. Use a file with smaller indices, or more memory."
        )


def training_rows(table: SparseTable, config: RunConfig, split: Split) -> tuple[SparseRows, Indices]:
    """All training rows in one matrix of the columns that have a value in them, and the indices of these."""
    from scipy.sparse import csr_array  # here: only sparse rows need it

    labels, counts, indices, values = [], [], [], []
    for part, train in table.trained(split):
        own = np.repeat(train, part.counts)
        labels.append(part.labels[train])
        counts.append(part.counts[train])
        indices.append(part.indices[own])
        values.append(part.values[own])
    y, places = np.concatenate(labels), _joined(indices)
    check_rows(len(y), config)
    there = np.bincount(places, minlength=table.columns) > 0
    places = (np.cumsum(there, dtype=np.int32) - 1)[places]
    starts = np.concatenate(([0], np.cumsum(np.concatenate(counts))))
    X = csr_array((_joined(values), places, starts), (len(y), int(there.sum())))
    most = max(1, math.isqrt(memory_for_exact(available_memory()) // (8 * SOLVING)))
    rows = SparseRows.of(X, y, config.intercept, config.standardize, most=most)
    if not (np.isfinite(rows.squares).all() and np.isfinite(rows.y_scatter)):
        raise DataError("Expected values whose squares can be summed, got some over about 1e150. Divide them first.")
    return rows, np.flatnonzero(there)


def _joined(parts: list[Any]) -> Any:
    """One array; what it is made of is gone then."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def residuals(
    table: SparseTable, split: Split, weights: Array, intercept: float
) -> tuple[Residuals, Residuals, tuple[Array, ...]]:
    """Of training and test rows, block by block, and the sizes of those of test rows, or of a random part of them."""
    trained, tested, away = Residuals.none(), Residuals.none(), []
    share, first = CALIBRATION_ROWS / max(1.0, split.share * table.rows), 0
    for part, train in table.trained(split):
        residual = part.labels - intercept - scores(part.ends, part.indices, part.values, weights)
        trained = trained.merge(Residuals.of(part.labels[train], residual[train]))
        tested = tested.merge(Residuals.of(part.labels[~train], residual[~train]))
        kept = ~train & (Split(seed=CALIBRATION_SEED).hashed(np.arange(first, first + len(train))) < share)
        away += [np.abs(residual[kept])] if kept.any() else []
        first += len(train)
    return trained, tested, tuple(away)


def described_sparse(
    table: SparseTable, config: RunConfig, solution: Solution, there: Indices, train: Residuals, test: Residuals,
    away: tuple[Array, ...], training: GradientTraining | None = None, notes: Iterable[str] = (),
) -> Trained:  # fmt: skip
    """What is said of a fit, and its model file; a gradient run adds what is said of its training."""
    used = np.flatnonzero(solution.coef)
    names = [column_name(index) for index in there[used].tolist()]
    parameters = len(used) if config.model in ("lasso", "elasticnet") else solution.rank
    certificate = solution.certificate
    said = (
        f"Sparse rows: {table.values:,} values; of {len(there):,} columns in the training rows {len(used):,} have a "
        "weight, and the others are not in the model."
    )
    watched = training is not None and bool(config.patience)  # test rows that have decided when a run ends
    report = FitReport(
        model=config.model,
        target=config.target,
        alpha=None if config.model == "linear" else finite(strength(config)),
        l1_ratio=config.l1_ratio if config.model == "elasticnet" else None,
        intercept=finite(solution.intercept),
        coefficients=named_values(names, solution.coef[used]),
        coefficients_standardized=named_values(names, solution.w[used]),
        train=train.scores(parameters, config.intercept),
        test=test.scores(parameters, config.intercept),
        prediction_interval=prediction_interval(away, test.rows, watched, (), False),
        certificate=FitCertificate(
            certificate.kind, finite(certificate.value), finite(certificate.relative), certificate.rests_on
        ),
        unique=bool(solution.unique),
        rows_read=table.rows,
        training=training,
        **warned((Routine(said), *solution.notes, *notes)),
    )  # fmt: skip
    encoding = Encoding(tuple(Number(name, 0.0) for name in names), {}, config.target)
    origin = Origin(title(config.file), table.content, table.rows)
    model = ModelFile(report, Design(tuple(encoding.as_list())), config.as_dict(), origin)
    return Trained(None, report, model)
