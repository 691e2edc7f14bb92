"""How a process that trains gets memory for batches: it keeps what it has had, in place of asking the system anew."""

from __future__ import annotations

import contextlib
import ctypes

TRIM, MAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
MOST = 1 << 30  # bytes: what is larger than any layer's output is still given back


def keep_memory() -> None:
    """Layers' outputs come and go with every batch. By glibc's usual rules those of a few MB are mapped anew each time,
    page by page; a process that has trained one batch needs the same for the next. Nothing where there is no glibc."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(TRIM, MOST)
        mallopt(MAP, MOST)
