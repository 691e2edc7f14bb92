"""Calls columns_kernel.c: weights by coordinate descent over sparse columns; who asks is in `solve.rows.sparse`."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from shoal.kernels.build import build
from shoal.models import Array


class ColumnDescent(ctypes.Structure):
    """Field by field the struct of columns_kernel.c."""

    _fields_ = (
        ("columns", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("starts", "indices", "values", "weight", "weighted", "offset")),
        ("inverse", ctypes.c_void_p),
        ("curvature", ctypes.c_void_p),
        ("n", ctypes.c_double),
        ("total", ctypes.c_double),
        ("S", ctypes.c_void_p),
        ("c", ctypes.c_double),
        ("sum", ctypes.c_double),
        ("w", ctypes.c_void_p),
        ("active", ctypes.c_void_p),
        ("budget", ctypes.c_int64),
    )


@functools.cache
def library() -> ctypes.CDLL:
    kernel = ctypes.CDLL(str(build("columns_kernel")))
    kernel.descend.argtypes = [ctypes.POINTER(ColumnDescent), *3 * (ctypes.c_double,)]
    return kernel


class SparseDescent:
    """Weights (p,) that begin at 0 and move to the minimum of each penalty in turn, from where they are.

    A: scipy's csc; `residual` (m,) at weights 0, times the rows' weights.
    """

    def __init__(
        self, A: Any, weight: Array, offset: Array, inverse: Array, curvature: Array, n: float, residual: Array
    ) -> None:
        self.w: Array = np.zeros(A.shape[1])
        S, active = np.array(residual, np.float64), np.empty(A.shape[1], np.int32)
        arrays: tuple[Any, ...] = (
            np.ascontiguousarray(A.indptr, np.int32), np.ascontiguousarray(A.indices, np.int32),
            *(np.ascontiguousarray(a, np.float64) for a in (A.data, weight, A.T @ weight, offset, inverse, curvature)),
        )  # fmt: skip
        self._held = (S, active, *arrays)  # what the struct points at
        self._state = ColumnDescent(
            A.shape[1], *(array.ctypes.data for array in arrays), n, float(weight.sum()), S.ctypes.data, 0.0,
            float(S.sum()), self.w.ctypes.data, active.ctypes.data, 0,
        )  # fmt: skip

    def to(self, l1: float, l2: float, enough: float, budget: int) -> int | None:
        """Until no weight moves by more than `enough` of the largest; what is left of the budget, or None where that
        would touch more values."""
        self._state.budget = budget
        return self._state.budget if library().descend(ctypes.byref(self._state), l1, l2, enough) else None
