"""Bins and cubic B-splines as expressions: which piece a value falls into, and a polynomial for each piece. Where the
borders lie is said by whoever asks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.data.shapes.expression import Expression, X, minus, plus, steps, times
from shoal.models import Array

DEGREE = 3


def bin_number(borders: Sequence[float]) -> Expression:
    """0 below the first border, 1 from there to the next, and so on: what is beyond all that was seen is in the first
    or the last bin."""
    return steps(list(borders), [float(i) for i in range(len(borders) + 1)])


def splines(knots: Sequence[float]) -> list[Expression]:
    """The cubic B-splines on these knots, the first and last of which are the borders; straight lines beyond them.

    Knots beyond the borders follow at the distance of the two at the end. The splines add up to 1, so the last is not
    among them: it would say what an intercept says.
    """
    inner = np.asarray(knots, float)
    first, last = inner[1] - inner[0], inner[-1] - inner[-2]
    before = [inner[0] - first * i for i in range(DEGREE, 0, -1)]
    after = [inner[-1] + last * i for i in range(1, DEGREE + 1)]
    t = np.concatenate((before, inner, after))
    count = len(inner) + DEGREE - 2
    return [_spline(t, i, inner) for i in range(count)]


def _spline(t: Array, index: int, knots: Array) -> Expression:
    """One B-spline: a polynomial of the distance to the left end of each piece, a straight line beyond the borders."""
    pieces = [_piece(t, index, DEGREE + place) for place in range(len(knots) - 1)]
    width = float(knots[-1] - knots[-2])
    c = pieces[-1]
    at_end = [float(np.polyval(c[::-1], width)), float(c[1] + 2 * c[2] * width + 3 * c[3] * width**2)]
    below = _polynomial(float(knots[0]), pieces[0][:2].tolist())
    above = _polynomial(float(knots[-1]), at_end)
    inside = [_polynomial(float(left), piece.tolist()) for left, piece in zip(knots[:-1], pieces, strict=True)]
    return steps(knots.tolist(), [below, *inside, above])


def _piece(t: Array, index: int, interval: int) -> Array:
    """The coefficients (4,) of u^0 to u^3, u = x - t[interval], of the B-spline `index` between t[interval] and the
    next knot: by the recursion of de Boor, with polynomials in place of values."""
    parts = [np.array([1.0 if i == interval else 0.0]) for i in range(index, index + DEGREE + 1)]
    for degree in range(1, DEGREE + 1):
        parts = [_blend(t, index + i, degree, t[interval], parts[i], parts[i + 1]) for i in range(len(parts) - 1)]
    return parts[0]


def _blend(t: Array, i: int, degree: int, start: float, left: Array, right: Array) -> Array:
    """(x - t_i) / (t_{i+d} - t_i) left + (t_{i+d+1} - x) / (t_{i+d+1} - t_{i+1}) right, in powers of x - start."""
    rising = np.array([start - t[i], 1.0]) / (t[i + degree] - t[i])
    falling = np.array([t[i + degree + 1] - start, -1.0]) / (t[i + degree + 1] - t[i + 1])
    return np.convolve(rising, left) + np.convolve(falling, right)


def _polynomial(start: float, coefficients: list[float]) -> Expression:
    """By Horner's rule, of the distance to `start`; a number alone where that is all."""
    while len(coefficients) > 1 and coefficients[-1] == 0:
        coefficients = coefficients[:-1]
    u = minus(X, start)
    found: Expression = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        found = plus(times(found, u), coefficient)
    return found
