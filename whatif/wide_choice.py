"""The rows of a table too wide for sums of all pairs, fold by fold, as `rows_choice` chooses a penalty from them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from shoal.data.columns import design_encoding, fills_for
from shoal.data.encoding import Encoding
from shoal.errors import DataError, OutOfMemory
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.settings.limits import memory_for_exact, tuning_bytes
from shoal.solve.least_squares import Standardisation
from shoal.solve.moments import Moments
from shoal.solve.rows.dense import WideRows
from shoal.utils import available_memory
from shoal.whatif.folds import FoldChoice
from shoal.whatif.penalty_choice import still
from shoal.whatif.rows_choice import FoldRows

OPEN = 4  # copies of all rows that one more fold on its way holds, measured
PIECE = 64  # rows at a time


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
    said: tuple[str, ...] = ()  # about the folds

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
    def target(self) -> Moments:
        return Moments.of(self.rows[self.cells < self.choice.cells, -1:])

    @property
    def held(self) -> Moments:
        kept = self.rows[self.cells == self.choice.cells, -1:]
        return Moments.of(kept) if len(kept) else Moments.empty(1)

    def fold(self, number: int | None) -> FoldRows:
        """With an imputation, levels and units of its own."""
        choice, config = self.choice, self.config
        cells = range(choice.cells) if number is None else choice.training_cells(number)
        rows = self.rows[np.isin(self.cells, list(cells))]
        if not len(rows):
            raise DataError(f"Fold {number} has no training rows. Choose fewer folds.")
        base, places = self.base.of_fold(number)
        mean = rows.mean(axis=0)[[*places, -1]]
        fills = fills_for(base, config, mean, self.medians[-1 if number is None else number])
        encoding, _ = design_encoding(base, config, fills, mean[:-1], len(rows))
        X, y = self.designed(rows, encoding)
        del rows
        mean = np.append(X.mean(axis=0), y.mean())
        squares = np.append(_squares_about(X, mean[:-1]), ((y - mean[-1]) ** 2).sum())
        units = Standardisation.of_spread(len(X), mean, squares, config.intercept, config.standardize)
        X -= units.centre
        X /= units.scale
        found = WideRows.of(X, y - units.y_mean, units)
        cell = choice.cells if number is None else choice.test_cell(number)
        tested = self.designed(self.rows[self.cells == cell], encoding)
        return FoldRows(found, still(found, encoding.names), partial(_error, *tested), partial(_all, encoding.names))

    def planned(self, model: str, points: int, ratios: int) -> int:
        spare = check_memory(len(self.rows), len(self.base.terms), points, ratios, self.rows.nbytes)
        return 2 + spare // (OPEN * max(self.rows.nbytes, 1))

    def designed(self, rows: Array, encoding: Encoding) -> tuple[Array, Array]:
        """Design columns and target of some rows: base columns, less what stands in for missing values otherwise."""
        places = {term.key: i for i, term in enumerate(self.base.terms)}
        columns = [places[term.key] for term in encoding.terms]
        X = rows[:, columns]
        for i, term in enumerate(encoding.terms):
            for key, weight in term.less(self.base.terms[columns[i]], places).items():
                X[:, i] += weight * rows[:, places[key]]
        return X, rows[:, -1].copy()


def check_memory(rows: int, width: int, points: int, ratios: int, held: int = 0) -> int:
    """What such a choice would take besides the bytes that are `held` already is refused before it is made; what is
    free beyond it."""
    free, need = memory_for_exact(available_memory()), tuning_bytes(rows, width, points, ratios) - held
    if need <= free:
        return free - need
    least = tuning_bytes(rows, width, 1) - held
    ways = "fewer columns, fewer alphas and mixing ratios," if least <= free else "fewer columns"
    raise OutOfMemory(
        f"A path of {points * ratios:,} penalties for {width:,} columns of {rows:,} rows needs {need / 1e6:,.0f} MB, "
        f"but only {free / 1e6:,.0f} MB may be used. Use {ways} or more memory."
    )


def _all(names: list[str], used: npt.NDArray[np.bool_]) -> tuple[list[str], npt.NDArray[np.intp]]:
    """An answer names all columns, whether they have a weight or not."""
    return names, np.arange(len(used))


def _squares_about(X: Array, mean: Array) -> Array:
    """Sums of squares of the columns, some rows at a time: no copy of all."""
    total: Array = np.zeros_like(mean)
    for start in range(0, len(X), PIECE):
        away = X[start : start + PIECE] - mean
        total += np.einsum("ij,ij->j", away, away)
    return total


def _error(X: Array, y: Array, coef: Array, intercept: float) -> float:
    """The mean squared error; 0 without rows."""
    used = np.flatnonzero(coef)
    few = 4 * len(used) < len(coef)
    residual = y - intercept - (X[:, used] @ coef[used] if few else X @ coef)
    return float(residual @ residual) / max(len(y), 1)
