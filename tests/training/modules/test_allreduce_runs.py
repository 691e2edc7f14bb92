"""Runs whose workers add gradients up among themselves: the bits of the server's sums, through a kill, a hang, workers
that come and go, and a resumption."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.allreduce.server import GroupServer
from shoal.errors import ConfigError, EngineError
from shoal.training.conductor import Conductor
from support.gradient.nets import rows, small, stored
from support.training import At, Bench, Script, Trainer

KNOBS: dict[str, Any] = {
    "model": "module", "shards": 5, "batch_size": 16, "epochs": 3, "learning_rate": 0.05, "tolerance": 0, "mode": "sync",
    "step_rule": "adamw", "test_every": 5, "clip": 0.5,
}  # fmt: skip
BY_WORKERS = {"aggregation": "allreduce"}


@pytest.fixture
def path() -> Path:
    """Dropout, statistics of batches, and shards of different lengths."""
    return stored(small(drop=0.3, norm=True), rows(660))


def course(found: Bench) -> list[tuple[Any, ...]]:
    return [(r.round, r.loss, r.gradient_norm, r.validation) for r in found.rounds]


def here(run: Conductor, count: int) -> Iterator[None]:
    """So many workers, and rounds that they have made together."""
    while len(run.server.workers) != count:
        yield
    for _ in range(5):
        yield


def harm(run: Conductor) -> Iterator[None]:
    yield from here(run, 2)
    os.kill(run.server.workers[0].pid, signal.SIGKILL)
    yield from here(run, 1)
    run.send("add_worker")
    yield from here(run, 3)
    os.kill(run.server.workers[2].pid, signal.SIGSTOP)  # while it computes, holds gradients, or adds up
    yield from here(run, 2)
    run.send("remove_worker")
    run.send("checkpoint")
    yield from here(run, 1)


def test_the_bits_of_the_servers_sums_for_any_number_of_workers_through_all_that_happens_to_them(
    path: Path, run: Trainer
) -> None:
    endless = {**KNOBS, "epochs": 100_000, "max_seconds": 300}  # that is never reached
    harmed = run(path, "y", workers=2, callbacks=[Script(harm)], **endless, **BY_WORKERS)
    assert {event.rank for event in harmed.events("lost")} >= {0, 2}  # and whom a busy machine keeps from answering
    assert {event.data["outcome"] for event in harmed.events("command")} == {"done"}
    assert not (harmed.folder.parent / "group").exists()
    rounds = harmed.rounds[
        -4
    ].round  # once it is to stop no more scores are taken, and the last one has that of the end

    def as_far(**knobs: Any) -> Bench:
        return run(path, "y", callbacks=[At(**{f"round{rounds + 1}": lambda r: r.stop("as far")})], **endless, **knobs)

    by_server, alone = as_far(), as_far(**BY_WORKERS)
    assert course(by_server)[:rounds] == course(alone)[:rounds] == course(harmed)[:rounds]
    assert sum(r.bytes_sent for r in alone.rounds) == 0 < sum(r.bytes_sent for r in harmed.rounds)
    saved = max(event.round for event in harmed.events("checkpoint") if event.round < rounds)
    for knobs in ({}, BY_WORKERS):
        again = as_far(resume=harmed.checkpoints.load(saved), **knobs)
        assert [r[:3] for r in course(again)[: rounds - saved]] == [r[:3] for r in course(alone)[saved:rounds]]


def test_sums_that_cannot_be_made_end_the_run_in_a_sentence(
    path: Path, run: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file can be made where peers are to find each other."""
    monkeypatch.setattr(GroupServer, "_file", lambda server, generation: str(tmp_path / "none" / "there"))
    bench = run.bench()
    long = {**KNOBS, "epochs": 100_000}  # whoever comes first works alone until the other is there
    with pytest.raises(EngineError, match=r"could not add up their gradients 5 times in a row.*aggregation"):
        run(path, "y", workers=2, bench=bench, **long, **BY_WORKERS)
    assert len([e for e in bench.events("warning") if "is made again" in e.text]) >= 5


@pytest.mark.parametrize("knobs", [{"mode": "async"}, {"mode": "local"}, {"compression": "half"}])
def test_other_modes_are_refused(knobs: dict[str, Any], path: Path, run: Trainer) -> None:
    with pytest.raises(ConfigError, match="Expected a network in mode sync without compression"):
        run(path, "y", **{**KNOBS, **knobs, "clip": 0.0}, **BY_WORKERS)


def test_compression_cannot_be_set_on_the_way(path: Path, run: Trainer) -> None:
    said = list[str]()
    acts = At(round2=lambda r: said.append(r.commands.follow("set", {"compression": "half"})))
    run(path, "y", callbacks=[acts], **{**KNOBS, "epochs": 1}, **BY_WORKERS)
    assert said == ["Gradients that workers add up among themselves (aggregation allreduce) are not compressed."]


def test_a_network_on_a_table_is_the_same_by_either_way(tmp_path: Path, run: Trainer) -> None:
    X = np.random.default_rng(4).standard_normal((400, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    path = tmp_path / "table.csv"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="", fmt="%.6g")
    knobs = {"model": "mlp", "hidden": "8", "epochs": 4, "tolerance": 0, "step_rule": "adamw", "test_every": 5}
    found = [run(path, "y", **knobs, **more) for more in ({}, {**BY_WORKERS, "workers": 2})]
    assert course(found[0]) == course(found[1])
