"""One exact fit of a model of several classes: Newton steps from passes over the rows, to a certificate.

Rows, columns and their encoding are those of other models; what is said of the fit is in `report`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns
from shoal.data.dataset import Block, Dataset
from shoal.data.encoding import Encoding, mapped
from shoal.data.splits import Split
from shoal.fitting.classes.robust import robust_covariance
from shoal.fitting.classes.sums import ScoreClasses, ScoredClasses, SumClasses
from shoal.fitting.classes.target import Classes, class_notes, classes_of_target, no_optimum_note
from shoal.fitting.exact import (
    Prepared,
    check_bad_rows,
    check_rows,
    design_for,
    notes_before,
    robust_notes,
    rows_dropped,
)
from shoal.fitting.guidance.findings import findings_of
from shoal.fitting.guidance.known import Known
from shoal.fitting.losses.descent import AGAIN, CHEAP, GOOD, QUICK, ROUGH, SAMPLE, SAMPLED
from shoal.fitting.losses.rows import centre_for
from shoal.fitting.targets import look_at
from shoal.lazy.classes import dataclass
from shoal.losses.named import penalty_beside_sum
from shoal.metrics import Timings
from shoal.models import L1L2, Array, Certificate
from shoal.passes.blocks import CALIBRATION_ROWS
from shoal.passes.quantiles import base_for
from shoal.passes.weights import weighted, weighting_of
from shoal.results.collinearity import Collinearity
from shoal.results.findings import routine
from shoal.settings.config import RunConfig
from shoal.settings.limits import SOLVING, memory_for_exact
from shoal.settings.strength import strength
from shoal.solve.classes.bound import minimise_bounded
from shoal.solve.classes.newton import (
    ClassOptimum,
    ClassPoint,
    ClassSlope,
    ClassSums,
    certificate_of_classes,
    class_covariance,
    class_errors,
    class_slope,
    minimise_classes,
    stepped,
)
from shoal.solve.collinearity import collinearity
from shoal.solve.inference import Estimates, estimates_of
from shoal.solve.least_squares import LeastSquares, Standardisation
from shoal.solve.moments import Moments, plan_cells
from shoal.solve.newton import SETTLED, spread_in
from shoal.solve.paths import constant_note
from shoal.solve.ranking import grid_for
from shoal.utils import available_memory

MOST_PARAMETERS = 1500  # classes x columns up to which steps have a curvature of all pairs of them


@dataclass(frozen=True)
class ClassFit:
    """A fitted model of several classes, and all that is said about it."""

    config: RunConfig
    prepared: Prepared
    classes: Classes
    penalty: L1L2
    point: ClassPoint
    coef: Array  # (K, p), in the units of the file
    intercepts: Array  # (K,)
    certificate: Certificate
    scores: ScoredClasses
    rank: int
    condition: float
    unique: bool
    separated: bool
    sweeps: int
    shares: Array  # (K,): of the training rows
    estimates: tuple[Estimates, Estimates | None] | None  # flat, class by class
    rows_dropped: dict[str, int]
    notes: tuple[str, ...]
    together: Collinearity | None = None  # of columns as they are


_Where = tuple[str, Block, Encoding, Split, Array, Array, Array, tuple[float, ...] | None]


@dataclass(frozen=True)
class ClassRows:
    """What rows and columns a model is fitted to, and passes over them."""

    coordinator: Coordinator
    prepared: Prepared
    units: Standardisation
    class_weight: tuple[float, ...] | None = None
    passes: list[str] = field(default_factory=list)

    @property
    def centre(self) -> Array:
        return centre_for(self.units)

    def sums(self, blocks: Sequence[Block], point: ClassPoint, curved: bool = True) -> ClassSums:
        total = ClassSums.none(point.W.shape, curved)
        self.passes.append("curvature" if curved else "slope")
        requests = [SumClasses(*self.at(block, point), curved=curved) for block in blocks]
        for part in self.coordinator.swept("Newton steps", requests):
            total = total.merge(part)
        return total

    def scores(self, point: ClassPoint, known: Array) -> ScoredClasses:
        dataset, split = self.prepared.dataset, self.prepared.split
        grid = grid_for(dataset.rows * len(known))
        kept = CALIBRATION_ROWS / max(1.0, split.share * dataset.rows)
        curved = has_curvature(*point.W.shape)
        self.passes.append("scores")
        total: ScoredClasses | None = None
        requests = [ScoreClasses(*self.at(block, point), known, grid, kept, curved) for block in dataset.blocks]
        for part in self.coordinator.swept("scoring", requests):
            total = part if total is None else total.merge(part)
        assert total is not None
        return total

    def at(self, block: Block, point: ClassPoint) -> _Where:
        """The coefficients in raw columns less `centre`, and the scores where those are 0."""
        coef = point.W / self.units.scale
        at_centre = point.b - coef @ (self.units.centre - self.centre)
        own = self.prepared
        place = str(own.dataset.directory)
        return place, block, own.encoding, own.split, coef, at_centre, self.centre, self.class_weight


@dataclass(frozen=True)
class ClassProblem:
    """What is known before the first step: columns, classes, what rows count for, and where steps start."""

    prepared: Prepared
    moments: Moments
    classes: Classes
    units: Standardisation
    penalty: L1L2
    rows: ClassRows
    shares: Array  # (K,): of the training rows

    @property
    def start(self) -> ClassPoint:
        zero = ClassPoint.zero(len(self.classes.names), len(self.units.scale))
        return replace(zero, b=best_constant(self.shares)) if self.units.intercept else zero

    @property
    def most(self) -> float:
        """What a row counts for at most beside what it counts for in the moments."""
        return max(self.rows.class_weight or (1.0,))


def fit_classes(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> ClassFit:
    """Look at the target, sum moments, go down by Newton steps, and say what came out."""
    problem = class_problem(coordinator, dataset, config, timings)
    with timings.stage("solve"):
        optimum = optimum_of_classes(problem)
    with timings.stage("score"):
        optimum, scores, slope, certificate = checked_classes(problem, optimum)
    with timings.stage("inference"):
        known = problem.penalty == L1L2() and not optimum.separated and has_curvature(*optimum.point.W.shape)
        estimates = _estimates(problem, slope, optimum.point, config) if known else None
    return class_fit(problem, config, optimum, scores, certificate, estimates)


def class_problem(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> ClassProblem:
    """Look at the target, sum moments, and count the rows of each class."""
    split = Split(config.test_every, config.test_fraction, config.seed)
    with timings.stage("moments"):
        prepared, moments, classes = _prepared(coordinator, dataset, config, split)
    units = Standardisation.of(moments, config.intercept, config.standardize)
    penalty = penalty_beside_sum(config.shrink, strength(config), config.l1_ratio, moments.n)
    K, p = len(classes.names), len(units.scale)
    rows = ClassRows(coordinator, prepared, units)
    with timings.stage("solve"):
        counts = rows_of_classes(rows.sums(dataset.blocks, ClassPoint.zero(K, p), curved=False))
    shares = counts / counts.sum()
    if config.class_weight == "balanced":
        rows = replace(rows, class_weight=tuple((1 / (K * shares)).tolist()))
    return ClassProblem(prepared, moments, classes, units, penalty, rows, shares)


def optimum_of_classes(problem: ClassProblem) -> ClassOptimum:
    blocks = problem.prepared.dataset.blocks
    sample = blocks[::SAMPLE] if len(blocks) >= SAMPLED else None
    way = problem.moments, problem.units, problem.penalty, problem.start, problem.most
    return descend_classes(problem.rows.sums, blocks, sample, *way)


def class_fit(
    problem: ClassProblem, config: RunConfig, optimum: ClassOptimum, scores: ScoredClasses, certificate: Certificate,
    estimates: tuple[Estimates, Estimates | None] | None,
) -> ClassFit:  # fmt: skip
    """All that is said of a model at a point, wherever that comes from."""
    units, penalty, point = problem.units, problem.penalty, optimum.point
    columns = LeastSquares.from_moments(problem.moments, config.intercept, config.standardize)
    coef, used = point.W / units.scale, scores.train.rows + scores.test.rows
    fit = ClassFit(
        config, problem.prepared, problem.classes, penalty, point, coef, point.b - coef @ units.centre, certificate,
        scores, columns.rank * (len(coef) - 1), columns.condition(penalty.l2),
        optimum.unique and not optimum.separated, optimum.separated, len(problem.rows.passes), problem.shares,
        estimates, rows_dropped(problem.prepared, config, used), (),
        collinearity(columns, problem.prepared.encoding.names),
    )  # fmt: skip
    return replace(fit, notes=tuple(_notes(fit, optimum, units)))


def _prepared(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, split: Split
) -> tuple[Prepared, Moments, Classes]:
    check_bad_rows(dataset, config)
    choice = choose_columns(dataset, config)
    weighting = weighting_of(coordinator.swept, dataset, config, split, choice.names)
    repeats = weighting is not None and weighting.repeats
    seen = look_at(coordinator, dataset, config.target, split, config.weights, repeats)
    classes = classes_of_target(dataset, config, seen)
    base = weighted(base_for(coordinator.swept, dataset, config, split, choice, classes.values), weighting)
    memory, wide = memory_for_exact(available_memory()), len(classes.names) * (len(base.terms) + 1)
    plan_cells(min(wide, max(MOST_PARAMETERS, len(base.terms) + 1)), 2, memory, SOLVING, least=2)
    train = coordinator.moments(dataset, base, split)[0]
    train = weighting.counted(train) if weighting else train
    check_rows(train.n, config)
    encoding, notes = design_for(coordinator, dataset, config, choice, base, train.mean, train.n, split)
    said = notes_before(dataset, weighting, choice, notes)
    findings = findings_of(Known.of(dataset, config, base, train))
    prepared = Prepared(dataset, split, encoding, said, findings=findings, weighting=weighting)
    return prepared, mapped(train, base, encoding), classes


def rows_of_classes(at_zero: ClassSums) -> Array:
    """What the rows of each class count for, from sums where all probabilities are 1/K."""
    return np.asarray(at_zero.rows / len(at_zero.slope) - at_zero.slope[:, 0])


def best_constant(shares: Array) -> Array:
    """The scores of a model that knows the shares of classes alone; they sum to 0."""
    logs = np.log(shares)
    return np.asarray(logs - logs.mean())


def has_curvature(classes: int, p: int) -> bool:
    """Whether steps know the curvature of all pairs of classes and columns, or a bound of it."""
    return classes * (p + 1) <= MOST_PARAMETERS


SumsOf = Callable[[Sequence[Block], ClassPoint, bool], ClassSums]


def descend_classes(
    sums: SumsOf, blocks: Sequence[Block], sample: Sequence[Block] | None, moments: Moments, units: Standardisation,
    penalty: L1L2, start: ClassPoint, most: float = 1.0,
) -> ClassOptimum:  # fmt: skip
    """The minimum from sums of all rows, first from those of a sample where there is one. `most`: what rows of a class
    count for at most, beside the moments."""
    K, p = start.W.shape
    spread, centre = spread_in(units, moments), centre_for(units)
    if not has_curvature(K, p):
        slopes: Callable[[ClassPoint], ClassSums] = lambda point: sums(blocks, point, False)  # noqa: E731
        return minimise_bounded(slopes, centre, units, moments, penalty, start, most)
    run = partial(minimise_classes, centre=centre, units=units, spread=spread, penalty=penalty)
    if sample is not None:
        rough = run(lambda point: sums(sample, point, True), start=start, settled=ROUGH)
        start = start if rough.separated else rough.point
    settled = SETTLED if moments.n * (K * p) ** 2 < CHEAP else QUICK
    return run(lambda point: sums(blocks, point, True), start=start, settled=settled)


def checked_classes(
    problem: ClassProblem, optimum: ClassOptimum
) -> tuple[ClassOptimum, ScoredClasses, ClassSlope, Certificate]:
    """Scores and a certificate from the rows; another Newton step from the same pass while that helps."""
    best: tuple[ClassOptimum, ScoredClasses, ClassSlope, Certificate] | None = None
    for _ in range(AGAIN):
        scores, slope, certificate = proven(problem, optimum.point)
        if best is not None and not certificate.relative < best[3].relative / 2:
            return best
        best = optimum, scores, slope, certificate
        if certificate.relative < GOOD or optimum.separated or not scores.sums.square.size:
            return best
        optimum = replace(optimum, point=stepped(slope, problem.units, problem.penalty, optimum.point)[0])
    assert best is not None
    return best


def proven(problem: ClassProblem, point: ClassPoint) -> tuple[ScoredClasses, ClassSlope, Certificate]:
    """What a pass over the rows says of a point: scores, how steep F is there, and how near to the optimum that is."""
    rows, units, penalty = problem.rows, problem.units, problem.penalty
    at = partial(class_slope, centre=rows.centre, units=units, penalty=penalty)
    scores = rows.scores(point, best_constant(problem.shares))
    slope = at(scores.sums)
    zero = at(replace(scores.sums, slope=scores.null_slope, square=np.zeros((0, 0))))
    steepest = float(np.abs(zero.gradient).max(initial=0.0))
    return scores, slope, certificate_of_classes(penalty, point, slope, steepest, units.intercept)


def _estimates(
    problem: ClassProblem, slope: ClassSlope, point: ClassPoint, config: RunConfig
) -> tuple[Estimates, Estimates | None] | None:
    units, rows, own = problem.units, problem.rows, problem.prepared
    C = class_covariance(slope, units.intercept)
    if C is None:
        return None
    if config.robust != "none":
        rows.passes.append("robust errors")
        places = [rows.at(block, point) for block in own.dataset.blocks]
        how = rows.centre, units, slope.n, C, config.robust, own.repeats
        C = robust_covariance(rows.coordinator.swept, places, *how)
    found = class_errors(C, slope.along, units)
    coef = point.W / units.scale
    of_coef = estimates_of(coef.ravel(), found[0].ravel(), np.inf, config.confidence)
    if not units.intercept:
        return of_coef, None
    return of_coef, estimates_of(point.b - coef @ units.centre, found[1], np.inf, config.confidence)


def _notes(fit: ClassFit, optimum: ClassOptimum, units: Standardisation) -> list[str]:
    names = np.array(fit.prepared.encoding.names, object)
    shrunk = fit.penalty != L1L2()
    notes = [*fit.prepared.notes, *constant_note(int(units.constant.sum()) if units.intercept else 0)]
    notes += class_notes(fit.classes, fit.config.class_weight == "balanced", len(names), shrunk)
    if optimum.separated:
        notes.append(no_optimum_note(names[optimum.running].tolist()[:5]))
    elif not shrunk and not optimum.unique:
        notes.append(
            "The columns depend on one another. The answer with the smallest norm is given; single weights are not "
            "unique, and have no standard errors."
        )
    if fit.estimates:
        said = (
            "Coefficients of a column sum to 0 over the classes: each says how the score of a class moves against the "
            "mean of all of them."
        )
        notes += [*routine([said]), *robust_notes(fit.config)]
    return notes
