"""Which batches of mapped files a reader asks the system for before they are needed; what is in them is not known here.

Asking is a call of the system each time, so a batch is asked for once however far ahead one looks.
"""

from __future__ import annotations

import mmap
from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

PAGE = mmap.PAGESIZE


class ReadAhead:
    """What one reader has asked for and not taken yet, of all files: at most `most` batches, 0 for any number."""

    def __init__(self, most: int = 0) -> None:
        self.most, self.queued = most, 0
        self._order: Hashable = None
        self._files: dict[int, tuple[int, int]] = {}  # the step that was taken last, and the last one asked for

    def wanted(self, file: int, order: Hashable, step: int, last: int) -> range:
        """The steps to ask for now that `step` of a file is taken, up to `last`; another `order` of batches, such as
        that of the next epoch, begins anew."""
        if order != self._order:
            self._order, self.queued = order, 0
            self._files.clear()
        taken, asked = self._files.get(file, (step, step))
        self.queued -= asked - taken
        asked = asked if taken <= step <= asked else step
        self.queued += asked - step
        room = self.most - self.queued if self.most else last
        more = max(0, min(last - asked, room))
        self.queued += more
        self._files[file] = step, asked + more
        return range(asked + 1, asked + more + 1)


def advise(rows: Any, advice: str) -> None:
    """Tell the system what will be done with mapped rows; where it cannot be told, nothing is lost."""
    for array in stored_in(rows):
        _advise(array, advice)


def bring_in(rows: Any) -> None:
    """Read something of every page that mapped rows lie in."""
    for array in stored_in(rows):
        lines = array if array.ndim == 2 else array[:, None]
        lines[:: max(1, PAGE // max(1, lines.strides[0])), 0].max(initial=0)


def stored_in(rows: Any) -> tuple[npt.NDArray[Any], ...]:
    """The arrays that rows lie in: dense ones themselves; sparse ones have several."""
    return (rows,) if isinstance(rows, np.ndarray) else tuple(rows.stored)


def _advise(rows: npt.NDArray[Any], advice: str) -> None:
    option = getattr(mmap, advice, None)
    memory: Any = rows
    while isinstance(memory, np.ndarray):
        memory = memory.base
    memory = memory.obj if isinstance(memory, memoryview) else memory
    if option is None or not isinstance(memory, mmap.mmap) or not rows.size:
        return
    whole = np.frombuffer(memory, np.uint8)
    begin = (rows.ctypes.data - whole.ctypes.data) // PAGE * PAGE
    memory.madvise(option, begin, min(rows.nbytes + PAGE, len(memory) - begin))
