"""Gradients as fewer bytes, and the error feedback that gives back what an encoding left out; no step rule lives here.

    none    width float64                              8 * width bytes       exact, bit by bit
    touched how many, one number, values and places    16 + 12 * k bytes     exact: what `none` is for sparse rows
    topk    scale, k places, k values in float32       8 + 8 * k bytes       the k largest in size, the rest is 0
    half    scale, width float16                       8 + 2 * width bytes   11 bits of every value

Scales are float64 powers of two, so they cost no digits and nothing overflows from 5e-324 to 1.8e308. A vector with a
value that is not finite decodes to NaN (`none`: to itself): a run that diverges must not look healthy.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ConfigError
from shoal.models import Array, TouchedSums

Bytes = NDArray[np.uint8]
SCALE = 8  # bytes of the float64 in front
SMALLEST = -1074  # exponent of the smallest float64
STABLE = 1.5  # see `fed_back`: twice that diverges


class Compression(ABC):
    """One way to write a vector (width,) into bytes whose number is known beforehand."""

    name: ClassVar[str]
    exact: ClassVar[bool] = False  # nothing is left out, so nothing is held back

    def __init__(self, width: int, share: float = 0.1) -> None:
        """`share` is that of the values which are sent, for the encodings that leave some out."""
        if not 0 < share <= 1:
            raise ConfigError(
                f"Expected the share of values to send to be more than 0 and at most 1, got {share!r}. "
                "Give a share such as 0.1."
            )
        self.width = width
        self.share = share

    @property
    def kept(self) -> float:
        """The share of the values that is sent at a time."""
        return 1.0

    @abstractmethod
    def size(self) -> int:
        """Bytes of an encoded vector."""

    @abstractmethod
    def encode(self, vector: Array, into: Bytes) -> int:
        """Write `vector` (width,) to the first bytes of `into` and return how many they are."""

    @abstractmethod
    def decode(self, data: Bytes) -> Array:
        """The vector (width,) float64 that the first bytes of `data` stand for."""


class Plain(Compression):
    """float64 as it is."""

    name = "none"
    exact = True

    def size(self) -> int:
        return 8 * self.width

    def encode(self, vector: Array, into: Bytes) -> int:
        into[: self.size()].view(np.float64)[:] = vector
        return self.size()

    def decode(self, data: Bytes) -> Array:
        return data[: self.size()].view(np.float64).copy()


class Touched(Compression):
    """The coordinates that sparse rows have touched, and how far all moved along the centre of the rows; all
    coordinates where that takes fewer bytes."""

    name = "touched"
    exact = True
    HEAD = 16  # bytes: how many places there are, ALL of them without naming any; how far along the centre
    ALL = -1

    def __init__(self, width: int, centre: Array) -> None:
        super().__init__(width)
        self.centre = centre

    def size(self) -> int:
        """At most."""
        return self.HEAD + 8 * self.width

    def encode(self, vector: Array, into: Bytes) -> int:
        return self._whole(vector, 0.0, into)

    def encode_sums(self, sums: TouchedSums, into: Bytes) -> int:
        count = len(sums.places)
        if 12 * count >= 8 * self.width:
            return self._whole(self._scattered(sums), sums.along, into)
        into[:8].view(np.int64)[0], into[8:16].view(np.float64)[0] = count, sums.along
        values, places = self._parts(into, count)
        values[:], places[:] = sums.values, sums.places
        return self.HEAD + 12 * count

    def vector(self, sums: TouchedSums) -> Array:
        """What these stand for (width,)."""
        return self._scattered(sums) + sums.along * self.centre

    def _scattered(self, sums: TouchedSums) -> Array:
        vector = np.zeros(self.width)
        vector[sums.places] = sums.values
        return vector

    def _whole(self, vector: Array, along: float, into: Bytes) -> int:
        into[:8].view(np.int64)[0], into[8:16].view(np.float64)[0] = self.ALL, along
        into[self.HEAD : self.size()].view(np.float64)[:] = vector
        return self.size()

    def decode(self, data: Bytes) -> Array:
        return self.total([data])

    def total(self, pushed: Sequence[Bytes], factors: Sequence[float] | None = None) -> Array:
        """The sum (width,) of what several bytes stand for, each times its factor, in their order; in one vector."""
        total, along = np.zeros(self.width), 0.0
        for data, factor in zip(pushed, factors or itertools.repeat(1.0), strict=False):
            count = int(data[:8].view(np.int64)[0])
            along += factor * float(data[8:16].view(np.float64)[0])
            if count == self.ALL:
                total += factor * data[self.HEAD : self.size()].view(np.float64)
            else:
                values, places = self._parts(data, count)
                total[places] += factor * values  # each place once
        if along:
            total += along * self.centre
        return total

    def _parts(self, data: Bytes, count: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        middle = self.HEAD + 8 * count
        return data[self.HEAD : middle].view(np.float64), data[middle : middle + 4 * count].view(np.int32)


class TopK(Compression):
    """The k = round(share * width), at least 1, values largest in size; of equal ones those with the lower index.

    Biased: alone it never moves the small coordinates, so it belongs with error feedback (Stich et al. 2018).
    """

    name = "topk"
    LIMIT = 2 - 2.0**-23  # the largest float32 under 2

    def __init__(self, width: int, share: float = 0.1) -> None:
        super().__init__(width, share)
        self.k = min(width, max(1, round(share * width)))

    @property
    def kept(self) -> float:
        return self.k / max(self.width, 1)

    def size(self) -> int:
        return SCALE + 8 * self.k

    def encode(self, vector: Array, into: Bytes) -> int:
        scale, scaled = _scaled(vector, 0, self.LIMIT)
        places = largest_places(vector, self.k)
        data_scale, data_places, data_values = self._parts(into)
        data_scale[0], data_places[:], data_values[:] = scale, places, scaled[places]
        return self.size()

    def decode(self, data: Bytes) -> Array:
        scale, places, values = self._parts(data)
        vector = np.zeros(self.width)
        vector[places] = values * scale
        return vector

    def _parts(self, data: Bytes) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float32]]:
        middle = SCALE + 4 * self.k
        places, values = data[SCALE:middle], data[middle : self.size()]
        return data[:SCALE].view(np.float64), places.view(np.int32), values.view(np.float32)


class Half(Compression):
    """float16 of vector / scale, the scale such that the largest value lies in [2^14, 2^15), far from overflow.

    |decoded - value| <= 2^-11 |value|, or 2^-39 of the largest value where that is more.
    """

    name = "half"
    LIMIT = 32752.0  # the largest float16 under 2^15: rounded up to that, the largest float64 would decode to inf

    def size(self) -> int:
        return SCALE + 2 * self.width

    def encode(self, vector: Array, into: Bytes) -> int:
        scale, scaled = _scaled(vector, 14, self.LIMIT)
        data_scale, data_values = self._parts(into)
        data_scale[0], data_values[:] = scale, scaled
        return self.size()

    def decode(self, data: Bytes) -> Array:
        scale, values = self._parts(data)
        vector: Array = values * scale
        return vector

    def _parts(self, data: Bytes) -> tuple[NDArray[np.float64], NDArray[np.float16]]:
        return data[:SCALE].view(np.float64), data[SCALE : self.size()].view(np.float16)


COMPRESSIONS: dict[str, type[Compression]] = {"none": Plain, "topk": TopK, "half": Half}


def make_compression(name: str, width: int, share: float) -> Compression:
    if name not in COMPRESSIONS:
        raise ConfigError(
            f"Expected a compression out of {', '.join(COMPRESSIONS)}, got {name!r}. Choose one of these."
        )
    return COMPRESSIONS[name](width, share)


@np.errstate(over="ignore", invalid="ignore")
def encode_with_feedback(c: Compression, gradient: Array, residual_in: Array, residual_out: Array, into: Bytes) -> int:
    """Encode u = gradient + residual_in; residual_out = u - decoded, to be added next time. All are (width,).

    So the decoded vectors and the last residual sum to the sum of the gradients: what is left out comes later
    (Karimireddy et al. 2019). Both residuals may be the same array. Returns the bytes used.
    """
    total = np.asarray(gradient, np.float64) + residual_in
    used = c.encode(total, into)
    residual_out[:] = total - c.decode(into)
    return used


def fed_back(kept: float, largest: float = 1.0) -> float:
    """The share of an update that may be applied where only `kept` of its values are sent at a time, at most 1.

    A value waits 1 / kept rounds in the residual, grows by an update in each, and is then applied as a whole. With M
    the part of the distance to the optimum that an update takes away, a coordinate so moves by s M / kept times its
    distance, which overshoots for good from s = 2 kept / `largest` on, the largest eigenvalue of M. For the identity
    and spectra of condition 10 and 1,000, of 10 to 200 columns, 2 converged and 3 did not; s = STABLE kept / largest.
    """
    return min(1.0, STABLE * kept / largest) if largest > 0 else 1.0


def largest_places(vector: Array, k: int) -> NDArray[np.intp]:
    """The indices of the k values largest in size, rising; NaN is the largest of all, ties go to the lower index."""
    size = np.where(np.isnan(vector), np.inf, np.abs(vector))
    if k == 0:
        return np.empty(0, np.intp)
    limit = np.partition(size, len(size) - k)[len(size) - k]
    above, equal = np.flatnonzero(size > limit), np.flatnonzero(size == limit)
    return np.sort(np.concatenate((above, equal[: k - len(above)])))


def _scaled(vector: Array, power: int, limit: float) -> tuple[float, NDArray[np.floating[Any]]]:
    """A power of two and vector / that, the largest value in [2^power, 2^(power + 1)) and none beyond +-limit."""
    largest = float(np.abs(vector).max(initial=0.0))
    if not math.isfinite(largest):
        return math.nan, np.zeros_like(vector)
    exponent = math.frexp(largest)[1] - 1 - power if largest else 0
    scale = math.ldexp(1.0, max(exponent, SMALLEST))
    return scale, np.clip(np.asarray(vector, np.float64) / scale, -limit, limit)
