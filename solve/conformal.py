"""Prediction intervals by split conformal: how far off the model was in rows that it was not fitted to.

Of m such sizes of residuals, the ceil((m + 1) level)-th smallest is a half-width that a new row, which comes about
like these, exceeds with a chance of at most 1 - level (Vovk et al. 2005; Lei et al. 2018). Who collects them is
`passes.blocks.Score`, in the pass that every fit makes; what the interval means in words is in `intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from shoal.errors import ConfigError, StateError
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.results.fit import BandLine, Bands, PredictionInterval
from shoal.solve.intervals import meaning

SETS = "split conformal sets"  # the method of classes
ROUNDING = 1e-12  # of sums of weights
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
NO_TEST_ROWS = (
    "No rows were kept for testing, so nothing says how far off predictions are. Train the model again with some "
    "rows kept for testing (test_every: 5)."
)
NO_ROWS_SEEN = (
    "This model was refitted from sums, without a look at the rows. Fit it anew to have prediction intervals."
)
FROM_BEFORE = "This model was made before there were prediction intervals. Train it again to have them."


@dataclass(frozen=True)
class OutsideLines:
    """Of held-out rows (m,): how far outside of two lines each is (below 0: inside), how far the second line is above
    the first, and the weights of the rows, where they have some."""

    outside: Array
    gap: Array
    weights: Array | None = None

    @classmethod
    def together(cls, parts: Sequence[OutsideLines]) -> OutsideLines:
        weights = [part.weights for part in parts if part.weights is not None]
        return cls(
            np.concatenate([np.zeros(0), *(part.outside for part in parts)]),
            np.concatenate([np.zeros(0), *(part.gap for part in parts)]),
            np.concatenate(weights) if weights else None,
        )


def half_width(sizes: Array, level: float) -> float | None:
    """The exact conformal quantile of |residuals| in order; None where there are too few for that level."""
    rank = rank_of(len(sizes), level)
    return float(sizes[rank - 1]) if rank <= len(sizes) else None


def weighted_half_width(sizes: Array, weights: Array, one: float, level: float) -> float | None:
    """The same of |residuals| in order that count as their weights say, where a new row counts for `one`
    (Tibshirani et al. 2019); with whole weights and one = 1 as if each came so many times."""
    upto = np.cumsum(weights)
    place = int(np.searchsorted(upto, level * (float(upto[-1]) + one) * (1 - ROUNDING))) if len(upto) else 0
    return float(sizes[place]) if place < len(sizes) else None


def between(low: Array, high: Array, correction: float) -> tuple[Array, Array]:
    """The ends of intervals about rows at two quantile lines: in their order, moved apart by the correction. Where that
    moves them past each other, none of the calibrating rows' kind is there, and both ends are the middle."""
    lower, upper = np.minimum(low, high) - correction, np.maximum(low, high) + correction
    middle = (lower + upper) / 2
    return np.minimum(lower, middle), np.maximum(upper, middle)


def bands_at(level: float, lines: tuple[BandLine, BandLine], seen: OutsideLines, repeats: bool) -> Bands | None:
    """Conformalised quantile regression (Romano, Patterson and Candes 2019): of m held-out rows, the
    ceil((m + 1) level)-th smallest max(low - y, y - high) is how far the lines are moved apart; None where there are
    too few rows for that level."""
    order = np.argsort(seen.outside, kind="stable")
    outside, rows = seen.outside[order], len(order)
    if seen.weights is None:
        correction = half_width(outside, level)
    else:
        own = seen.weights[order]
        rows, one = (round(float(own.sum())), 1.0) if repeats else (rows, float(own.mean()) if rows else 1.0)
        correction = weighted_half_width(outside, own, one, level)
    if correction is None:
        return None
    gap = np.maximum(np.abs(seen.gap) + 2 * correction, 0.0)
    narrow, wide = np.quantile(gap, (0.1, 0.9)).tolist()
    mean, crossed = (float(np.average(part, weights=seen.weights)) for part in (gap, seen.gap < 0))
    return Bands(level, rows, correction, *lines, mean, narrow, wide, crossed)


