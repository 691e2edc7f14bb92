"""The choice of a penalty by cross-validation from rows that are held in memory: the walk through all folds.

For tables too wide for sums of all pairs (`wide_choice`) and for sparse rows; the answer is that of `penalty_choice`.
All folds go down their paths together, so that the curve is there from its strong end on while it is worked out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.lazy.classes import dataclass
from shoal.models import Array, Certificate
from shoal.settings.limits import USUAL_POINTS
from shoal.solve.moments import Moments
from shoal.solve.paths import Path
from shoal.solve.rows.along import points_along
from shoal.solve.rows.dense import RowsAtHand
from shoal.utils import Progress, silent
from shoal.whatif.curve import CrossValidation
from shoal.whatif.folds import FoldChoice
from shoal.whatif.penalty_choice import (
    FoldAnswer,
    Tuned,
    checked_alphas,
    checked_ratios,
    curves_of,
    grid_for,
    notes_of,
    worst_of,
)
from shoal.whatif.turns import STRIDE, in_turns

STAGE = "cross-validating"
SETTLED = 1e-6  # relative certificate above which a point is said not to be at its minimum
LOOSE = (
    "{:,} points with weak penalties, those of the folds among them, were left within {:.0e} of their minimum: columns "
    "are too many and too alike to go on in reasonable time. Their errors are those of where they stood."
)


@dataclass(frozen=True, eq=False)
class FoldRows:
    """The training rows of a fold and how its answers are read."""

    rows: RowsAtHand
    still: set[str]  # names of columns that do not vary over them
    error: Callable[[Array, float], float]  # mean square, by weights (p,) and intercept, on the rows for testing
    named: Callable[[NDArray[np.bool_]], tuple[list[str], NDArray[np.intp]]]
    # names and places of the columns that an answer has, from which of them (p,) have a weight anywhere


class RowFolds(Protocol):
    """Who has the rows of folds in memory."""

    @property
    def choice(self) -> FoldChoice: ...

    @property
    def columns(self) -> list[str]: ...

    @property
    def tested(self) -> list[int]:
        """The folds that have rows."""

    @property
    def target(self) -> Moments:
        """Of the target over the training rows."""

    @property
    def held(self) -> Moments:
        """Of the target over the rows kept for testing."""

    def fold(self, number: int | None) -> FoldRows:
        """None: all training rows, and those kept for testing."""

    def planned(self, model: str, points: int, ratios: int) -> int:
        """How many may be open at a time; refused where memory is too short for two."""


class CurveSoFar(NamedTuple):
    """What is worked out of a choice: alphas and errors (folds, m) of the first mixing ratio, NaN where none is yet."""

    alphas: Array
    errors: Array
    kept: Array  # columns with a weight (m,), of all training rows; NaN where that is not known yet

    @property
    def counts(self) -> NDArray[np.intp]:
        """How many alphas each fold has come to."""
        return np.asarray((~np.isnan(self.errors)).sum(axis=1))

    @property
    def known(self) -> int:
        """How many alphas all folds have come to; until all have had a turn, how many at least two have."""
        counts, turn = np.sort(self.counts), min(STRIDE, len(self.alphas))
        return int(counts[0] if counts[0] >= turn else counts[-2] // turn * turn)

    @property
    def curve(self) -> CrossValidation | None:
        """So far, by the folds that have come so far."""
        known = self.known
        there = self.counts >= known
        return CrossValidation(self.alphas[:known], self.errors[there, :known]) if known else None


Onlooker = Callable[[CurveSoFar], None]


def unseen(so_far: CurveSoFar) -> None:
    """For those who wait for the whole."""


class _FoldPoint(NamedTuple):
    """One point of a fold: of which mixing ratio, which of its alphas, and what was found there."""

    ratio: int
    place: int
    error: float
    fitted: float  # the mean squared error on the training rows
    certificate: Certificate
    used: NDArray[np.intp]  # places of weights other than 0
    weights: Array  # these, standardised; none of a fold


class _Table:
    """What one fold has said so far, for each mixing ratio."""

    def __init__(self, grids: Sequence[Array]) -> None:
        self.errors = [np.full(len(grid), np.nan) for grid in grids]
        self.fitted = [np.full(len(grid), np.nan) for grid in grids]
        self.kept = np.full(len(grids[0]), np.nan)
        self.points: list[list[_FoldPoint]] = [[] for _ in grids]

    def add(self, point: _FoldPoint) -> None:
        self.errors[point.ratio][point.place] = point.error
        self.fitted[point.ratio][point.place] = point.fitted
        if point.ratio == 0:
            self.kept[point.place] = len(point.used)
        self.points[point.ratio].append(point)

    @property
    def certificates(self) -> list[Certificate]:
        return [point.certificate for points in self.points for point in points]


def tune_rows(
    folds: RowFolds,
    model: str,
    l1_ratio: float | Sequence[float] = 0.5,
    alphas: Iterable[float] | None = None,
    n_alphas: int | None = None,
    notes: Iterable[str] = (),
    progress: Progress = silent,
    seen: Onlooker = unseen,
) -> Tuned:
    """As `penalty_choice.tune`; `seen` is told after every point what there is so far."""
    ratios = checked_ratios(model, l1_ratio)
    given, about_alphas = checked_alphas(model, alphas, n_alphas)
    points = len(given) if given is not None else n_alphas or USUAL_POINTS
    most = folds.planned(model, points, len(ratios))
    whole = folds.fold(None)
    grids = [grid_for(whole.rows, model, ratio, n_alphas) if given is None else given for ratio in ratios]
    numbers, answers = [None, *folds.tested], dict[int, FoldAnswer]()
    tables = [_Table(grids) for _ in numbers]

    def begin(place: int) -> Iterator[_FoldPoint]:
        number = numbers[place]
        if number is None:
            return _points(whole, model, ratios, grids, with_weights=True)
        return _of_fold(folds, number, model, ratios, grids, tables[place], answers)

    total = len(numbers) * sum(map(len, grids))
    for done, (place, point) in enumerate(in_turns(begin, len(numbers), most), 1):
        tables[place].add(point)
        progress(STAGE, done / total)
        seen(CurveSoFar(grids[0], np.array([one.errors[0] for one in tables[1:]]), tables[0].kept))
    paths, names = _paths(whole, tables[0], model, ratios, grids)
    in_order = {number: answers[number] for number in folds.tested}
    said = notes_of(folds, whole.rows.n, whole.rows.width, whole.still, in_order)
    return Tuned(
        tuple(names), paths, curves_of(grids, in_order), worst_of(paths, in_order), tuple(tables[0].fitted),
        tuple(tables[0].errors), folds.target, folds.held, folds.choice,
        (*notes, *about_alphas, *said, *_about_loose(tables)),
    )  # fmt: skip


def _points(
    fold: FoldRows, model: str, ratios: Sequence[float], grids: Sequence[Array], with_weights: bool = False
) -> Iterator[_FoldPoint]:
    rows = fold.rows
    for i, (ratio, grid) in enumerate(zip(ratios, grids, strict=True)):
        for place, point in enumerate(points_along(rows, model, grid, ratio)):
            used = np.flatnonzero(point.w)
            error = fold.error(*rows.units.raw(point.w))
            kept = (used, point.w[used]) if with_weights else (used[:0], point.w[:0])
            yield _FoldPoint(i, place, error, point.rss / rows.n, point.certificate, *kept)


def _of_fold(
    folds: RowFolds, number: int, model: str, ratios: Sequence[float], grids: Sequence[Array], table: _Table,
    answers: dict[int, FoldAnswer],
) -> Iterator[_FoldPoint]:  # fmt: skip
    """Its rows are there from its first turn to its last."""
    fold = folds.fold(number)
    worst = Certificate("kkt", 0.0, 0.0, "data")
    for point in _points(fold, model, ratios, grids):
        worst = max(worst, point.certificate, key=lambda one: one.relative)
        yield point
    rows = fold.rows
    answers[number] = FoldAnswer(table.errors, worst, not rows.y_scatter > 0, rows.n <= rows.width, fold.still)


def _paths(
    whole: FoldRows, table: _Table, model: str, ratios: Sequence[float], grids: Sequence[Array]
) -> tuple[tuple[Path, ...], list[str]]:
    """Of all training rows, in the columns that the answer names."""
    anywhere = np.zeros(whole.rows.width, bool)
    for point in (point for points in table.points for point in points):
        anywhere[point.used] = True
    names, columns = whole.named(anywhere)
    place = np.zeros(whole.rows.width, np.intp)
    place[columns] = np.arange(len(columns))
    units = whole.rows.units
    chosen = replace(units, centre=units.centre[columns], scale=units.scale[columns], constant=units.constant[columns])
    found = []
    for ratio, grid, points in zip(ratios, grids, table.points, strict=True):
        W = np.zeros((len(grid), len(columns)))
        for w, point in zip(W, points, strict=True):
            w[place[point.used]] = point.weights
        certificates = tuple(point.certificate for point in points)
        found.append(Path(model, ratio, grid, W, *chosen.raw_along(W), certificates))
    return tuple(found), names


def _about_loose(tables: Sequence[_Table]) -> list[str]:
    loose = [one.relative for table in tables for one in table.certificates if one.relative > SETTLED]
    return [LOOSE.format(len(loose), max(loose))] if loose else []
