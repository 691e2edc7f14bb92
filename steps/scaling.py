"""How many workers a run should have, from what they achieve: pure logic with a clock that is passed in."""

from __future__ import annotations

from dataclasses import field

from shoal.lazy.classes import dataclass

WINDOW = 3.0  # seconds over which a number of workers is judged
WORTH_IT = 1.05  # another worker has to raise throughput by this factor to be kept
BUSY = 0.5  # cores that others use from which on the machine counts as busy
PATIENCE = 60.0  # seconds before a number that was found wanting is tried again; twice as long the next time ...
LONGEST = 16 * PATIENCE  # ... up to this


@dataclass
class Scaler:
    """Grows while another worker still raises throughput; gives way when others need the machine.

    A number of workers is judged once, right after it was tried, against what was measured right before: a later
    change of speed has other causes, such as another phase of the run. What was refused is not tried again for long.
    """

    most: int
    workers: int = 0  # that the sums below are of
    since: float = 0.0
    seen: int = 0  # measurements since then, and the sums of throughput and of cores that others use
    rows: float = 0.0
    others: float = 0.0
    trial: tuple[int, float] | None = None  # a number of workers that is tried, and the rows a second of one fewer
    refused: dict[int, float] = field(default_factory=dict)  # until when
    waits: dict[int, float] = field(default_factory=dict)  # how long that was

    def advice(self, now: float, workers: int, rows_per_second: float, others_busy: float) -> int:
        """+1, 0 or -1 workers. `others_busy` is the number of cores that other programs keep busy."""
        if workers != self.workers:  # the measurement that comes with the change is still one of both numbers
            self.workers = workers
            self._begin(now)
            return 0
        self.seen, self.rows, self.others = self.seen + 1, self.rows + rows_per_second, self.others + others_busy
        if now - self.since < WINDOW:
            return 0
        rate, others = self.rows / self.seen, self.others / self.seen
        self._begin(now)
        return self._judged(now, workers, rate, others)

    def _begin(self, now: float) -> None:
        self.since, self.seen, self.rows, self.others = now, 0, 0.0, 0.0

    def _judged(self, now: float, workers: int, rate: float, others: float) -> int:
        trial, self.trial = self.trial, None
        if workers > 1 and self._is_refused(now, workers):
            return -1  # somebody was told to leave and is still at work
        if workers > 1 and self._in_the_way(workers, others):
            self._refuse(now, workers)
            return -1
        if workers > 1 and trial is not None and trial[0] == workers and rate < WORTH_IT * trial[1]:
            self._refuse(now, workers)
            return -1
        more = workers + 1
        if more > self.most or rate <= 0 or self._is_refused(now, more) or self._in_the_way(more, others):
            return 0
        self.trial = more, rate
        return 1

    def _in_the_way(self, workers: int, others: float) -> bool:
        return others > BUSY and workers + others > self.most

    def _is_refused(self, now: float, workers: int) -> bool:
        return now < self.refused.get(workers, now)

    def _refuse(self, now: float, workers: int) -> None:
        self.waits[workers] = min(2 * self.waits.get(workers, PATIENCE / 2), LONGEST)
        self.refused[workers] = now + self.waits[workers]
