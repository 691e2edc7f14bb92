"""Workers that are actors of a cluster: the contract of all engines, and what may happen to nodes and actors."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.engines.base import Engine
from shoal.settings.config import RunConfig
from shoal.tasks.workers import cluster_nodes
from shoal.training import recorder
from shoal.training.conductor import Conductor
from shoal.utils import silent
from support.engine_requests import Note, WhoAmI
from support.engines.contract import *  # noqa: F403 - its tests
from support.engines.yard import Yard
from support.tables import same_bits, shoal
from support.training import At, Bench, Trainer, data

pytest.importorskip("ray", reason="Ray is not installed")


_last: list[Engine] = []


def open_engine(yard: Yard, workers: int = 2) -> Engine:
    """The one that was open before is closed: the cluster has cores for one."""
    from shoal.engines.cluster.connection import Connection
    from shoal.engines.cluster.engine import RayEngine

    while _last:
        _last.pop().close()
    _last.append(RayEngine(workers, Connection.to(yard.address)))
    return _last[0]


@pytest.fixture(scope="module")
def engine(yard: Yard) -> Iterator[Engine]:
    with open_engine(yard) as opened:
        yield opened


@pytest.fixture
def another(yard: Yard) -> Callable[[], Engine]:
    return lambda: open_engine(yard)


# --- training -----------------------------------------------------------------------------------------

KNOBS: dict[str, Any] = {
    "epochs": 3, "finish_passes": 12, "batch_size": 8, "local_steps": 3, "tolerance": 1e-12, "model": "lasso",
    "alpha": 0.1, "shards": 7, "top_k": 0.34,
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainer:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(recorder, "BUDGET", math.inf)  # every round is put on record
    return Trainer(tmp_path)


@pytest.fixture(scope="module")
def crew(yard: Yard) -> Iterator[Engine]:
    yard.say("mend")
    with open_engine(yard) as opened:
        yield opened


def course(found: Bench) -> list[tuple[int, float, float, int]]:
    """All that the rounds say and the clock does not."""
    return [(r.round, r.loss, r.gradient_norm, r.nonzeros) for r in found.rounds]


def killing(engine: Engine, how: int = signal.SIGKILL) -> Callable[[Conductor], None]:
    """Kill an actor that takes part, wherever it is at."""
    return lambda run: os.kill(next(worker.pid for worker in run.server.workers.values()), how)


@pytest.mark.parametrize(("mode", "compression"), [("sync", "none"), ("sync", "topk"), ("local", "none")])
def test_the_same_bits_as_in_one_process_through_the_loss_of_actors(
    mode: str, compression: str, run: Trainer, crew: Engine, tmp_path: Path
) -> None:
    path, target = data("generated", tmp_path)
    knobs = {**KNOBS, "mode": mode, "compression": compression}
    alone = run(path, target, **knobs)
    kill = killing(crew)
    found = run(path, target, engine=crew, callbacks=[At(round3=kill, round12=kill)], **knobs)
    assert same_bits(found.w, alone.w)
    assert course(found) == course(alone)
    assert found.events("lost")
    assert {event.data["cause"] for event in found.events("lost")} == {
        "its process on the cluster ended, possibly killed or out of memory"
    }


@pytest.mark.parametrize("mode", ["ssp", "async"])
def test_updates_that_do_not_wait_count_once_each(mode: str, run: Trainer, crew: Engine, tmp_path: Path) -> None:
    path, target = data("generated", tmp_path)
    knobs = {**KNOBS, "mode": mode, "tolerance": 0}
    ledger = run(path, target, engine=crew, callbacks=[At(round5=killing(crew))], **knobs).report["ledger"]
    assert ledger["batches"] == 3 * ledger["batches_of_an_epoch"]


def test_a_silent_actor_is_replaced_and_its_work_done_by_others(crew: Engine, tmp_path: Path) -> None:
    """Stopped, not killed: no connection closes, as if a cable were cut."""
    victim = next(crew.sweep([WhoAmI()]))
    reports = crew.sweep([Note(number, tmp_path / "ledger", 0.05) for number in range(60)])
    assert next(reports) == 0
    os.kill(victim, signal.SIGSTOP)
    try:
        assert list(reports) == list(range(1, 60))
    finally:
        with contextlib.suppress(ProcessLookupError):  # the cluster may have ended it by now
            os.kill(victim, signal.SIGKILL)
    assert victim not in crew.pids.values()


# --- fits ---------------------------------------------------------------------------------------------


def test_a_fit_of_a_file_has_the_same_bits_and_tells_nobody_the_token(
    yard: Yard, crew: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew.close()  # the cluster has cores for one
    path, target = data("generated", tmp_path)
    told = {}
    for name, where in (("inline", []), ("ray", ["--cluster", yard.address, "--workers", "2"])):
        monkeypatch.setenv("SHOAL_HOME", str(tmp_path / name))
        model = tmp_path / name / "model.json"
        fit = [
            "train",
            path,
            "--target",
            target,
            "--model",
            "ridge",
            "--engine",
            name,
            *where,
            "--out",
            model,
            "--json",
        ]
        done = shoal(*fit)
        assert done.code == 0, done.err
        told[name] = json.loads(done.out)
    assert told["ray"]["coefficients"] == told["inline"]["coefficients"]
    assert told["ray"]["intercept"] == told["inline"]["intercept"]
    token = os.environ["RAY_AUTH_TOKEN"].encode()
    written = [file for file in (tmp_path / "ray").rglob("*") if file.is_file()]
    assert written
    assert not [file for file in written if token in file.read_bytes()]
    # What is asked about the model later is answered where it was fitted, where one says, or without the cluster here.
    ask = ["explain", model, "--resamples", "60", "--json"]
    named = ["--engine", "ray", "--cluster", yard.address]
    answers = [
        shoal(*ask),
        shoal(*ask, "--engine", "inline"),
        shoal(*ask[:1], tmp_path / "inline/model.json", *ask[2:], *named),
    ]
    with monkeypatch.context() as without:
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
            without.delenv(name, raising=False)
        without.setenv("HOME", str(tmp_path))
        answers.append(shoal(*ask))
        assert "Expected the token of the cluster" in shoal(*ask, *named).err
    assert [answer.code for answer in answers] == [0] * 4, [answer.err for answer in answers]
    assert len({answer.out for answer in answers}) == 1


def test_the_nodes_of_a_cluster(yard: Yard, crew: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from shoal.engines.cluster import nodes

    monkeypatch.setattr(nodes, "PATIENCE", 300.0)  # a process has to start on each, beside whatever else goes on
    crew.close()
    yard.say("mend")
    found = cluster_nodes(RunConfig(engine="ray", cluster=yard.address), silent)
    alive = [node for node in found["nodes"] if node["alive"]]
    cores = [node["cores"] for node in alive]
    assert (cores[:2], cores[-1]) == ([1, 1], 0)  # one that was cut a moment ago may still count as alive
    assert found["cores"] >= 2
    assert 0 <= found["free"] <= found["cores"]
    for node in (node for node in alive if node["state"] == "answers"):
        assert 0 < node["memory_free"] <= node["memory"]
        assert 0 < node["disk_free"] <= node["disk"]
    assert [node["state"] for node in alive].count("answers") >= 3


ON_ITS_OWN = """
import sys

