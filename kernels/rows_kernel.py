"""Calls rows_kernel.c: sparse rows about their centre, multiplied from both sides; which rows there are is known
elsewhere."""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.build import build
from shoal.lazy.classes import dataclass
from shoal.models import Array, Integers, StoredPlaces, TouchedSums


@functools.cache
def library() -> ctypes.CDLL:
    kernel = ctypes.CDLL(str(build("rows_kernel")))
    rows: list[Any] = [ctypes.c_int64, *4 * (ctypes.c_void_p,)]
    kernel.row_scores.argtypes = kernel.row_sums.argtypes = [*rows, ctypes.c_void_p]
    kernel.row_scores.restype = kernel.row_sums.restype = None
    kernel.dot_of.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
    kernel.dot_of.restype = ctypes.c_double
    kernel.touched_sums.argtypes = [*rows, *4 * (ctypes.c_void_p,)]
    kernel.touched_sums.restype = ctypes.c_int64
    return kernel


def dot(a: Array, b: Array) -> float:
    """a'b of vectors of one length; the same bits in every process."""
    a, b = (np.ascontiguousarray(vector, np.float64) for vector in (a, b))
    if len(a) != len(b):
        raise ValueError("expected vectors of one length")
    return float(library().dot_of(len(a), a.ctypes.data, b.ctypes.data))


class _Room(threading.local):
    """For sums of columns, 0 between two uses; each thread its own, since two may add up at the same time."""

    sums, met = np.zeros(0), np.zeros(0, np.uint8)

    def of(self, width: int) -> tuple[Array, NDArray[np.uint8]]:
        if len(self.sums) != width:
            self.sums, self.met = np.zeros(width), np.zeros(width, np.uint8)
        return self.sums, self.met


_ROOM = _Room()


@dataclass(frozen=True, eq=False)
class CentredRows:
    """X = A - 1 centre' (n, p) with A's values by rows: row i has those from starts[i] to starts[i + 1].

    X has no zeros left, so it is never made; products with it are those with A and one number for the centre.
    """

    starts: Integers  # (n + 1,)
    indices: StoredPlaces
    values: Array
    centre: Array  # (p,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), len(self.centre)

    def __getitem__(self, rows: slice) -> CentredRows:
        """Some rows that follow one another."""
        first, last, step = rows.indices(len(self))
        if step != 1:
            raise IndexError("expected rows that follow one another")
        return CentredRows(self.starts[first : max(first, last) + 1], self.indices, self.values, self.centre)

    @property
    def stored(self) -> tuple[NDArray[Any], ...]:
        """The values of these rows and their places."""
        own = slice(int(self.starts[0]), int(self.starts[-1]))
        return self.values[own], self.indices[own]

    def stored_times(self, w: Array) -> Array:
        """A w (n,)."""
        w, out = np.ascontiguousarray(w, np.float64), np.empty(len(self))
        library().row_scores(*self._given, w.ctypes.data, out.ctypes.data)
        return out

    def times(self, w: Array) -> Array:
        """X w (n,)."""
        return self.stored_times(w) - dot(self.centre, w)

    def against(self, r: Array) -> Array:
        """X'r (p,)."""
        r, sums = np.ascontiguousarray(r, np.float64), np.zeros(len(self.centre))
        library().row_sums(*self._given, r.ctypes.data, sums.ctypes.data)
        sums -= float(r.sum()) * self.centre
        return sums

    def touched(self, r: Array) -> TouchedSums:
        """The same by the columns that these rows have a value in."""
        r, room = np.ascontiguousarray(r, np.float64), _ROOM.of(len(self.centre))
        most = min(int(self.starts[-1] - self.starts[0]), len(self.centre))
        places, sums = np.empty(most, np.int32), np.empty(most)
        pointers = (array.ctypes.data for array in (r, *room, places, sums))
        count = library().touched_sums(*self._given, *pointers)
        return TouchedSums(places[:count], sums[:count], -float(r.sum()))

    @property
    def _given(self) -> tuple[Any, ...]:
        return len(self), self.starts.ctypes.data, self.indices.ctypes.data, self.values.ctypes.data
