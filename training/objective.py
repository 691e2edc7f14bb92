"""What a gradient run minimises, and how far weights are from its optimum: exactly, or by a bound for wide tables.

The exact optimum is known from the moments; it is used to report the distance and to set step sizes, never to move
weights. Steps and workers do not belong here.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.cache import digest
from shoal.data.columns import base_encoding, choose_columns
from shoal.data.dataset import Dataset
from shoal.data.splits import Split
from shoal.data_pipeline import Shards
from shoal.errors import ConfigError
from shoal.fitting.exact import (
    Fit,
    Prepared,
    Reduced,
    bad_row_notes,
    check_bad_rows,
    check_rows,
    design_for,
    prepare,
    rows_dropped,
)
from shoal.metrics import Timings
from shoal.models import L1L2, TINY, Array, Certificate, LinearModel, Penalty, certify, model_for, squared_loss
from shoal.passes.blocks import Sums
from shoal.plugins import make_penalty
from shoal.settings.config import MODELS, RunConfig
from shoal.settings.limits import MOST_EXACT
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments, residual_squares
from shoal.solve.paths import Solution, solve
from shoal.training.shards import spreads

SAME_COEFFICIENTS = 0.1  # of the square root of the tolerance: how close the weights have to be, not only the objective


class DistanceToOptimum(NamedTuple):
    """How far weights are from the optimum; None where that is not known.

    objective:    (F(w) - F*) / (F(0) - F*), or an upper bound of it;
    coefficients: max |w - w*| / max |w*|, where w* is known and unique;
    slope:        the largest |dF/dw_j|, as a share of that at w = 0.
    """

    objective: float | None
    coefficients: float | None
    slope: float | None

    def within(self, tolerance: float) -> bool:
        """Whether this is the optimum: by objective and coefficients, or by the slope where only that is known.

        Where columns nearly depend on one another the objective can be within any tolerance while the coefficients
        are far off, so it alone does not count.
        """
        if self.objective is None:
            return self.slope is not None and self.slope <= tolerance
        near = self.coefficients is None or self.coefficients <= SAME_COEFFICIENTS * math.sqrt(tolerance)
        return self.objective <= tolerance and near


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


class Objective:
    """F(w) = 1/(2n) ||y - Xs w||^2 + penalty(w) over the training rows of one run."""

    def __init__(
        self, config: RunConfig, prepared: Prepared, units: Standardisation, n: float, y_scatter: float
    ) -> None:
        self.config, self.prepared, self.units, self.n, self.y_scatter = config, prepared, units, n, y_scatter
        self.problem = prepared.problem if isinstance(prepared, Reduced) else None
        self.held = Held(prepared.test if isinstance(prepared, Reduced) else None, units)
        self.scale = self.problem.zero_gradient if self.problem else 0.0  # max |Xs'y| / n
        self.at_zero = squared_loss(y_scatter, n)
        self.set_alpha(config.alpha)

    @property
    def width(self) -> int:
        return len(self.prepared.encoding.terms)

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

    def loss(self, w: Array, squares: float | None = None) -> float:
        """F(w); `squares` = ||y - Xs w||^2 is asked for where the moments are not known."""
        if squares is None:
            squares = self.problem.rss(w) if self.problem else math.nan
        return self.model.objective(w, squares, self.n)

    def away(self, w: Array) -> DistanceToOptimum:
        """From the moments, if they are known."""
        if self.problem is None:
            return DistanceToOptimum(None, None, None)
        return self._away(w, self.problem.gradient(w), self.problem.rss(w))

    def away_by_rows(self, w: Array, gradient: Array, squares: float) -> DistanceToOptimum:
        """From a pass over the rows at w, whose gradient and squared residuals these are."""
        return self._away(w, gradient, squares)

    def _away(self, w: Array, gradient: Array, squares: float) -> DistanceToOptimum:
        slope = self.penalty.optimality_gap(w, gradient) / max(self.scale, TINY)
        value = self.loss(w, squares)
        if self.best is not None and self.least is not None:
            distance = max(value - self.least, 0.0) / max(self.at_zero - self.least, TINY)
            return DistanceToOptimum(distance, self._coefficients(w), slope)
        gap = self._gap(w, gradient, squares)
        return DistanceToOptimum(None if gap is None else gap / max(self.at_zero - value, TINY), None, slope)

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

    def fit(self, w: Array, sums: Sums) -> Fit:
        """The model of these weights, as an exact fit has it; `sums` are from a pass over the rows."""
        coef, intercept = self.raw(w)
        certificate = self._certificate(w, -sums.gradient / self.n, sums.train.squares)
        unique, rank = (self.best.unique, self.best.rank) if self.best else (True, self.width)
        solution = Solution(w, coef, intercept, rank, certificate, unique)
        l2 = self.penalty.l2 if isinstance(self.penalty, L1L2) else 0.0
        condition = self.problem.condition(l2) if self.problem else math.nan
        dataset = self.prepared.dataset
        dropped = rows_dropped(dataset, self.config, sums)
        config = dataclasses.replace(self.config, alpha=self.alpha)  # a command may have changed it
        return Fit(config, self.prepared, solution, sums, None, dropped, self.prepared.notes, condition)


def _model(config: RunConfig, alpha: float, n: float) -> LinearModel[Penalty]:
    if config.penalty:
        return LinearModel(make_penalty(config.penalty, alpha, config.l1_ratio, n, MODELS))
    return model_for(config.model, alpha, config.l1_ratio, n)


def prepare_objective(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> Objective:
    """From moments where the table is narrow enough for them, else from the columns' means and spreads alone."""
    if config.penalty and config.model != "linear":
        raise ConfigError(
            f"Expected no model beside the penalty '{config.penalty}', got {config.model}. Leave out one of them."
        )
    width = len(base_encoding(choose_columns(dataset, config), config).terms)
    if width > MOST_EXACT:
        return _wide(coordinator, dataset, config, timings)
    prepared = prepare(coordinator, dataset, config, timings)
    units = Standardisation.of(prepared.train, config.intercept, config.standardize)
    return Objective(config, prepared, units, prepared.problem.n, prepared.problem.y_scatter)


def _wide(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> Objective:
    check_bad_rows(dataset, config)
    split, choice = Split(config.test_every, config.test_fraction, config.seed), choose_columns(dataset, config)
    base = base_encoding(choice, config)
    with timings.stage("spreads"):
        found = spreads(coordinator, dataset, base, split)
        check_rows(found.n, config)
        encoding, notes = design_for(coordinator, dataset, config, choice, base, found.mean, split)
        if encoding.terms != base.terms:
            found = spreads(coordinator, dataset, encoding, split)
    units = found.units(config.intercept, config.standardize)
    said = (
        *dataset.notes, *bad_row_notes(dataset), *choice.notes, *notes,
        f"With {len(encoding.terms)} columns the exact optimum is not computed; distances are upper bounds.",
    )  # fmt: skip
    y_scatter = float(found.scatter[-1]) + (0.0 if config.intercept else found.n * float(found.mean[-1]) ** 2)
    return Objective(config, Prepared(dataset, split, encoding, said), units, found.n, y_scatter)


def header_of(dataset: Dataset) -> str:
    """The names of a file's columns, in their order: its `content` is that of the rows alone."""
    return digest([column.name for column in dataset.manifest.columns])
