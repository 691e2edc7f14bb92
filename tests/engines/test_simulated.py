"""Runs on a virtual clock: the same bits as elsewhere, the same course for the same seed, and times that arithmetic
gives; nothing here waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.engines.base import Instruction
from shoal.engines.inline import InlineEngine
from shoal.engines.simulated import SimulatedEngine
from shoal.engines.virtual import Failures, Luck, Network, NoCosts, Stragglers, Surroundings
from shoal.errors import EngineError, WorkerFailed
from shoal.results.fit import GradientTraining
from support.engine_requests import Echo
from support.tables import same_bits
from support.training import Bench, Trainer, generated

SHARDS, ROWS = 6, 60  # shards of about 10 rows
KNOBS: dict[str, Any] = {
    "batch_size": 4, "local_steps": 2, "shards": SHARDS, "epochs": 3, "finish_passes": 6, "tolerance": 1e-12,
    "partition": "contiguous", "staleness": 3,
}  # fmt: skip
STEPS = {**KNOBS, "tolerance": 0}


class Unit(NoCosts):
    """A second for each task, a byte for each message."""

    def down(self, work: Any) -> int:
        return 1

    def up(self, update: Any) -> int:
        return 1

    def work(self, work: Any, update: Any) -> float:
        return float(len(work.tasks))

    def request(self, request: Any, report: Any) -> tuple[float, int, int, float]:
        return 1.0, 1, 1, 0.25


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generated(tmp_path_factory.mktemp("simulated"), rows=ROWS, columns=4)


@pytest.fixture(autouse=True)
def _home(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(table.parent / "home"))


@pytest.fixture
def simulated(table: Path, tmp_path: Path) -> Callable[..., tuple[Bench, SimulatedEngine]]:
    run = Trainer(tmp_path)

    def simulate(workers: int, around: Surroundings | None = None, **knobs: Any) -> tuple[Bench, SimulatedEngine]:
        with SimulatedEngine(workers, around or Surroundings(Unit())) as engine:
            return run(table, "y", engine=engine, **knobs), engine

    return simulate


Simulate = Callable[..., tuple[Bench, SimulatedEngine]]


def training(bench: Bench) -> GradientTraining:
    assert bench.trained.report.training is not None
    return bench.trained.report.training


# ------------------------------------------------------------------ bits


@pytest.mark.parametrize("mode", ["sync", "ssp", "async", "local"])
def test_one_worker_without_latency_is_the_inline_engine_bit_by_bit(
    mode: str, simulated: Simulate, table: Path, tmp_path: Path
) -> None:
    alone, _ = simulated(1, Surroundings(), **KNOBS, mode=mode)
    with InlineEngine() as engine:
        inline = Trainer(tmp_path / "inline")(table, "y", engine=engine, **KNOBS, mode=mode)
    assert alone.w.any()
    assert same_bits(alone.w, inline.w)
    assert [r.loss for r in alone.rounds] == [r.loss for r in inline.rounds]


@pytest.mark.parametrize(("mode", "silent"), [("sync", 0.0), ("sync", 1.0), ("local", 0.5)])
def test_failures_and_stragglers_change_no_bit_where_steps_wait_for_all(
    mode: str, silent: float, simulated: Simulate
) -> None:
    knobs = {**KNOBS, "mode": mode, "compression": "topk", "top_k": 0.5}
    usual, _ = simulated(1, **knobs)
    hard = Surroundings(
        Unit(), Network(0.1, 100.0), Stragglers(0.3, 0.4, 3.0), Failures(12.0, silent, restart=1.0), seed=4
    )
    lucky, engine = simulated(4, hard, **knobs)
    assert engine.account.lost > 2
    assert training(lucky).ledger["redone"] > 0
    assert same_bits(usual.w, lucky.w)


# ------------------------------------------------------------------ the seed


def test_the_same_seed_gives_the_same_course_and_another_seed_another(simulated: Simulate) -> None:
    def course(seed: int) -> tuple[bytes, Any]:
        around = Surroundings(Unit(), Network(0.01, 1e3), Stragglers(0.5, 0.3, 4.0), Failures(100.0), seed)
        bench, engine = simulated(5, around, **{**KNOBS, "mode": "async"})
        return bench.w.tobytes(), engine.account

    assert course(1) == course(1)
    assert course(1) != course(2)


def test_a_machine_that_is_slow_stays_so_when_its_worker_starts_anew() -> None:
    slow = Stragglers(share=0.5, factor=3.0)
    paces = [[Luck(7, rank, life, slow, Failures()).factor() for life in range(3)] for rank in range(20)]
    assert all(len(set(lives)) == 1 for lives in paces)
    assert {lives[0] for lives in paces} == {1.0, 3.0}


# ------------------------------------------------------------------ time


def test_sync_is_never_faster_than_its_slowest_worker(simulated: Simulate) -> None:
    slow = Stragglers(share=0.5, factor=4.0)
    paces = [Luck(0, rank, 0, slow, Failures()).factor() for rank in range(3)]
    assert set(paces) == {1.0, 4.0}
    bench, engine = simulated(3, Surroundings(Unit(), stragglers=slow), **STEPS, mode="sync")
    assert engine.account.seconds >= training(bench).rounds * 4.0 * SHARDS / 3
    usual = simulated(3, **STEPS, mode="sync")[1].account
    assert engine.account.chain.slow > 0
    assert usual.chain.slow == 0
    assert usual.seconds < engine.account.seconds


def test_the_first_round_is_shared_by_all_who_come_within_a_moment(simulated: Simulate) -> None:
    bench, engine = simulated(2, Surroundings(Unit(), Network(0.1)), **STEPS, mode="sync")
    there_and_back = 0.2
    assert engine.account.seconds == pytest.approx(0.1 + training(bench).rounds * (SHARDS / 2 + there_and_back))
    late, engine = simulated(2, Surroundings(Unit(), Network(0.3)), **STEPS, mode="sync")
    assert engine.account.seconds > 0.3 + training(late).rounds * (SHARDS / 2 + 0.6), "nobody waits for long"


def test_twice_the_latency_costs_what_arithmetic_says(simulated: Simulate) -> None:
    def seconds(latency: float) -> tuple[float, int]:
        bench, engine = simulated(3, Surroundings(Unit(), Network(latency)), **STEPS, mode="sync")
        return engine.account.seconds, training(bench).rounds

    (once, rounds), (twice, same) = seconds(0.5), seconds(1.0)
    assert rounds == same
    assert twice - once >= 2 * 0.5 * rounds - 1e-9


def test_a_link_is_no_faster_than_its_bytes_and_what_it_costs_is_told(simulated: Simulate) -> None:
    _, engine = simulated(6, Surroundings(Unit(), Network(bandwidth=0.1)), **STEPS, mode="async")
    account = engine.account
    assert account.nbytes >= 2 * account.pushes
    assert account.seconds >= account.pushes / 0.1
    assert account.chain.network > account.chain.work
    assert sum(account.chain) == pytest.approx(account.seconds)


def test_more_workers_never_lower_the_rows_a_second_of_async(simulated: Simulate) -> None:
    seconds = [simulated(workers, **STEPS, mode="async")[1].account.seconds for workers in (1, 2, 3, 6)]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] == pytest.approx(seconds[0] / 6)


def test_a_server_that_takes_its_time_is_what_limits(simulated: Simulate) -> None:
    class Busy(Unit):
        def taking(self, update: Any) -> float:
            return 2.0

    account = simulated(6, Surroundings(Busy()), **STEPS, mode="async")[1].account
    assert account.seconds >= 2.0 * account.pushes
    assert account.served == pytest.approx(2.0 * account.pushes)
    assert account.chain.server > account.chain.work


def test_records_are_made_while_workers_are_at_the_next_step(simulated: Simulate) -> None:
    class Recording(Unit):
        def digest(self) -> float:
            return 1.5

    usual, busy = (
        simulated(1, Surroundings(costs), **STEPS, mode="sync")[1].account for costs in (Unit(), Recording())
    )
    assert busy.served > 1.5
    assert busy.seconds - usual.seconds <= 1.5  # a round of work takes longer than that


def test_a_sweep_takes_what_workers_links_and_coordinator_take() -> None:
    with SimulatedEngine(4, Surroundings(Unit(), Network(0.5, 10.0))) as engine:
        assert list(engine.sweep(map(Echo, range(8)))) == list(range(8))
    # Two after another by each: a second of work, half a one there and back, four tenths and two of the links.
    assert 2 * (1.0 + 2 * 0.5 + 0.2) < engine.clock.now < 2 * (1.0 + 2 * 0.5 + 0.4) + 4 * 0.25 + 0.4


# ------------------------------------------------------------------ what cannot be simulated


def test_a_request_without_steps_is_told_so() -> None:
    with SimulatedEngine(1) as engine, pytest.raises(EngineError, match="Echo cannot be simulated"):
        engine.run_workers(Echo(1), Idle())


@dataclass(frozen=True)
class NoSteps:
    def answer(self, worker: Any) -> None: ...

    def begin(self, worker: Any) -> Callable[[Any], Any]:
        return lambda work: work


class Idle:
    """A server that gives nobody work."""

    finished, patience = False, 0.05

    def joined(self, rank: int, pid: int, now: float) -> list[Instruction]:
        return []

    def pushed(self, rank: int, update: Any, now: float) -> list[Instruction]:
        return []

    def digest(self, now: float) -> list[Instruction]:
        return []

    def lost(self, rank: int, failure: WorkerFailed, now: float) -> list[Instruction]:
        return []

    def left(self, rank: int, now: float) -> list[Instruction]:
        return []

    def tick(self, now: float) -> list[Instruction]:
        return []


def test_a_run_in_which_nothing_more_happens_ends_with_a_sentence() -> None:
    with SimulatedEngine(2) as engine, pytest.raises(EngineError, match="Nothing more happens"):
        engine.run_workers(NoSteps(), Idle())


def test_draws_are_those_of_their_distributions() -> None:
    luck = Luck(0, 0, 0, Stragglers(spread=0.2), Failures(every=50.0))
    factors = np.log([luck.factor() for _ in range(4000)])
    assert abs(factors.mean()) < 0.02
    assert abs(factors.std() - 0.2) < 0.01
    lifetimes = [Luck(0, rank, 0, Stragglers(), Failures(every=50.0)).lifetime for rank in range(2000)]
    assert abs(np.mean(lifetimes) - 50.0) < 5.0
