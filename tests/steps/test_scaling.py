"""How many workers: simulated machines, with noise, for many minutes of a clock that is set."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from shoal.steps.scaling import BUSY, PATIENCE, WINDOW, WORTH_IT, Scaler

Speed = Callable[[int, float], float]  # rows a second of so many workers at a time


def amdahl(parallel: float) -> Speed:
    return lambda workers, now: 1e6 / (1 - parallel + parallel / workers)


def saturated(cores: int, loss: float = 0.0) -> Speed:
    """Linear up to the cores that there are, then no better, or worse by `loss` a worker."""
    return lambda workers, now: 1e6 * (min(workers, cores) - loss * max(0, workers - cores))


class Machine:
    """Asks every second, starts workers in a second or two and lets them go as late as they like."""

    def __init__(
        self,
        most: int,
        speed: Speed,
        *,
        workers: int = 1,
        noise: float = 0.0,
        others: Callable[[float], float] = lambda now: 0.0,
        start: float = 1.5,
        farewell: float = 0.5,
        seed: int = 0,
    ) -> None:
        self.scaler, self.speed, self.others, self.workers = Scaler(most), speed, others, workers
        self.noise, self.start, self.farewell = noise, start, farewell
        self.random = random.Random(seed)
        self.now = 0.0
        self.changes: list[tuple[float, int]] = []
        self.numbers: list[int] = []  # of workers, second by second
        self._pending: tuple[float, int] | None = None
        self._last = 0.0  # what was measured last: it may be of the number of workers before

    def run(self, seconds: float) -> Machine:
        end = self.now + seconds
        while self.now < end:
            self.now += 1.0
            self._arrive()
            advice = self._ask()
            self._last = self.speed(self.workers, self.now) * self.random.gauss(1.0, self.noise)
            assert advice in (-1, 0, 1)
            assert advice < 1 or self._pending is None, "somebody leaves, and another is to come"
            if advice and self._pending is None:
                self._pending = self.now + (self.start if advice > 0 else self.farewell), advice
            self.numbers.append(self.workers)
        return self

    def _ask(self) -> int:
        if self._pending is not None and self._pending[1] > 0:
            return 0  # as the run does: no advice while somebody is on the way
        busy = self.others(self.now) * self.random.gauss(1.0, self.noise)
        return self.scaler.advice(self.now, self.workers, self._last, max(0.0, busy))

    def _arrive(self) -> None:
        if self._pending is not None and self.now >= self._pending[0]:
            change, self._pending = self._pending[1], None
            self.workers += change
            self.changes.append((self.now, change))
            assert 1 <= self.workers <= self.scaler.most


def test_it_grows_while_throughput_rises() -> None:
    machine = Machine(8, amdahl(0.99)).run(90)
    assert machine.workers == 8
    assert [change for _, change in machine.changes] == [1] * 7


def test_it_steps_back_when_another_worker_is_not_worth_it() -> None:
    machine = Machine(8, saturated(3)).run(PATIENCE / 2)
    assert [change for _, change in machine.changes] == [1, 1, 1, -1]
    assert machine.workers == 3


@pytest.mark.parametrize(("gain", "kept"), [(WORTH_IT - 0.01, 1), (WORTH_IT + 0.01, 2)])
def test_what_a_worker_has_to_be_worth(gain: float, kept: int) -> None:
    machine = Machine(2, lambda workers, now: 100.0 * gain ** (workers - 1)).run(PATIENCE / 2)
    assert machine.workers == kept


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_it_does_not_flap_on_a_noisy_machine(noise: float, seed: int) -> None:
    """Ten minutes: a number that was refused is tried again after one, two and four minutes, and no more often."""
    machine = Machine(8, saturated(4, loss=0.3), noise=noise, seed=seed).run(600)
    growth = [at for at, change in machine.changes if change > 0]
    assert len(machine.changes) <= 3 + 2 * 4 + 4  # to four, four trials of a fifth; now and then luck keeps one
    assert sum(3 <= n <= 5 for n in machine.numbers) > 0.9 * 600
    assert len(growth) - sum(change < 0 for _, change in machine.changes) == machine.workers - 1


@pytest.mark.parametrize("seed", range(20))
def test_a_number_that_was_kept_is_not_given_up_for_noise(seed: int) -> None:
    machine = Machine(4, amdahl(0.97), noise=0.1, seed=seed).run(600)
    first = machine.numbers.index(4)
    assert first < 300
    assert set(machine.numbers[first:]) == {4}


def test_a_change_of_speed_that_workers_have_no_part_in_changes_nothing() -> None:
    """The full passes at the end of a run have another throughput than its steps."""
    machine = Machine(2, lambda workers, now: (1e6 if now < 100 else 1e5) * workers).run(400)
    assert [change for _, change in machine.changes] == [1]


def test_it_gives_way_while_others_are_busy_and_comes_back() -> None:
    def compiling(now: float) -> float:
        return 2.0 if 100 <= now < 200 else 0.0

    machine = Machine(4, saturated(4), workers=4, others=compiling)
    assert machine.run(95).workers == 4
    assert machine.run(35).workers == 2
    assert machine.run(60).workers == 2, "it is in nobody's way, and does not try to be"
    assert machine.run(120).workers == 4
    assert len(machine.changes) == 4


@pytest.mark.parametrize(("others", "workers"), [(BUSY - 0.01, 4), (BUSY + 0.01, 3), (1.0, 3), (1.5, 2), (9.0, 1)])
def test_it_leaves_others_the_cores_that_they_use(others: float, workers: int) -> None:
    machine = Machine(4, saturated(4), workers=4, others=lambda now: others).run(120)
    assert machine.workers == workers
    assert len(machine.changes) == 4 - workers


@pytest.mark.parametrize("seed", range(10))
def test_others_that_come_and_go_do_not_make_it_flap(seed: int) -> None:
    """Somebody compiles every other ten seconds, on the verge of what counts as busy."""
    machine = Machine(4, saturated(4), workers=4, noise=0.2, seed=seed, others=lambda now: 0.8 * (now % 20 < 10))
    machine.run(600)
    assert len(machine.changes) <= 12
    assert min(machine.numbers) >= 2


def test_one_worker_stays_whatever_others_do() -> None:
    machine = Machine(4, saturated(4), others=lambda now: 4.0, noise=0.1).run(600)
    assert set(machine.numbers) == {1}


def test_who_takes_its_time_to_leave_is_not_made_up_for_by_another() -> None:
    machine = Machine(8, saturated(2), farewell=12.0).run(PATIENCE - 10)
    assert [change for _, change in machine.changes] == [1, 1, -1]
    assert machine.workers == 2


def test_a_slow_start_is_not_held_against_a_worker() -> None:
    """It is judged by what was measured with it, not by what was measured while it was on the way."""
    machine = Machine(2, saturated(2), start=10 * WINDOW).run(200)
    assert [change for _, change in machine.changes] == [1]


def test_a_lost_worker_and_its_replacement_are_no_trial() -> None:
    machine = Machine(2, saturated(2)).run(60)
    assert machine.workers == 2
    machine.workers = 1
    machine.run(2)
    machine.workers, machine.speed = 2, lambda workers, now: 1e6
    machine.run(60)
    assert machine.workers == 2


def test_a_worker_that_never_came_is_asked_for_again_and_nobody_leaves() -> None:
    scaler = Scaler(8)
    assert {scaler.advice(now, 3, 1e6 - now, 0.0) for now in range(100)} == {0, 1}


def test_nothing_measured_is_no_reason_to_grow() -> None:
    assert Machine(4, lambda workers, now: 0.0).run(100).workers == 1


@pytest.mark.parametrize("most", [1, 2])
def test_it_stays_between_one_and_the_most(most: int) -> None:
    """The machine itself checks every change; here under nonsense."""
    rng = random.Random(1)
    machine = Machine(most, lambda workers, now: rng.random(), others=lambda now: 5 * (rng.random() < 0.2)).run(3000)
    assert set(machine.numbers) == set(range(1, most + 1))


def test_no_advice_within_a_window() -> None:
    scaler = Scaler(8)
    advice = [scaler.advice(0.1 * i, 1, 5.0, 0.0) for i in range(round(10 * WINDOW) + 1)]
    assert advice == [0] * round(10 * WINDOW) + [1]
