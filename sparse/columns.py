"""How the columns of a sparse table are centred and scaled by its training rows, from a pass over its blocks each for
means and spreads; no block is kept, so that the table may be larger than the memory. Rows are multiplied elsewhere.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.data.splits import Split
from shoal.errors import DataError
from shoal.lazy.classes import dataclass
from shoal.models import Array, StoredPlaces
from shoal.solve.least_squares import Standardisation
from shoal.sparse.table import SparseTable

TOO_LARGE = "Expected values whose squares can be summed, got some over about 1e150. Divide them first."


@dataclass(frozen=True, eq=False)
class SparseColumns:
    """The columns that have a value in a training row, p of them, in the units of a model of these.

    A standardised value is (a - shift) inverse - centre: columns without zeros are stored about their mean, so that
    those far from zero lose no digits, and have no centre left.
    """

    there: npt.NDArray[np.intp]  # (p,) indices as the file has them
    places: StoredPlaces  # of every index of the file: which of the p it is, -1 for none
    units: Standardisation
    shift: Array
    inverse: Array  # 1 / scale, 0 for a column that is constant beside an intercept
    centre: Array
    n: float
    y_scatter: float

    @classmethod
    def of(cls, table: SparseTable, split: Split, intercept: bool, standardize: bool) -> SparseColumns:
        counts, total, rows, labels = np.zeros(table.columns, np.int64), np.zeros(table.columns), 0, 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for part, train in table.trained(split):
                own = np.repeat(train, part.counts)
                indices = part.indices[own]
                counts += np.bincount(indices, minlength=table.columns)
                total += np.bincount(indices, part.values[own], table.columns)
                rows, labels = rows + int(train.sum()), labels + float(part.labels[train].sum())
            n = float(max(rows, 1))
            mean, y_mean = total / n, labels / n
            about, y_about = np.zeros(table.columns), 0.0
            for part, train in table.trained(split):
                own = np.repeat(train, part.counts)
                indices = part.indices[own]
                about += np.bincount(indices, (part.values[own] - mean[indices]) ** 2, table.columns)
                y_about += float(((part.labels[train] - y_mean) ** 2).sum())
            about += (n - counts) * mean**2
        there = np.flatnonzero(counts)
        if not (np.isfinite(about).all() and np.isfinite(y_about)):
            raise DataError(TOO_LARGE)
        spread = np.append(about[there], y_about)
        units = Standardisation.of_spread(n, np.append(mean[there], y_mean), spread, intercept, standardize)
        places = np.full(table.columns, -1, np.int32)
        places[there] = np.arange(len(there), dtype=np.int32)
        shift = np.where((counts[there] == rows) & intercept, mean[there], 0.0)
        inverse = 1 / units.scale
        inverse[units.constant & intercept] = 0.0
        y_scatter = y_about + (0.0 if intercept else n * y_mean**2)
        return cls(there, places, units, shift, inverse, (units.centre - shift) * inverse, float(rows), y_scatter)
