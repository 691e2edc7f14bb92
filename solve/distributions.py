"""Tails of Student's t and of F, and the quantile of t: scipy.special takes longer to load than most fits.

Which test is made of them is in `inference`.
"""

from __future__ import annotations

import math

import numpy as np

from shoal.models import Array

STEPS = 100_000  # of the fraction, whose length grows with the root of the smaller degrees of freedom
EXACT = 1e-16
NEAR = 1e-9  # a step of Newton's so small leaves no more than its square


def student_tail(df: float, t: Array) -> Array:
    """P(T > |t|), (k,) for t (k,); NaN for NaN. Without end of degrees of freedom that of the normal distribution."""
    if math.isinf(df):
        return np.array([_normal_tail(abs(value)) for value in t.tolist()])
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.square(t, dtype=np.float64)
        whole = df + square
        return _beta(df / 2, 0.5, df / whole, np.where(np.isinf(square), 1.0, square / whole)) / 2


def student_quantile(df: float, p: float) -> float:
    """The t with P(T <= t) = p."""
    if p <= 0.5:
        return 0.0 if p == 0.5 else -student_quantile(df, 1 - p)
    if p >= 1:
        return math.inf
    tail, t = 1 - p, _first_guess(df, p)
    for _ in range(100):  # Newton on the logarithm of the tail, which is concave: it comes from one side
        now = float(student_tail(df, np.array([t]))[0])
        step = now * math.log(now / tail) / _density(df, t)
        t += step
        if abs(step) <= NEAR * t:
            break
    return t


def f_tail(d1: float, d2: float, f: float) -> float:
    """P(F > f)."""
    whole = d2 + d1 * f
    return float(_beta(d2 / 2, d1 / 2, np.array([d2 / whole]), np.array([d1 * f / whole]))[0])


def _density(df: float, t: float) -> float:
    if math.isinf(df):
        return math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    whole = df + t * t
    log_term = _log_term(df / 2, 0.5, np.array([df / whole]), np.array([t * t / whole]))
    return math.exp(float(log_term[0])) / t


def _normal_tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2


def _first_guess(df: float, p: float) -> float:
    """From the normal quantile by two terms of Cornish and Fisher; below 2 degrees of freedom the forms of 1 and 2."""
    if df < 2:
        return math.tan(math.pi * (p - 0.5)) if df <= 1 else 2 * (p - 0.5) * math.sqrt(2 / (4 * p * (1 - p)))
    z = _near_normal_quantile(1 - p)
    return z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)


def _near_normal_quantile(tail: float) -> float:
    """To 5e-4 by Abramowitz and Stegun 26.2.23, then one step of Newton: to 1e-6."""
    s = math.sqrt(-2 * math.log(tail))
    z = s - (2.515517 + s * (0.802853 + s * 0.010328)) / (1 + s * (1.432788 + s * (0.189269 + s * 0.001308)))
    z = max(z, 1e-3)
    return z + (_normal_tail(z) - tail) / _density(math.inf, z)


# ------------------------------------------------------------------ the incomplete beta function


def _beta(a: float, b: float, x: Array, y: Array) -> Array:
    """I_x(a, b) (k,) with y = 1 - x, both given so that neither loses digits."""
    found = np.where(np.isnan(x), np.nan, np.where(x <= 0, 0.0, 1.0))
    inside = (x > 0) & (y > 0)
    x, y = x[inside], y[inside]
    far = x > (a + 1) / (a + b + 2)
    lower = np.exp(_log_term(a, b, x, y)) * _fraction(
        np.where(far, b, a), np.where(far, a, b), np.where(far, y, x), np.where(far, x, y)
    )
    found[inside] = np.where(far, 1 - lower, lower)
    return found


def _log_term(a: float, b: float, x: Array, y: Array) -> Array:
    """log x^a y^b / B(a, b), by distances from the peak (Loader 2000): large terms do not cancel."""
    n = a + b
    off = x * b - y * a  # x n - a
    peaks = a * _log_ratio(off / a, x * n / a) + b * _log_ratio(-off / b, y * n / b)
    term: Array = peaks + 0.5 * math.log(a * b / (2 * math.pi * n)) + _stirling(n) - _stirling(a) - _stirling(b)
    return term


def _log_ratio(off: Array, ratio: Array) -> Array:
    near = np.abs(off) < 0.5
    return np.where(near, np.log1p(np.where(near, off, 0.0)), np.log(ratio))


def _stirling(z: float) -> float:
    """log Gamma(z) without its leading terms: (z - 1/2) log z - z + log(2 pi) / 2."""
    if z < 16:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - 0.5 * math.log(2 * math.pi)
    w = 1 / (z * z)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - w * 691 / 360360))))) / z


def _fraction(a: Array, b: Array, x: Array, y: Array) -> Array:
    """B(a, b) I_x(a, b) / (x^a y^b) by the continued fraction of Didonato and Morris (1992), from its front (Lentz).

    It takes a y - b x, which keeps its digits where x is nearly 1 and a large.
    """
    off = a * y - b * x + 1
    found = a * off / (a + 1)
    c, d, settled = found.copy(), np.zeros_like(found), np.zeros(len(found), bool)
    for m in range(1, STEPS):
        above, below = _parts(m, a, b, x, y, off)
        d = 1 / (below + above * d)
        c = below + above / c
        found = np.where(settled, found, found * c * d)
        settled |= np.abs(c * d - 1) < 2 * EXACT
        if settled.all():
            break
    return 1 / found


def _parts(m: int, a: Array, b: Array, x: Array, y: Array, off: Array) -> tuple[Array, Array]:
    """Numerator and denominator of its m-th term."""
    ends = a + 2 * m - 1
    above = (a + m - 1) * (a + b + m - 1) * m * (b - m) * x * x / ends**2
    below = m + m * (b - m) * x / ends + (a + m) * (off + m * (1 + y)) / (a + 2 * m + 1)
    return above, below
