"""A plan: runs that are rehearsed with given constants do what arithmetic says, and a sample stands for its table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.coordinator import Coordinator
from shoal.engines.simulated import SimulatedEngine
from shoal.engines.virtual import Chain, Network
from shoal.errors import ConfigError, DataError
from shoal.passes.board import ServerBoard
from shoal.planning import sample
from shoal.planning.constants import Constants, SweepTimes, TimedEngine, measure
from shoal.planning.exact import swept
from shoal.planning.machines import failures_of, network_of, nodes_of, stragglers_of
from shoal.planning.miniature import MiniatureWorker
from shoal.planning.plan import Way, best_of
from shoal.planning.rehearsal import Machines, Rehearsed, rehearse
from shoal.planning.sample import PlannedTable, ReadyTable, made_up, prepared, taken_from
from shoal.settings.values import config_from
from support.training import generated

SWEEP = SweepTimes("ReadRange", requests=1, seconds=0.1, merging=0.001, down=1000, up=10_000)
GIVEN = Constants(
    row=1e-8, call=1e-6, local=1e-6, task={"none": 1e-6, "topk": 1e-6, "half": 1e-6}, message=1e-5, step=1e-5, shard=1e-7, record=0.0, pipe=0.0,
    spread=0.0, rows=4096, preparing=(SWEEP,), copying=(SWEEP,), scoring=(SWEEP,), solving=0.001,
)  # fmt: skip


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadyTable]:
    """A million rows of eight columns, of which there are 4,096."""
    folder = tmp_path_factory.mktemp("plan")
    with pytest.MonkeyPatch.context() as patch, TimedEngine() as engine:
        patch.setattr(sample, "MOST", 4096)
        small = made_up("1000000x8", config_from({}), folder)
        assert small is not None
        yield prepared(small, Coordinator(engine, folder / "home"))


def rehearsed(
    ready: ReadyTable, nodes: int, network: Network | None = None, given: Constants = GIVEN, **knobs: Any
) -> Rehearsed:
    config = replace(ready.objective.config, **{"epochs": 2, **knobs})
    return rehearse(ready, config, given, Machines(nodes, network or Network(0.0001, 1e9)))


# ------------------------------------------------------------------ rehearsals


def test_the_same_question_has_the_same_answer(ready: ReadyTable) -> None:
    assert rehearsed(ready, 4, mode="async") == rehearsed(ready, 4, mode="async")


@pytest.mark.parametrize("mode", ["sync", "ssp", "async", "local"])
def test_the_optimum_is_reached_and_every_second_has_its_cause(mode: str, ready: ReadyTable) -> None:
    found = rehearsed(ready, 4, mode=mode)
    assert found.converged
    assert 0 <= found.waiting < 1
    assert sum(found.chain) <= found.seconds * (1 + 1e-9)
    assert found.chain.work > 0


def test_one_node_takes_at_least_the_time_of_its_rows(ready: ReadyTable) -> None:
    found = rehearsed(ready, 1)
    assert found.rows_per_second <= 1 / GIVEN.row
    assert found.rows_per_second * found.seconds >= 1_000_000 / 2  # a step of half of the rows at least
    slow = rehearsed(ready, 1, given=replace(GIVEN, row=10 * GIVEN.row), batch_size=31_250)
    usual = rehearsed(ready, 1, batch_size=31_250)
    assert slow.rounds == usual.rounds
    assert slow.chain.work == pytest.approx(10 * usual.chain.work, rel=0.05)


def test_latency_and_bandwidth_cost_what_arithmetic_says(ready: ReadyTable) -> None:
    fixed = {"batch_size": 31_250}
    near, far = (rehearsed(ready, 4, Network(latency, 1e9), **fixed) for latency in (0.001, 0.002))
    assert far.rounds == near.rounds
    assert far.seconds - near.seconds >= 2 * 0.001 * near.rounds - 1e-9
    thin = rehearsed(ready, 4, Network(0.001, 1e6), **fixed)
    assert thin.seconds >= near.seconds
    assert thin.nbytes == near.nbytes
    assert thin.seconds >= thin.nbytes / 1e6 / 2  # both directions at a time


def test_compression_sends_fewer_bytes_for_an_update(ready: ReadyTable) -> None:
    plain, packed = (rehearsed(ready, 2, compression=name, batch_size=31_250) for name in ("none", "half"))
    assert packed.nbytes / packed.rounds < plain.nbytes / plain.rounds


def test_steps_that_are_left_out_are_charged(ready: ReadyTable, monkeypatch: pytest.MonkeyPatch) -> None:
    from shoal.planning import rehearsal

    knobs = {"mode": "sync", "batch_size": 512, "epochs": 3, "learning_rate": 1e-4, "finish_passes": 1}
    whole = rehearsed(ready, 2, **knobs)
    monkeypatch.setattr(rehearsal, "CALLS", 1500)
    cut = rehearsed(ready, 2, **knobs)
    assert cut.seconds == pytest.approx(whole.seconds, rel=0.1)
    assert cut.rows_per_second == pytest.approx(whole.rows_per_second, rel=0.1)


@pytest.mark.parametrize("rows", [100, 5000, 200_000, 500_000])
def test_a_batch_of_the_sample_is_as_uncertain_as_one_of_the_table(rows: int, ready: ReadyTable) -> None:
    few, total = ready.shards(16), 1_000_000
    planned = ready.planned(few, 16, total)
    with SimulatedEngine(1) as engine:
        board = ServerBoard(engine.allocate, 16, few.width)
        worker = MiniatureWorker(few, planned, board.shared.joined_by(engine._alive()), together=False)
        used, all_rows = worker._as_uncertain(rows), len(few.open(0)[1])
        assert 1 / used - 1 / all_rows == pytest.approx(1 / rows - 1 / total, rel=0.02, abs=1 / all_rows**2)
        assert worker._as_uncertain(total) == all_rows


def test_a_table_that_is_small_enough_is_rehearsed_itself(tmp_path: Path) -> None:
    path = generated(tmp_path, rows=300)
    with TimedEngine() as engine:
        small = taken_from(config_from({"file": str(path), "target": "y"}), tmp_path)
        assert small.whole
        ready = prepared(small, Coordinator(engine, tmp_path / "home"))
        assert (ready.table.rows, ready.table.columns, ready.precision) == (300, 6, "float64")
        assert rehearsed(ready, 2).converged


# ------------------------------------------------------------------ constants and sweeps


def test_constants_are_measured_on_the_parts_that_do_the_work(ready: ReadyTable) -> None:
    engine = ready.coordinator.engine
    assert isinstance(engine, TimedEngine)
    found = measure(ready, engine, (SWEEP,), ["none", "topk"])
    assert 0 < found.row < 1e-3
    assert found.message > 0
    assert found.step >= 0
    assert set(found.task) == {"none", "topk"}
    assert [sweep.kind for sweep in found.scoring] == ["Score"]
    assert found.scoring[0].up > 0


def test_a_sweep_is_shared_among_nodes_until_reports_are_the_work() -> None:
    table = PlannedTable("t", 4_096_000, 8, 1_000_000_000)
    seconds = [swept(table, GIVEN, [SWEEP], Machines(nodes, Network(0.0001, 1e9))).seconds for nodes in (1, 2, 64)]
    assert seconds[0] > seconds[1] > seconds[2]
    assert seconds[0] == pytest.approx(100.0, rel=0.02)  # a thousand times the rows
    blocks = -(-table.nbytes // (8 << 20))
    assert seconds[2] >= blocks * SWEEP.merging


# ------------------------------------------------------------------ where more do not help


def way(nodes: int, seconds: float, chain: Chain, kind: str = "sync", waiting: float = 0.1) -> Way:
    return Way(kind, "none", nodes, seconds, 0.0, 1.0, 1, 1.0, waiting, True, chain._asdict())


def test_the_knee_is_the_fewest_nodes_that_no_more_nodes_beat() -> None:
    chains = [Chain(work=8), Chain(work=4), Chain(network=3, work=1), Chain(network=4, work=0.5)]
    seconds = (8.0, 4.0, 3.9, 4.5)
    found = best_of([way(n, s, chain) for n, s, chain in zip((1, 2, 4, 8), seconds, chains, strict=True)])
    assert (found.nodes, found.enough, found.limit) == (2, True, "network")
    still = best_of([way(1, 8.0, chains[0]), way(2, 4.0, chains[1])])
    assert (still.nodes, still.enough, still.limit) == (2, False, "")


@pytest.mark.parametrize(
    ("chain", "kind", "limit"),
    [
        (Chain(server=5, network=1, work=1), "sync", "server"),
        (Chain(slow=5, work=1), "local", "stragglers"),
        (Chain(work=5, network=1), "sync", "data"),
        (Chain(work=5, network=1), "async", "staleness"),
    ],
)
def test_what_limits_is_what_the_time_goes_to(chain: Chain, kind: str, limit: str) -> None:
    assert best_of([way(1, 1.0, Chain(work=1), kind), way(2, 1.0, chain, kind)]).limit == limit


# ------------------------------------------------------------------ what a person writes


def test_nodes_networks_stragglers_and_failures_are_read() -> None:
    assert nodes_of("1,2,...,16") == (1, 2, 4, 8, 16)
    assert nodes_of("8, 3") == (3, 8)
    assert network_of("10Gbit,0.5ms") == (Network(0.0005, 1.25e9), None)
    assert network_of("50Mbit,20ms,1ms") == (Network(0.02, 6.25e6), 0.001)
    assert stragglers_of("5%,3", 0.1).share == 0.05
    assert failures_of("24h").every == 86400.0


@pytest.mark.parametrize(
    ("read", "text"),
    [(nodes_of, "one"), (nodes_of, "0"), (network_of, "fast"), (network_of, "10Gbit,5"), (failures_of, "soon")],
)
def test_what_cannot_be_read_is_told_with_an_example(read: Any, text: str) -> None:
    with pytest.raises(ConfigError, match="such as"):
        read(text)


def test_a_sample_has_rows_of_all_parts_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "FEWEST", 200)
    monkeypatch.setattr(sample, "VALUES", 400)
    path = tmp_path / "long.csv"
    rows = 8000
    path.write_text("place,y\n" + "".join(f"{i},{i % 7}\n" for i in range(rows)), "utf-8")
    small = taken_from(config_from({"file": str(path), "target": "y"}), tmp_path)
    assert not small.whole
    taken = np.loadtxt(small.path, delimiter=",", skiprows=1)[:, 0]
    assert len(taken) < rows / 4
    assert all(((taken >= a) & (taken < a + 1000)).any() for a in range(0, rows, 1000))
    assert small.planned.rows == pytest.approx(rows, rel=0.1)


def test_a_file_that_rows_cannot_be_taken_from_is_told(tmp_path: Path) -> None:
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(b"\x1f\x8b\x08\0rest")
    with pytest.raises(ConfigError, match="Give its shape instead"):
        taken_from(config_from({"file": str(packed), "target": "y"}), tmp_path)
    with pytest.raises(DataError, match="2000000x50"):
        taken_from(config_from({"file": str(tmp_path / "none.csv"), "target": "y"}), tmp_path)
