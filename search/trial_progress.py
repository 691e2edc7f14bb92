"""What a trial's records say: the distance to the exact optimum at equal seconds of training, and what that is worth.

    seconds   are those of training: they begin with its first step, after the file is read, the optimum is found and
              the rows are dealt, which a later run of the same table need not do again;
    score     the seconds until the distance is `reach` or less; where that did not happen within `limit` seconds,
              limit (1 + log10(distance / reach)): a limit more for every power of ten that was missing.

Equal seconds are fair to knobs that buy time with passes or passes with time (batch size, mode, compression); equal
passes would always favour the smallest batch. Which trials are given up is decided in `processes.search`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING

from shoal.lazy.classes import dataclass

if TYPE_CHECKING:
    from shoal.metrics import Round
    from shoal.storage import Storage

STEPS = 20  # moments of a trial at which trials are compared
SMALLEST = 1e-16  # doubles tell no more
AT_ZERO = 1.0  # the distance of a run that has made no step: it is measured in this
WORST = 1e6  # of a distance: a run that has lost its way
RECORDS = 1_000_000  # more than there are between two looks: none is left out
POINTS = 60  # of a trial that is kept for charts


@dataclass
class TrialProgress:
    """How far one trial has come; fed with records as they are written."""

    reach: float
    limit: float
    began: float | None = None  # seconds of the run at its first step
    reached: float | None = None  # seconds of training until `reach`
    seconds: float = 0.0  # of training, so far
    passes: float = 0.0
    distance: float | None = None
    unknown: bool = False  # the run cannot tell its distance
    steps: dict[int, float] = field(default_factory=dict)  # distance at STEPS equal moments, from 1
    points: list[tuple[float, float]] = field(default_factory=list)
    _last: int = -1

    def read(self, storage: Storage) -> None:
        """What was recorded since the last look."""
        if self.began is None:
            started = storage.events(kinds={"started"}, limit=1000)
            if not started:
                return
            self.began = started[0][1].seconds
        self.take(storage.rounds_since(self._last, RECORDS))

    def take(self, records: Iterable[Round]) -> None:
        for record in records:
            self._last = record.round
            if record.distance is None:
                self.unknown = True
            if record.distance is None or self.ended:
                continue
            at = max(0.0, record.seconds - (self.began or 0.0))
            self._fill(at)
            if at > self.limit:
                self.seconds = self.limit
                self.distance = self.distance or AT_ZERO
                continue
            self.seconds, self.passes, self.distance = at, record.epoch, _bounded(record.distance)
            self.points.append((at, self.distance))
            if self.distance <= self.reach:
                self.reached = at

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to learn: it came as close as was asked, or the time is up."""
        return self.reached is not None or self.seconds >= self.limit

    @property
    def score(self) -> float | None:
        if self.reached is not None:
            return self.reached
        if self.distance is None:
            return None
        return self.limit * (1 + math.log10(self.distance / self.reach))

    def conclude(self) -> None:
        """It goes no further: at all later moments it is where it is now."""
        if self.distance is not None:
            self._fill(math.inf)

    def diverge(self) -> None:
        """It lost its way: whatever weights were put back, it is no closer than it began."""
        self.distance, self.reached = max(AT_ZERO, self.distance or AT_ZERO), None

    def _fill(self, at: float) -> None:
        """The moments that have passed before a record that is made now: there it was where the last one said."""
        for step in range(len(self.steps) + 1, STEPS + 1):
            if step * self.limit / STEPS > at:
                return
            self.steps[step] = self.distance or AT_ZERO

    def thinned(self) -> list[tuple[float, float]]:
        """Seconds and distances for a chart, always with the last."""
        every = -(-len(self.points) // POINTS) or 1
        kept = self.points[::-every][::-1]
        return [(round(at, 4), float(f"{distance:.3g}")) for at, distance in kept]


def _bounded(distance: float) -> float:
    return min(max(distance, SMALLEST), WORST) if math.isfinite(distance) else WORST
