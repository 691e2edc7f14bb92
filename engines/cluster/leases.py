"""How long a worker may be silent before it counts as gone: pure logic with a clock that is passed in."""

from __future__ import annotations

EVERY = 1.0  # seconds between an answer and the next question whether it is still there
SHORTEST = 3.0  # seconds that it may take for the answer ...
USUAL = 5  # ... or so many times what it usually takes, on a busy machine or a slow link
HELD_UP = 1.0  # seconds between two looks from which on this process itself was held up


class Lease:
    """One worker's: it is asked again and again, whatever it is doing, and has to answer in time."""

    def __init__(self, now: float) -> None:
        self._heard = now
        self._asked: float | None = None  # that was not answered yet
        self.took = 0.0  # seconds between question and answer, smoothed

    def is_due(self, now: float) -> bool:
        """Whether it is time to ask."""
        return self._asked is None and now - self._heard >= EVERY

    def ask(self, now: float) -> None:
        self._asked = now

    def answer(self, now: float) -> None:
        if self._asked is not None:
            took = max(0.0, now - self._asked)
            self.took = took if not self.took else 0.8 * self.took + 0.2 * took
        self._asked, self._heard = None, now

    def excuse(self, seconds: float) -> None:
        """Who asks was away for so long; no worker is to blame for it."""
        if self._asked is not None:
            self._asked += seconds

    def silent(self, now: float) -> float:
        """Seconds that an answer is missing for."""
        return 0.0 if self._asked is None else now - self._asked

    @property
    def seconds(self) -> float:
        return max(SHORTEST, USUAL * self.took)

    def is_over(self, now: float) -> bool:
        return self.silent(now) > self.seconds
