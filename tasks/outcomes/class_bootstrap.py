"""Intervals of coefficients beside a penalty, by resamples of the rows, for models of several classes: each resample
is fitted anew from the optimum of all rows on, and those of a batch share their sweeps. Draws are those of `bootstrap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data_pipeline import design_rows
from shoal.errors import StateError
from shoal.fitting.classes.fit import (
    MOST_PARAMETERS,
    ClassProblem,
    class_problem,
    has_curvature,
    optimum_of_classes,
)
from shoal.fitting.classes.sums import summed_classes
from shoal.kernels.threads import one_thread
from shoal.lazy.classes import dataclass
from shoal.losses.named import penalty_beside_sum
from shoal.metrics import Timings
from shoal.models import Array
from shoal.passes.blocks import BlockRequest
from shoal.settings.config import RunConfig
from shoal.settings.strength import strength
from shoal.solve.classes.bound import CurvedMetric, remembering
from shoal.solve.classes.newton import ClassPoint, ClassSums, class_slope, minimise_classes, to_units
from shoal.solve.newton import spread_in
from shoal.tasks.outcomes.bootstrap import affordable, check_drawn, times_drawn
from shoal.tuning.side_by_side import side_by_side
from shoal.whatif.bootstrap import Resampled
from shoal.worker import Worker

BATCH = 50  # resamples that go down side by side
DEAR = 15  # weights from which on a curvature costs more than slopes, which an L1 part needs of every resample


class ResampleQuestion(NamedTuple):
    """Which resample asks about which scores, coef (K, q) for rows (1, x - centre), and whether for the curvature."""

    number: int
    coef: Array
    curved: bool


@dataclass(frozen=True)
class AskClassResamples(BlockRequest):
    """Ask the rows of a block, each as the resamples count it."""

    centre: Array
    class_weight: tuple[float, ...] | None
    asked: tuple[ResampleQuestion, ...]
    seed: int

    def answer(self, worker: Worker) -> list[ClassSums]:
        found = [ClassSums.none((len(one.coef), len(self.centre)), one.curved) for one in self.asked]
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            train = ~self.split.is_test(chunk.row)
            X, y = chunk.X[train] - self.centre, chunk.y[train].astype(np.intp)
            counts = times_drawn(chunk.row[train], [one.number for one in self.asked], self.seed)
            counts *= 1.0 if chunk.weight is None else chunk.weight[train][:, None]
            counts *= 1.0 if self.class_weight is None else np.array(self.class_weight)[y][:, None]
            for place, one in enumerate(self.asked):
                eta = X @ one.coef[:, 1:].T + one.coef[:, 0]
                own = summed_classes(X, y, eta, counts[:, place] > 0, counts[:, place], one.curved)
                found[place] = found[place].merge(own)
        return found


PointAsked = tuple[ClassPoint, bool]


@dataclass(frozen=True, eq=False)
class ClassResamples:
    """The rows of a model, and where its own optimum is."""

    problem: ClassProblem
    config: RunConfig
    optimum: ClassPoint
    metric: CurvedMetric
    steepest: float
    seed: int

    @classmethod
    def of(cls, problem: ClassProblem, config: RunConfig, seed: int) -> ClassResamples:
        rows, units, blocks = problem.rows, problem.units, problem.prepared.dataset.blocks
        optimum = optimum_of_classes(problem).point
        slope_of = partial(class_slope, centre=rows.centre, units=units, penalty=problem.penalty)
        steepest = float(np.abs(slope_of(rows.sums(blocks, problem.start, curved=False)).gradient).max(initial=0.0))
        metric = CurvedMetric(rows.sums(blocks, optimum), to_units(rows.centre, units), units.intercept)
        return cls(problem, config, optimum, metric, steepest, seed)

    def refitted(self, numbers: Sequence[int]) -> list[ClassPoint]:
        def answers(asked: dict[int, PointAsked]) -> list[ClassSums]:
            return self._ask([self._question(numbers[place], *one) for place, one in asked.items()])

        return side_by_side([self._lowest] * len(numbers), answers)

    def _lowest(self, ask: Callable[[PointAsked], ClassSums]) -> ClassPoint:
        """The minimum of one resample, whose rows say how strong its penalty is beside them."""
        problem, config, units = self.problem, self.config, self.problem.units
        counted = ask((self.optimum, False)).rows
        penalty, centre = penalty_beside_sum(config.shrink, strength(config), config.l1_ratio, counted), self.centre
        if penalty.l1 > 0:
            spread = spread_in(units, problem.moments)
            steps = minimise_classes(lambda at: ask((at, True)), centre, units, spread, penalty, self.optimum)
            return steps.point
        slope_of = partial(class_slope, centre=centre, units=units, penalty=penalty)
        start = self.metric.beside(penalty), self.optimum, self.steepest
        return remembering(lambda at: ask((at, False)), slope_of, *start).point

    @property
    def centre(self) -> Array:
        return self.problem.rows.centre

    def _question(self, number: int, at: ClassPoint, curved: bool) -> ResampleQuestion:
        coef = at.W / self.problem.units.scale
        first = at.b - coef @ (self.problem.units.centre - self.centre)
        return ResampleQuestion(number, np.column_stack((first, coef)), curved)

    def _ask(self, questions: Sequence[ResampleQuestion]) -> list[ClassSums]:
        own, rows = self.problem.prepared, self.problem.rows
        shape = self.optimum.W.shape
        total = [ClassSums.none(shape, one.curved) for one in questions]
        where, how = str(own.dataset.directory), (self.centre, rows.class_weight, tuple(questions), self.seed)
        requests = [AskClassResamples(where, block, own.encoding, own.split, *how) for block in own.dataset.blocks]
        for parts in rows.coordinator.swept(f"{len(questions)} resamples", requests):
            total = [one.merge(part) for one, part in zip(total, parts, strict=True)]
        return total


def resampled_classes(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, resamples: int, confidence: float, seed: int
) -> Resampled:
    """The model fitted anew to each resample, at the alpha and in the units of columns of the model itself; all of a
    class, then those of the next one."""
    check_drawn(config, resamples)
    problem = class_problem(coordinator, dataset, config, Timings())
    K, p = len(problem.classes.names), len(problem.units.scale)
    if not has_curvature(K, p):
        raise StateError(
            f"Expected at most {MOST_PARAMETERS:,} weights, classes times columns, to fit a model to resamples, got "
            f"{K * (p + 1):,}. Fit one of fewer columns."
        )
    weights = K * (p + 1)
    dear = max(1, weights // DEAR) if problem.penalty.l1 > 0 else 1
    m = affordable(resamples, dataset.rows * weights * dear)
    with one_thread:
        own = ClassResamples.of(problem, config, seed)
        points = [point for at in range(0, m, BATCH) for point in own.refitted(range(at, min(at + BATCH, m)))]
    W, scale = np.array([point.W for point in points]), problem.units.scale
    kept = W.reshape(m, -1)
    chosen = ((kept != 0).mean(axis=0), (kept > 0).mean(axis=0)) if problem.penalty.l1 > 0 else (None, None)
    estimate, coef = (own.optimum.W / scale).ravel(), (W / scale).reshape(m, -1)
    return Resampled(
        "shrunk", estimate, coef, None, confidence, round(problem.moments.n), True, seed, *chosen
    )  # fmt: skip
