"""Paths of huber and quantile models in all folds: each is cut into stretches, which go from the strongest penalty to
the weakest, every minimum beginning where the one before is, and all stretches of all folds share their sweeps.

A huber minimum is found by Newton steps, scale and all. For a quantile the rows near one line are kept, and the small
program about them answers for one penalty after the other; a pass looks for rows that have changed their side.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from shoal.coordinator import Coordinator
from shoal.errors import DataError
from shoal.fitting.robust.quantile import near_rows
from shoal.fitting.summing import FoldTable
from shoal.fitting.targets import check_varies
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.losses.huber import Huber
from shoal.losses.named import penalty_beside
from shoal.losses.quantile import Quantile, Smooth
from shoal.models import L1L2, TINY, Array
from shoal.solve.least_squares import Standardisation
from shoal.solve.newton import (
    Curvature,
    NewtonPoint,
    Slope,
    certificate_of_slope,
    minimise,
    newton_step,
    slope_at,
    start_with_scale,
)
from shoal.solve.pinball import Corner, CornerSearch, Near, Sides, approach
from shoal.tuning.designs import FoldDesign
from shoal.tuning.follow import FoldPoints, Followed, PathRequest, alphas_of_loss
from shoal.tuning.lines import (
    AskLines,
    ChangedSides,
    FoldQuestion,
    LineQuestion,
    LineWorth,
    NearLine,
    StepSums,
    WorthOfLines,
)
from shoal.tuning.side_by_side import side_by_side

USUAL_ALPHAS = 30  # each takes steps of its own
FOUND, AGAIN = 1e-9, 4  # the largest derivative, relative to that at w = 0, and steps more that are tried towards it
NEAR_ROWS, CROWDED = 2000, 3  # rows near a line that the small program begins with; times as many are too many
LEAST_NEAR = 20  # times the weights are the near rows at least
DENSITY = 0.16  # over the mean pinball loss of a quantile is about the density of the target there
STRETCH = 5  # penalties that are gone through one after the other, where memory holds all stretches at once
AT_ONCE, MOST_STRETCHES = 1 << 30, 256  # bytes and number of the stretches of all folds that go side by side
BIGGEST = 4.0  # times the largest slope that rows can have is a penalty beside which every weight is 0

AskFold = Callable[[LineQuestion], Any]


class LinePoint(NamedTuple):
    """A minimum: the loss there, with its scale where it has one, and how far derivatives are from 0."""

    point: NewtonPoint
    loss: RowLoss
    gap: float


@dataclass(eq=False)
class FoldLine:
    """One fold as its solver sees it: columns are those of its weights, in their own units."""

    design: FoldDesign
    centre: Array
    loss: RowLoss
    rows: int  # of the table, of which it has some
    most: int  # near rows that memory has room for
    ask: AskFold = field(init=False)
    T: Array = field(init=False)  # (1, xs) = T (1, z - centre)
    units: Standardisation = field(init=False)
    origin: Array = field(init=False)

    def __post_init__(self) -> None:
        own = self.design.units
        p = len(own.scale)
        self.T, self.origin = self.design.map(self.centre), np.zeros(p)
        self.units = Standardisation(np.zeros(p), np.ones(p), own.constant, own.y_mean, own.intercept)

    def coef(self, point: NewtonPoint) -> Array:
        """(q + 1,) for rows (1, z - centre)."""
        return np.asarray(self.T.T @ np.append(point.b, point.w))

    def curvature(self, loss: RowLoss, point: NewtonPoint) -> Curvature:
        if point.scale is not None:
            loss = loss.scaled(point.scale.value)
        sums: Curvature = self.ask(StepSums(loss, self.coef(point)))
        of_scale = sums.of_scale and sums.of_scale._replace(cross=self.T @ sums.of_scale.cross)
        return replace(sums, slope=self.T @ sums.slope, square=self.T @ sums.square @ self.T.T, of_scale=of_scale)

    def slope(self, sums: Curvature, point: NewtonPoint) -> Slope:
        return slope_at(sums, self.origin, self.units, point)

    @property
    def start(self) -> NewtonPoint:
        """Knowing nothing, with the spread of the target for a scale."""
        found = start_with_scale(self.design.moments, self.design.units, self.nothing)
        return replace(found, w=np.zeros_like(found.w))

    @property
    def nothing(self) -> L1L2:
        """A penalty beside which every weight is 0, since no row's slope is as steep."""
        moments, units = self.design.moments, self.design.units
        squares = np.diag(moments.scatter)[:-1] / self.design.n + (moments.mean[:-1] - units.centre) ** 2
        steepest = self.loss.epsilon if isinstance(self.loss, Huber) else 1.0
        return L1L2(l1=BIGGEST * steepest * float(np.sqrt(squares / units.scale**2).max(initial=1.0)))


