"""The choice of a penalty by cross-validation for a model of several classes: all folds go down their paths side by
side, and share every sweep over the rows.

The path of each fold is cut into stretches, and each of these is a chain of Newton steps: from one alpha, once its
minimum is found, to the next weaker one, whose first step rests on the same sums. A sweep answers for the points at
which all chains stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain as joined

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.splits import Split
from shoal.data_pipeline import design_rows
from shoal.errors import DataError, ResourceError
from shoal.fitting.classes.fit import MOST_PARAMETERS, best_constant, has_curvature, rows_of_classes
from shoal.fitting.classes.sums import summed_classes
from shoal.fitting.classes.target import classes_of_target
from shoal.fitting.losses.rows import FAR
from shoal.fitting.summing import FoldTable
from shoal.fitting.targets import look_at
from shoal.lazy.classes import dataclass
from shoal.losses.multinomial import Multinomial
from shoal.losses.named import penalty_beside_sum
from shoal.models import L1L2, Array, Bools, Certificate
from shoal.passes.blocks import BlockRequest
from shoal.results.outcome import class_terms
from shoal.settings.config import RunConfig
from shoal.settings.limits import SOLVING, memory_for_exact
from shoal.solve.classes.bound import ClassBowl, CurvedMetric, remembering
from shoal.solve.classes.newton import ClassPoint, ClassSums, certificate_of_classes, class_slope_in, stepped
from shoal.solve.moments import merge_all, plan_cells
from shoal.solve.newton import ROUNDING, SHORTEST, SUFFICIENT
from shoal.solve.paths import RIDGE_AS, Path
from shoal.tuning.designs import FoldDesign, common_centre
from shoal.tuning.side_by_side import side_by_side
from shoal.tuning.tables import designs_of
from shoal.utils import available_memory
from shoal.whatif.cells import CellMoments
from shoal.whatif.folds import FoldChoice, Folds
from shoal.worker import Worker

FOUND = 1e-9  # the largest derivative, relative to that at W = 0, from which on a point is its minimum
MOST_STEPS = 50  # of one alpha
MANY = 300  # weights beyond which a curvature of each fold at each point costs more than many sums of slopes
ANEW = 2  # alphas after which the curvature that those steps begin with is summed again
STRETCH, AT_ONCE = 5, 1 << 27  # alphas that are gone through one after the other; bytes of curvatures of all stretches
USUAL_ALPHAS = 30  # a curvature of all classes and columns is summed for each step of each of them


@dataclass(frozen=True, eq=False)
class ClassLot:
    """Where one fold stands: coef (K, q + 1) for rows (1, z); the cells that it trains on and is tested on."""

    trains: Bools
    tests: Bools
    coef: Array
    class_weight: tuple[float, ...] | None
    curved: bool


@dataclass(eq=False)
class ClassSaid:
    """Sums of the training rows of a lot; what their losses come to by their weights alone, and those of test rows."""

    sums: ClassSums
    fitted: float = 0.0
    tested: float = 0.0

    def add(self, other: ClassSaid) -> None:
        self.sums = self.sums.merge(other.sums)
        self.fitted, self.tested = self.fitted + other.fitted, self.tested + other.tested


@dataclass(frozen=True)
class AskClasses(BlockRequest):
    """Ask the rows of a block about all lots."""

    folds: Folds
    centre: Array
    lots: tuple[ClassLot, ...]

    def answer(self, worker: Worker) -> list[ClassSaid]:
        total = [ClassSaid(ClassSums.none(_shape(lot), lot.curved)) for lot in self.lots]
        held = self.folds.choice.cells
        for chunk in design_rows(self.encoding, self.dataset, self.block):
            cell = np.where(self.split.is_test(chunk.row), held, self.folds.of(self.dataset, self.block, chunk.row))
            kept = cell >= 0
            X, y, cell = chunk.X[kept] - self.centre, chunk.y[kept].astype(np.intp), cell[kept]
            weight = np.ones(len(y)) if chunk.weight is None else chunk.weight[kept]
            for lot, own in zip(self.lots, total, strict=True):
                own.add(_said(lot, X, y, cell, weight))
        return total


def _shape(lot: ClassLot) -> tuple[int, int]:
    return lot.coef.shape[0], lot.coef.shape[1] - 1


def _said(lot: ClassLot, X: Array, y: np.ndarray, cell: np.ndarray, weight: Array) -> ClassSaid:
    eta = X @ lot.coef[:, 1:].T + lot.coef[:, 0]
    trains, tests = lot.trains[cell], lot.tests[cell]
    counted = weight if lot.class_weight is None else weight * np.array(lot.class_weight)[y]
    losses = Multinomial().at(y, eta).value * weight
    sums = summed_classes(X, y, eta, trains, counted, lot.curved)
    return ClassSaid(sums, float(losses[trains].sum()), float(losses[tests].sum()))


@dataclass(frozen=True, eq=False)
class ClassMinimum:
    """One point of the path of one fold."""

    point: ClassPoint
    certificate: Certificate
    fitted: float
    tested: float


ClassChain = Generator[ClassPoint, ClassSaid, list[ClassMinimum]]


@dataclass(frozen=True, eq=False)
class ClassFold:
    """A fold with what its training rows say of knowing nothing but the shares of classes."""

    design: FoldDesign
    T: Array  # (1, xs) = T (1, z - centre)
    class_weight: tuple[float, ...] | None
    null: ClassPoint
    said: ClassSaid

    @property
    def steepest(self) -> float:
        return float(np.abs(class_slope_in(self.said.sums, self.T, L1L2()).gradient).max(initial=0.0))

    def lot(self, point: ClassPoint, curved: bool = True) -> ClassLot:
        return lot_of(self.design, self.T, point, self.class_weight, curved)

    def chain(self, penalties: Sequence[L1L2]) -> ClassChain:
        """All minima, from the strongest penalty on; asks for sums by yielding the points that it wants them at."""
        found: list[ClassMinimum] = []
        point, said = self.null, (yield self.null)
        for penalty in penalties:
            point, said, certificate = yield from self._minimum(penalty, point, said)
            found.append(ClassMinimum(point, certificate, said.fitted, said.tested))
        return found

    def _minimum(
        self, penalty: L1L2, point: ClassPoint, said: ClassSaid
    ) -> Generator[ClassPoint, ClassSaid, tuple[ClassPoint, ClassSaid, Certificate]]:
        units, steepest, before = self.design.units, self.steepest, np.inf
        for _ in range(MOST_STEPS):
            slope = class_slope_in(said.sums, self.T, penalty)
            certificate = certificate_of_classes(penalty, point, slope, steepest, units.intercept)
            if certificate.relative < FOUND or not certificate.relative < before:
                break
            aim, _ = stepped(slope, units, penalty, point)
            value = self._value(penalty, point, said)
            linear = float((slope.gradient * (aim.W - point.W)).sum() + slope.of_b @ (aim.b - point.b))
            promised = min(linear + penalty.value(aim.W.ravel()) - penalty.value(point.W.ravel()), 0.0)
            share, tried, answer = 1.0, aim, (yield aim)
            while not self._value(penalty, tried, answer) <= value * (1 + ROUNDING) + SUFFICIENT * share * promised:
                share /= 2
                if share < SHORTEST:
                    return point, said, certificate  # nothing is lower along this line but rounding
                tried = point.towards(aim, share)
                answer = yield tried
            before = certificate.relative if share == 1.0 else np.inf
            point, said = tried, answer
        return point, said, certificate

    def lowest(
        self, penalty: L1L2, start: ClassPoint, metric: CurvedMetric | None, ask: Callable[[ClassPoint], ClassSaid]
    ) -> ClassMinimum:
        """The minimum beside an L2 penalty, from slopes at points that it asks for; without a curvature of these very
        columns from a bound of it."""
        seen: list[tuple[ClassPoint, ClassSaid]] = []

        def sweep(point: ClassPoint) -> ClassSums:
            seen.append((point, ask(point)))
            return seen[-1][1].sums

        design, slope_of = self.design, partial(class_slope_in, A=self.T, penalty=penalty)
        most = max(self.class_weight or (1.0,))
        bowl = metric.beside(penalty) if metric else ClassBowl(design.moments, design.units, penalty, most)
        point = remembering(sweep, slope_of, bowl, start, self.steepest).point
        [said] = [one for at, one in seen if at is point]
        certificate = certificate_of_classes(
            penalty, point, slope_of(said.sums), self.steepest, design.units.intercept
        )  # fmt: skip
        return ClassMinimum(point, certificate, said.fitted, said.tested)

    @staticmethod
    def _value(penalty: L1L2, point: ClassPoint, said: ClassSaid) -> float:
        value = said.sums.value / said.sums.rows + penalty.value(point.W.ravel())
        return value if said.sums.is_finite else np.inf


def lot_of(
    design: FoldDesign, T: Array, point: ClassPoint, class_weight: tuple[float, ...] | None, curved: bool
) -> ClassLot:
    coef = np.column_stack((point.b, point.W)) @ T
    return ClassLot(design.trains, design.tests, coef, class_weight, curved)


@dataclass(eq=False)
class ClassTable:
    """The folds of a table of several classes, and sweeps over its rows; the last design is that of all rows."""

    coordinator: Coordinator
    table: FoldTable
    cells: CellMoments
    names: tuple[str, ...]
    tested: list[int]
    designs: list[FoldDesign]
    centre: Array
    sweeps: int = 0

    @classmethod
    def of(cls, coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice) -> ClassTable:
        split = Split(config.test_every, config.test_fraction, config.seed)
        repeats = config.weights_are == "frequency"
        seen = look_at(coordinator, dataset, config.target, split, config.weights, repeats)
        classes = classes_of_target(dataset, config, seen)
        widest = MOST_PARAMETERS // len(classes.names) - 1
        table = FoldTable.of(coordinator, dataset, config, choice, yes=classes.values, widest=widest)
        cells = table.cell_moments(*table.cells(), squares=False)
        tested = cells.tested if choice.count > 1 else []
        designs = designs_of(cells, tested)
        width, K = len(table.base.terms), len(classes.names)
        if not has_curvature(K, width):
            raise ResourceError(
                f"Expected at most {MOST_PARAMETERS:,} weights, classes times columns, to choose a penalty by "
                f"cross-validation, got {K * (width + 1):,}. Choose fewer columns, or give an alpha."
            )
        plan_cells(K * (width + 1), 2 * len(designs), memory_for_exact(available_memory()), SOLVING, least=4)
        centre = common_centre(designs, merge_all(cells.cells).mean[:-1], FAR)
        return cls(coordinator, table, cells, classes.names, tested, designs, centre)

    def ask(self, lots: Sequence[ClassLot]) -> list[ClassSaid]:
        self.sweeps += 1
        total = [ClassSaid(ClassSums.none(_shape(lot), lot.curved)) for lot in lots]
        requests = self.table.requests(AskClasses, self.centre, tuple(lots))
        for parts in self.coordinator.swept(f"sweep {self.sweeps}: {len(lots)} folds", requests):
            for own, part in zip(total, parts, strict=True):
                own.add(part)
        return total

    def folds(self) -> list[ClassFold]:
        """With their best constants: two sweeps."""
        K, balanced = len(self.names), self.table.config.class_weight == "balanced"
        maps = [design.map(self.centre) for design in self.designs]
        zeros = [ClassPoint.zero(K, len(design.names)) for design in self.designs]
        starts = zip(self.designs, maps, zeros, strict=True)
        counted = [rows_of_classes(one.sums) for one in self.ask([lot_of(*own, None, False) for own in starts])]
        points, weights = [], []
        for place, (zero, rows) in enumerate(zip(zeros, counted, strict=True)):
            self._check(place, rows)
            shares = rows / rows.sum()
            weights.append(tuple((1 / (K * shares)).tolist()) if balanced else None)
            intercept = self.designs[place].units.intercept
            b = zero.b if not intercept or balanced else best_constant(shares)
            points.append(ClassPoint(zero.W, b))
        each = list(zip(self.designs, maps, points, weights, strict=True))
        said = self.ask([lot_of(*own, False) for own in each])
        return [
            ClassFold(design, T, weight, point, one) for (design, T, point, weight), one in zip(each, said, strict=True)
        ]

    def _check(self, place: int, rows: Array) -> None:
        if (rows > 1e-9 * rows.sum()).all():
            return
        name = self.names[int(np.argmin(rows))]
        raise DataError(
            f"Expected training rows of every class in each fold, got none with '{name}' in fold {place}. Choose folds "
            "by class, or fewer of them, or leave the rows of so rare a class out."
        )

    def follow(self, folds: Sequence[ClassFold], penalties: Sequence[Sequence[L1L2]]) -> list[list[ClassMinimum]]:
        """All chains side by side, until the last has come to its end: each fold has one for every stretch of its
        path, as far as there is room for their curvatures at once."""
        room = AT_ONCE // (len(folds) * 8 * (len(self.names) * len(folds[-1].T)) ** 2)
        count = len(penalties[-1])
        cuts = np.array_split(np.arange(count), max(1, min(math.ceil(count / STRETCH), room)))
        own = [(fold, [steps[i] for i in cut]) for fold, steps in zip(folds, penalties, strict=True) for cut in cuts]
        chains = [fold.chain(stretch) for fold, stretch in own]
        at: dict[int, ClassPoint] = {place: next(chain) for place, chain in enumerate(chains)}
        found: dict[int, list[ClassMinimum]] = {}
        while at:
            said = self.ask([own[place][0].lot(point) for place, point in at.items()])
            for place, one in zip(list(at), said, strict=True):
                try:
                    at[place] = chains[place].send(one)
                except StopIteration as done:
                    found[place] = done.value
                    del at[place]
        each = [found[place] for place in range(len(chains))]
        return [list(joined.from_iterable(each[i : i + len(cuts)])) for i in range(0, len(each), len(cuts))]

    def follow_slopes(
        self, folds: Sequence[ClassFold], penalties: Sequence[Sequence[L1L2]]
    ) -> list[list[ClassMinimum]]:
        """The same beside L2 penalties, by sums of slopes: one curvature, of all training rows, is what the steps of
        all folds begin with, and L-BFGS learns what is different in each."""
        whole, points = folds[-1], [fold.null for fold in folds]
        found: list[list[ClassMinimum]] = [[] for _ in folds]
        for place in range(len(penalties[-1])):
            if place % ANEW == 0:
                [said] = self.ask([whole.lot(points[-1])])
                metric = CurvedMetric(said.sums, whole.T, whole.design.units.intercept)
            descents = [
                partial(fold.lowest, own[place], point, metric if len(fold.T) == len(whole.T) else None)
                for fold, own, point in zip(folds, penalties, points, strict=True)
            ]
            minima = side_by_side(
                descents, lambda asked: self.ask([folds[i].lot(point, curved=False) for i, point in asked.items()])
            )
            points = [one.point for one in minima]
            for own, one in zip(found, minima, strict=True):
                own.append(one)
        return found


def grid_of(fold: ClassFold, shrink: str, ratio: float, count: int) -> Array:
    """As `tuning.follow` has it for other losses, with the widest class for the curvature at the best constant."""
    n, slope = fold.design.n, fold.steepest
    if not slope > 0:
        raise DataError("No column is related to the target at all, so there is no path. Choose other columns.")
    powers = np.exp(fold.null.b - fold.null.b.max())
    shares = powers / powers.sum()
    depth = 1e-4 if n >= len(fold.design.names) else 1e-2
    strongest_l2 = slope * float(np.sqrt(shares * (1 - shares)).max()) / RIDGE_AS
    weakest_l2 = strongest_l2 * depth / 100
    unit = penalty_beside_sum(shrink, 1.0, ratio, n)
    if unit.l1 == 0:
        return np.geomspace(strongest_l2 / unit.l2, weakest_l2 / unit.l2, count)
    largest = slope / max(unit.l1, RIDGE_AS * unit.l2)
    smallest = min(largest * depth, weakest_l2 / unit.l2) if unit.l2 > 0 else largest * depth
    return np.geomspace(largest, smallest, count)


@dataclass(frozen=True, eq=False)
class FollowedClasses:
    """For each mixing ratio its alphas, and for each of them the minima of the folds in order, then of all rows."""

    table: ClassTable
    folds: list[ClassFold]
    grids: list[Array]
    found: list[list[list[ClassMinimum]]]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(class_terms(self.table.names, self.folds[-1].design.names))

    def path(self, place: int, model: str, ratio: float) -> Path:
        """Weights of all classes one after the other; of their intercepts the path says nothing."""
        design, minima = self.folds[-1].design, self.found[place][-1]
        W = np.array([one.point.W.ravel() for one in minima])
        coef = np.array([(one.point.W / design.units.scale).ravel() for one in minima])
        nothing = np.full(len(minima), np.nan)
        return Path(model, ratio, self.grids[place], W, coef, nothing, tuple(one.certificate for one in minima))

    def kept(self, place: int) -> list[int]:
        """Columns that have a weight for any class, at each alpha."""
        return [int((one.point.W != 0).any(axis=0).sum()) for one in self.found[place][-1]]

    def certificates(self) -> Iterator[Certificate]:
        return (one.certificate for ratio in self.found for fold in ratio for one in fold)


def follow_classes(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: FoldChoice, ratios: Iterable[float],
    alphas: Array | None, count: int | None,
) -> FollowedClasses:  # fmt: skip
    """The whole path in every fold, for every mixing ratio."""
    table = ClassTable.of(coordinator, dataset, config, choice)
    folds, grids, found = table.folds(), [], []
    for ratio in ratios:
        grid = grid_of(folds[-1], config.shrink, ratio, count or USUAL_ALPHAS) if alphas is None else alphas
        strongest_first = np.argsort(-grid, kind="stable")
        penalties = [
            [penalty_beside_sum(config.shrink, float(grid[i]), ratio, fold.design.n) for i in strongest_first]
            for fold in folds
        ]
        weights = len(table.names) * len(table.centre)
        bent = weights > MANY and all(one.l1 == 0 for one in penalties[-1])
        minima = table.follow_slopes(folds, penalties) if bent else table.follow(folds, penalties)
        back = np.argsort(strongest_first)
        grids.append(grid)
        found.append([[one[i] for i in back] for one in minima])
    return FollowedClasses(table, folds, grids, found)
