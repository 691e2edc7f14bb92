"""Cross-validation from the moments of cells: every fold refitted with its own imputation, levels and units; no rows.

Mean squared errors are averaged over folds without weights; the standard error is sd / sqrt(folds), sd with folds - 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from config import RunConfig
from design import Encoding, design_encoding, fills_for, mapped
from errors import DataError
from folds import FoldChoice
from least_squares import LeastSquares
from models import Array
from moments import Moments, merge_all
from paths import weights_along


@dataclass(frozen=True)
class CellMoments:
    """What the rows say to all folds: moments of (base terms..., target) of each cell and of the test rows, and the
    medians of columns with gaps over the training rows of each fold (the last entry: of all folds together)."""

    config: RunConfig
    base: Encoding
    choice: FoldChoice
    cells: tuple[Moments, ...]
    held: Moments
    medians: tuple[Mapping[str, float], ...]

    def training(self, fold: int | None) -> tuple[Encoding, Moments]:
        """The design of a fold's training rows and their moments in it; of all rows for None."""
        chosen = range(len(self.cells)) if fold is None else self.choice.training_cells(fold)
        moments = merge_all(self.cells[c] for c in chosen)
        if moments.n < 1:
            raise DataError(f"Fold {fold} has no training rows. Choose fewer folds.")
        fills = fills_for(self.base, self.config, moments.mean, self.medians[-1 if fold is None else fold])
        encoding, _ = design_encoding(self.base, self.config, fills, moments.mean[:-1])
        return encoding, mapped(moments, self.base, encoding)

    def problem(self, fold: int | None = None) -> tuple[Encoding, LeastSquares]:
        encoding, moments = self.training(fold)
        return encoding, LeastSquares.from_moments(moments, self.config.intercept, self.config.standardize)

    def test(self, fold: int, encoding: Encoding) -> Moments:
        """The rows that a fold is tested on, in the design of its training rows."""
        return mapped(self.cells[self.choice.test_cell(fold)], self.base, encoding)


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
        return np.asarray(self.errors.std(axis=0, ddof=1) / np.sqrt(len(self.errors)))

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
    errors = [
        _fold_errors(cells, fold, model, np.asarray(alphas, float), l1_ratio) for fold in range(cells.choice.count)
    ]
    return CrossValidation(np.asarray(alphas, float), np.array(errors))


def _fold_errors(cells: CellMoments, fold: int, model: str, alphas: Array, l1_ratio: float) -> Array:
    encoding, problem = cells.problem(fold)
    test = cells.test(fold, encoding)
    if test.n < 1:
        raise DataError(f"Fold {fold} has no rows to test on. Choose fewer folds.")
    return mean_squares(test, *raw_weights(problem, weights_along(problem, model, alphas, l1_ratio)))


def raw_weights(problem: LeastSquares, W: Array) -> tuple[Array, Array]:
    """Weights (m, p) and intercepts (m,) in the units of the file, from those in standardised columns."""
    coef = W / problem.scale
    return coef, problem.y_mean - coef @ problem.centre if problem.intercept else np.zeros(len(W))


def mean_squares(moments: Moments, coef: Array, intercepts: Array) -> Array:
    """The mean of (y - b - x'w)^2 over the rows of moments of (x..., y), for each row of coef (m, p)."""
    V = np.column_stack((-coef, np.ones(len(coef))))
    within = np.einsum("ij,ij->i", V @ moments.scatter, V) / moments.n
    return np.asarray(np.maximum(within, 0.0) + (V @ moments.mean - intercepts) ** 2)