class HuberSearch:
    """Minima of one fold beside one penalty after the other, by Newton steps from the last one."""

    def __init__(self, fold: FoldLine) -> None:
        self.fold, self.at = fold, fold.start
        self.sums_at = _Remembered(partial(fold.curvature, fold.loss))
        self._minimise(fold.nothing)
        slope = self._slope()
        self.steepest = float(np.abs(slope.gradient).max(initial=0.0))
        self.null = LinePoint(self.at, self._loss(), 0.0)
        sums = self.sums_at(self.at)
        self.spread = float(sums.square[0, 0]) / sums.rows / math.sqrt(max(_cut_squares(sums), TINY))

    def beside(self, fold: FoldLine, penalty: L1L2) -> HuberSearch:
        """Another search of the same fold, that begins near the minimum with a penalty."""
        found = copy.copy(self)
        found.fold, found.sums_at = fold, _Remembered(partial(fold.curvature, fold.loss))
        found.at = start_with_scale(fold.design.moments, fold.design.units, penalty)
        return found

    def _minimise(self, penalty: L1L2) -> None:
        fold = self.fold
        self.at = minimise(self.sums_at, fold.origin, fold.units, fold.design.spread, penalty, self.at).point

    def _slope(self) -> Slope:
        return self.fold.slope(self.sums_at(self.at), self.at)

    def _loss(self) -> RowLoss:
        assert self.at.scale is not None
        return self.fold.loss.scaled(self.at.scale.value)

    def lowest(self, penalty: L1L2) -> LinePoint:
        self._minimise(penalty)
        best: LinePoint | None = None
        for _ in range(AGAIN):
            slope = self._slope()
            of_b = slope.of_b if self.fold.units.intercept else 0.0
            found = certificate_of_slope(penalty, self.at, slope.gradient, of_b, self.steepest, slope.of_scale)
            if best is not None and not found.relative < best.gap / 2:
                break
            best = LinePoint(self.at, self._loss(), found.relative)
            if best.gap < FOUND:
                break
            self.at = newton_step(slope, self.fold.units, penalty, self.at)
        assert best is not None
        self.at = best.point
        return best


def _cut_squares(sums: Curvature) -> float:
    """The mean of z^2 over rows: what is left of 1 in the slope of the scale, see `losses.huber`."""
    return 1 - 2 * sums.of_scale.slope / sums.rows if sums.of_scale else 1.0


class _Remembered:
    """The sums at the last point, so that steps that go on from there begin with no sweep."""

    def __init__(self, sums: Callable[[NewtonPoint], Curvature]) -> None:
        self.sums = sums
        self.last: tuple[NewtonPoint, Curvature] | None = None

    def __call__(self, point: NewtonPoint) -> Curvature:
        if self.last is None or self.last[0] is not point:
            self.last = point, self.sums(point)
        return self.last[1]


