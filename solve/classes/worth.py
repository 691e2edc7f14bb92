"""How well probabilities tell several classes apart: from counts of calls, and rows in order; sees no file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.models import Array
from shoal.solve.ranking import area_under_roc


def of_calls(calls: Array) -> dict[str, float | None]:
    """Scores of counts (K, K): one line for each class that rows are, one column for each that they are called.

    Means over classes leave out those that no row has, as scikit-learn does; F1 counts one that is called by mistake.
    """
    rows, called, right = calls.sum(axis=1), calls.sum(axis=0), np.diag(calls)
    there, either = rows > 0, (rows > 0) | (called > 0)
    total = float(rows.sum())
    if not total:
        return {"accuracy": None, "balanced_accuracy": None, "f1": None}
    f1 = 2 * right[either] / (rows + called)[either]
    return {
        "accuracy": float(right.sum()) / total,
        "balanced_accuracy": float((right[there] / rows[there]).mean()),
        "f1": float(f1.mean()),
    }


def of_one_call(calls: Array, place: int) -> dict[str, float | None]:
    """The same of always predicting one class."""
    known = np.zeros_like(calls)
    known[:, place] = calls.sum(axis=1)
    return of_calls(known)


def macro_area(ranked: Sequence[tuple[Array, Array]]) -> float | None:
    """The mean over classes of the area under the ROC curve of each against all others; None where one has no rows."""
    areas = [area_under_roc(no, yes) for no, yes in ranked]
    known = [area for area in areas if area is not None]
    return float(np.mean(known)) if areas and len(known) == len(areas) else None
