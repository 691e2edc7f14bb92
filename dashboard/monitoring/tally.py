"""Counts of a server's answers and how long they took, by kinds of routes, as figures; which kinds there are is known
to whoever counts. Loads nothing of the dashboard: `shoal serve` counts with it too."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from shoal.dashboard.monitoring.exposition import Family, Figure, number

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


class AnswerCounts:
    """Counts of one server since it began; used by its event loop only."""

    def __init__(self, bounds: Sequence[float] = BOUNDS) -> None:
        self.bounds = bounds
        self.answers: Counter[tuple[str, str]] = Counter()  # by kind and class of status
        self.waits: dict[str, list[int]] = {}  # by kind: how many fell between two bounds
        self.seconds: dict[str, float] = {}

    def answered(self, kind: str, status: int, seconds: float) -> None:
        self.answers[kind, f"{status // 100}xx" if 100 <= status < 600 else "other"] += 1
        self.waits.setdefault(kind, [0] * (len(self.bounds) + 1))[bisect_left(self.bounds, seconds)] += 1
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds

    def families(self) -> list[Family]:
        requests = [Figure(count, {"route": kind, "status": status}) for (kind, status), count in self.answers.items()]
        return [
            Family("shoal_http_requests_total", "counter", "Requests, by kind of route and class of status.", requests),
            Family(
                "shoal_http_request_duration_seconds",
                "histogram",
                "Seconds from a request to the beginning of its answer, by kind of route.",
                [figure for kind in self.waits for figure in self._histogram(kind)],
            ),
        ]

    def _histogram(self, kind: str) -> list[Figure]:
        below = list(accumulate(self.waits[kind]))
        bounds = [*map(number, self.bounds), "+Inf"]
        return [
            *(Figure(n, {"route": kind, "le": le}, "_bucket") for le, n in zip(bounds, below, strict=True)),
            Figure(self.seconds[kind], {"route": kind}, "_sum"),
            Figure(below[-1], {"route": kind}, "_count"),
        ]
