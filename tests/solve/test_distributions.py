"""Tails of t and F and the quantile of t: against scipy, and against sums with 60 digits where such are known."""

from __future__ import annotations

import math
import subprocess
import sys
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.special import fdtrc, stdtr, stdtrit

from shoal.solve.distributions import FEW, FREE, f_tail, student_quantile, student_tail

T = np.array([0, 1e-5, 0.01, 0.3, 0.9, 1, 1.5, 2, 3, 5, 8, 13, 30, 100, 300, 1e4])
DEGREES = [1, 2, 3, 4, 5, 10, 17, 31, 32, 33, 100, 333, 996, 5000, 33333, int(FREE), 3_000_000]


@pytest.mark.parametrize("df", DEGREES)
def test_the_tail_of_t_is_scipys(df: int) -> None:
    expected = stdtr(df, -T)
    np.testing.assert_allclose(student_tail(df, T), expected, rtol=1e-12, atol=1e-290)
    np.testing.assert_array_equal(student_tail(df, -T), student_tail(df, T))
    assert student_tail(df, np.linspace(-3, 3, FEW + 1)) == pytest.approx(
        stdtr(df, -np.abs(np.linspace(-3, 3, FEW + 1))), rel=1e-12
    )
    assert math.isnan(student_tail(df, np.array([math.nan]))[0])
    assert student_tail(df, np.array([math.inf, -math.inf])).tolist() == [0, 0]


@pytest.mark.parametrize("df", DEGREES)
def test_the_quantile_of_t_is_scipys(df: int) -> None:
    for p in (0.5, 0.55, 0.75, 0.9, 0.95, 0.975, 0.995, 0.9995, 0.99995):
        assert student_quantile(df, p) == pytest.approx(float(stdtrit(df, p)), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("d1", [1, 2, 3, 7, 20, 99, 1000])
@pytest.mark.parametrize("d2", [1, 2, 5, 30, 996, 5000])
def test_the_tail_of_f_is_scipys(d1: int, d2: int) -> None:
    for f in (0, 1e-8, 0.1, 0.5, 0.9, 1, 1.1, 2, 5, 30, 1000, 1e5):
        assert f_tail(d1, d2, f) == pytest.approx(float(fdtrc(d1, d2, f)), rel=1e-12, abs=1e-290), f


def test_beyond_what_is_short_scipy_is_asked() -> None:
    assert f_tail(3, 1e6, 2.0) == float(fdtrc(3, 1e6, 2.0))


@pytest.mark.parametrize(
    ("df", "t"), [(1000, 2.0), (1000, 9.0), (5000, 3.0), (100_000, 0.5), (100_000, 2.0), (100_000, 5.0)]
)
def test_t_keeps_its_digits(df: int, t: float) -> None:
    """For even degrees of freedom the distribution is a sum."""
    with localcontext(prec=60):
        square, sum_, term = Decimal(t) ** 2, Decimal(0), Decimal(1)
        for j in range(df // 2):
            sum_, term = sum_ + term, term * df / (df + square) * (2 * j + 1) / (2 * j + 2)
        exact = float((1 - Decimal(t) / (df + square).sqrt() * sum_) / 2)
    assert student_tail(df, np.array([t]))[0] == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("numbers", [(20, 50_000, 5.0), (20, 1000, 5.0), (2, 99_999, 3.0), (100, 99_999, 1.2)])
def test_f_keeps_its_digits(numbers: tuple[int, int, float]) -> None:
    """For an even first degree of freedom it is one as well."""
    d1, d2, f = numbers
    with localcontext(prec=60):
        x, a, sum_, term = Decimal(d2) / (d2 + d1 * Decimal(f)), Decimal(d2) / 2, Decimal(0), Decimal(1)
        for i in range(d1 // 2):
            sum_, term = sum_ + term, term * (a + i) / (i + 1) * (1 - x)
        exact = float(sum_ * (a * x.ln()).exp())
    assert f_tail(d1, d2, f) == pytest.approx(exact, rel=1e-13)


def test_small_fits_load_no_scipy() -> None:
    code = (
        "import numpy as np, sys; from shoal.solve.distributions import *; "
        "student_tail(40, np.ones(3)); student_quantile(40, 0.975); f_tail(2, 40, 3.0); "
        "import shoal.solve.inference, shoal.solve.intervals; print('scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr
