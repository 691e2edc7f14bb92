"""The penalty of a yes/no model of sparse rows, chosen by cross-validation: the path in every fold, without zeros."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.coordinator import Coordinator
from shoal.data.splits import Split
from shoal.errors import DataError
from shoal.kernels.threads import one_thread
from shoal.lazy.classes import dataclass
from shoal.losses.base import LossOfRows
from shoal.losses.logistic import Logistic
from shoal.losses.named import penalty_beside
from shoal.metrics import Timings
from shoal.models import Array, Certificate
from shoal.settings.config import RunConfig
from shoal.settings.limits import USUAL_POINTS
from shoal.settings.when import penalised_as
from shoal.solve.paths import Path
from shoal.solve.rows.sparse import SparseRows
from shoal.solve.rows.steps import RowsDescent
from shoal.sparse.folds import SparseCells, sparse_cells
from shoal.sparse.outcomes import two_values
from shoal.sparse.table import open_table
from shoal.tuning.choice import LOG_LOSS, LOOSE, SETTLED, TunedLoss
from shoal.tuning.follow import alphas_of_loss
from shoal.utils import Progress
from shoal.whatif.curve import CrossValidation
from shoal.whatif.folds import FoldChoice
from shoal.whatif.penalty_choice import checked_alphas, checked_ratios
from shoal.whatif.rows_choice import STAGE, CurveSoFar, Onlooker, unseen
from shoal.whatif.turns import in_turns

DEEP = 10  # rows a column from which on weak penalties are tried too: with fewer, columns tell all rows apart there
CLOSE = 1e-9  # of the gradient at 0 that is left at a point: its error has as many digits as anybody reads


@dataclass(frozen=True, eq=False)
class OutcomeFold:
    """The training rows of a fold with 0 and 1 for no and yes, and those that it is tested by."""

    rows: SparseRows
    y: Array
    held: Any
    held_y: Array

    @classmethod
    def of(cls, cells: SparseCells, number: int | None) -> OutcomeFold:
        train, test = cells.parted(number)
        y = cells.labels[train]
        if y.min(initial=1.0) == y.max(initial=0.0):
            raise DataError(
                "Expected training rows of both labels in every fold, got those of one in some. Choose folds by class, "
                "or fewer of them."
            )
        return cls(cells.rows(train), y, cells.A[test], cells.labels[test])

    @property
    def constant(self) -> float:
        return Logistic().eta(float(self.y.mean()))

    def error(self, coef: Array, intercept: float) -> float:
        """The mean log loss of the rows that it is tested by; 0 without any."""
        return _log_loss(self.held_y, self.held @ coef + intercept)

    def alphas(self, config: RunConfig, ratio: float, count: int) -> Array:
        """As `tuning.follow` has them for a table of cells, but for their end."""
        rows, loss, mean = self.rows, Logistic(), float(self.y.mean())
        descent = RowsDescent(rows, LossOfRows(loss, self.y), self.constant)
        curve = float(loss.steps(self.y[:1], np.array([self.constant])).curvature[0])
        spread = curve / np.sqrt(loss.noise(mean, mean * (1 - mean), 0.0))
        unit = penalty_beside(loss, config.shrink, 1.0, ratio, rows.n)
        return alphas_of_loss(unit, descent.steepest, spread, rows.n >= DEEP * rows.width, count)


class OutcomePoint(NamedTuple):
    """One point of a fold: of which mixing ratio, which of its alphas, and what was found there."""

    ratio: int
    place: int
    tested: float
    fitted: float
    certificate: Certificate
    steps: int
    used: npt.NDArray[np.intp]  # places of weights other than 0
    w: Array  # these, standardised and then in the units of the file
    coef: Array
    intercept: float


def tune_sparse_outcome(
    coordinator: Coordinator, config: RunConfig, choice: FoldChoice, l1_ratio: float | Sequence[float],
    alphas: Iterable[float] | None, n_alphas: int | None, timings: Timings, seen: Onlooker = unseen,
) -> TunedLoss:  # fmt: skip
    kind = penalised_as(config.model, config.shrink)
    ratios = checked_ratios(kind, l1_ratio)
    given, about = checked_alphas(kind, alphas, n_alphas)
    points = len(given) if given is not None else n_alphas or USUAL_POINTS
    with timings.stage("ingest"):
        _, yes = two_values(open_table(coordinator, config), config, _split(config))
    with timings.stage("sums"):
        table, found = sparse_cells(coordinator, config, choice)
        labels = (found.labels == yes).astype(np.float64)
        cells = SparseCells(config, choice, found.A, labels, found.cells, found.there)
        most = cells.planned(kind, points, len(ratios))
    with timings.stage("tune"), one_thread:
        whole = OutcomeFold.of(cells, None)
        grids = [whole.alphas(config, ratio, points) if given is None else given for ratio in ratios]
        walked = _walked(cells, config, ratios, grids, most, coordinator.progress, seen)
    said = (
        f"Sparse rows: {table.values:,} values; {len(cells.there):,} columns have one in the training rows, and those "
        "with a weight somewhere on the path are named."
    )
    return _tuned(cells, config, whole, ratios, grids, walked, (said, *about))


def _split(config: RunConfig) -> Split:
    return Split(config.test_every, config.test_fraction, config.seed)


def _walked(
    cells: SparseCells, config: RunConfig, ratios: Sequence[float], grids: Sequence[Array], most: int,
    progress: Progress, seen: Onlooker,
) -> list[list[list[OutcomePoint]]]:  # fmt: skip
    """By fold, all training rows first, then by mixing ratio: the points in order."""
    numbers = [None, *cells.tested]
    found: list[list[list[OutcomePoint]]] = [[[] for _ in grids] for _ in numbers]
    errors, kept = np.full((len(numbers) - 1, len(grids[0])), np.nan), np.full(len(grids[0]), np.nan)

    def begin(place: int) -> Iterator[OutcomePoint]:
        return _points(OutcomeFold.of(cells, numbers[place]), config, ratios, grids)

    total = len(numbers) * sum(map(len, grids))
    for done, (place, point) in enumerate(in_turns(begin, len(numbers), most), 1):
        found[place][point.ratio].append(point)
        if point.ratio == 0 and place:
            errors[place - 1, point.place] = point.tested
        elif point.ratio == 0:
            kept[point.place] = len(point.used)
        progress(STAGE, done / total)
        seen(CurveSoFar(grids[0], errors, kept))
    return found


def _points(
    fold: OutcomeFold, config: RunConfig, ratios: Sequence[float], grids: Sequence[Array]
) -> Iterator[OutcomePoint]:
    loss, rows = Logistic(), fold.rows
    for i, (ratio, grid) in enumerate(zip(ratios, grids, strict=True)):
        descent, before = RowsDescent(rows, LossOfRows(loss, fold.y), fold.constant, CLOSE), 0
        for place, alpha in enumerate(grid.tolist()):
            found = descent.to(penalty_beside(loss, config.shrink, alpha, ratio, rows.n))
            used, fitted = np.flatnonzero(found.w), _log_loss(fold.y, descent.at.eta)
            yield OutcomePoint(
                i, place, fold.error(found.coef, found.intercept), fitted, found.certificate, found.steps - before,
                used, found.w[used], found.coef[used], found.intercept,
            )  # fmt: skip
            before = found.steps


def _tuned(
    cells: SparseCells, config: RunConfig, whole: OutcomeFold, ratios: Sequence[float], grids: Sequence[Array],
    walked: Sequence[Sequence[Sequence[OutcomePoint]]], notes: Sequence[str],
) -> TunedLoss:  # fmt: skip
    own, *folds = walked
    points = [point for fold in walked for path in fold for point in path]
    anywhere = np.zeros(whole.rows.width, bool)
    for point in (point for path in own for point in path):
        anywhere[point.used] = True
    names, columns = cells.named(anywhere)
    place = np.zeros(whole.rows.width, np.intp)
    place[columns] = np.arange(len(columns))
    paths = tuple(
        _path(config, ratio, grid, path, place, len(columns))
        for ratio, grid, path in zip(ratios, grids, own, strict=True)
    )
    curves = tuple(
        CrossValidation(grid, np.array([[point.tested for point in fold[i]] for fold in folds]))
        for i, grid in enumerate(grids)
    )
    loose = sum(point.certificate.relative > SETTLED for point in points)
    nulls = tuple(_log_loss(y, np.full(len(y), whole.constant)) for y in (whole.y, whole.held_y))
    return TunedLoss(
        tuple(names), paths, curves, max((p.certificate for p in points), key=lambda one: one.relative),
        tuple(np.array([point.fitted for point in path]) for path in own),
        tuple(np.array([point.tested for point in path]) for path in own),
        cells.target, cells.held, cells.choice, (*notes, *([LOOSE.format(loose)] if loose else [])), config.shrink,
        sum(point.steps for point in points), LOG_LOSS, (nulls[0], nulls[1]),
    )  # fmt: skip


def _path(
    config: RunConfig,
    ratio: float,
    grid: Array,
    points: Sequence[OutcomePoint],
    place: npt.NDArray[np.intp],
    width: int,
) -> Path:
    W, coef = np.zeros((2, len(grid), width))
    for i, point in enumerate(points):
        W[i, place[point.used]], coef[i, place[point.used]] = point.w, point.coef
    intercepts = np.array([point.intercept for point in points])
    return Path(config.model, ratio, grid, W, coef, intercepts, tuple(point.certificate for point in points))


def _log_loss(y: Array, eta: Array) -> float:
    return float(Logistic().at(y, eta).value.mean()) if len(y) else 0.0
