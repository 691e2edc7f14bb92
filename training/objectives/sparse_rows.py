"""Squared residuals of sparse rows as what a gradient run minimises; zeros are never filled in.

    F(w) = 1/(2n) ||y - (A - 1 centre') w||^2  +  penalty(w)          A: the stored values, each over its column's scale

It has the optimum of the exact fit to the same rows, which is solved before where there is memory for it: to report the
distance, never to move weights. What workers compute is in `sparse.steps`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.splits import Split
from shoal.data_pipeline import Shards
from shoal.errors import ResourceError
from shoal.fitting.exact import check_rows
from shoal.fitting.own_metrics import MetricRows
from shoal.fitting.reports import Trained
from shoal.kernels.threads import one_thread
from shoal.metrics import Timings
from shoal.models import TINY, Array, certify, penalty_for, squared_loss
from shoal.results.fit import GradientTraining
from shoal.settings.config import RunConfig
from shoal.settings.limits import shard_count
from shoal.settings.strength import strength
from shoal.solve.paths import Solution
from shoal.solve.rows.wide import solve_wide
from shoal.sparse.columns import SparseColumns
from shoal.sparse.fit import check_memory, check_steps_memory, described_sparse, residuals, training_rows
from shoal.sparse.shards import STORED, SparseShards, derive_sparse
from shoal.sparse.steps import SparseLinearModel
from shoal.sparse.table import LABEL, SparseTable, open_table
from shoal.training.objectives.base import (
    UNKNOWN,
    Bounds,
    Concluded,
    DistanceToOptimum,
    OneCoefficientAColumn,
    UsualWork,
)

KNOWN = 2_000_000  # values that are multiplied in milliseconds: then loss and distance are looked up in every round
SEARCHES, LEAST_MARGIN, MOST_MARGIN = (
    16,
    0.01,
    0.09,
)  # products for the largest eigenvalue, its overstatement
FEWEST_STEPS, FEWEST_ROWS = 8, 16  # steps of an epoch; rows of a batch
A_ROUND, A_COORDINATE, A_VALUE = 300e-6, 15e-9, 5e-9  # seconds: of messages, of a weight that is stepped, of a value
BETWEEN = 9  # times as long as that what workers do between two messages
LOCAL_ROWS, LOCAL_STEPS = 256, 8  # of a batch in mode local, and the fewest steps of a round


class SparseObjective(OneCoefficientAColumn):
    """F over the training rows of one run; the intercept is eliminated by centring, as for tables of cells."""

    evenly_curved = convex = scores_cheaply = True
    watches, precision = "test rows", "float64"
    condition: float | None = None

    def __init__(self, config: RunConfig, table: SparseTable, columns: SparseColumns, split: Split) -> None:
        self.config, self.table, self.columns, self.split = config, table, columns, split
        self.n, self.units = columns.n, columns.units
        self.scale = 0.0
        self.at_start = squared_loss(columns.y_scatter, self.n)
        self.notes: tuple[str, ...] = ()
        self._shards: SparseShards | None = None
        self._seen: tuple[Array, Array, float] | None = None
        self.best: Solution | None = None
        self.least: float | None = None
        self._take(strength(config))

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "content": self.table.content, "header": LABEL, "columns": [f"{self.width} of {self.table.columns}"],
            "parts": [list(part) for part in self.parts],
        }  # fmt: skip

    @property
    def width(self) -> int:
        return len(self.columns.there)

    @property
    def penalised(self) -> bool:
        return self.config.model != "linear"

    def _take(self, alpha: float) -> None:
        self.alpha = alpha
        self.penalty = penalty_for(self.config.model, alpha, self.config.l1_ratio, self.n)
        self.model = SparseLinearModel(self.penalty)
        self._solve()

    def set_alpha(self, alpha: float) -> SparseLinearModel[Any]:
        if alpha != self.alpha:
            self._take(alpha)
            self.least = self._loss(self.best.w, self._squares(self.best.w)) if self.best and self._shards else None
        return self.model

    def _solve(self) -> None:
        """The optimum, where there is memory for all rows at once."""
        self.best = None
        try:
            check_memory(self.table)
            with one_thread, np.errstate(over="ignore", invalid="ignore"):
                rows, _ = training_rows(self.table, self.config, self.split)
                self.best = solve_wide(rows, self.penalty)
            self.notes = ()
        except ResourceError as error:
            self.notes = (f"The exact optimum is not computed; distances are upper bounds. {error}",)

    # ---------------------------------------------------------------- rows, and how they curve it

    @property
    def _row_values(self) -> float:
        return self.table.values / max(self.table.rows, 1)

    @property
    def usual(self) -> UsualWork:
        """By the table alone: between two messages, of which each costs the server a step of all weights, workers have
        several times that to do."""
        rows = int(self.n)
        row_bytes = int(STORED * self._row_values) + 16
        count = shard_count(rows, row_bytes, self.config.shards)
        wanted = BETWEEN * (A_ROUND + A_COORDINATE * self.width) / (A_VALUE * max(self._row_values, 1.0))
        longest = -(-rows // count)
        batch = wanted if self.config.mode in ("ssp", "async") else wanted / count
        if self.config.mode == "local":
            batch = max(FEWEST_ROWS, min(LOCAL_ROWS, longest // FEWEST_STEPS))
            steps = int(min(max(LOCAL_STEPS, wanted / (count * batch)), -(-longest // batch)))
            return UsualWork(count, batch, steps, row_bytes)
        return UsualWork(count, int(max(FEWEST_ROWS, min(batch, longest / FEWEST_STEPS))), 1, row_bytes)

    def shards(self, coordinator: Coordinator, count: int, dtype: str) -> Shards:
        config = self.config
        self._shards = derive_sparse(
            coordinator, self.table, self.columns, self.split,
            shards=count, seed=config.seed, partition=config.partition,
        )  # fmt: skip
        return self._shards

    def meet(self, coordinator: Coordinator, shards: Shards) -> None:
        gradient, _ = self._looked(np.zeros(self.width))
        self.scale = float(np.abs(gradient).max(initial=0.0)) / self.n
        if self.best is not None:
            self.least = self._loss(self.best.w, self._squares(self.best.w))

    def bounds(self, coordinator: Coordinator, shards: Shards) -> Bounds:
        return Bounds(self._top(), shards.largest_row)

    def _top(self) -> float:
        """The largest eigenvalue of X'X / n, overstated by 1 to 9 %: Lanczos steps, of which three vectors are held."""
        v = np.random.default_rng(0).standard_normal(self.width)
        v /= max(float(np.linalg.norm(v)), TINY)
        before, beta, diagonal, beside = np.zeros(self.width), 0.0, list[float](), list[float]()
        for _ in range(min(SEARCHES, self.width)):
            product = self._curved(v) - beta * before
            diagonal.append(float(product @ v))
            product -= diagonal[-1] * v
            beta = float(np.linalg.norm(product))
            beside.append(beta)
            if beta <= TINY + 1e-12 * abs(diagonal[0]):
                break
            before, v = v, product / beta
        off = np.array(beside[:-1])
        values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
        top, rest = max(float(values[-1]), 0.0), abs(beside[-1] * float(vectors[-1, -1]))
        return top * (1 + float(np.clip(rest / top, LEAST_MARGIN, MOST_MARGIN))) if top > 0 else 0.0

    def _curved(self, v: Array) -> Array:
        total = np.zeros(self.width)
        for X, _ in self._opened:
            total += X.against(X.times(v))
        return total / self.n

    @functools.cached_property
    def _opened(self) -> list[tuple[Any, Any]]:
        """All rows, mapped."""
        assert self._shards is not None
        return [self._shards.open(shard) for shard in range(len(self._shards.rows))]

    # ---------------------------------------------------------------- how good weights are

    def _looked(self, w: Array) -> tuple[Array, float]:
        """The gradient of all rows' squared residuals, and their sum; by this process, once for the same weights."""
        if self._seen is None or not np.array_equal(w, self._seen[0]):
            gradient, squares = np.zeros(self.width), 0.0
            for X, y in self._opened:
                own, more = self.model.gradient(X, y, w)
                gradient += own
                squares += more
            self._seen = w.copy(), gradient, squares
        return self._seen[1:]

    def _squares(self, w: Array) -> float:
        return self._looked(w)[1]

    @property
    def knows_loss(self) -> bool:
        return self.table.values <= KNOWN

    def loss(self, w: Array, value: float | None = None) -> float:
        return self._loss(w, self._squares(w) if value is None else value)

    def _loss(self, w: Array, squares: float) -> float:
        return self.model.objective(w, squares, self.n)

    def away(self, w: Array) -> DistanceToOptimum:
        """By a look at the rows, where that takes no time."""
        if not self.knows_loss:
            return UNKNOWN
        gradient, squares = self._looked(w)
        return self.away_by_rows(w, gradient / self.n, squares)

    def away_by_rows(self, w: Array, gradient: Array, value: float) -> DistanceToOptimum:
        slope = self.penalty.optimality_gap(w, gradient) / max(self.scale, TINY)
        found = self._loss(w, value)
        if self.best is not None and self.least is not None:
            distance = max(found - self.least, 0.0) / max(self.at_start - self.least, TINY)
            return DistanceToOptimum(distance, self._coefficients(w, self.best), slope)
        gap = self._gap(w, gradient, value)
        return DistanceToOptimum(None if gap is None else gap / max(self.at_start - found, TINY), None, slope)

    def _coefficients(self, w: Array, best: Solution) -> float | None:
        if not best.unique:
            return None
        return float(np.abs(w - best.w).max(initial=0.0)) / max(float(np.abs(best.w).max(initial=0.0)), TINY)

    def _gap(self, w: Array, gradient: Array, squares: float) -> float | None:
        """An upper bound of F(w) - F*: the duality gap, or from the slope where the penalty is strongly convex."""
        if self.penalty.l1:
            return float(self._certificate(w, gradient, squares).value)
        slope = gradient + self.penalty.l2 * w
        return float(slope @ slope) / (2 * self.penalty.l2) if self.penalty.l2 else None

    def _certificate(self, w: Array, gradient: Array, squares: float) -> Any:
        return certify(
            self.penalty, w, gradient, squares, self.n,
            y_scatter=self.columns.y_scatter, zero_gradient=self.scale, rests_on="data",
        )  # fmt: skip

    def _held(self, w: Array) -> tuple[Array, Array] | None:
        """Targets of test rows about the mean, and what these weights say of them."""
        found = self._shards.held() if self._shards is not None else None
        return None if found is None else (found[1], found[0].times(w))

    def score(self, w: Array) -> float | None:
        found = self._held(w)
        if found is None:
            return None
        y, said = found
        spread = float(((y - y.mean()) ** 2).sum())
        return 1 - float(((y - said) ** 2).sum()) / spread if spread > 0 else None

    def predicted(self, w: Array) -> MetricRows | None:
        found = self._held(w)
        if found is None:
            return None
        return MetricRows(found[0] + self.units.y_mean, found[1] + self.units.y_mean, np.ones(len(found[0])))

    def nonzeros(self, w: Array) -> int:
        return int(np.count_nonzero(w))

    # ---------------------------------------------------------------- what comes of it

    def conclude(self, coordinator: Coordinator, w: Array) -> Concluded:
        gradient, squares = self._looked(w)
        coef, intercept = self.units.raw(np.where(self.columns.inverse > 0, w, 0.0))
        certificate = self._certificate(w, gradient / self.n, squares)
        unique, rank = (self.best.unique, self.best.rank) if self.best else (True, min(self.width, int(self.n)))
        solution = Solution(w, coef, intercept, rank, certificate, unique)
        whole = np.zeros(self.table.columns)
        whole[self.columns.there] = coef
        sums = residuals(self.table, self.split, whole, intercept)
        config = dataclasses.replace(self.config, alpha=self.alpha)  # a command may have changed it

        def reported(training: GradientTraining, notes: Sequence[str]) -> Trained:
            return described_sparse(
                self.table, config, solution, self.columns.there, *sums, training=training, notes=notes
            )  # fmt: skip

        away = self.away_by_rows(w, gradient / self.n, squares)
        return Concluded(away, reported)


def sparse_objective(coordinator: Coordinator, config: RunConfig, timings: Timings) -> SparseObjective:
    table, split = open_table(coordinator, config), Split(config.test_every, config.test_fraction, config.seed)
    check_steps_memory(table)
    with timings.stage("rows"):
        columns = SparseColumns.of(table, split, config.intercept, config.standardize)
        check_rows(columns.n, config)
    with timings.stage("solve"):
        return SparseObjective(config, table, columns, split)