def rank_of(rows: int, level: float) -> int:
    return math.ceil((rows + 1) * level)


def prediction_interval(
    parts: Sequence[Array], test_rows: int, test_rows_chose: bool = False, weights: Sequence[Array] = (),
    repeats: bool = False,
) -> PredictionInterval:  # fmt: skip
    """What a report says: `rows` that calibrate, `half_widths` by level (None: too few rows), `meaning`, `note`.

    `parts` are the |residuals| of held-out rows; `test_rows_chose`: whether they decided when training stopped;
    `weights` of these rows, if they have some, which may mean that each is so many of them.
    """
    sizes = np.concatenate([np.zeros(0), *parts])
    rows = len(sizes)
    if weights and rows:
        own, order = np.concatenate(list(weights)), np.argsort(sizes, kind="stable")
        sizes, own = sizes[order], own[order]
        rows, one = (round(float(own.sum())), 1.0) if repeats else (rows, float(own.mean()))
        widths = {str(level): weighted_half_width(sizes, own, one, level) for level in LEVELS}
    else:
        sizes = np.sort(sizes)
        widths = {str(level): half_width(sizes, level) for level in LEVELS}
    note = _note(rows, test_rows, widths, test_rows_chose)
    return PredictionInterval("split conformal", rows, widths, meaning("conformal"), note)


def class_sets(
    parts: Sequence[Array], test_rows: int, weights: Sequence[Array] = (), repeats: bool = False
) -> PredictionInterval:
    """Sets of several classes: `parts` are 1 less the probability of the class that came, in held-out rows. A set has
    the likeliest class and all others whose own size is usual, so that it is never empty."""
    found = prediction_interval(parts, test_rows, False, weights, repeats)
    return replace(found, method=SETS, meaning=meaning("conformal classes"))


def prediction_sets(p: Array, no: Array, yes: Array, test_rows: int, per_row: float = 1.0) -> PredictionInterval:
    """Sets of classes by the same rule: of held-out rows, the size is 1 less the probability of the true class.

    p (k,): probabilities of the yes in test rows; no, yes (k,): how many of these rows are so, or what they count for,
    where a new row counts for `per_row`. `half_widths` are the largest sizes that are taken for usual: a set has the
    likelier class, and the other one too where the likelier has no higher probability than that. So the true class is
    in it wherever its own size is usual, and no set is empty.
    """
    sizes, counts = np.concatenate((p, 1 - p)), np.concatenate((no, yes))
    order = np.argsort(sizes, kind="stable")
    sizes, counts = sizes[order], counts[order]
    widths = {str(level): weighted_half_width(sizes, counts, per_row, level) for level in LEVELS}
    rows = round(float(counts.sum()) / per_row)
    return PredictionInterval(SETS, rows, widths, meaning("conformal set"), _note(rows, test_rows, widths, False))


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


def half_width_of(said: PredictionInterval | None, level: float, bands: Bands | None = None) -> float:
    """The half-width of a model's prediction intervals at a level, or a sentence why there is none; `bands` has the
    level of those that follow the rows."""
    if str(level) not in {str(one) for one in LEVELS}:
        known = sorted({*LEVELS, *([bands.level] if bands else [])})
        meant = f" Did you mean {level / 100:g}?" if level / 100 in known else ""
        raise ConfigError(
            f"Expected an interval of {', '.join(map(str, known[:-1]))} or {known[-1]}, got {level!r}. "
            f"A model keeps these levels.{meant}"
        )
    if not said:
        raise StateError(FROM_BEFORE)
    width = said.half_widths.get(str(level))
    if width is None:
        raise StateError(f"There is no prediction interval of {100 * level:g} %. {said.note}")
    return float(width)
