"""Calls losses_kernel.c: sums of a loss over rows in one reading of them; what they are for is in `solve.newton`."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.build import build
from shoal.kernels.weighted_kernel import MOST_COLUMNS, TILE, WIDTH, aligned, whole_square
from shoal.models import Array, Bools, Floats

KINDS = ("logistic", "poisson", "gamma")  # in the order of losses_kernel.c
WIDEST = 4000  # columns up to which a tile of rows stays in near caches


class LossRowsGiven(ctypes.Structure):
    """Field by field the struct `Rows` of losses_kernel.c."""

    _fields_ = (
        ("X", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("rows", "stride", "columns", "padded")),
        ("y", ctypes.c_void_p),
        ("apart", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("weight", "offset", "beside", "used", "coef", "centre")),
        *((name, ctypes.c_int64) for name in ("kind", "squares")),
        *((name, ctypes.c_void_p) for name in ("scores", "means", "values")),
    )


class LossSumsMade(ctypes.Structure):
    """Field by field the struct `Sums` of losses_kernel.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("room", "square", "slope", "beside")),
        *((name, ctypes.c_double) for name in ("value", "reach", "margin")),
    )


class RowPieces(NamedTuple):
    """Of every row (n,): its score, the mean there, and the loss."""

    eta: Floats
    mean: Floats
    value: Floats


class KernelSums(NamedTuple):
    """Over the rows that are used, with u = (1, x - centre): sums of the loss, of its slope times u, of its curvature
    times u u' (where asked for) and of another slope times u (where given); max |eta|, min (2 y - 1) eta."""

    value: float
    slope: Array
    square: Array | None
    beside: Array | None
    reach: float
    margin: float
    rows: RowPieces | None


@functools.cache
def library() -> ctypes.CDLL:
    kernel = ctypes.CDLL(str(build("losses_kernel")))
    for function in (kernel.loss_sums, kernel.loss_sums_anywhere, kernel.loss_sums_fused):
        function.argtypes = [ctypes.POINTER(LossRowsGiven), ctypes.POINTER(LossSumsMade)]
        function.restype = None
    return kernel


def takes(columns: int, squares: bool) -> bool:
    """Whether this is the quicker way for so many columns; beyond them BLAS is."""
    return columns <= (MOST_COLUMNS if squares else WIDEST)


def loss_sums(
    kind: str, X: Array, y: Array, coef: Array, at_centre: float, *, centre: Array | None = None,
    offset: Array | None = None, weight: Array | None = None, used: Bools | None = None, beside: Array | None = None,
    squares: bool = True, rows: bool = False, way: Any = None,
) -> KernelSums:  # fmt: skip
    """The sums of the loss `kind` at eta = at_centre + (x - centre)'coef + offset; rows count by `weight`, and those
    that are not `used` do not; `rows`: with what each row comes to; `way`: another function of the library."""
    n, p = X.shape
    y = np.asarray(y, np.float64)
    if X.dtype != np.float64 or X.strides[1] != X.itemsize or X.strides[0] < 0:
        X = np.ascontiguousarray(X, np.float64)
    padded = -(-(p + 1) // WIDTH) * WIDTH
    given = [_numbers(part) for part in (weight, offset, beside)]
    flags: NDArray[np.uint8] | None = None if used is None else np.ascontiguousarray(used).view(np.uint8)
    place = aligned(2 * padded).reshape(2, padded)
    place[0, :p], place[0, p] = coef, at_centre
    if centre is not None:
        place[1, :p] = centre
    made = RowPieces(*np.empty((3, n))) if rows else None
    sums = aligned((2 + padded * squares) * padded).reshape(-1, padded)
    room = aligned((1 + squares) * TILE * padded)
    asked = LossRowsGiven(
        X.ctypes.data, n, X.strides[0] // X.itemsize if n > 1 else p, p, padded, y.ctypes.data,
        y.strides[0] // y.itemsize, *(None if part is None else part.ctypes.data for part in (*given, flags)),
        place.ctypes.data, None if centre is None else place[1].ctypes.data, KINDS.index(kind), squares,
        *(part.ctypes.data for part in made or ()),
    )  # fmt: skip
    found = LossSumsMade(room.ctypes.data, sums[2:].ctypes.data, sums.ctypes.data, sums[1].ctypes.data)
    (way or library().loss_sums)(ctypes.byref(asked), ctypes.byref(found))
    square = whole_square(sums[2:], p) if squares else None
    slope, other = (np.append(line[p], line[:p]) for line in sums[:2])  # the ones stand behind the columns there
    return KernelSums(found.value, slope, square, None if beside is None else other, found.reach, found.margin, made)


def _numbers(part: Array | None) -> Array | None:
    return None if part is None else np.ascontiguousarray(part, np.float64)
