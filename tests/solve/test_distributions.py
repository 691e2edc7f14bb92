"""Tails of t and F and the quantile of t: against scipy, and against sums with 60 digits where such are known."""

from __future__ import annotations

import math
import subprocess
import sys
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.special import fdtrc, stdtr, stdtrit

from shoal.solve.distributions import f_tail, student_quantile, student_tail

T = np.array([0, 1e-5, 0.01, 0.3, 0.9, 1, 1.5, 2, 3, 5, 8, 13, 30, 100, 300, 1e4])
DEGREES = [1, 2, 3, 4, 5, 10, 17, 31, 32, 33, 100, 333, 996, 5000, 33333, 100_000, 3_000_000, 10**9]


@pytest.mark.parametrize("df", DEGREES)
def test_the_tail_of_t_is_scipys(df: int) -> None:
    expected = stdtr(df, -T)
    np.testing.assert_allclose(student_tail(df, T), expected, rtol=1e-12, atol=1e-290)
    np.testing.assert_array_equal(student_tail(df, -T), student_tail(df, T))
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


# By mpmath 1.4.1 with 40 digits: the density of t integrated over 50 intervals beyond t, scaled by its height there.
LARGE = [
    (1000.5, 13.0, 4.0710782370099355e-36),
    (200_000, 2.0, 0.02275080683686345),
    (200_000, 30.0, 1.3495022110932609e-197),
    (10**7, 1.0, 0.15865526602999297),
    (10**7, 37.0, 6.0006061613191709e-300),
    (10**9, 8.0, 6.2209671422273817e-16),
]


@pytest.mark.parametrize(("df", "t", "tail"), LARGE)
def test_many_degrees_of_freedom_cost_no_digits(df: float, t: float, tail: float) -> None:
    assert student_tail(df, np.array([t]))[0] == pytest.approx(tail, rel=1e-12)
    assert f_tail(1, df, t * t) == pytest.approx(2 * tail, rel=1e-12)


def test_a_value_does_not_depend_on_those_beside_it() -> None:
    t = np.linspace(-9, 9, 400)
    assert student_tail(500_000, t).tolist() == [student_tail(500_000, t[i : i + 1])[0] for i in range(400)]


def test_quantiles_at_and_below_the_half() -> None:
    assert student_quantile(7, 0.5) == 0
    assert student_quantile(7, 0.025) == -student_quantile(7, 0.975)
    assert student_quantile(7, 1.0) == math.inf
    assert student_quantile(math.inf, 0.975) == pytest.approx(1.959963984540054, rel=1e-14)


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


@pytest.mark.parametrize(
    "numbers", [(20, 50_000, 5.0), (20, 1000, 5.0), (2, 99_999, 3.0), (100, 99_999, 1.2), (20, 10**7, 5.0)]
)
def test_f_keeps_its_digits(numbers: tuple[int, int, float]) -> None:
    """For an even first degree of freedom it is one as well."""
    d1, d2, f = numbers
    with localcontext(prec=60):
        x, a, sum_, term = Decimal(d2) / (d2 + d1 * Decimal(f)), Decimal(d2) / 2, Decimal(0), Decimal(1)
        for i in range(d1 // 2):
            sum_, term = sum_ + term, term * (a + i) / (i + 1) * (1 - x)
        exact = float(sum_ * (a * x.ln()).exp())
    assert f_tail(d1, d2, f) == pytest.approx(exact, rel=1e-13)


def test_fits_load_no_scipy() -> None:
    code = (
        "import numpy as np, sys; from shoal.solve.distributions import *; "
        "student_tail(4e6, np.ones(300)); student_quantile(4e6, 0.975); f_tail(2, 4e6, 3.0); "
        "import shoal.solve.inference, shoal.solve.intervals; print('scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr
