"""All penalties of a path in all folds, by sweeps that they share, to a certificate from the rows at every point.

1. The best constant of every fold, which no penalty holds: the alphas begin where its gradient does.
2. Newton steps on all training rows at some of the alphas, the anchors, until these are roughly known.
3. One sweep for the curvature of each cell of rows at the anchors: that of a fold is the sum over its own cells.
4. Steps of all points with exact gradients, each with the curvature of its anchor, while it is good enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial

import numpy as np

from shoal.errors import DataError
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.losses.named import penalty_beside
from shoal.models import L1L2, TINY, Array
from shoal.settings.limits import SOLVING, USUAL_POINTS, memory_for_exact
from shoal.solve.descent import FOUND, Bowl, Descent, Places, anchors_of, first_steps, nearest
from shoal.solve.moments import plan_cells
from shoal.solve.newton import ConstantSearch
from shoal.solve.paths import RIDGE_AS
from shoal.tuning.designs import FoldDesign
from shoal.tuning.points import CellSums, Lot, LotSums, PointsAsked, PointsSaid
from shoal.utils import available_memory

ANCHORS = 16  # of a path of 100 penalties
ROUGH = 1e-2  # how near anchors are before the folds start from them
MOST_SWEEPS = 100  # of all points; more say that there is no minimum
CONSTANT_STEPS, CONSTANT_FOUND = 50, 1e-10
OWN = 2048  # curvatures of single points in one sweep, at most

AskRows = Callable[[PointsAsked], PointsSaid]


@dataclass(frozen=True, eq=False)
class FoldPoints:
    """The points of one fold: b (m,), W (m, p); the largest derivative relative to that at w = 0 (m,); sums of
    deviances of its test rows and of its training rows (m,)."""

    design: FoldDesign
    b: Array
    W: Array
    gap: Array
    steepest: float
    tested: Array
    fitted: Array


@dataclass(frozen=True, eq=False)
class Followed:
    """The folds in order, then all training rows; for each mixing ratio its alphas; sums of deviances of the best
    constant of all training rows, over these and over the rows kept for testing."""

    found: list[FoldPoints]
    grids: list[Array]
    sweeps: int
    null_fitted: Array
    null_tested: Array


@dataclass(frozen=True, eq=False)
class PathRequest:
    """Which penalties: of one kind, along alphas (None: from the data) for each mixing ratio."""

    shrink: str
    ratios: tuple[float, ...]
    alphas: Array | None
    count: int | None  # of alphas from the data; None: as many as are usual


def alphas_of_loss(unit: L1L2, slope: float, spread: float, deep: bool, count: int) -> Array:
    """From the strongest penalty down, by what an alpha of 1 is, the steepest slope at the best constant, and the
    curvature there over the spread of the rows' slopes; `deep`: rows are as many as columns."""
    if not slope > 0:
        raise DataError("No column is related to the target at all, so there is no path. Choose other columns.")
    depth, strongest_l2 = 1e-4 if deep else 1e-2, slope * spread / RIDGE_AS
    weakest_l2 = strongest_l2 * depth / 100
    if unit.l1 == 0:
        return np.geomspace(strongest_l2 / unit.l2, weakest_l2 / unit.l2, count)
    largest = slope / unit.l1
    smallest = largest * depth
    if unit.l2 > 0:
        largest = slope / max(unit.l1, RIDGE_AS * unit.l2)
        smallest = min(largest * depth, weakest_l2 / unit.l2)
    return np.geomspace(largest, smallest, count)


