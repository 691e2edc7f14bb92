"""Calls lines_kernel.c: predictions as lines of CSV; what is predicted is in `passes`."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shoal.kernels.build import build
from shoal.models import Array

LINE = 100  # bytes that a line takes at most, classes aside
POWERS = range(-292, 325)


class LineStyle(ctypes.Structure):
    """What the lines are to have; field by field the struct of lines_kernel.c."""

    _fields_ = (
        ("first", ctypes.c_int64),
        ("bounded", ctypes.c_int64),
        ("width", ctypes.c_double),
        ("no", ctypes.c_char_p),
        ("yes", ctypes.c_char_p),
        ("no_length", ctypes.c_int64),
        ("yes_length", ctypes.c_int64),
        ("threshold", ctypes.c_double),
        ("both", ctypes.c_char_p),
        ("both_length", ctypes.c_int64),
        ("usual", ctypes.c_double),
        ("powers", ctypes.c_void_p),
    )


@functools.cache
def library() -> ctypes.CDLL:
    kernel = ctypes.CDLL(str(build("lines_kernel")))
    kernel.write_lines.argtypes = [ctypes.POINTER(LineStyle), ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    kernel.write_lines.restype = ctypes.c_int64
    return kernel


def _power_of_ten(k: int) -> int:
    """The leading 128 bits of 10**k, rounded up."""
    if k >= 0:
        power = int(10**k)
        bits = power.bit_length()
        return power << (128 - bits) if bits <= 128 else -(-power >> (bits - 128))
    divisor = int(10**-k)
    return -(-(1 << (divisor.bit_length() + 127)) // divisor)


@functools.cache
def powers_of_ten() -> npt.NDArray[np.uint64]:
    """(high, low) words of 10**k for the powers of the kernel."""
    powers = map(_power_of_ten, POWERS)
    return np.array([(p >> 64, p & (2**64 - 1)) for p in powers], dtype=np.uint64)


def prediction_lines(
    predictions: Array, first: int, width: float | None = None, classes: Sequence[str] = (), threshold: float = 0.5
) -> bytes:
    """`row,prediction` for each, with a width also `lower,upper`, with two classes `row,class,probability`: the second
    class from the threshold on; with a width and classes also `set`: the likelier class, or both (the third of the
    classes) where the likelier has no higher probability than the width.

    Numbers are written as by Python's repr; classes are fields of CSV already. A row without a prediction has none.
    """
    predictions = np.ascontiguousarray(predictions, np.float64)
    no, yes, both = (*(name.encode() for name in classes), None, None, None)[:3]
    sets = both if width is not None and classes else None
    longest = 2 * max(len(no or b""), len(yes or b""), len(both or b""))
    room = np.empty((LINE + longest) * len(predictions), np.uint8)
    style = LineStyle(
        first, width is not None, width or 0.0, no, yes, len(no or b""), len(yes or b""), threshold,
        sets, len(sets or b""), width or 0.0, powers_of_ten().ctypes.data,
    )  # fmt: skip
    used = library().write_lines(ctypes.byref(style), predictions.ctypes.data, len(predictions), room.ctypes.data)
    return room[:used].tobytes()


def interval_lines(predictions: Array, first: int, low: Array, high: Array) -> bytes:
    """`row,prediction,lower,upper` for each, where the ends are not as far away everywhere."""
    lines = []
    for row, found in enumerate(zip(predictions.tolist(), low.tolist(), high.tolist(), strict=True), first):
        cells = ("", "", "") if found[0] != found[0] else map(repr, found)
        lines.append(f"{row},{','.join(cells)}\n")
    return "".join(lines).encode()