class QuantileSearch:
    """The same for a quantile: the corner beside each penalty, from the rows near a line that is moved now and then."""

    def __init__(self, fold: FoldLine) -> None:
        assert isinstance(fold.loss, Quantile)
        self.fold, self.quantile = fold, fold.loss.quantile
        self.enough = min(near_of(len(fold.origin)), fold.most)
        self.search = self._approached(fold.nothing, fold.start)
        corner = self.search.lowest(fold.nothing)
        self.steepest = float(np.abs(corner.gradient).max(initial=0.0))
        self.null = LinePoint(corner.point, fold.loss, 0.0)
        self.last = corner
        known: LineWorth = fold.ask(WorthOfLines((fold.loss,), fold.coef(corner.point)[:, None]))
        density = DENSITY * fold.design.n / max(float(known.fitted[0]), TINY)
        self.spread = density / math.sqrt(self.quantile * (1 - self.quantile))

    def beside(self, fold: FoldLine, penalty: L1L2) -> QuantileSearch:
        """Another search of the same fold, that begins near the minimum with a penalty; where all rows are near, they
        answer for any."""
        found = copy.copy(self)
        found.fold = fold
        if np.isfinite(self.search.width):
            start = start_with_scale(fold.design.moments, fold.design.units, penalty)
            found.search = found._approached(penalty, start)
            found.last = replace(self.last, point=found.search.start, exact=True)
        return found

    def _approached(self, penalty: L1L2, start: NewtonPoint) -> CornerSearch:
        fold = self.fold
        smooth = partial(fold.curvature, Smooth(self.quantile, 1.0))
        about = fold.origin, fold.units, fold.design.spread
        at, width, _ = approach(smooth, *about, penalty, start, fold.rows, self.enough)
        return self._search(replace(at, scale=None), width)

    def _search(self, at: NewtonPoint, width: float) -> CornerSearch:
        fold = self.fold
        return CornerSearch(
            self, self.quantile, fold.design.n, fold.origin, fold.units, at, width, fold.most, narrowed=self.enough
        )

    def lowest(self, penalty: L1L2) -> LinePoint:
        if len(self.search.near.residual) > CROWDED * self.enough or not self.last.exact:
            self.search = self._search(self.last.point, self.search.width)
        self.last = self.search.lowest(penalty)
        return LinePoint(self.last.point, self.fold.loss, self._gap(self.last, penalty))

    def _gap(self, corner: Corner, penalty: L1L2) -> float:
        of_b = abs(corner.of_b) if self.fold.units.intercept else 0.0
        found = max(penalty.optimality_gap(corner.point.w, corner.gradient), of_b) / max(self.steepest, TINY)
        return found if corner.exact else max(found, 1.0)

    # ---- rows, as `solve.pinball` asks for them

    def sides(self, point: NewtonPoint, width: float) -> Sides:
        found: Sides = self.fold.ask(NearLine(self.fold.coef(point), self.quantile, width))
        return Sides(self._own(found.near), self.fold.T @ found.beyond)

    def changed(self, point: NewtonPoint, width: float, to: NewtonPoint) -> Near:
        if np.isinf(width):  # all rows are near
            return Near.none(len(to.w))
        return self._own(self.fold.ask(ChangedSides(self.fold.coef(point), width, self.fold.coef(to))))

    def _own(self, near: Near) -> Near:
        """In the columns of the fold."""
        T = self.fold.T
        return near._replace(X=near.X @ T[1:, 1:].T + T[1:, 0])


FoldSearch = HuberSearch | QuantileSearch
SEARCHES: dict[str, Callable[[FoldLine], FoldSearch]] = {
    "huber": HuberSearch, "quantile": QuantileSearch,
}  # fmt: skip


