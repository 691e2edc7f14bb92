"""How a process that trains gets memory for batches: it keeps what it has had, in place of asking the system anew."""

from __future__ import annotations

import contextlib
import ctypes

TRIM, MAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
LARGE = 1 << 25  # bytes from which on memory is still mapped and given back: the most that every glibc takes
FREE = 1 << 30  # bytes that are kept at the end of the heap


def keep_memory() -> None:
    """Layers' outputs come and go with every batch. By glibc's usual rules those of a few MB are mapped anew each time,
    page by page; a process that has trained one batch needs the same for the next. Nothing where there is no glibc."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        if mallopt(MAP, LARGE):
            mallopt(TRIM, FREE)
