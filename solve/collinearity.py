"""Which columns go together, from the small problem that is equal to all rows; sees no row."""

from __future__ import annotations

import numpy as np

from shoal.models import Array
from shoal.results.collinearity import Collinearity, ColumnGroup
from shoal.solve.inference import variance_inflation
from shoal.solve.least_squares import LeastSquares

MOST = 200  # columns up to which it is looked at: more take longer than the fit
ALIKE = 0.9  # correlation from which on two columns say nearly the same


def collinearity(problem: LeastSquares, names: list[str]) -> Collinearity | None:
    """Inflation of each column and groups of those that go together; None for one column, or for very many."""
    if not 2 <= len(names) <= MOST:
        return None
    inflated = [float(value) if np.isfinite(value) else None for value in variance_inflation(problem)]
    return Collinearity(dict(zip(names, inflated, strict=True)), tuple(groups_of(correlations(problem), names)))


def correlations(problem: LeastSquares) -> Array:
    """(p, p) of the design columns; 0 where one does not vary."""
    unit = problem.R / np.where(problem.norms > 0, problem.norms, 1.0)
    found: Array = unit.T @ unit
    return found


def groups_of(C: Array, names: list[str]) -> list[ColumnGroup]:
    """Columns that a chain of high correlations joins, in the order of the design."""
    joined = np.abs(C) >= ALIKE
    np.fill_diagonal(joined, False)
    left, found = set(np.flatnonzero(joined.any(axis=1)).tolist()), []
    while left:
        group, new = set[int](), {min(left)}
        while new:
            group |= new
            new = {int(j) for i in new for j in np.flatnonzero(joined[i])} - group
        left -= group
        places = sorted(group)
        largest = float(np.abs(np.where(joined, C, 0.0)[np.ix_(places, places)]).max())
        found.append(ColumnGroup(tuple(names[place] for place in places), min(largest, 1.0)))
    return found
