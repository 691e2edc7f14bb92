"""Products with sparse rows about their centre are those of NumPy with all zeros filled in."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from shoal.kernels.rows_kernel import CentredRows, dot


@pytest.fixture
def rows() -> tuple[CentredRows, Any]:
    random = np.random.default_rng(1)
    A = random.standard_normal((40, 25)) * (random.random((40, 25)) < 0.2)
    A[7] = 0.0
    row, column = np.nonzero(A)
    starts = np.searchsorted(row, np.arange(41)).astype(np.int64)
    centre = random.standard_normal(25)
    return CentredRows(starts, column.astype(np.int32), A[row, column], centre), A - centre


def test_products_from_both_sides(rows: tuple[CentredRows, Any]) -> None:
    random = np.random.default_rng(2)
    for part in (slice(0, 40), slice(5, 12), slice(7, 8), slice(9, 9)):
        X, full = rows[0][part], rows[1][part]
        w, r = random.standard_normal(25), random.standard_normal(len(full))
        assert X.shape == full.shape
        np.testing.assert_allclose(X.times(w), full @ w, atol=1e-13)
        np.testing.assert_allclose(X.against(r), full.T @ r, atol=1e-13)
        sums = X.touched(r)
        assert len(set(sums.places.tolist())) == len(sums.places)
        found = sums.along * X.centre
        found[sums.places] += sums.values
        np.testing.assert_allclose(found, full.T @ r, atol=1e-13)


def test_threads_add_up_in_rooms_of_their_own(rows: tuple[CentredRows, Any]) -> None:
    X, r = rows[0], np.random.default_rng(3).standard_normal(40)
    expected, wrong = X.touched(r), list[int]()

    def add(number: int) -> None:
        for _ in range(2_000):
            found = X.touched(r)
            if not (np.array_equal(found.values, expected.values) and np.array_equal(found.places, expected.places)):
                wrong.append(number)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_dot_takes_vectors_of_one_length() -> None:
    a = np.arange(7.0)
    assert dot(a, a) == 91.0
    assert dot(a[::2], a[::2]) == 56.0
    with pytest.raises(ValueError, match="one length"):
        dot(a, a[:3])
