"""Several classes as what a gradient run minimises: log loss of K scores a row, with weights and balanced classes.

    F(W, b) = 1/n sum_i c_i (log sum_k e^eta_ik - eta_iy)  +  penalty(W)          eta_ik = b_k + xs_i'W_k

The same number added to all scores of a row says the same, so what is judged and reported is `settled`: intercepts that
sum to 0 and, where no L1 part decides otherwise, weights of a column that do. That never costs more than what steps
came to, and is where the exact optimum is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data_pipeline import Shards
from shoal.fitting.classes.fit import (
    ClassFit,
    ClassProblem,
    best_constant,
    checked_classes,
    class_fit,
    class_problem,
    has_curvature,
    optimum_of_classes,
    proven,
)
from shoal.fitting.classes.report import described_classes
from shoal.fitting.classes.sums import ScoredClasses
from shoal.fitting.own_metrics import MetricRows
from shoal.fitting.reports import Trained
from shoal.losses.class_steps import HALF, ClassModel
from shoal.losses.multinomial import Multinomial
from shoal.losses.named import penalty_beside_sum
from shoal.metrics import Timings
from shoal.models import L1L2, Array
from shoal.results.fit import GradientTraining
from shoal.settings.config import RunConfig
from shoal.solve.classes.newton import ClassOptimum, ClassPoint, ClassSlope, curvature_of_classes
from shoal.training.objectives.base import Bounds, Concluded, ParameterPart
from shoal.training.objectives.near_optimum import KnownOptimum, NearOptimum, check_steps, gram_of, with_training

UNSOLVED = "With {weights:,} weights the exact optimum is not worked out before the run, which is judged by its slope."


class ClassObjective(NearOptimum):
    """F over the training rows of one run, in standardised columns; classes in the order of the exact fit."""

    def __init__(
        self,
        config: RunConfig,
        problem: ClassProblem,
        optimum: ClassOptimum,
        found: tuple[ScoredClasses, ClassSlope] | None,
    ) -> None:
        """`optimum` is the exact fit's, with what a pass has `found` there; without, it is where steps start."""
        self._problem, self._optimum = problem, optimum
        rows, units, best = problem.rows, problem.units, None
        ended = self._flat(optimum.point)
        if found is None:
            self.notes = (UNSOLVED.format(weights=optimum.point.W.size),)
        elif not optimum.separated:
            sums, slope = found[0].sums, found[1]
            gradient = self._flat(ClassPoint(slope.gradient, slope.of_b))
            H = curvature_of_classes(sums, rows.centre, units)
            condition = slope.problem((slope.along.T @ optimum.point.W).ravel(), units.intercept).condition()
            best = KnownOptimum(ended, sums.value / sums.rows, gradient, H, optimum.unique, condition)
        super().__init__(config, problem.prepared, units, problem.moments.n, rows.class_weight, ended, best)

    # ---------------------------------------------------------------- parameters

    @property
    def classes(self) -> int:
        return len(self._problem.classes.names)

    @property
    def parts(self) -> tuple[ParameterPart, ...]:
        free = (ParameterPart("intercepts", self.classes),) if self._problem.units.intercept else ()
        return (ParameterPart("coefficients", self.classes * self.width), *free)

    @property
    def start(self) -> Array:
        """The shares of the classes, which are alike where all of them count as much."""
        zero = ClassPoint.zero(self.classes, self.width)
        return self._flat(zero if self._problem.rows.class_weight else self._problem.start)

    @property
    def constant_parameters(self) -> Array:
        return np.append(np.zeros(self.weights), best_constant(self._problem.shares))

    def _flat(self, point: ClassPoint) -> Array:
        return np.append(point.W, point.b)[: point.W.size + len(point.b) * self._problem.units.intercept]

    def _point(self, w: Array) -> ClassPoint:
        K, free = self.classes, self._problem.units.intercept
        return ClassPoint(w[: self.weights].reshape(K, self.width), w[self.weights :] if free else np.zeros(K))

    def settled(self, w: Array) -> Array:
        W, b = (part.copy() for part in (self._point(w).W, self._point(w).b))
        if not self.own.l1:
            W -= W.mean(axis=0)
        return self._flat(ClassPoint(W, b - b.mean()))

    def _penalty(self, alpha: float) -> L1L2:
        return penalty_beside_sum(self.config.shrink, alpha, self.config.l1_ratio, self.n)

    def _model(self, intercept: bool) -> ClassModel:
        return ClassModel(self.classes, self.own, intercept, self._beside)

    def bounds(self, coordinator: Coordinator, shards: Shards) -> Bounds:
        """Half the largest eigenvalue of the columns with the intercept beside them, by what rows count for."""
        return Bounds(HALF * float(np.linalg.eigvalsh(self._gram())[-1]) * 1.001, self._row)

    def _gram(self) -> Array:
        """1/n sum_i c_i u_i u_i': from moments, or, where classes count otherwise, from the curvature at W = 0."""
        problem, units, K = self._problem, self.units, self.classes
        if problem.rows.class_weight and has_curvature(K, self.width):
            sums = problem.rows.sums(self.prepared.dataset.blocks, ClassPoint.zero(K, self.width))
            H = curvature_of_classes(sums, problem.rows.centre, units) / (1 / K - 1 / K**2)
            one = np.append(np.arange(self.width), [self.weights] if units.intercept else [])  # of the first class
            return np.asarray(H[np.ix_(one.astype(np.intp), one.astype(np.intp))])
        return problem.most * gram_of(problem.moments, units)

    # ---------------------------------------------------------------- what comes of it

    def predicted(self, w: Array) -> MetricRows | None:
        """The probabilities of all classes."""
        if self._held_rows is None:
            return None
        rows, eta = self._model(self.config.intercept).scored(*self._held_rows, w)
        weight = np.ones(len(eta)) if rows.weight is None else rows.weight
        return MetricRows(rows.y, Multinomial().mean(eta), weight)

    def conclude(self, coordinator: Coordinator, w: Array) -> Concluded:
        fit, slope = self.fit(self._point(self.settled(w)))

        def reported(training: GradientTraining, notes: Sequence[str]) -> Trained:
            return with_training(described_classes(fit), training, notes)

        sums, gradient = fit.scores.sums, self._flat(ClassPoint(slope.gradient, slope.of_b))
        return Concluded(self.away_at_last(w, sums.value / sums.rows, gradient), reported)

    def fit(self, point: ClassPoint) -> tuple[ClassFit, ClassSlope]:
        """The model of these weights, as an exact fit has it, by a pass over the rows; and how steep F is there."""
        config = dataclasses.replace(self.config, alpha=self.alpha)  # a command may have changed it
        problem = dataclasses.replace(self._problem, penalty=self.own)
        scores, slope, certificate = proven(problem, point)
        optimum = dataclasses.replace(self._optimum, point=point)
        return class_fit(problem, config, optimum, scores, certificate, None), slope


def class_objective(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> ClassObjective:
    """Look at the target, sum moments, and find the exact optimum by Newton steps, as an exact fit does; not where
    weights are too many for them."""
    check_steps(config)
    problem = class_problem(coordinator, dataset, config, timings)
    if not has_curvature(*problem.start.W.shape):
        still = ClassOptimum(problem.start, 0, True, np.zeros(len(problem.units.scale), bool))
        return ClassObjective(config, problem, still, None)
    with timings.stage("solve"):
        optimum, scores, slope, _ = checked_classes(problem, optimum_of_classes(problem))
    return ClassObjective(config, problem, optimum, (scores, slope))
