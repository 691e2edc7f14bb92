"""The rows that a model of another loss is fitted to, and passes over them; where they lead is in `descent`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns
from shoal.data.dataset import Block, Dataset
from shoal.data.encoding import Encoding, mapped
from shoal.data.splits import Split
from shoal.fitting.exact import Prepared, check_bad_rows, check_rows, design_for, notes_before
from shoal.fitting.guidance.findings import findings_of
from shoal.fitting.guidance.known import Known
from shoal.fitting.guidance.leaks import crossed
from shoal.fitting.targets import TwoValues, check_numbers, check_offset, check_range, look_at, offset_notes, two_values
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.models import Array
from shoal.passes.blocks import stored_moments
from shoal.passes.losses import LossScores, LossSums, ScoreLoss, SumCurvature
from shoal.passes.quantiles import base_for, quantile_of
from shoal.passes.weights import weighted, weighting_of
from shoal.settings.config import RunConfig
from shoal.settings.limits import SOLVING, memory_for_exact
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments, plan_cells
from shoal.solve.newton import ConstantSearch, Curvature, NewtonPoint, Slope, slope_at
from shoal.solve.ranking import grid_for
from shoal.utils import available_memory

FAR = 10.0  # spreads from zero beyond which columns are centred row by row; nearer ones are by their sums
CONSTANT_STEPS, CONSTANT_FOUND = 50, 1e-12  # towards the best constant beside an offset, or where the mean is none

_Where = tuple[str, Block, Encoding, Split, RowLoss, Array, float, Array, tuple[float, float] | None]


@dataclass(frozen=True)
class LossRows:
    """What rows and columns a model is fitted to, and passes over them."""

    coordinator: Coordinator
    prepared: Prepared
    units: Standardisation
    loss: RowLoss
    class_weight: tuple[float, float] | None = None
    passes: list[str] = field(default_factory=list)  # what each one was for, those over a part of the rows included

    @property
    def centre(self) -> Array:
        return centre_for(self.units)

    def curvature(
        self, blocks: Sequence[Block], point: NewtonPoint, expected: bool = False, own: bool = False,
        squares: bool = True,
    ) -> Curvature:  # fmt: skip
        requests = [SumCurvature(*self.at(block, point), expected, own, squares) for block in blocks]
        total: Curvature | None = None
        self.passes.append("curvature" if squares else "slopes")
        for part in self.coordinator.swept("Newton steps", requests):
            total = part if total is None else total.merge(part)
        return Curvature.none(len(point.w)) if total is None else total

    def scores(self, point: NewtonPoint, null_eta: float, grid: float, square: Array | None = None) -> LossScores:
        """`square`: that of the curvature, where it is known; then it need not be summed once more."""
        blocks = self.prepared.dataset.blocks
        requests = [ScoreLoss(*self.at(block, point), null_eta, grid, square is None) for block in blocks]
        total: LossScores | None = None
        self.passes.append("scores")
        for part in self.coordinator.swept("scoring", requests):
            total = part if total is None else total.merge(part)
        assert total is not None
        if square is not None and not total.curvature.square.size:
            total = replace(total, curvature=replace(total.curvature, square=square))
        return total

    def slope(self, sums: Curvature, point: NewtonPoint) -> Slope:
        return slope_at(sums, self.centre, self.units, point)

    def at(self, block: Block, point: NewtonPoint) -> _Where:
        """The coefficients in raw columns less `centre`, and the score where those are 0."""
        coef = point.w / self.units.scale
        at_centre = point.b - float((self.units.centre - self.centre) @ coef)
        own = self.prepared
        place = str(own.dataset.directory)
        loss = self.loss.scaled(point.scale.value) if point.scale else self.loss
        return place, block, own.encoding, own.split, loss, coef, at_centre, self.centre, self.class_weight

    def raw(self, point: NewtonPoint) -> tuple[Array, float]:
        coef = point.w / self.units.scale
        return coef, point.b - float(self.units.centre @ coef)


def centre_for(units: Standardisation) -> Array:
    """What is taken off the columns of every row before sums are made; nothing where all of them lie near zero."""
    far = float(np.abs(units.centre / units.scale).max(initial=0.0)) > FAR
    return units.centre if far else np.zeros_like(units.centre)


def prepared_for(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, split: Split, loss: RowLoss
) -> tuple[Prepared, Moments, TwoValues | None]:
    check_bad_rows(dataset, config)
    check_numbers(dataset.columns.get(config.target), loss)
    choice = choose_columns(dataset, config)
    weighting = weighting_of(coordinator.swept, dataset, config, split, choice.names)
    repeats = weighting is not None and weighting.repeats
    seen = look_at(coordinator, dataset, config.target, split, config.weights, repeats)
    values = two_values(dataset, config, seen) if loss.target == "two" else None
    if values is None:
        check_range(dataset.columns[config.target], loss, seen)
    yes = values.yes if values else None
    check_offset(dataset, config)
    base = weighted(base_for(coordinator.swept, dataset, config, split, choice, yes), weighting)
    plan_cells(len(base.terms) + 1, 2, memory_for_exact(available_memory()), SOLVING, least=2)
    train = _moments(coordinator, dataset, base, split, values)
    train = weighting.counted(train) if weighting else train
    check_rows(train.n, config)
    encoding, notes = design_for(coordinator, dataset, config, choice, base, train.mean, train.n, split)
    said = notes_before(dataset, weighting, choice, notes, *offset_notes(base))
    findings = findings_of(Known.of(dataset, config, base, train))
    prepared = Prepared(dataset, split, encoding, said, findings=findings, weighting=weighting)
    return prepared, mapped(train, base, encoding), values


def _moments(
    coordinator: Coordinator, dataset: Dataset, base: Encoding, split: Split, values: TwoValues | None
) -> Moments:
    """Of (terms..., target) over the training rows.

    A target of text has no sums from reading; where those of the columns are there, only how it goes with each of them
    is summed, which is far less than all pairs.
    """
    if values and base.yes is not None and not base.weights and not dataset.columns[base.target].missing:
        stored = stored_moments(dataset, replace(base, target="", yes=None), split)
        if stored is not None:
            own, share = stored[0], values.rows[1] / sum(values.rows)
            mean, scatter = np.append(own.mean, share), np.pad(own.scatter, (0, 1))
            scatter[:-1, -1] = scatter[-1, :-1] = crossed(coordinator, dataset, base, split, mean)
            scatter[-1, -1] = own.n * share * (1 - share)
            return Moments(own.n, mean, scatter)
    return coordinator.moments(dataset, base, split)[0]


def constant_for(rows: LossRows, mean: float) -> float:
    """What knowing nothing comes to: the link of the mean, a quantile, or the best constant (0) beside an offset."""
    own = rows.prepared
    if rows.loss.constant_at is not None:
        where = own.dataset, own.encoding.target, rows.loss.constant_at, own.split, own.encoding.weights
        return quantile_of(rows.coordinator.swept, *where)
    if not own.encoding.offset and rows.loss.mean_is_constant:
        return rows.loss.eta(mean)
    if own.encoding.offset and not rows.units.intercept:
        return 0.0
    b, zero = rows.loss.eta(mean), np.zeros(len(rows.units.scale))
    search = ConstantSearch()
    for _ in range(CONSTANT_STEPS):
        sums = rows.curvature(rows.prepared.dataset.blocks, NewtonPoint(zero, b))
        g, h = float(sums.slope[0]), float(sums.square[0, 0])
        step = search.step(b, g, partial(rows.loss.constant_step, g, h, sums.rows))
        b += step
        if abs(step) < CONSTANT_FOUND * max(1.0, abs(b)):
            break
    return b


def without_columns(rows: LossRows, scores: LossScores) -> LossSums:
    """Of a model without columns: the best constant, or, without an intercept, nothing but the offset."""
    if rows.units.intercept or rows.prepared.encoding.offset:
        return scores.train.null
    nothing = NewtonPoint(np.zeros(len(rows.units.scale)), rows.loss.origin)
    return rows.scores(nothing, 0.0, grid_for(rows.prepared.dataset.rows)).train.sums
