"""Moments against exact fractions and the rows themselves; the small problem against its own identity."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shoal.errors import ResourceError
from shoal.solve.least_squares import (
    LeastSquares,
    Standardisation,
    digits,
    needs_data,
    solve_lower,
    solve_upper,
    stack,
    triangle,
)
from shoal.solve.moments import CACHE_BYTES, Moments, by_residue, merge_all, plan_cells, rotate


def rows(n: int, p: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, p))


def close(got: Moments, X: np.ndarray, rtol: float = 1e-13) -> None:
    centred = X - X.mean(axis=0)
    assert got.n == len(X)
    np.testing.assert_allclose(got.mean, X.mean(axis=0), rtol=rtol, atol=1e-14)
    size = np.sqrt((centred**2).sum(axis=0))
    error = np.abs(got.scatter - centred.T @ centred)
    assert (error <= 10 * rtol * np.outer(size, size)).all()


@pytest.mark.parametrize(("n", "p"), [(1, 3), (7, 3), (3 * (CACHE_BYTES // 400) + 5, 50), (10, 40)])
def test_moments_of_rows(n: int, p: int) -> None:
    X = rows(n, p)
    moments = Moments.of(X)
    close(moments, X)
    assert (moments.scatter == moments.scatter.T).all()
    assert (np.diag(moments.scatter) >= 0).all()


def test_moments_of_other_layouts_and_types() -> None:
    X = rows(900, 4)
    for view in (np.asfortranarray(X), X[3::7], X[:, ::2], X[::-1]):
        close(Moments.of(view), view)
    close(Moments.of(X.astype(np.float32)), X.astype(np.float32).astype(float), rtol=1e-12)
    close(Moments.of((10 * X).astype(int)), (10 * X).astype(int))


def test_no_rows_are_the_neutral_element() -> None:
    moments = Moments.of(rows(20, 3))
    empty = Moments.of(np.empty((0, 3)))
    for merged in (moments.merge(empty), empty.merge(moments), merge_all([empty, moments, empty])):
        assert merged.n == 20
        np.testing.assert_array_equal(merged.mean, moments.mean)
        np.testing.assert_array_equal(merged.scatter, moments.scatter)
    assert Moments.empty(3).merge(empty).n == 0
    with pytest.raises(ValueError, match="at least one"):
        merge_all([])


def test_merging_is_associative_up_to_rounding_and_repeatable_to_the_bit() -> None:
    X = rows(1000, 5) * [1, 10, 100, 1e-3, 1] + [0, 5, -1e4, 1, 1e6]
    a, b, c = (Moments.of(part) for part in (X[:100], X[100:650], X[650:]))
    for merged in (a.merge(b).merge(c), a.merge(b.merge(c)), merge_all([c, a, b])):
        close(merged, X, rtol=1e-12)
    assert (merge_all([a, b, c]).scatter == merge_all([a, b, c]).scatter).all()


def test_a_mean_a_billion_times_the_spread_loses_no_digits() -> None:
    X = 1e9 + rows(30_000, 2)
    exact = [[Fraction(v) for v in column] for column in X.T.tolist()]
    means = [sum(column) / len(column) for column in exact]
    scatter = sum((u - means[0]) * (v - means[1]) for u, v in zip(*exact, strict=True))
    variance = sum((u - means[0]) ** 2 for u in exact[0])
    cut = CACHE_BYTES // 16 // 3
    merged = merge_all(Moments.of(X[i : i + cut]) for i in range(0, len(X), cut))
    # Between blocks the mean passes through a double, which at 1e9 is a step of 1e-7.
    for moments, rel in ((Moments.of(X), 1e-13), (merged, 1e-9)):
        assert moments.scatter[0, 0] == pytest.approx(float(variance), rel=rel)
        assert moments.scatter[0, 1] == pytest.approx(float(scatter), abs=rel * float(variance))
        assert moments.mean[0] == pytest.approx(float(means[0]), rel=3e-16)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9 / 3, 1e100, 1e-300])
def test_a_constant_column_is_recognised_whatever_the_value(value: float) -> None:
    X = np.column_stack((np.full(9999, value), rows(9999, 2)))
    merged = merge_all(by_residue(X, 7))
    assert Standardisation.of(merged, True, True).constant.tolist() == [True, False]


def test_a_small_spread_on_a_large_mean_is_not_constant() -> None:
    X = np.column_stack((1e9 + rows(5000, 1), rows(5000, 1)))
    units = Standardisation.of(Moments.of(X), True, True)
    assert not units.constant.any()
    assert units.scale[0] == pytest.approx(X[:, 0].std(), rel=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_value_spoils_its_own_column_only(bad: float) -> None:
    X = rows(5000, 6)
    clean = merge_all(by_residue(X, 3))
    X[1234, 2] = bad
    spoiled = merge_all(by_residue(X, 3))
    others = [0, 1, 3, 4, 5]
    assert np.isnan(spoiled.scatter[2]).all()
    assert not np.isfinite(spoiled.mean[2])
    np.testing.assert_allclose(spoiled.take(others).scatter, clean.take(others).scatter, rtol=1e-13, atol=1e-10)
    np.testing.assert_allclose(spoiled.mean[others], clean.mean[others], rtol=1e-12)


def test_take_and_map_equal_the_moments_of_changed_rows() -> None:
    X, A, b = rows(300, 4) + 3, rows(6, 4, seed=1), rows(1, 6, seed=2)[0]
    close(Moments.of(X).take([3, 1]), X[:, [3, 1]])
    close(Moments.of(X).map(A, b), X @ A.T + b, rtol=1e-11)
    close(Moments.of(X).map(np.array([1.0, -2.0, 0.0, 5.0]), 1.0), X * [1, -2, 0, 5] + 1)


def test_imputing_a_constant_is_a_map() -> None:
    """x with gaps is kept as x0 (0 in the gaps) and the indicator m of the gaps: x0 + c m imputes c."""
    rng = np.random.default_rng(5)
    x, gap = rng.standard_normal(200), rng.random(200) < 0.2
    stored = Moments.of(np.column_stack((np.where(gap, 0, x), gap)))
    close(stored.map(np.array([[1.0, 2.5]])), np.where(gap, 2.5, x)[:, None], rtol=1e-12)


@pytest.mark.parametrize("offset", [0, 1, 4, 5, 17])
def test_rotated_cells_are_cells_by_global_row(offset: int) -> None:
    X, K = rows(100, 3), 5
    block = X[offset : offset + 33]
    for r, cell in enumerate(rotate(by_residue(block, K), offset)):
        wanted = [i for i in range(offset, offset + 33) if i % K == r]
        close(cell, X[wanted])


def test_more_cells_than_rows() -> None:
    cells = by_residue(rows(3, 2), 8)
    assert [cell.n for cell in cells] == [1, 1, 1, 0, 0, 0, 0, 0]
    close(merge_all(cells), rows(3, 2))


def test_cells_are_planned_from_memory() -> None:
    assert plan_cells(100, 10, 10**9) == 10
    assert plan_cells(1000, 10, 30 * 10**6) == 3
    with pytest.raises(ResourceError, match="fewer columns or more memory"):
        plan_cells(10_000, 10, 10**8)


def test_triangles_stack_and_triangular_solves_solve() -> None:
    Z = rows(60, 5)
    T = stack(triangle(Z[:3]), triangle(Z[3:]))
    assert T.shape == (5, 5)
    assert (np.tril(T, -1) == 0).all()
    np.testing.assert_allclose(T.T @ T, Z.T @ Z, rtol=1e-12, atol=1e-12)
    b = rows(1, 5, seed=3)[0]
    np.testing.assert_allclose(T @ solve_upper(T, b), b, rtol=1e-12)
    np.testing.assert_allclose(T.T @ solve_lower(T, b), b, rtol=1e-12)


def problems(X: np.ndarray, y: np.ndarray, intercept: bool, standardize: bool) -> list[LeastSquares]:
    moments = Moments.of(np.column_stack((X, y)))
    units = Standardisation.of(moments, intercept, standardize)
    half = len(X) // 2
    T = stack(triangle(units.apply(X[:half], y[:half])), triangle(units.apply(X[half:], y[half:])))
    return [
        LeastSquares.from_moments(moments, intercept, standardize),
        LeastSquares.from_triangle(T, units, len(X)),
    ]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("shape", ["tall", "wide", "dependent", "constant"])
def test_the_small_problem_equals_the_rows_for_every_w(intercept: bool, standardize: bool, shape: str) -> None:
    X = rows(6 if shape == "wide" else 50, 9) * np.logspace(-2, 2, 9) + 3
    if shape == "dependent":
        X[:, 8] = X[:, 0] + X[:, 1]
    if shape == "constant":
        X[:, 4] = 0.1
    y = rows(len(X), 1, seed=2)[:, 0] + 5
    for problem in problems(X, y, intercept, standardize):
        rng = np.random.default_rng(3)
        scale = np.where(X.std(axis=0) < 1e-12, 1, X.std(axis=0)) if standardize else np.ones(9)
        np.testing.assert_allclose(problem.units.scale, scale, rtol=1e-12)
        for _ in range(3):
            w = rng.standard_normal(9)
            Z = (X - X.mean(axis=0) * intercept) / scale
            r = y - y.mean() * intercept - Z @ w
            assert problem.rss(w) == pytest.approx(r @ r, rel=1e-9)
            np.testing.assert_allclose(
                problem.gradient(w), -Z.T @ r / len(y), rtol=1e-8, atol=1e-10 * np.abs(Z.T @ r).max()
            )
            coef, b = problem.units.raw(w)
            np.testing.assert_allclose(b + X @ coef, y - r, rtol=1e-9)
        assert problem.y_scatter == pytest.approx(((y - y.mean() * intercept) ** 2).sum(), rel=1e-12)
        assert problem.rank == {"tall": 9, "wide": 6 - intercept, "dependent": 8, "constant": 9 - intercept}[shape]


def test_the_condition_number_decides_whether_moments_are_enough() -> None:
    X = rows(200, 3)
    easy, easy_rows = problems(X, X[:, 0], True, True)
    X[:, 2] = X[:, 1] + 1e-4 * X[:, 2]
    hard, hard_rows = problems(X, X[:, 0], True, True)
    true = np.linalg.cond((X - X.mean(axis=0)) / X.std(axis=0))
    assert hard.condition() == pytest.approx(true, rel=1e-5)
    assert hard_rows.condition() == pytest.approx(true, rel=1e-9)
    assert not needs_data(easy)
    assert needs_data(hard)
    assert not needs_data(hard, l2=1.0)
    assert not needs_data(hard_rows)
    assert digits(hard) < digits(hard_rows) < digits(easy_rows)


def test_columns_far_from_zero_keep_a_full_rank() -> None:
    X = rows(5000, 3) + np.array([1e9, -1e6, 0])
    for problem in problems(X, rows(5000, 1, seed=1)[:, 0], True, True):
        assert problem.rank == 3
        assert problem.condition() < 1.2
