"""Calls weighted_kernel.c: sums of rows that count by weights, for Newton steps; what these mean is in `losses`."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from shoal.kernels.build import build
from shoal.models import Array

WIDTH, TILE, LINE = 8, 32, 64  # numbers of a vector and rows of a tile in weighted_kernel.c, bytes of a line of caches
MOST_COLUMNS = 160  # from here on sums leave the nearest caches, and BLAS is as fast


class WeightedRows(ctypes.Structure):
    """Field by field the struct of weighted_kernel.c."""

    _fields_ = (
        ("X", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("rows", "stride", "columns", "padded")),
        ("h", ctypes.c_void_p),
        ("g", ctypes.c_void_p),
        ("slopes", ctypes.c_int64),
    )


@functools.cache
def library() -> ctypes.CDLL:
    kernel = ctypes.CDLL(str(build("weighted_kernel")))
    for function in (kernel.weighted_sums, kernel.weighted_sums_anywhere, kernel.weighted_sums_fused):
        function.argtypes = [ctypes.POINTER(WeightedRows), *3 * (ctypes.c_void_p,)]
        function.restype = None
    return kernel


def weighted_sums(X: Array, h: Array, *slopes: Array) -> tuple[Array, ...]:
    """sum h u u' (p + 1, p + 1), exactly symmetric, and sum g u (p + 1,) for each g of `slopes`; u = (1, x)."""
    n, p = X.shape
    if p > MOST_COLUMNS or not n or X.strides[1] != X.itemsize:
        return _by_blas(X, h, *slopes)
    return _by_tiles(library().weighted_sums, X, h, *slopes)


def _by_tiles(way: Any, X: Array, h: Array, *slopes: Array) -> tuple[Array, ...]:
    n, p = X.shape
    padded, count = -(-(p + 1) // WIDTH) * WIDTH, len(slopes)
    h, g = np.ascontiguousarray(h), np.stack(slopes) if slopes else np.empty((0, n))
    sums = aligned((padded + count) * padded).reshape(padded + count, padded)
    room = aligned(2 * TILE * padded)
    rows = WeightedRows(X.ctypes.data, n, X.strides[0] // X.itemsize, p, padded, h.ctypes.data, g.ctypes.data, count)
    way(ctypes.byref(rows), room.ctypes.data, sums.ctypes.data, sums[padded:].ctypes.data)
    return whole_square(sums, p), *sums[padded:, np.r_[p, :p]]


def whole_square(sums: Array, p: int) -> Array:
    """From the upper half that tiles leave to all of (p + 1, p + 1), exactly symmetric, the ones first: in tiles they
    stand behind the columns, so that these are aligned."""
    upper, order = np.triu(sums[: p + 1, : p + 1]), np.r_[p, :p]
    square = upper + np.triu(upper, 1).T
    return np.asarray(square[np.ix_(order, order)])


def _by_blas(X: Array, h: Array, *slopes: Array) -> tuple[Array, ...]:
    root = np.sqrt(h)
    U = np.empty((len(X), X.shape[1] + 1))
    U[:, 0] = root
    np.multiply(X, root[:, None], out=U[:, 1:])
    return U.T @ U, *(np.append(g.sum(), g @ X) for g in slopes)


def aligned(count: int) -> Array:
    """Zeros that begin with a line of the caches: a vector across two of them would be read twice."""
    room = np.zeros(count + LINE // 8)
    start = -room.ctypes.data % LINE // 8
    return room[start : start + count]
