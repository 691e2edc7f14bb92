"""Sums over the rows of each cell, and the problem of each fold from them, with its own imputation, levels and units;
no rows. The errors of folds are in `curve`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from shoal.data.columns import design_encoding, fills_for
from shoal.data.encoding import Encoding, mapped, matrix_between
from shoal.data.terms import Number
from shoal.errors import ConfigError, DataError, StateError
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.solve.least_squares import LeastSquares, Standardisation, stack, triangle
from shoal.solve.moments import Moments, merge_all
from shoal.whatif.folds import FoldChoice


def instead(features: Sequence[str], before: str, target: str) -> tuple[str, ...]:
    """The columns to use where another target takes the place of the one `before`, which becomes one of them; none
    were named where all are used."""
    named = dict.fromkeys((*features, before)) if features else ()
    return tuple(name for name in named if name != target)


@dataclass(frozen=True, eq=False)
class Factors:
    """A triangle (q + 1, q + 1) for each cell, of its rows [1, z - origin] with z = (base terms..., target).

    They say what moments say with twice the digits; made where columns nearly depend on one another.
    """

    origin: Array
    triangles: tuple[Array, ...]

    def take(self, places: Sequence[int]) -> Factors:
        columns = [0, *(1 + place for place in places)]
        return Factors(self.origin[list(places)], tuple(T[:, columns] for T in self.triangles))

    @cached_property
    def _before(self) -> tuple[Array, ...]:
        """For each cell the triangle of it and all before it."""
        return tuple(accumulate(self.triangles, stack))

    @cached_property
    def _after(self) -> tuple[Array, ...]:
        """For each cell the triangle of it and all after it."""
        return tuple(accumulate(self.triangles[::-1], stack))[::-1]

    def _merged(self, cells: Iterable[int]) -> list[Array]:
        """Few triangles that are equal to those of some cells: folds leave out one or the last of them, so that the
        cells before and after what is left out are stacked once for all folds."""
        chosen, count = set(cells), len(self.triangles)
        first = next((cell for cell in range(count) if cell not in chosen), count)
        last = next((cell for cell in reversed(range(first, count)) if cell not in chosen), first)
        head = [self._before[first - 1]] if first else []
        tail = [self._after[last + 1]] if last + 1 < count else []
        return [*head, *(self.triangles[cell] for cell in range(first, last) if cell in chosen), *tail]

    def rows(self, cells: Iterable[int], base: Encoding, encoding: Encoding, units: Standardisation) -> Array:
        """Rows that are equal to those of some cells, as `units.apply` gives them, but with a column of ones always."""
        S = np.vstack(self._merged(cells))
        columns, A = matrix_between(base, encoding)
        z, start = S[:, 1:-1], self.origin[:-1]
        z, start = (z[:, columns], start[columns]) if A is None else (z @ A.T, A @ start)
        ones = S[:, :1]
        X = (z + ones * (start - units.centre)) / units.scale
        if units.intercept:
            X[:, units.constant] = 0.0  # rounding noise is no signal
        return np.column_stack((ones, X, S[:, -1] + ones[:, 0] * (self.origin[-1] - units.y_mean)))


@dataclass(frozen=True, eq=False)
class CellMoments:
    """What the rows say to all folds: moments of (base terms..., target) of each cell and of the test rows, and the
    medians of columns with gaps over the training rows of each fold (the last entry: of all folds together)."""

    config: RunConfig
    base: Encoding
    choice: FoldChoice
    cells: tuple[Moments, ...]
    held: Moments
    medians: tuple[Mapping[str, float], ...]
    gaps: frozenset[str] = frozenset()  # columns with missing values, the target among them
    factors: Factors | None = None
    places: tuple[int, ...] | None = None  # of these terms and target among those that were summed; None: all of them
    said: tuple[str, ...] = ()  # about the folds

    # ---- what is asked

    @property
    def columns(self) -> list[str]:
        """The columns of the file that predict, in their order."""
        return self.base.columns

    @property
    def targets(self) -> list[str]:
        """Columns that can take the target's place without a look at the rows."""
        if self.base.target in self.gaps:
            return []
        return [t.column for t in self.base.terms if isinstance(t, Number) and t.column not in self.gaps]

    def only(self, columns: Iterable[str]) -> CellMoments:
        """The same rows with some of the columns only."""
        chosen = set(columns)
        unknown = sorted(chosen - set(self.columns))
        if unknown:
            raise ConfigError(f"Expected columns of the study, got '{unknown[0]}'. Check the name.")
        returning = sorted((set(self.columns) - chosen) & self.gaps)
        if self.base.drop_missing and returning:
            raise StateError(
                f"Rows without a value of '{returning[0]}' were dropped, and would count again without that column. "
                "Sum the folds anew without it."
            )
        return self._with(self.base.target, [t for t in self.base.terms if set(t.columns) <= chosen])

    def toward(self, target: str) -> CellMoments:
        """The same rows with another target; the old one becomes one of the columns."""
        if target == self.base.target:
            return self
        if target not in self.targets:
            raise StateError(
                f"Expected a numeric column without gaps as the new target (and none in '{self.base.target}'), got "
                f"'{target}': other rows would count. Sum the folds anew for that target."
            )
        terms = [t for t in self.base.terms if target not in t.columns]
        return self._with(target, [*terms, Number(self.base.target, 0.0)])

    def _with(self, target: str, terms: list[Any]) -> CellMoments:
        places = {term.key: place for place, term in enumerate(self.base.terms)}
        own = places[Number(target, 0.0).key] if target != self.base.target else len(self.base.terms)
        taken = [*(places.get(term.key, len(self.base.terms)) for term in terms), own]
        known = {c: levels for c, levels in self.base.known.items() if any(c in t.columns for t in terms)}
        before = range(len(self.base.terms) + 1) if self.places is None else self.places
        return dataclasses.replace(
            self,
            config=dataclasses.replace(
                self.config, target=target, features=instead(self.config.features, self.config.target, target)
            ),
            base=dataclasses.replace(self.base, terms=tuple(terms), known=known, target=target),
            cells=tuple(cell.take(taken) for cell in self.cells),
            held=self.held.take(taken),
            factors=self.factors.take(taken) if self.factors else None,
            places=tuple(before[place] for place in taken),
        )

    # ---- the problem of each fold

    @property
    def tested(self) -> list[int]:
        """The folds that have rows. One has none where rows by their index are kept for testing, and just these."""
        filled = [fold for fold in range(self.choice.count) if self.cells[self.choice.test_cell(fold)].n > 0]
        if len(filled) == self.choice.count or (self.held.n > 0 and len(filled) >= 2):
            return filled
        raise DataError(
            f"Expected rows in each of the {self.choice.count} folds, got some in {len(filled)} only. "
            "Choose fewer folds."
        )

    def training_cells(self, fold: int | None) -> list[int]:
        return list(range(len(self.cells))) if fold is None else self.choice.training_cells(fold)

    def training(self, fold: int | None) -> tuple[Encoding, Moments]:
        """The design of a fold's training rows and their moments in it; of all rows for None."""
        moments = merge_all(self.cells[c] for c in self.training_cells(fold))
        if not moments.n > 0:
            raise DataError(f"Fold {fold} has no training rows. Choose fewer folds.")
        base, places = self.base.of_fold(fold)
        mean = moments.mean[[*places, -1]]
        fills = fills_for(base, self.config, mean, self.medians[-1 if fold is None else fold])
        encoding, _ = design_encoding(base, self.config, fills, mean[:-1], moments.n)
        return encoding, mapped(moments, self.base, encoding)

    def problem(self, fold: int | None = None) -> tuple[Encoding, LeastSquares]:
        encoding, moments = self.training(fold)
        if self.factors is None:
            problem = LeastSquares.from_moments(moments, self.config.intercept, self.config.standardize)
            return encoding, replace(problem, nonnegative=self.config.nonnegative)
        units = Standardisation.of(moments, self.config.intercept, self.config.standardize)
        rows = self.factors.rows(self.training_cells(fold), self.base, encoding, units)
        T = triangle(rows if units.intercept else rows[:, 1:])
        problem = LeastSquares.from_triangle(T, units, moments.n)
        return encoding, replace(problem, nonnegative=self.config.nonnegative)
