"""Squared residuals of a standardised table, and how far weights are from their optimum: exactly, or by a bound for
wide tables.

The exact optimum is known from the moments; it is used to report the distance and to set step sizes, never to move
weights. Steps and workers do not belong here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns, widest
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding
from shoal.data_pipeline import Shards
from shoal.errors import ConfigError
from shoal.fitting.exact import (
    Fit,
    Prepared,
    Reduced,
    precision_notes,
    prepare,
    rows_dropped,
)
from shoal.fitting.own_metrics import MetricRows
from shoal.fitting.reports import Trained, described
from shoal.fitting.wide import prepare_wide
from shoal.lazy.classes import dataclass
from shoal.metrics import Timings
from shoal.models import L1L2, TINY, Array, Certificate, LinearModel, Penalty, certify, model_for, squared_loss
from shoal.passes.blocks import Sums
from shoal.passes.shards import ShardGradient
from shoal.plugins import make_penalty
from shoal.results.fit import GradientTraining
from shoal.settings.config import RunConfig
from shoal.settings.limits import MOST_EXACT
from shoal.settings.strength import strength
from shoal.settings.when import MODELS
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments, residual_squares
from shoal.solve.paths import Solution, solve
from shoal.solve.smooth import dependence
from shoal.training.objectives.base import (
    UNKNOWN,
    Bounds,
    Concluded,
    DistanceToOptimum,
    OneCoefficientAColumn,
    table_identity,
)
from shoal.training.objectives.shards import derive, top_eigenvalue


@dataclass
class Held:
    """Residuals of the test rows at any w in the units of the run: from their moments, or from the rows."""

    moments: Moments | None
    units: Standardisation
    rows: Shards | None = None

    def r2(self, w: Array) -> float | None:
        found = self._from_moments(w) if self.moments is not None else self._from_rows(w)
        if found is None or not found[1] > 0:
            return None
        return 1 - found[0] / found[1]

    def _from_moments(self, w: Array) -> tuple[float, float] | None:
        moments = self.moments
        if moments is None or moments.n < 1:
            return None
        return residual_squares(moments, *self.units.raw(w)), float(moments.scatter[-1, -1])

    def _from_rows(self, w: Array) -> tuple[float, float] | None:
        found = self.rows.held() if self.rows is not None else None
        if found is None:
            return None
        X, y = found
        residual = (y - X @ w.astype(X.dtype)).astype(np.float64)
        centred = y.astype(np.float64) - float(y.mean(dtype=np.float64))
        return float(residual @ residual), float(centred @ centred)


class SquaredObjective(OneCoefficientAColumn):
    """F(w) = 1/(2n) sum_i c_i (y_i - xs_i'w)^2 + penalty(w) over the training rows of one run.

    The rows' weights c_i are 1, or those of a column, which come to n in all; the intercept is eliminated by centring.
    """

    evenly_curved = convex = scores_cheaply = True
    notes: tuple[str, ...] = ()
    watches = "test rows"
    usual = precision = None

    def __init__(
        self, config: RunConfig, prepared: Prepared, units: Standardisation, n: float, y_scatter: float
    ) -> None:
        self.config, self.prepared, self.units, self.n, self.y_scatter = config, prepared, units, n, y_scatter
        self.problem = prepared.problem if isinstance(prepared, Reduced) else None
        self.held = Held(prepared.test if isinstance(prepared, Reduced) else None, units)
        self.scale = self.problem.zero_gradient if self.problem else 0.0  # max |Xs'y| / n
        self.at_start = squared_loss(y_scatter, n)
        self.set_alpha(strength(config))

    @property
    def identity(self) -> dict[str, Any]:
        return table_identity(self.prepared, self.parts)

    @property
    def width(self) -> int:
        return len(self.prepared.encoding.terms)

    @property
    def penalised(self) -> bool:
        return self.config.model != "linear" or bool(self.config.penalty)

    # ---------------------------------------------------------------- rows, and how they curve it

    def shards(self, coordinator: Coordinator, count: int, dtype: str) -> Shards:
        prepared, config = self.prepared, self.config
        return derive(
            coordinator, prepared.dataset, evenly_weighted(prepared), prepared.split, self.units,
            shards=count, dtype=dtype, seed=config.seed, partition=config.partition,
        )  # fmt: skip

    def meet(self, coordinator: Coordinator, shards: Shards) -> None:
        self.held.rows = shards
        self._each = self.n / max(shards.total, 1)
        if self.problem is None:
            self.scale = _scale(coordinator, shards)

    def bounds(self, coordinator: Coordinator, shards: Shards) -> Bounds:
        top = self.top_of_gram()
        return Bounds(top_eigenvalue(coordinator, shards) if top is None else top, shards.largest_row)

    def top_of_gram(self) -> float | None:
        """The largest eigenvalue of the Gram matrix of standardised columns, which bounds every step; None for wide."""
        if self.problem is None:
            return None
        return float(np.linalg.eigvalsh(self.problem.gram)[-1]) / self.n * 1.001

    @property
    def condition(self) -> float | None:
        return self.problem.condition() if self.problem is not None else None

    # ---------------------------------------------------------------- how good weights are

    @property
    def knows_loss(self) -> bool:
        return self.problem is not None

    def set_alpha(self, alpha: float) -> LinearModel[Penalty]:
        """Another strength of the penalty: another optimum."""
        self.alpha = alpha
        self.model = _model(self.config, alpha, self.n)
        self.penalty = self.model.penalty
        self.best: Solution | None = None
        if self.problem is not None and isinstance(self.penalty, L1L2):
            self.best = solve(self.problem, self.penalty)
        self.least = self.loss(self.best.w) if self.best else None
        return self.model

    def loss(self, w: Array, value: float | None = None) -> float:
        """`value` is the sum of c_i (y_i - xs_i'w)^2 with a mean c_i of 1, asked for where moments are not known."""
        if value is None:
            return self._loss(w, self.problem.rss(w) if self.problem else math.nan)
        return self._loss(w, value if self.prepared.weighting is None else value * self._each)

    def _loss(self, w: Array, squares: float) -> float:
        return self.model.objective(w, squares, self.n)

    def away(self, w: Array) -> DistanceToOptimum:
        """From the moments, if they are known."""
        if self.problem is None:
            return UNKNOWN
        return self._away(w, self.problem.gradient(w), self.problem.rss(w))

    def away_by_rows(self, w: Array, gradient: Array, value: float) -> DistanceToOptimum:
        return self._away(w, gradient, value)

    def score(self, w: Array) -> float | None:
        return self.held.r2(w)

    def predicted(self, w: Array) -> MetricRows | None:
        """In the units of the file; where rows have weights, only at the end."""
        found = self.held.rows.held() if self.held.rows is not None and self.prepared.weighting is None else None
        if found is None:
            return None
        X, y = found
        mean, scores = self.units.y_mean, (X @ w.astype(X.dtype)).astype(np.float64)
        return MetricRows(y.astype(np.float64) + mean, scores + mean, np.ones(len(y)))

    def nonzeros(self, w: Array) -> int:
        return int((w != 0).sum())

    def _away(self, w: Array, gradient: Array, squares: float) -> DistanceToOptimum:
        slope = self.penalty.optimality_gap(w, gradient) / max(self.scale, TINY)
        value = self._loss(w, squares)
        if self.best is not None and self.least is not None:
            distance = max(value - self.least, 0.0) / max(self.at_start - self.least, TINY)
            return DistanceToOptimum(distance, self._coefficients(w), slope)
        gap = self._gap(w, gradient, squares)
        return DistanceToOptimum(None if gap is None else gap / max(self.at_start - value, TINY), None, slope)

    def _coefficients(self, w: Array) -> float | None:
        if self.best is None or not self.best.unique:
            return None
        return float(np.abs(w - self.best.w).max(initial=0.0)) / max(float(np.abs(self.best.w).max(initial=0.0)), TINY)

    def _gap(self, w: Array, gradient: Array, squares: float) -> float | None:
        """An upper bound of F(w) - F*: the duality gap, or from the slope where the penalty is strongly convex."""
        if not isinstance(self.penalty, L1L2):
            return None
        if self.penalty.l1:
            return self._certificate(w, gradient, squares).value
        slope = gradient + self.penalty.l2 * w
        return float(slope @ slope) / (2 * self.penalty.l2) if self.penalty.l2 else None

    def _certificate(self, w: Array, gradient: Array, squares: float) -> Certificate:
        if not isinstance(self.penalty, L1L2):
            gap = self.penalty.optimality_gap(w, gradient)
            return Certificate("kkt", gap, gap / max(self.scale, TINY), "data")
        return certify(
            self.penalty, w, gradient, squares, self.n,
            y_scatter=self.y_scatter, zero_gradient=self.scale, rests_on="data",
        )  # fmt: skip

    def raw(self, w: Array) -> tuple[Array, float]:
        """Weights and intercept in the units of the file."""
        return (self.problem.units if self.problem else self.units).raw(w)

    def conclude(self, coordinator: Coordinator, w: Array) -> Concluded:
        prepared, units = self.prepared, self.units
        sums = coordinator.score(
            prepared.dataset, prepared.encoding, prepared.split, *self.raw(w), units.centre, units.scale
        )
        fit = self.fit(w, sums)
        by_plugin = {"penalty": self.config.penalty, "alpha": self.alpha} if self.config.penalty else {}

        def reported(training: GradientTraining, notes: Sequence[str]) -> Trained:
            return described(fit, training, notes, **by_plugin)

        return Concluded(None, reported)

    def fit(self, w: Array, sums: Sums) -> Fit:
        """The model of these weights, as an exact fit has it; `sums` are from a pass over the rows."""
        coef, intercept = self.raw(w)
        certificate = self._certificate(w, -sums.gradient / self.n, sums.train.squares)
        unique, rank = (self.best.unique, self.best.rank) if self.best else (True, self.width)
        solution = Solution(w, coef, intercept, rank, certificate, unique)
        l2 = self.penalty.l2 if isinstance(self.penalty, L1L2) else 0.0
        condition = self.problem.condition(l2) if self.problem else math.nan
        dropped = rows_dropped(self.prepared, self.config, sums.train.rows + sums.test.rows)
        config = dataclasses.replace(self.config, alpha=self.alpha)  # a command may have changed it
        notes = (*self.prepared.notes, *self._about_columns())
        return Fit(config, self.prepared, solution, sums, None, dropped, notes, condition)

    def _about_columns(self) -> list[str]:
        """What an exact fit says of columns that depend on one another: a run that has converged is at one of several
        answers that are as good, or at one that the last digits of the data decide."""
        if self.problem is None or self.best is None or not isinstance(self.penalty, L1L2):
            return []
        if self.best.unique:
            return precision_notes(self.problem, self.penalty, self.best)
        more = "Single weights are not unique: the run came to one of the answers that fit equally well."
        return [f"{dependence(self.problem)} {more}" if not self.penalty.l1 else self.best.notes[-1]]


def _model(config: RunConfig, alpha: float, n: float) -> LinearModel[Penalty]:
    if config.penalty:
        return LinearModel(make_penalty(config.penalty, alpha, config.l1_ratio, n, MODELS))
    return model_for(config.model, alpha, config.l1_ratio, n)


def _scale(coordinator: Coordinator, shards: Shards) -> float:
    """max |Xs'y| / n, by a pass over the rows."""
    requests = [ShardGradient(shards, shard, np.zeros(shards.width)) for shard in range(len(shards.rows))]
    total = sum(coordinator.swept("measuring", requests), np.zeros(shards.width))
    return float(np.abs(total).max(initial=0.0)) / max(shards.total, 1)


def evenly_weighted(prepared: Prepared) -> Encoding:
    """The encoding in which weights have a mean of 1 over the training rows: sums over rows are divided by their
    number in steps, whatever weights come to."""
    if prepared.weighting is None:
        return prepared.encoding
    seen = prepared.weighting.seen
    return dataclasses.replace(prepared.encoding, weight_scale=seen.rows / seen.total)


def squared_objective(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings
) -> SquaredObjective:
    """From moments where the table is narrow enough for them, else from the columns' means and spreads alone."""
    if config.penalty and config.model != "linear":
        raise ConfigError(
            f"Expected no model beside the penalty '{config.penalty}', got {config.model}. Leave out one of them."
        )
    width = widest(choose_columns(dataset, config), config)
    if width > MOST_EXACT:
        if config.weights:
            raise ConfigError(
                f"Expected at most {MOST_EXACT:,} columns beside weights of rows ('{config.weights}'), got {width:,}: "
                "gradient steps of wider tables count all rows alike, so far. Choose fewer columns.",
                knobs=["weights", "features"],
            )
        return _wide(coordinator, dataset, config, timings)
    prepared = prepare(coordinator, dataset, config, timings)
    units = Standardisation.of(prepared.train, config.intercept, config.standardize)
    return SquaredObjective(config, prepared, units, prepared.problem.n, prepared.problem.y_scatter)


def _wide(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> SquaredObjective:
    with timings.stage("spreads"):
        prepared, found = prepare_wide(coordinator, dataset, config)
    units, width = found.units(config.intercept, config.standardize), len(prepared.encoding.terms)
    said = f"With {width} columns the exact optimum is not computed; distances are upper bounds."
    prepared = dataclasses.replace(prepared, notes=(*prepared.notes, said))
    y_scatter = float(found.scatter[-1]) + (0.0 if config.intercept else found.n * float(found.mean[-1]) ** 2)
    return SquaredObjective(config, prepared, units, found.n, y_scatter)
