"""Calls path_kernel.c: the minima of many L1 penalties at once, from a Gram matrix; what they mean is in `paths`."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from shoal.kernels.build import build
from shoal.models import Array

STEPS = 20  # changes of the active set per column and point before it is given up


@functools.cache
def library() -> ctypes.CDLL:
    kernel = ctypes.CDLL(str(build("path_kernel")))
    pointer, whole = ctypes.c_void_p, ctypes.c_int64
    kernel.sparse_path.argtypes = [whole, *5 * (pointer,), whole, *6 * (pointer,), whole]
    kernel.sparse_path.restype = whole
    return kernel


def sparse_path(
    H: Array,
    c: Array,
    l1: Array,
    l2: Array,
    start: Array | None = None,
    shut: Any = None,
    factor: tuple[Array, Array] | None = None,
) -> tuple[Array, int]:
    """W (m, p): the minimum of w'Hw/2 - c'w + l1_i |w|_1 + l2_i/2 |w|^2 for each i, and how many of them are settled.

    Each point starts from the one before it, so penalties that fall slowly are quickest. Columns that are `shut` (p,)
    keep weight 0. With `factor` (R upper triangular, z), H = R'R and c = R'z, the answers have the digits of R.
    """
    p, m = len(c), len(l1)
    W = np.zeros((m, p))
    if start is not None and m:
        W[0] = start
    closed = np.zeros(p, np.int8) if shut is None else np.ascontiguousarray(shut, np.int8)
    H, c, l1, l2 = (np.ascontiguousarray(a, np.float64) for a in (H, c, l1, l2))
    doubles, ints, bytes_ = np.empty(p * p + 7 * p), np.empty(p, np.int64), np.empty(2 * p, np.int8)
    columns, z = (
        (None, None) if factor is None else (np.ascontiguousarray(factor[0].T), np.ascontiguousarray(factor[1]))
    )
    before = [None if a is None else a.ctypes.data for a in (H, c, columns, z, closed)]
    after = [a.ctypes.data for a in (l1, l2, W, doubles, ints, bytes_)]
    return W, int(library().sparse_path(p, *before, m, *after, STEPS * p + 100))
