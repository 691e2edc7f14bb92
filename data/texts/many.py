"""Very many different texts in their order, as the bytes of a file: one is decoded when it is asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

Packed = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]  # UTF-8 of all texts, and where each ends


def packed(texts: Sequence[str]) -> Packed:
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum(np.fromiter(map(len, raw), np.int64, len(raw)))
    return np.frombuffer(b"".join(raw), np.uint8), np.asarray(ends, np.int64)


class ManyTexts(Sequence[str]):
    """Texts, which are brought in when the first of them is asked for; how many they are is known before."""

    def __init__(self, size: int, load: Callable[[], Packed]) -> None:
        self._size, self._load = size, load

    @functools.cached_property
    def bytes_and_ends(self) -> Packed:
        return self._load()

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...

    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(self._size)[at])
        place = range(self._size)[at]
        data, ends = self.bytes_and_ends
        start = int(ends[place - 1]) if place else 0
        return data[start : int(ends[place])].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        data, ends = self.bytes_and_ends
        whole, start = data.tobytes(), 0
        for end in ends.tolist():
            yield whole[start:end].decode("utf-8", "surrogatepass")
            start = end

    def __contains__(self, text: Any) -> bool:
        return any(own == text for own in self)
