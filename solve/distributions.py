"""Tails of Student's t and of F, and the quantile of t, for few values: scipy.special takes longer than a small fit.

Where degrees of freedom or values are many, scipy's own are used. Which test is made of them is in `inference`.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from shoal.models import Array

FEW = 64  # values that are worked out one by one
FREE = 1e5  # degrees of freedom up to which the fraction below is short
STEPS = 20_000  # of the fraction; its length grows with the root of the degrees of freedom
EXACT = 1e-16


def student_tail(df: float, t: Array) -> Array:
    """P(T > |t|), (k,) for t (k,); NaN for NaN."""
    if df > FREE or len(t) > FEW:
        from scipy.special import stdtr

        found: Array = stdtr(df, -np.abs(t))
        return found
    return np.array([_student_tail(df, float(value)) for value in t])


def student_quantile(df: float, p: float) -> float:
    """The t with P(T <= t) = p, for p above a half."""
    if df > FREE or not 0.5 < p < 1:
        from scipy.special import stdtrit

        return float(stdtrit(df, p))
    tail, t = 1 - p, _first_guess(df, p)
    for _ in range(100):  # Newton on the logarithm of the tail, which is concave: it comes from one side
        now = _student_tail(df, t)
        density = math.exp(_log_term(df / 2, 0.5, df / (df + t * t), t * t / (df + t * t))) / t
        step = now * math.log(now / tail) / density
        t += step
        if abs(step) <= 4 * EXACT * t:
            break
    return t


def f_tail(d1: float, d2: float, f: float) -> float:
    """P(F > f)."""
    if max(d1, d2) > FREE:
        from scipy.special import fdtrc

        return float(fdtrc(d1, d2, f))
    whole = d2 + d1 * f
    return _beta(d2 / 2, d1 / 2, d2 / whole, d1 * f / whole)


def _student_tail(df: float, t: float) -> float:
    if math.isnan(t):
        return math.nan
    if math.isinf(t):
        return 0.0
    whole = df + t * t
    return _beta(df / 2, 0.5, df / whole, t * t / whole) / 2


def _first_guess(df: float, p: float) -> float:
    """From the normal quantile by two terms of Cornish and Fisher; below 2 degrees of freedom the forms of 1 and 2."""
    if df < 2:
        return math.tan(math.pi * (p - 0.5)) if df <= 1 else 2 * (p - 0.5) * math.sqrt(2 / (4 * p * (1 - p)))
    z = NormalDist().inv_cdf(p)
    return z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)


# ------------------------------------------------------------------ the incomplete beta function


def _beta(a: float, b: float, x: float, y: float) -> float:
    """I_x(a, b) with y = 1 - x, both given so that neither loses digits."""
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _lower(b, a, y, x)
    return _lower(a, b, x, y)


def _lower(a: float, b: float, x: float, y: float) -> float:
    return math.exp(_log_term(a, b, x, y)) * _fraction(a, b, x, y)


def _log_term(a: float, b: float, x: float, y: float) -> float:
    """log x^a y^b / B(a, b), by distances from the peak (Loader 2000): large terms do not cancel."""
    n = a + b
    off = x * b - y * a  # x n - a
    peaks = a * _log_ratio(off / a, x * n / a) + b * _log_ratio(-off / b, y * n / b)
    return peaks + 0.5 * math.log(a * b / (2 * math.pi * n)) + _stirling(n) - _stirling(a) - _stirling(b)


def _log_ratio(off: float, ratio: float) -> float:
    return math.log1p(off) if abs(off) < 0.5 else math.log(ratio)


def _stirling(z: float) -> float:
    """log Gamma(z) without its leading terms: (z - 1/2) log z - z + log(2 pi) / 2."""
    if z < 16:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - 0.5 * math.log(2 * math.pi)
    w = 1 / (z * z)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - w * 691 / 360360))))) / z


def _fraction(a: float, b: float, x: float, y: float) -> float:
    """B(a, b) I_x(a, b) / (x^a y^b) by the continued fraction of Didonato and Morris (1992), from its front (Lentz).

    It takes a y - b x, which keeps its digits where x is nearly 1 and a large.
    """
    off = a * y - b * x + 1
    found = c = a * off / (a + 1)
    d = 0.0
    for m in range(1, STEPS):
        above = (a + m - 1) * (a + b + m - 1) * m * (b - m) * x * x / (a + 2 * m - 1) ** 2
        below = m + m * (b - m) * x / (a + 2 * m - 1) + (a + m) * (off + m * (1 + y)) / (a + 2 * m + 1)
        d = 1 / (below + above * d)
        c = below + above / c
        found *= c * d
        if abs(c * d - 1) < 2 * EXACT:
            break
    return 1 / found
