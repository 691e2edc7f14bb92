"""Calls pairs_kernel.c: rows of `label index:value ...` as compressed rows; which bytes are read is in `sparse`."""

from __future__ import annotations

import ctypes
import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.kernels.build import build
from shoal.kernels.csv_kernel import PADDING, powers_of_five
from shoal.models import Array

ALL_READ, BAD_ROW, NOT_RISING = range(3)


class PairReader(ctypes.Structure):
    """Field by field the struct of pairs_kernel.c."""

    _fields_ = (
        ("buffer", ctypes.c_void_p),
        ("length", ctypes.c_int64),
        ("position", ctypes.c_int64),
        ("stop", ctypes.c_int64),
        ("powers_of_five", ctypes.c_void_p),
        ("labels", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("indices", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("greatest", ctypes.c_int64),
    )


class ReadRows(NamedTuple):
    """Compressed rows; `ends` counts values up to the end of each row. `said` is ALL_READ, or why the row at byte
    `position` is none."""

    labels: Array
    ends: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: Array
    greatest: int
    said: int
    position: int


@functools.cache
def library() -> ctypes.CDLL:
    kernel = ctypes.CDLL(str(build("pairs_kernel")))
    kernel.read_pairs.argtypes = [ctypes.POINTER(PairReader)]
    return kernel


def read_pairs(text: bytes, stop: int) -> ReadRows:
    """The rows that begin before byte `stop` of a text that begins with a row and ends with one."""
    buffer = np.zeros(len(text) + PADDING, np.uint8)
    buffer[: len(text)] = np.frombuffer(text, np.uint8)
    buffer[len(text)] = ord("\n")
    rows, pairs = text.count(b"\n") + 1, text.count(b":")
    labels, ends = np.empty(rows), np.empty(rows, np.int64)
    indices, values = np.empty(pairs, np.int32), np.empty(pairs)
    reader = PairReader(
        buffer.ctypes.data, len(text), 0, min(stop, len(text)), powers_of_five().ctypes.data, labels.ctypes.data,
        ends.ctypes.data, indices.ctypes.data, values.ctypes.data, 0, 0, -1,
    )  # fmt: skip
    said = library().read_pairs(ctypes.byref(reader))
    rows, count = reader.rows, reader.count
    return ReadRows(labels[:rows], ends[:rows], indices[:count], values[:count], reader.greatest, said, reader.position)
