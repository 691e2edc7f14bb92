"""Weighted sums of rows against NumPy's, for every way a processor may take and every shape at which tiles end."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.kernels.weighted_kernel import MOST_COLUMNS, _by_tiles, library, weighted_sums

RNG = np.random.default_rng(5)


def close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * max(1.0, np.abs(expected).max(initial=0.0)))


@pytest.mark.parametrize("way", ["weighted_sums", "weighted_sums_fused", "weighted_sums_anywhere"])
@pytest.mark.parametrize(
    ("n", "p"), [(1, 1), (31, 6), (32, 7), (33, 8), (100, 15), (100, 16), (65, 23), (500, 50), (70, 159)]
)
def test_sums_are_those_of_numpy(way: str, n: int, p: int) -> None:
    table = RNG.normal(3, 1, size=(n, p + 2))
    X, h, g, other = table[:, 1 : p + 1], RNG.random(n), RNG.normal(size=n), RNG.normal(size=n)
    U = np.column_stack((np.ones(n), X))
    square, slope, beside = _by_tiles(getattr(library(), way), X, h, g, other)
    close(square, U.T @ (h[:, None] * U))
    close(slope, g @ U)
    close(beside, other @ U)
    assert (square == square.T).all()


@pytest.mark.parametrize(
    "X",
    [
        np.asfortranarray(RNG.normal(size=(90, 9))),
        RNG.normal(size=(90, 18))[:, ::2],
        RNG.normal(size=(60, MOST_COLUMNS + 1)),
        np.zeros((0, 4)),
        RNG.normal(size=(40, 0)),
        RNG.normal(size=(80, 9))[::-2],
    ],
    ids=["by columns", "every other column", "many columns", "no rows", "no columns", "rows backwards"],
)
def test_rows_that_lie_otherwise(X: np.ndarray) -> None:
    n = len(X)
    U, h, g = np.column_stack((np.ones(n), X)), RNG.random(2 * n)[::2], RNG.normal(size=n)
    square, slope = weighted_sums(X, h, g)
    close(square, U.T @ (h[:, None] * U))
    close(slope, g @ U)
    (alone,) = weighted_sums(X, h)
    assert (alone == square).all()


def test_what_is_not_finite_is_seen_in_the_sums() -> None:
    X = RNG.normal(size=(50, 5))
    h = np.where(np.arange(50) == 20, np.inf, 1.0)
    assert not np.isfinite(weighted_sums(X, h)[0]).all()
