"""How many threads the libraries of linear algebra use in this process."""

from __future__ import annotations

import os
import threading
from typing import Any


class OneThread:
    """One BLAS thread while any thread is inside: worker processes have one, and two may round differently.

    Counted, since a limit that two threads set and restore in turn would be left behind.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._controller: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._controller = self._controller or ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


one_thread = OneThread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_thread.__init__)  # type: ignore[misc]  # its lock may be shut in a fork