@dataclass(eq=False)
class RobustFollower:
    """Folds with their rows; the last design is that of all training rows."""

    coordinator: Coordinator
    table: FoldTable
    loss: RowLoss
    designs: Sequence[FoldDesign]
    centre: Array
    sweeps: int = field(default=0, init=False)

    def follow(self, request: PathRequest) -> Followed:
        lines = self._lines()
        searches = side_by_side([partial(_begun, line) for line in lines], self._answers(lines))
        whole, grids = searches[-1], []
        for ratio in request.ratios:
            unit = penalty_beside(self.loss, request.shrink, 1.0, ratio, self.whole.n)
            deep, count = self.whole.n >= len(self.whole.names), request.count or USUAL_ALPHAS
            own = whole.steepest, whole.spread, deep, count
            grids.append(alphas_of_loss(unit, *own) if request.alphas is None else request.alphas)
        paths = self._paths(searches, [self._penalties(search, request, grids) for search in searches], grids)
        worths = side_by_side(
            [partial(_worth, *pair) for pair in zip(searches, paths, strict=True)], self._answers(lines)
        )
        found = [_points(*each) for each in zip(searches, paths, worths, strict=True)]
        null = worths[-1]
        return Followed(found, grids, self.sweeps, null.fitted[0], null.tested[0])

    @property
    def whole(self) -> FoldDesign:
        return self.designs[-1]

    def _lines(self) -> list[FoldLine]:
        rows, most = self.table.dataset.rows, max(1, near_rows(len(self.centre))[1] // len(self.designs))
        check_varies(self.loss, self.whole.moments)
        for number, design in enumerate(self.designs[:-1]):
            if not design.moments.scatter[-1, -1] > 0:
                raise DataError(
                    f"All training rows of fold {number} have one and the same target, so there is nothing to learn "
                    "there. Choose fewer folds, or other ones."
                )
        return [FoldLine(design, self.centre, self.loss, rows, most) for design in self.designs]

    def _penalties(self, search: FoldSearch, request: PathRequest, grids: Sequence[Array]) -> list[L1L2]:
        """Of one mixing ratio after the other, in the order of its alphas."""
        n = search.fold.design.n
        return [
            penalty_beside(self.loss, request.shrink, float(alpha), ratio, n)
            for ratio, grid in zip(request.ratios, grids, strict=True) for alpha in grid
        ]  # fmt: skip

    def _paths(
        self, searches: Sequence[FoldSearch], penalties: Sequence[Sequence[L1L2]], grids: Sequence[Array]
    ) -> list[list[LinePoint]]:
        """Of each fold, in the order of its penalties."""
        stretches = stretches_of(grids, self._side_by_side(len(grids)))
        tasks = [(number, stretch) for number in range(len(searches)) for stretch in stretches]
        descents = [partial(_descended, searches[i], [penalties[i][k] for k in own]) for i, own in tasks]
        minima = side_by_side(descents, self._answers([searches[i].fold for i, _ in tasks]))
        found: list[dict[int, LinePoint]] = [{} for _ in searches]
        for (number, stretch), points in zip(tasks, minima, strict=True):
            found[number].update(zip(stretch, points, strict=True))
        return [[own[k] for k in range(len(own))] for own in found]

    def _side_by_side(self, ratios: int) -> int:
        """Stretches of one path that go on at once: each has sums of all pairs of columns, or rows near its line."""
        q = len(self.centre) + 1
        numbers = q * q if self.loss.has_scale else CROWDED * near_of(q - 1) * q
        fitting = min(AT_ONCE // (3 * 8 * numbers), MOST_STRETCHES)
        return max(1, fitting // (len(self.designs) * ratios))

    def _answers(self, lines: Sequence[FoldLine]) -> Callable[[dict[int, LineQuestion]], list[Any]]:
        def answers(asked: dict[int, LineQuestion]) -> list[Any]:
            self.sweeps += 1
            of_folds = [FoldQuestion(lines[i].design.trains, lines[i].design.tests, one) for i, one in asked.items()]
            requests = self.table.requests(AskLines, self.centre, tuple(of_folds))
            parts = list(self.coordinator.swept(f"sweep {self.sweeps}: {len(asked)} folds", requests))
            return [one.asked.together([part for block in parts for part in block[i]])
                    for i, one in enumerate(of_folds)]  # fmt: skip

        return answers


def _begun(line: FoldLine, ask: AskFold) -> FoldSearch:
    line.ask = ask
    return SEARCHES[line.loss.name](line)


def near_of(p: int) -> int:
    """Rows near a line that the small program of p weights begins with."""
    return max(NEAR_ROWS, LEAST_NEAR * (p + 1))


def stretches_of(grids: Sequence[Array], most: int) -> list[list[int]]:
    """The places of all alphas, from the strongest of each grid on, in stretches of about as many each."""
    found: list[list[int]] = []
    first = 0
    for grid in grids:
        order = first + np.argsort(-grid, kind="stable")
        found += [part.tolist() for part in np.array_split(order, min(math.ceil(len(grid) / STRETCH), most))]
        first += len(grid)
    return found


def _descended(search: FoldSearch, penalties: Sequence[L1L2], ask: AskFold) -> list[LinePoint]:
    """From the strongest penalty on, in the order that they are given in."""
    fold = replace(search.fold)
    fold.ask = ask
    own = search.beside(fold, penalties[0])
    return [own.lowest(penalty) for penalty in penalties]


def _worth(search: FoldSearch, path: Sequence[LinePoint], ask: AskFold) -> LineWorth:
    """Of knowing nothing, and of each point."""
    points = [search.null, *path]
    coef = np.column_stack([search.fold.coef(one.point) for one in points])
    worth: LineWorth = ask(WorthOfLines(tuple(one.loss for one in points), coef))
    return worth


def _points(search: FoldSearch, path: Sequence[LinePoint], worth: LineWorth) -> FoldPoints:
    b, gap = np.array([one.point.b for one in path]), np.array([one.gap for one in path])
    W = np.array([one.point.w for one in path])
    return FoldPoints(
        search.fold.design, b, W, np.minimum(gap, 1.0), search.steepest, worth.tested[1:], worth.fitted[1:]
    )