import psutil

import shoal
from shoal.engines.cluster import doors
from shoal.engines.cluster.connection import Connection
from shoal.engines.cluster.engine import RayEngine
from shoal.errors import EngineError
from shoal.worker import Ping

doors.EVERY = 0.1  # as many questions, in less time
connection = Connection.to("")  # one cluster for both: it ends with its last user
table, target = sys.argv[1:]
found, expected = (shoal.fit(table, target, engine=engine, workers=1) for engine in ("ray", "inline"))
print("the same" if found.coefficients == expected.coefficients else f"{found} in place of {expected}")
with RayEngine(1, connection) as engine:
    list(engine.sweep([Ping()]))
    for child in psutil.Process().children(recursive=True):
        if "gcs_server" in child.name():
            child.kill()
    try:
        for _ in engine.sweep(Ping() for _ in range(10**9)):
            pass
    except EngineError as error:
        print(error.message)
"""


def test_without_a_cluster_one_is_started_and_the_head_of_one_that_is_gone_is_noticed(
    crew: Engine, tmp_path: Path
) -> None:
    """Whatever Ray is told elsewhere: RAY_ADDRESS is for its own programs, and stands for a cluster that is gone. The
    head of this one is a process of this machine; Ray would end us after a minute without it."""
    crew.close()
    around = {**os.environ, "SHOAL_HOME": str(tmp_path / "home"), "RAY_ADDRESS": "127.0.0.1:1"}
    asked = [sys.executable, "-c", ON_ITS_OWN, *map(str, data("generated", tmp_path))]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=600, env=around)
    assert done.stdout.startswith("the same\n"), done.stdout + done.stderr
    assert "does not answer any more. What a run has saved so far is kept." in done.stdout, done.stderr
