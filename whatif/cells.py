"""Cross-validation from the sums of cells: every fold refitted with its own imputation, levels and units; no rows.

Mean squared errors are averaged over folds without weights; the standard error is sd / sqrt(folds), sd with folds - 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.data.columns import design_encoding, fills_for
from shoal.data.encoding import Encoding, mapped, matrix_between
from shoal.data.terms import Number
from shoal.errors import ConfigError, DataError, StateError
from shoal.models import TINY, Array
from shoal.settings.config import RunConfig
from shoal.solve.least_squares import LeastSquares, Standardisation, needs_data, triangle
from shoal.solve.moments import Moments, merge_all
from shoal.solve.paths import weights_along
from shoal.whatif.folds import FoldChoice


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

    def rows(self, cells: Iterable[int], base: Encoding, encoding: Encoding, units: Standardisation) -> Array:
        """Rows that are equal to those of some cells, as `units.apply` gives them, but with a column of ones always."""
        S = np.vstack([self.triangles[cell] for cell in cells])
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
            config=dataclasses.replace(self.config, target=target),
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
        filled = [fold for fold in range(self.choice.count) if self.cells[self.choice.test_cell(fold)].n >= 1]
        if len(filled) == self.choice.count or (self.held.n >= 1 and len(filled) >= 2):
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
        if moments.n < 1:
            raise DataError(f"Fold {fold} has no training rows. Choose fewer folds.")
        fills = fills_for(self.base, self.config, moments.mean, self.medians[-1 if fold is None else fold])
        encoding, _ = design_encoding(self.base, self.config, fills, moments.mean[:-1])
        return encoding, mapped(moments, self.base, encoding)

    def problem(self, fold: int | None = None) -> tuple[Encoding, LeastSquares]:
        encoding, moments = self.training(fold)
        problem = LeastSquares.from_moments(moments, self.config.intercept, self.config.standardize)
        if self.factors is None or not needs_data(problem):
            return encoding, problem
        units = Standardisation.of(moments, self.config.intercept, self.config.standardize)
        rows = self.factors.rows(self.training_cells(fold), self.base, encoding, units)
        T = triangle(rows if units.intercept else rows[:, 1:])
        return encoding, LeastSquares.from_triangle(T, units, moments.n)

    def test(self, fold: int, encoding: Encoding) -> Moments:
        """The rows that a fold is tested on, in the design of its training rows."""
        return mapped(self.cells[self.choice.test_cell(fold)], self.base, encoding)

    def errors(self, fold: int, encoding: Encoding, problem: LeastSquares, W: Array) -> Array:
        """The mean squared error on the rows that a fold is tested on, for each row of W (m, p)."""
        cell = self.choice.test_cell(fold)
        n = self.cells[cell].n
        if self.factors is None:
            return mean_squares(self.test(fold, encoding), *problem.raw_along(W))
        constant = np.zeros(len(problem.scale), bool)  # what does not vary in training has no weight, but may vary here
        units = Standardisation(problem.centre, problem.scale, constant, problem.y_mean, problem.intercept)
        rows = self.factors.rows([cell], self.base, encoding, units)
        residuals = rows[:, -1:] - rows[:, 1:-1] @ W.T
        return np.asarray(np.einsum("ij,ij->j", residuals, residuals) / n)


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """errors (folds, m): mean squared errors at each alpha, which fall."""

    alphas: Array
    errors: Array

    @property
    def mean(self) -> Array:
        return np.asarray(self.errors.mean(axis=0))

    @property
    def standard_error(self) -> Array:
        size = np.maximum(self.errors.max(axis=0), TINY)  # squares of errors that are squares already may overflow
        return np.asarray((self.errors / size).std(axis=0, ddof=1) * size / np.sqrt(len(self.errors)))

    @property
    def best(self) -> int:
        """The place of the smallest mean error; of equals the strongest penalty."""
        return int(np.argmin(self.mean))

    @property
    def one_se(self) -> int:
        """The place of the strongest penalty whose error is within one standard error of the best."""
        bound = self.mean[self.best] + self.standard_error[self.best]
        return int(np.flatnonzero(self.mean <= bound)[np.argmax(self.alphas[self.mean <= bound])])

    def as_dict(self) -> dict[str, Any]:
        return {"alphas": self.alphas.tolist(), "cv_mean": self.mean.tolist(), "cv_se": self.standard_error.tolist()}


def cross_validate(cells: CellMoments, model: str, alphas: Sequence[float] | Array, l1_ratio: float) -> CrossValidation:
    """The whole path in every fold."""
    errors = [_fold_errors(cells, fold, model, np.asarray(alphas, float), l1_ratio) for fold in cells.tested]
    return CrossValidation(np.asarray(alphas, float), np.array(errors))


def _fold_errors(cells: CellMoments, fold: int, model: str, alphas: Array, l1_ratio: float) -> Array:
    encoding, problem = cells.problem(fold)
    return cells.errors(fold, encoding, problem, weights_along(problem, model, alphas, l1_ratio))


def mean_squares(moments: Moments, coef: Array, intercepts: Array) -> Array:
    """The mean of (y - b - x'w)^2 over the rows of moments of (x..., y), for each row of coef (m, p)."""
    V = np.column_stack((-coef, np.ones(len(coef))))
    within = np.einsum("ij,ij->i", V @ moments.scatter, V) / moments.n
    return np.asarray(np.maximum(within, 0.0) + (V @ moments.mean - intercepts) ** 2)