@dataclass(eq=False)
class PathFollower:
    """Folds with their rows; the last design is that of all training rows."""

    ask: AskRows
    loss: RowLoss
    designs: Sequence[FoldDesign]
    centre: Array
    cells: int
    by_cell: bool = True  # whether cells are few enough for a curvature each
    sweeps: int = field(default=0, init=False)

    @property
    def whole(self) -> FoldDesign:
        return self.designs[-1]

    def follow(self, request: PathRequest) -> Followed:
        constants, null = self._constants()
        grids = [self._grid(request, ratio, null[-1]) for ratio in request.ratios]
        anchors = self._anchors([len(grid) for grid in grids])
        penalties = [self._penalties(design, request, grids) for design in self.designs]
        b, W, cells = self._anchored(constants[-1], null[-1], penalties[-1], anchors)
        courses = []
        for number, design in enumerate(self.designs):
            course = self._course(design, constants[number], null[number], penalties[number])
            self._started(course, design, b, W, cells, anchors)
            courses.append(course)
        found = self._descended(courses, null)
        return Followed(found, grids, self.sweeps, null[-1].fitted[0], null[-1].tested[0])

    # ---- 1. the constants, and where the alphas begin

    def _constants(self) -> tuple[list[float], list[LotSums]]:
        """The best b beside w = 0 for each fold, and the sums there."""
        b = [self._constant(design, number) for number, design in enumerate(self.designs)]
        searches = [ConstantSearch() for _ in self.designs]
        for _ in range(CONSTANT_STEPS):
            said = self._asked(tuple(self._null(design, at) for design, at in zip(self.designs, b, strict=True)))
            steps = [self._correction(*own) for own in zip(self.designs, said.lots, b, searches, strict=True)]
            if max(map(abs, steps)) < CONSTANT_FOUND * max(1.0, *map(abs, b)):
                break
            b = [at + step for at, step in zip(b, steps, strict=True)]
        return b, said.lots

    def _constant(self, design: FoldDesign, number: int) -> float:
        mean = design.mean
        low, high = self.loss.mean_within
        if not low < mean < high:
            where = f"of fold {number} " if design is not self.whole else ""
            raise DataError(
                f"All training rows {where}have one and the same target, so there is nothing to learn there. Choose "
                "folds that have all of its values, such as those by class, or fewer of them."
            )
        if not design.units.intercept:
            return 0.0
        return 0.0 if design.class_weight else self.loss.eta(mean)

    def _null(self, design: FoldDesign, b: float) -> Lot:
        coef = np.zeros((len(self.centre) + 1, 1))
        coef[0, 0] = b
        return Lot(design.trains, design.tests, coef, design.class_weight, (0,), design is self.whole)

    def _correction(self, design: FoldDesign, sums: LotSums, at: float, search: ConstantSearch) -> float:
        if not design.units.intercept:
            return 0.0
        g, h = float(sums.slope[0, 0]), float(sums.square[0, 0, 0])
        return search.step(at, g, partial(self.loss.constant_step, g, h, design.n))

    def _steepest(self, design: FoldDesign, null: LotSums) -> float:
        view = design.view(self.centre, np.zeros(1), np.zeros(1))
        return float(np.abs(view.gradient(null.slope)[1]).max(initial=0.0))

    def _grid(self, request: PathRequest, ratio: float, null: LotSums) -> Array:
        """As `solve.paths.alpha_grid`, with the curvature of the loss at the best constant in place of 1."""
        if request.alphas is not None:
            return request.alphas
        design = self.whole
        curve = float(null.square[0, 0, 0]) / design.n
        variance = float(design.moments.scatter[-1, -1]) / design.n
        noise = self.loss.noise(design.mean, variance, float(null.fitted[0]) / design.n)
        strongest_l2 = self._steepest(design, null), curve / math.sqrt(max(noise, TINY))
        unit = penalty_beside(self.loss, request.shrink, 1.0, ratio, design.n)
        count = USUAL_POINTS if request.count is None else request.count
        return alphas_of_loss(unit, *strongest_l2, design.n >= len(design.names), count)

    def _penalties(self, design: FoldDesign, request: PathRequest, grids: Sequence[Array]) -> tuple[Array, Array]:
        """l1 (m,), l2 (m,) of all points, one mixing ratio after the other."""
        l1, l2 = [], []
        for ratio, grid in zip(request.ratios, grids, strict=True):
            unit = penalty_beside(self.loss, request.shrink, 1.0, ratio, design.n)
            l1.append(grid * unit.l1)
            l2.append(grid * unit.l2)
        return np.concatenate(l1), np.concatenate(l2)

    # ---- 2. and 3. the anchors

    def _anchors(self, counts: Sequence[int]) -> tuple[Places, Places]:
        """The points that are anchors, and for every point which of them is its own."""
        q, folds = len(self.centre) + 1, len(self.designs)
        each = (2 * self.cells if self.by_cell else 2) + 3 * folds
        free = memory_for_exact(available_memory())
        fitting = plan_cells(q, each * ANCHORS * len(counts), free // 2, SOLVING, least=each * len(counts))
        most = max(1, fitting // (each * len(counts)))
        points: list[Places] = []
        own: list[Places] = []
        for count in counts:
            places = anchors_of(count, most)
            own.append(nearest(count, places) + sum(map(len, points)))
            points.append(places + sum(map(len, own[:-1])))
        return np.concatenate(points), np.concatenate(own)

    def _anchored(
        self, constant: float, null: LotSums, penalties: tuple[Array, Array], anchors: tuple[Places, Places]
    ) -> tuple[Array, Array, CellSums | None]:
        """The anchors of all training rows, and the sums of each cell there; of all as one where cells are too many."""
        design, (l1, l2), points = self.whole, penalties, anchors[0]
        course = self._course(design, constant, null, (l1[points], l2[points]), newton=True)
        course.start(*first_steps(course.view, course.bowls[0], constant, course.gradient, design.spread))
        self._descended([course], [null])
        coef = course.view.scores(course.b, course.W)
        if self.by_cell:
            return course.b, course.W, self._asked((), coef).by_cell
        every = tuple(range(coef.shape[1]))
        [sums] = self._asked((Lot(design.trains, design.tests, coef, design.class_weight, every),)).lots
        return course.b, course.W, CellSums(sums.slope.T[None], sums.square[None])

    def _course(
        self, design: FoldDesign, constant: float, null: LotSums, penalties: tuple[Array, Array], newton: bool = False
    ) -> Descent:
        """All points at w = 0."""
        view = design.view(self.centre, *penalties)
        m, p = len(penalties[0]), len(design.names)
        value = np.full(m, float(null.value[0]) / design.n)
        bowl = Bowl.of(null.square[0], view)
        gradient = view.gradient(null.slope)[1][0]
        found = ROUGH if newton else FOUND
        return Descent(view, np.full(m, constant), np.zeros((m, p)), value, gradient, [bowl] * m, found, newton)

    def _started(
        self,
        course: Descent,
        design: FoldDesign,
        b: Array,
        W: Array,
        cells: CellSums | None,
        anchors: tuple[Places, Places],
    ) -> None:
        """A Newton step from the anchor of each point to its own penalty and rows."""
        assert cells is not None
        chosen = np.flatnonzero(design.trains[: len(cells.slope)]) if self.by_cell else np.arange(len(cells.slope))
        times = 1.0 if self.by_cell else design.n / self.whole.n
        slope, square = times * cells.slope[chosen].sum(axis=0), times * cells.square[chosen].sum(axis=0)
        bowls = [Bowl.of(one, course.view, shared=True) for one in square]
        at_b, at_W = design.translated(self.whole, b, W)
        of_b, gradient = course.view.gradient(slope.T)
        first_b, first_W = np.empty(len(course.b)), np.empty_like(course.W)
        for i, k in enumerate(anchors[1].tolist()):
            course.bowls[i] = bowls[k]
            pair = float(course.view.l1[i]), float(course.view.l2[i])
            first_b[i], first_W[i] = bowls[k].lowest(float(at_b[k]), at_W[k], float(of_b[k]), gradient[k], *pair)
        course.start(first_b, first_W)

    # ---- 4. all points

    def _descended(self, courses: Sequence[Descent], null: Sequence[LotSums]) -> list[FoldPoints]:
        designs = self.designs if len(courses) == len(self.designs) else [self.whole]
        sums = [(np.full(len(c.b), one.tested[0]), np.full(len(c.b), one.fitted[0]))
                for c, one in zip(courses, null, strict=True)]  # fmt: skip
        for _ in range(MOST_SWEEPS):
            tried = [course.asked for course in courses]
            if not any(map(len, tried)):
                break
            own = [course.wants_own(OWN // len(courses)) for course in courses]
            lots = tuple(
                Lot(design.trains, design.tests, course.view.scores(course.tried_b[some], course.tried_W[some]),
                    design.class_weight, tuple(np.searchsorted(some, curved).tolist()), design is self.whole)
                for design, course, some, curved in zip(designs, courses, tried, own, strict=True)
            )  # fmt: skip
            for course, some, curved, said, kept in zip(courses, tried, own, self._asked(lots).lots, sums, strict=True):
                taken = course.take(some, said.value, said.slope, dict(zip(curved.tolist(), said.square, strict=True)))
                kept[0][some[taken]], kept[1][some[taken]] = said.tested[taken], said.fitted[taken]
        return [
            FoldPoints(design, course.b, course.W, np.minimum(course.gap, 1.0), course.steepest, *kept)
            for design, course, kept in zip(designs, courses, sums, strict=True)
        ]

    def _asked(self, lots: tuple[Lot, ...], by_cell: Array | None = None) -> PointsSaid:
        self.sweeps += 1
        return self.ask(PointsAsked(lots, by_cell, self.cells, self.whole.class_weight))
