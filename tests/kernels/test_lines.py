"""Predictions as lines: every double is written as Python writes it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.lines_kernel import prediction_lines
from support.data.csv_kernel import QUIET


def expected(values: list[float]) -> str:
    return "".join(f"{row},{value!r}\n" for row, value in enumerate(values, 5))


@settings(QUIET, max_examples=300)
@given(st.lists(st.floats(allow_nan=False)))
def test_any_double_is_written_as_pythons_repr(values: list[float]) -> None:
    assert prediction_lines(np.array(values), 5).decode() == expected(values)


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).integers(0, 2047 << 52, 20_000, dtype=np.uint64).view(np.float64),  # all magnitudes
        np.round(np.random.default_rng(1).normal(size=20_000) * 1e4, 2),
        np.ldexp(1.0, np.arange(-1074, 1024)),
        np.nextafter(np.ldexp(1.0, np.arange(-1021, 1024)), 0),
        np.array([float(f"1e{k}") for k in range(-323, 309)]),
        np.array([9007199254740993.0, 9999999999999998.0, 1e15, 1e16, 123456789012345680.0, 0.0001, 0.00001, -0.0]),
    ],
)
def test_doubles_that_are_hard_to_write(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    assert prediction_lines(values, 5).decode() == expected(values.tolist())


def test_bounds_classes_and_rows_without_a_prediction() -> None:
    assert prediction_lines(np.array([1.5, math.nan]), 9, width=0.25) == b"9,1.5,1.25,1.75\n10,,,\n"
    found = prediction_lines(np.array([0.5, 0.25, math.nan]), 0, classes=("nein", '"ja, übrigens"'))
    assert found.decode() == '0,"ja, übrigens",0.5\n1,nein,0.25\n2,,\n'
    assert prediction_lines(np.zeros(0), 3) == b""
