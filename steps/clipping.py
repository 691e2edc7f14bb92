"""Gradients that are too long made shorter: at once, or piece by piece wherever the pieces lie; no step rule is here.

    g+ = g * limit / |g|  where |g| > limit,        |g| = m sqrt(sum over pieces of |g_piece / m|^2),  m = max |g_i|

so that squares do not overflow. The squares of the pieces are added in their order: the bits are those of the pieces,
not of who has them; a vector of one piece has those of one sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from shoal.models import Array
from shoal.steps.optimizers import unbounded


def peak_of(gradient: Array) -> float:
    """m of a part; that of several is the largest of them, or NaN."""
    return float(np.abs(gradient).max(initial=0.0))


def squares_of(piece: Array, peak: float) -> float:
    """|g_piece / m|^2."""
    unit = piece / peak
    return float((unit * unit).sum())


def shortening(limit: float, peak: float, squares: Iterable[float]) -> float:
    """What g / m is to be multiplied by; 0 where the gradient may stay as it is.

    One that is not finite stays as it is: a run that diverges must not look healthy.
    """
    total = 0.0
    for piece in squares:
        total += piece
    length = math.sqrt(total) if total >= 0 else math.nan
    return limit / length if length * peak > limit and math.isfinite(length) else 0.0


@unbounded
def clipped(gradient: Array, limit: float, ends: Sequence[int] = ()) -> Array:
    """The gradient, shortened to the Euclidean norm `limit` where it is longer; 0 means no limit.

    ends: where the pieces of the vector end; one piece without.
    """
    peak = peak_of(gradient) if limit else 0.0
    if peak == 0:
        return gradient
    pieces = np.split(gradient, list(ends[:-1])) if len(ends) > 1 else [gradient]  # most vectors are short
    factor = shortening(limit, peak, (squares_of(piece, peak) for piece in pieces))
    return shortened(gradient, peak, factor)


def shortened(gradient: Array, peak: float, factor: float) -> Array:
    """The gradient, or a part of it, by a factor of `shortening`."""
    return gradient / peak * factor if factor else gradient
