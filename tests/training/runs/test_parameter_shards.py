"""Runs whose parameters lie on several shards: the bits of one process, through kills, commands and resumptions."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.engines.base import Engine
from shoal.steps import placement
from shoal.training.checkpoint_files import parts_in
from shoal.training.conductor import Conductor
from support.runs import until
from support.tables import same_bits
from support.training import At, Bench, Trainer, generated

KNOBS: dict[str, Any] = {
    "epochs": 6, "finish_passes": 4, "batch_size": 8, "tolerance": 1e-12, "model": "lasso", "alpha": 0.1, "shards": 5,
    "mode": "sync", "step_rule": "adam", "clip": 0.5,
}  # fmt: skip


@pytest.fixture
def table(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of columns that lie on several shards."""
    monkeypatch.setattr(placement, "LEAST", 3)
    path = place / "forty.csv"
    return path if path.exists() else generated(place, path.name, 320, 40)


def here(run: Conductor, count: int) -> dict[int, int]:
    """The processes of so many shards, when they are all there."""

    def looked() -> dict[int, int]:
        run.server.parameters.tick()
        found = {line["shard"]: line["pid"] for line in run.server.parameters.table() if line["state"] == "here"}
        return found if len(found) == count else {}

    found: dict[int, int] = until(looked)
    return found


def course(found: Bench) -> list[tuple[Any, ...]]:
    return [(r.round, r.loss, r.gradient_norm, r.nonzeros) for r in found.rounds]


def kill(run: Conductor) -> None:
    os.kill(next(iter(here(run, 3).values())), signal.SIGKILL)


def test_the_same_bits_for_any_number_of_shards_through_kills_commands_and_a_resumption(
    table: Path, run: Trainer, engines: Callable[[int], Engine]
) -> None:
    alone = run(table, "y", engine=engines(2), **KNOBS)
    assert {record.phase for record in alone.rounds} == {"steps", "finish"}
    assert not alone.events("shards")
    apart = list[int]()
    acts: dict[str, Callable[[Conductor], Any]] = {
        "round2": lambda r: here(r, 3), "round5": kill, "round9": kill, "round14": lambda r: (here(r, 3), r.send("checkpoint")),
        "round16": lambda r: (here(r, 3), r.send("kill_shard", shard=1)),
        "round20": lambda r: r.send("shards", count=1), "round24": lambda r: r.send("shards", count=2),
        "round26": lambda r: here(r, 2), "round40": lambda r: apart.append(r.server.parameters.steps_apart),
    }  # fmt: skip
    harmed = run(table, "y", engine=engines(2), parameter_shards=3, callbacks=[At(**acts)], **KNOBS)
    assert apart[0] > 20
    assert len([event for event in harmed.events("shards") if "lost" in event.data]) == 3
    assert [event.data["outcome"] for event in harmed.events("command")] == ["done"] * 4
    assert course(harmed) == course(alone)
    assert same_bits(harmed.w, alone.w)
    assert len([step for step, _ in parts_in(harmed.checkpoints.directory) if step == 14]) == 3
    saved = harmed.checkpoints.load(14)
    assert saved.meta["parameter_shards"] == 3
    for workers in (0, 2):  # in one process there can be one only, which is said
        again = run(table, "y", engine=engines(workers), resume=saved, parameter_shards=3, **KNOBS)
        assert course(again) == course(alone)[14:]
        assert same_bits(again.w, alone.w)
        assert bool(again.events("warning")) == (workers == 0)


def test_commands_that_cannot_be_followed_say_why(table: Path, run: Trainer, engines: Callable[[int], Engine]) -> None:
    said = list[str]()

    def ask(conductor: Conductor) -> None:
        for name, arguments in (("shards", {"count": "many"}), ("shards", {"count": 0}), ("shards", {"count": 1.5}),
                                ("shards", {"count": 10**6}), ("shards", {"count": 2}), ("kill_shard", {"shard": 0})):  # fmt: skip
            said.append(conductor.commands.follow(name, arguments))

    run(table, "y", engine=engines(0), callbacks=[At(round2=ask)], **{**KNOBS, "epochs": 1})
    wanted, number = "Expected a whole number of parameter shards from 1 to 64, got", "Expected count to be a number"
    assert said == [
        f"{number} of at least 1, got 'many'.", f"{number} of at least 1, got 0.", f"{wanted} 1.5.",
        f"{wanted} 1000000.", "More parameter shards than 1 are for runs with worker processes.",
        "Expected the number of a parameter shard that is a process of its own, got 0.",
    ]  # fmt: skip
