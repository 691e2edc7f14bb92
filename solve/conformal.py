"""Prediction intervals by split conformal: how far off the model was in rows that it was not fitted to.

Of m such sizes of residuals, the ceil((m + 1) level)-th smallest is a half-width that a new row, which comes about
like these, exceeds with a chance of at most 1 - level (Vovk et al. 2005; Lei et al. 2018). Who collects them is
`passes.blocks.Score`, in the pass that every fit makes; what the interval means in words is in `intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from shoal.errors import ConfigError, StateError
from shoal.models import Array
from shoal.results.fit import PredictionInterval
from shoal.solve.intervals import meaning

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
NO_TEST_ROWS = (
    "No rows were kept for testing, so nothing says how far off predictions are. Train the model again with some "
    "rows kept for testing."
)
NO_ROWS_SEEN = (
    "This model was refitted from sums, without a look at the rows. Fit it anew to have prediction intervals."
)
FROM_BEFORE = "This model was made before there were prediction intervals. Train it again to have them."


def half_width(sizes: Array, level: float) -> float | None:
    """The exact conformal quantile of |residuals| in order; None where there are too few for that level."""
    rank = rank_of(len(sizes), level)
    return float(sizes[rank - 1]) if rank <= len(sizes) else None


def rank_of(rows: int, level: float) -> int:
    return math.ceil((rows + 1) * level)


def prediction_interval(parts: Sequence[Array], test_rows: int, test_rows_chose: bool = False) -> PredictionInterval:
    """What a report says: `rows` that calibrate, `half_widths` by level (None: too few rows), `meaning`, `note`.

    `parts` are the |residuals| of held-out rows; `test_rows_chose`: whether they decided when training stopped.
    """
    sizes = np.sort(np.concatenate([np.zeros(0), *parts]))
    widths = {str(level): half_width(sizes, level) for level in LEVELS}
    note = _note(len(sizes), test_rows, widths, test_rows_chose)
    return PredictionInterval("split conformal", len(sizes), widths, meaning("conformal"), note)


def _note(rows: int, test_rows: int, widths: Mapping[str, float | None], test_rows_chose: bool) -> str | None:
    if not rows:
        return NO_ROWS_SEEN if test_rows else NO_TEST_ROWS
    said = []
    absent = [f"{100 * float(level):g} %" for level, width in widths.items() if width is None]
    if absent:
        few = "row is" if rows == 1 else "rows are"
        said.append(f"{rows} test {few} too few for {' and '.join(absent)}. Keep more rows for testing.")
    if test_rows_chose:
        said.append("The test rows also decided when training stopped, so somewhat fewer rows may lie within.")
    return " ".join(said) or None


def half_width_of(said: PredictionInterval | None, level: float) -> float:
    """The half-width of a model's prediction intervals at a level, or a sentence why there is none."""
    if str(level) not in {str(one) for one in LEVELS}:
        raise ConfigError(
            f"Expected an interval of {', '.join(map(str, LEVELS[:-1]))} or {LEVELS[-1]}, got {level!r}. "
            "A model keeps these levels."
        )
    if not said:
        raise StateError(FROM_BEFORE)
    width = said.half_widths.get(str(level))
    if width is None:
        raise StateError(f"There is no prediction interval of {100 * level:g} %. {said.note}")
    return float(width)
