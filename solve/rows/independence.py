"""Which sparse columns are independent of all others by where their values stand, so that no matrix of them is needed.

Let A v = c 1, as where columns depend on one another beside an intercept. A row without a value says c = 0, and then a
row with a single value that of its column is no part of v: it is taken out, which leaves other rows with one value.
What is left is to be decided by numbers, elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.models import Array

SURELY = 1e-6  # of the norm of its column: a smaller value does not speak for it


def entangled(A: Any, counted: NDArray[np.bool_], norms: Array, intercept: bool) -> NDArray[np.intp]:
    """The columns of A (scipy's csc) that this does not prove independent; rows that are not counted say nothing."""
    rows, width = A.indices, A.shape[1]
    columns = np.repeat(np.arange(width), np.diff(A.indptr))
    heard = counted[rows] & (A.data != 0)
    rows, columns, sizes = rows[heard], columns[heard], np.abs(A.data[heard])
    held = np.bincount(rows, minlength=A.shape[0])
    if intercept and not (counted & (held == 0)).any():
        return np.arange(width)
    loud = sizes >= SURELY * norms[columns]
    left = np.ones(width, bool)
    while len(rows):
        out = columns[loud & (held[rows] == 1)]
        if not len(out):
            break
        left[out] = False
        stays = left[columns]
        held -= np.bincount(rows[~stays], minlength=len(held))
        rows, columns, loud = rows[stays], columns[stays], loud[stays]
    return np.flatnonzero(left)
