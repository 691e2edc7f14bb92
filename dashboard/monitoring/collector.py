"""All figures at one moment; a part that cannot be read is said to be so, and the others are there."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from shoal.dashboard.monitoring import host_figures
from shoal.dashboard.monitoring.exposition import Family, by_label, text_of
from shoal.dashboard.monitoring.run_figures import RunFigures

log = logging.getLogger("shoal")


class Collector:
    """One for a server; asked by any thread, looks one after another."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._parts: dict[str, Callable[[], list[Family]]] = {
            "build": host_figures.build,
            "runs": RunFigures().families,
            "queue": host_figures.queue,
            "host": host_figures.host,
            "process": host_figures.own_process,
        }

    def text(self, more: Sequence[Family] = ()) -> str:
        with self._one_at_a_time:
            return text_of([*self._families(), *more])

    def _families(self) -> list[Family]:
        found: list[Family] = []
        went: dict[str, float] = {}
        took: dict[str, float] = {}
        for name, part in self._parts.items():
            began = time.perf_counter()
            try:
                found += part()
                went[name] = 1
            except Exception:
                log.exception("A part of the figures for monitors could not be read: %s", name)
                went[name] = 0
            took[name] = time.perf_counter() - began
        return [
            *found,
            by_label(
                "shoal_part_readable", "gauge", "1 where this part of the figures could be read, or 0.", "part", went
            ),
            by_label("shoal_part_duration_seconds", "gauge", "How long it took to read it.", "part", took),
        ]
