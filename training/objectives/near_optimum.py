"""What objectives of other losses than squares have in common: rows in shards, F at start and at the exact optimum, and
how far parameters are from there; which loss it is, and the model that comes of it, is not known here.

The flat vector has the weights of columns first, free intercepts last. The optimum comes from Newton steps before the
run; it is used to report the distance and to set step sizes, never to move weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data_pipeline import Shards
from shoal.errors import ConfigError
from shoal.fitting.exact import Prepared
from shoal.fitting.reports import Trained
from shoal.losses.steps import RowExtras, RowsSeen, SeeingModel
from shoal.models import L1L2, TINY, Array, Values
from shoal.passes.shards import ShardSeen
from shoal.results.fit import GradientTraining
from shoal.settings.config import RunConfig
from shoal.settings.strength import strength
from shoal.settings.when import STEPPED
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments
from shoal.training.objectives.base import UNKNOWN, DistanceToOptimum, ParameterPart, table_identity
from shoal.training.objectives.shards import derive
from shoal.training.objectives.squares import evenly_weighted

MARGIN = 2.0  # by which the curvature about start and optimum is overstated, where it has no bound
ROOM = 10.0  # times the largest curvature of a row at start and optimum from which on a loss goes on as a straight line
ROUNDING = 1e-12  # of F: a start that is better than the optimum by less is as good


class KnownOptimum(NamedTuple):
    """The exact optimum, and F about it: mean loss of the rows, its gradient (size,) and curvature H (size, size)."""

    w: Array
    mean: float
    gradient: Array
    H: Array
    unique: bool
    condition: float


class NearOptimum(ABC):
    """F over the training rows of one run, in standardised columns."""

    notes: tuple[str, ...] = ()
    convex = scores_cheaply = True
    knows_loss = False
    evenly_curved = True
    watches = "test rows"
    usual = precision = None
    target_centre = 0.0  # what is taken off the target in shards

    def __init__(
        self, config: RunConfig, prepared: Prepared, units: Standardisation, n: float,
        class_weight: tuple[float, ...] | None, ended: Array, best: KnownOptimum | None,
    ) -> None:  # fmt: skip
        """`ended`: where Newton steps did, which is `best` where there is a finite optimum."""
        self.config, self.prepared, self.units, self.n = config, prepared, units, n
        self.best = best
        self._class_weight, self._ended = class_weight, ended
        weighted = bool(prepared.encoding.weights) or class_weight is not None
        self._beside = RowExtras(weighted, prepared.encoding.offset is not None)
        self.scale = self.at_start = 0.0
        self._least: float | None = None
        self._most = np.inf
        self._shards: Shards | None = None
        self.set_alpha(strength(config))
        self._solved_at = self.alpha

    # ---------------------------------------------------------------- what each loss says itself

    @property
    @abstractmethod
    def parts(self) -> tuple[ParameterPart, ...]: ...

    @property
    @abstractmethod
    def start(self) -> Array: ...

    @property
    @abstractmethod
    def constant_parameters(self) -> Array:
        """Those of knowing nothing but what is best for all rows; with intercepts, whether steps have them or not."""
        ...

    @abstractmethod
    def _penalty(self, alpha: float) -> L1L2: ...

    @abstractmethod
    def _model(self, intercept: bool) -> SeeingModel:
        """With the penalty `own`, and curvatures of at most `_most`."""
        ...

    def settled(self, w: Array) -> Array:
        """The parameters that say the same and cost the least, where several say the same."""
        return w

    # ---------------------------------------------------------------- parameters

    @property
    def identity(self) -> dict[str, Any]:
        return table_identity(self.prepared, self.parts)

    @property
    def width(self) -> int:
        return len(self.prepared.encoding.terms)

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def weights(self) -> int:
        """How many of the parameters are weights of columns."""
        return self.parts[0].size

    @property
    def penalised(self) -> bool:
        return self.config.shrink != "none"

    def set_alpha(self, alpha: float) -> SeeingModel:
        """Where it is another than the optimum was solved for, that is not known any more: it takes passes."""
        self.alpha, self.own = alpha, self._penalty(alpha)
        self.model = self._model(self.config.intercept)
        return self.model

    @property
    def _reference(self) -> KnownOptimum | None:
        return self.best if self.alpha == self._solved_at else None

    # ---------------------------------------------------------------- rows, and how they curve it

    @property
    def condition(self) -> float | None:
        return self.best.condition if self.best else None

    def shards(self, coordinator: Coordinator, count: int, dtype: str) -> Shards:
        prepared, config, units = self.prepared, self.config, replace(self.units, y_mean=self.target_centre)
        return derive(
            coordinator, prepared.dataset, evenly_weighted(prepared), prepared.split, units,
            shards=count, dtype=dtype, seed=config.seed, partition=config.partition, class_weight=self._class_weight,
        )  # fmt: skip

    def meet(self, coordinator: Coordinator, shards: Shards) -> None:
        """Two passes over the rows, at start and optimum: F there, and how far curvatures go."""
        self._shards, self._rows = shards, max(shards.total, 1)
        begin = self._seen(coordinator, shards, self.start)
        end = self._seen(coordinator, shards, self._ended)
        self.scale = float(np.abs(begin.gradient[: self.weights]).max(initial=0.0)) / self._rows
        self._row = max(begin.row, end.row)
        if not self.evenly_curved:
            self._most, self._row = ROOM * max(begin.curvature, end.curvature), MARGIN * self._row
        self.set_alpha(self.alpha)
        self.at_start = self.loss(self.start, begin.value)
        self._least = self.loss(self.best.w, end.value) if self.best else None

    def _seen(self, coordinator: Coordinator, shards: Shards, w: Array) -> RowsSeen:
        requests = [ShardSeen(shards, shard, self.model, w) for shard in range(len(shards.rows))]
        total: RowsSeen = reduce(RowsSeen.merge, coordinator.swept("measuring", requests))
        return total

    # ---------------------------------------------------------------- how good parameters are

    def loss(self, w: Array, value: float | None = None) -> float:
        mean = np.nan if value is None else value / self._rows
        return mean + self.model.penalty.value(w)

    def away(self, w: Array) -> DistanceToOptimum:
        """By the curvature at the optimum: F(w) - F* = d'Hd / 2 + penalty(w) - penalty(w*) + g*'d, d = w - w*.

        That is exact to the third order of d; and a run has converged only where d is small.
        """
        best = self._reference
        if best is None or self._least is None:
            return UNKNOWN
        w = self.settled(w)
        d = w - best.w
        moved: Array = best.H @ d
        penalty = self.model.penalty
        above = float(d @ moved) / 2 + penalty.value(w) - penalty.value(best.w) + float(best.gradient @ d)
        slope = penalty.optimality_gap(w, best.gradient + moved) / max(self.scale, TINY)
        return DistanceToOptimum(max(above, 0.0) / self._range(self._least), self._coefficients(w, best), slope)

    def _range(self, least: float) -> float:
        return max(self.at_start - least, ROUNDING * abs(self.at_start), TINY)

    def away_by_rows(self, w: Array, gradient: Array, value: float) -> DistanceToOptimum:
        w = self.settled(w)
        slope = self.model.penalty.optimality_gap(w, gradient) / max(self.scale, TINY)
        return self.away(w)._replace(slope=slope)

    def away_at_last(self, w: Array, mean: float, gradient: Array) -> DistanceToOptimum:
        """F(w) - F* from the rows as they are in the file, at both: their mean loss and its gradient at w."""
        found, best = self.away_by_rows(w, gradient, mean * self._rows), self._reference
        if best is None or self._least is None:
            return found
        penalty, w = self.model.penalty, self.settled(w)
        above = mean - best.mean + penalty.value(w) - penalty.value(best.w)
        return found._replace(objective=max(above, 0.0) / self._range(self._least))

    def _coefficients(self, w: Array, best: KnownOptimum) -> float | None:
        if not best.unique:
            return None
        p = self.weights
        largest = max(float(np.abs(best.w[:p]).max(initial=0.0)), TINY)
        found = float(np.abs(w[:p] - best.w[:p]).max(initial=0.0)) / largest
        if self.config.intercept:
            free = float(np.abs(best.w[p:]).max(initial=0.0))
            found = max(found, float(np.abs(w[p:] - best.w[p:]).max(initial=0.0)) / max(largest, free))
        return found

    def score(self, w: Array) -> float | None:
        """The share of the deviance of test rows that is explained, over the constant of the training rows."""
        found = self._held_rows
        if found is None or not self._null > 0:
            return None
        return 1 - self.model.deviance(*found, w) / self._null

    @cached_property
    def _held_rows(self) -> tuple[Values, Values] | None:
        """As they are: what the values of a target count for is a matter of the fit."""
        found, balance = self._shards.held() if self._shards is not None else None, self._class_weight
        if found is None or balance is None:
            return found
        y = found[1].copy()
        y[:, 1] /= np.array(balance)[y[:, 0].astype(np.intp)]
        return found[0], y

    @cached_property
    def _null(self) -> float:
        """The deviance of the test rows by the constant of the training rows."""
        assert self._held_rows is not None
        return self._model(intercept=True).deviance(*self._held_rows, self.constant_parameters)

    def nonzeros(self, w: Array) -> int:
        return int((w[: self.weights] != 0).sum())


def with_training(trained: Trained, training: GradientTraining, notes: Sequence[str]) -> Trained:
    """The same by gradient steps, with more to warn of."""
    said = replace(trained.report, training=training, warnings=(*trained.report.warnings, *notes))
    return replace(trained, report=said, model=replace(trained.model, report=said))


def gram_of(moments: Moments, units: Standardisation) -> Array:
    """1/n sum_i c_i u_i u_i' with u = (xs, 1), or xs without an intercept: no loss of curvature 1 is curved by more."""
    square = moments.scatter[:-1, :-1] / moments.n / units.scale / units.scale[:, None]
    if not units.intercept:
        mean = moments.mean[:-1] / units.scale
        return np.asarray(square + np.outer(mean, mean))
    square[units.constant], square[:, units.constant] = 0.0, 0.0
    beside = np.zeros((len(square), 1))
    return np.block([[square, beside], [beside.T, np.eye(1)]])


def check_steps(config: RunConfig) -> None:
    """Refuse what gradient steps of other losses cannot do."""
    if config.model not in STEPPED:
        raise ConfigError(
            f"Expected a model out of {', '.join(STEPPED)} for gradient steps, got {config.model}. "
            "Choose one of these.", knobs=["model", "solver"],
        )  # fmt: skip
    if config.penalty:
        raise ConfigError(
            f"Expected no penalty of a plug-in beside model {config.model}, got '{config.penalty}'. "
            "Use shrink instead.", knobs=["penalty", "model"],
        )  # fmt: skip
