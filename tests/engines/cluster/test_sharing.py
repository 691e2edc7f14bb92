"""Several runs on one cluster, one without a free core, nodes that are taken away, messages that come twice."""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from shoal.engines.base import Engine
from shoal.runs.commands import post
from shoal.runs.folder import Run
from shoal.runs.launch import launch, resume
from shoal.search.folder import stop
from shoal.settings.values import config_from
from shoal.training import recorder
from shoal.training.conductor import Conductor
from support.engine_requests import WhoAmI
from support.engines.storm import Storm
from support.engines.yard import Yard
from support.runs import SLOW, begun, ended, endless_run, rounds, run_home, small_table, until
from support.tables import same_bits
from support.training import At, Script, Trainer, data

pytest.importorskip("ray", reason="Ray is not installed")

SHORT: dict[str, Any] = {"epochs": 3, "batch_size": 8, "shards": 7, "tolerance": 0, "model": "lasso", "alpha": 0.1}


def ray_engine(yard: Yard, workers: int) -> Engine:
    from shoal.engines.cluster.connection import Connection
    from shoal.engines.cluster.engine import RayEngine

    return RayEngine(workers, Connection.to(yard.address), restarts=1000)


@pytest.fixture
def run(yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainer:
    yard.say("mend")
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(recorder, "BUDGET", math.inf)  # every round is put on record
    return Trainer(tmp_path)


def elsewhere(yard: Yard, path: Path, target: str) -> Run:
    """A run without an end, with one worker, by a process of its own."""
    place = {"engine": "ray", "cluster": yard.address, "workers": 1}
    return launch(endless_run(path, **{**SHORT, **place, "target": target, "epochs": 1_000_000}))


def coefficients(run: Run) -> Any:
    assert ended(run) == "finished", run.error
    assert run.result is not None
    return run.result["coefficients"]


def test_two_runs_on_one_cluster_one_without_a_free_core_whose_process_is_killed_later(
    run: Trainer, yard: Yard, tmp_path: Path
) -> None:
    """The first has both cores: another one waits and says why. Then the first gives one back, and both are at work,
    beside a node that is slow. The process of the other is killed: its actor gives the core back, and it goes on."""
    path, target = data("generated", tmp_path)
    others: list[Run] = []

    def meanwhile(conductor: Conductor) -> Iterator[None]:
        while len(conductor.server.workers) < 2:
            yield
        conductor.send("slow_worker", rank=0, factor=3)
        others.append(other := elsewhere(yard, path, target))
        while "waiting for a free core of the cluster, which has 2, 0 of them free" not in other.progress[0]:
            assert other.is_active, other.error
            yield
        conductor.send("remove_worker")
        while rounds(other) <= 3:
            assert other.is_active, other.error
            yield
        os.kill(other.pid, signal.SIGKILL)
        while other.state != "interrupted":
            yield
        done = rounds(other)
        resume(other)
        while rounds(other) <= done + 3:
            assert other.is_active, other.error
            yield
        post(other, "stop")
        while other.is_active:
            yield

    script = Script(meanwhile)
    with ray_engine(yard, 2) as engine:
        run(path, target, engine=engine, callbacks=[script], **{**SHORT, "epochs": 1_000_000})
    assert script.ended
    (other,) = others
    assert ended(other) == "stopped", other.error
    assert other.result is not None
    last = other.result["rounds"]
    stop = At(**{f"round{last - 1}": lambda conductor: conductor.stop("as far as the other")})  # and a step more
    alone = run(path, target, callbacks=[stop], **{**SHORT, "epochs": 1_000_000})
    assert alone.report["rounds"] == last
    assert alone.report["coefficients"] == other.result["coefficients"]


def idle(yard: Yard) -> set[int]:
    """Processes on its nodes that wait for somebody who needs one."""
    found = set()
    for process in psutil.Process(yard.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found |= {process.pid} if "ray::IDLE" in " ".join(process.cmdline()) else set()
    return found


def test_whoever_comes_next_finds_processes_that_have_started(yard: Yard) -> None:
    """In place of those that were used; without them a worker takes the time in which Ray is imported."""
    yard.say("mend")

    def workers() -> set[int]:
        with ray_engine(yard, 2) as engine:
            return set(until(lambda: len(pids := set(engine.sweep([WhoAmI(0.1)] * 2))) == 2 and pids, 3 * SLOW))

    before = workers()
    waiting = until(lambda: len(pids := idle(yard) - before) >= 2 and pids, 3 * SLOW)
    assert workers() <= waiting


def test_trials_of_a_search_share_the_free_cores_of_a_cluster(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of one worker at a time; where nobody said how many workers, a trial has all cores and the next one waits."""
    yard.say("mend")
    with run_home(tmp_path / "home", monkeypatch):
        monkeypatch.setenv("SHOAL_SLOTS", "4")
        table, place = small_table(tmp_path), {"engine": "ray", "cluster": yard.address}
        endless = {"epochs": 1_000_000, **place, "workers": 1}
        search = begun(table, {"learning_rate": "1e-9,2e-9,3e-9"}, endless, seconds=1e6, prune=False)
        until(lambda: [rounds(run) > 3 for run in search.runs()] == [True, True], 3 * SLOW)
        stop(search)
        until(lambda: not search.is_active and not search.folder.is_alive, 3 * SLOW)
        assert search.account.count("failed") == 0
        search = begun(table, {"batch_size": "32,128"}, {"epochs": 3, "learning_rate": 0.01, **place}, reach=1e-14)
        until(lambda: not search.is_active and not search.folder.is_alive, 3 * SLOW)
        assert search.standing.state == "finished", search.standing
        assert search.config.workers == 2
        for trial, run in zip(search.account.trials, search.runs(), strict=True):
            assert (run.config["engine"], run.config["workers"], trial.state) == ("ray", 2, "short")
            assert run.result is not None
            config = config_from({**run.config, "engine": "inline", "cluster": "", "workers": 0})
            assert run.result["coefficients"] == coefficients(launch(config))


def test_a_push_that_comes_twice_counts_once(
    run: Trainer, yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every piece of work is sent twice, and every answer is heard of twice."""
    from shoal.engines.cluster.actor import as_arrays
    from shoal.engines.cluster.crew import RayMember
    from shoal.worker import Parts

    path, target = data("generated", tmp_path)
    usual, twice = RayMember.tell, [0]

    def tell(self: Any, message: Parts) -> None:
        usual(self, message)
        number, (first,) = self.number, self._call
        again = self._handle.work.remote(number, as_arrays(message)).future()

        def heard(_: Any) -> None:
            """Once both are there: the cluster does not promise to tell of the first one first."""
            first.add_done_callback(lambda _: self._mailbox.put((self, number)))

        again.add_done_callback(heard)
        twice[0] += 1

    monkeypatch.setattr(RayMember, "tell", tell)
    for mode in ("sync", "async"):
        with ray_engine(yard, 2) as engine:
            found = run(path, target, engine=engine, mode=mode, **SHORT)
        ledger = found.report["ledger"]
        assert ledger["batches"] == 3 * ledger["batches_of_an_epoch"]
        if mode == "sync":
            assert same_bits(found.w, run(path, target, mode=mode, **SHORT).w)
    assert twice[0] > 10


@pytest.mark.parametrize("mode", ["sync"])
def test_no_bit_differs_after_random_faults(mode: str, run: Trainer, yard: Yard, tmp_path: Path) -> None:
    """One of each kind, who is left goes on alone until another node joins; `make cluster-soak` does thirty."""
    path, target = data("generated", tmp_path)
    with ray_engine(yard, 2) as engine:
        found = Storm(yard, engine, faults=4).under(run, path, target, mode=mode)
    assert sorted(found.kinds) == ["node drained", "raylet killed", "worker killed", "worker silent"]
    (cause,) = found.causes["raylet killed"]
    known = ("its node went away", "its node cannot be reached", "the cluster's own process on its node (raylet) ended")
    assert cause in known or "nothing was heard" in cause
    assert found.differing == 0
    assert found.same_weights
    assert found.rounds > 20
