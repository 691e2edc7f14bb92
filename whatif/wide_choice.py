"""The choice of a penalty by cross-validation from the rows themselves, for tables too wide for sums of all pairs; the
answer is that of `penalty_choice`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.data.columns import design_encoding, fills_for
from shoal.data.encoding import Encoding
from shoal.errors import DataError, OutOfMemory
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.settings.limits import USUAL_POINTS, memory_for_exact, tuning_bytes
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments
from shoal.solve.rows.dense import WideRows
from shoal.solve.rows.wide import follow_wide
from shoal.utils import available_memory
from shoal.whatif.folds import FoldChoice
from shoal.whatif.penalty_choice import (
    FoldAnswer,
    Tuned,
    checked_alphas,
    checked_ratios,
    curves_of,
    grid_for,
    notes_of,
    still,
    worst_of,
)


@dataclass(frozen=True, eq=False)
class WideCells:
    """All rows (base terms..., target), the cell of each (the last one: rows kept for testing), and the medians of
    columns with gaps over the training rows of each fold (the last entry: of all folds together)."""

    config: RunConfig
    base: Encoding
    choice: FoldChoice
    rows: Array
    cells: npt.NDArray[np.int64]
    medians: tuple[Mapping[str, float], ...]

    @property
    def columns(self) -> list[str]:
        return self.base.columns

    @property
    def tested(self) -> list[int]:
        """The folds that have rows."""
        having = set(self.cells.tolist())
        found = [fold for fold in range(self.choice.count) if self.choice.test_cell(fold) in having]
        if len(found) < 2:
            raise DataError(f"Expected rows in at least 2 folds, got some in {len(found)}. Choose fewer folds.")
        return found

    @property
    def held(self) -> Array:
        return np.asarray(self.rows[self.cells == self.choice.cells])

    def training(self, fold: int | None) -> Array:
        cells = range(self.choice.cells) if fold is None else self.choice.training_cells(fold)
        return np.asarray(self.rows[np.isin(self.cells, list(cells))])

    def problem(self, fold: int | None = None) -> tuple[Encoding, WideRows]:
        """With an imputation, levels and units of its own."""
        rows = self.training(fold)
        if not len(rows):
            raise DataError(f"Fold {fold} has no training rows. Choose fewer folds.")
        mean = rows.mean(axis=0)
        fills = fills_for(self.base, self.config, mean, self.medians[-1 if fold is None else fold])
        encoding, _ = design_encoding(self.base, self.config, fills, mean[:-1], len(rows))
        X, y = self.designed(rows, encoding)
        mean = np.append(X.mean(axis=0), y.mean())
        squares = np.append(((X - mean[:-1]) ** 2).sum(axis=0), ((y - mean[-1]) ** 2).sum())
        config = self.config
        units = Standardisation.of_spread(len(X), mean, squares, config.intercept, config.standardize)
        X -= units.centre
        X /= units.scale
        return encoding, WideRows.of(X, y - units.y_mean, units)

    def designed(self, rows: Array, encoding: Encoding) -> tuple[Array, Array]:
        """Design columns and target of some rows: base columns, less what stands in for missing values otherwise."""
        places = {term.key: i for i, term in enumerate(self.base.terms)}
        columns = [places[term.key] for term in encoding.terms]
        X = rows[:, columns]
        for i, term in enumerate(encoding.terms):
            for key, weight in term.less(self.base.terms[columns[i]], places).items():
                X[:, i] += weight * rows[:, places[key]]
        return X, rows[:, -1].copy()


def tune_wide(
    cells: WideCells,
    model: str,
    l1_ratio: float | Sequence[float] = 0.5,
    alphas: Iterable[float] | None = None,
    n_alphas: int | None = None,
    notes: Iterable[str] = (),
) -> Tuned:
    """As `penalty_choice.tune`, fold by fold."""
    ratios = checked_ratios(model, l1_ratio)
    given, about_alphas = checked_alphas(model, alphas, n_alphas)
    points = len(given) if given is not None else n_alphas or USUAL_POINTS
    check_memory(len(cells.rows), len(cells.base.terms), points, len(ratios), cells.rows.nbytes)
    encoding, whole = cells.problem()
    grids = [grid_for(whole, model, ratio, n_alphas) if given is None else given for ratio in ratios]
    paths = tuple(follow_wide(whole, model, grid, ratio) for ratio, grid in zip(ratios, grids, strict=True))
    folds = {number: _answer(cells, number, model, ratios, grids) for number in cells.tested}
    held = cells.designed(cells.held, encoding)
    return Tuned(
        tuple(encoding.names),
        paths,
        curves_of(grids, folds),
        worst_of(paths, folds),
        tuple(_errors(whole.X, whole.y, path.W, np.zeros(len(path.W))) for path in paths),
        tuple(_errors(*held, path.coef, path.intercepts) for path in paths),
        Moments.of(cells.training(None)[:, -1:]),
        Moments.of(held[1][:, None]) if len(held[1]) else Moments.empty(1),
        cells.choice,
        (*notes, *about_alphas, *notes_of(cells, whole, encoding.names, folds)),
    )


def check_memory(rows: int, width: int, points: int, ratios: int, held: int = 0) -> None:
    """What such a choice would take besides the bytes that are `held` already is refused before it is made."""
    free, need = memory_for_exact(available_memory()), tuning_bytes(rows, width, points, ratios) - held
    if need <= free:
        return
    least = tuning_bytes(rows, width, 1) - held
    ways = "fewer columns, fewer alphas and mixing ratios," if least <= free else "fewer columns"
    raise OutOfMemory(
        f"A path of {points * ratios:,} penalties for {width:,} columns of {rows:,} rows needs {need / 1e6:,.0f} MB, "
        f"but only {free / 1e6:,.0f} MB may be used. Use {ways} or more memory."
    )


def _answer(cells: WideCells, number: int, model: str, ratios: Sequence[float], grids: Sequence[Array]) -> FoldAnswer:
    encoding, rows = cells.problem(number)
    X, y = cells.designed(cells.rows[cells.cells == cells.choice.test_cell(number)], encoding)
    paths = [follow_wide(rows, model, grid, ratio) for ratio, grid in zip(ratios, grids, strict=True)]
    errors = [_errors(X, y, path.coef, path.intercepts) for path in paths]
    worst = max((path.worst for path in paths), key=lambda one: one.relative)
    return FoldAnswer(errors, worst, not rows.y_scatter > 0, rows.n <= rows.width, still(rows, encoding.names))


def _errors(X: Array, y: Array, coef: Array, intercepts: Array) -> Array:
    """The mean squared error at each point of a path; 0 without rows."""
    residuals = y[:, None] - X @ coef.T - intercepts
    found: Array = np.einsum("ij,ij->j", residuals, residuals) / max(len(y), 1)
    return found
