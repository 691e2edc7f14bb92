"""Workers that see nothing of the server's memory come to the same bits by messages alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.data_pipeline import Shards
from shoal.engines.base import Engine
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.runs.forks import forked
from shoal.settings.values import config_from
from shoal.training import run as training_run
from shoal.training.conductor import Conductor
from shoal.training.resolving import COORDINATION, ON_CLUSTER, WorkCosts, batch_and_steps, chosen_mode
from support.tables import same_bits
from support.training import At, Trainer, data

KNOBS: dict[str, Any] = {
    "epochs": 3, "finish_passes": 12, "batch_size": 8, "local_steps": 3, "tolerance": 1e-12, "model": "lasso",
    "alpha": 0.1, "shards": 7, "top_k": 0.34,
}  # fmt: skip


class _NoMemory(Engine):
    @property
    def maps(self) -> bool:
        return False

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> Any:
        raise AssertionError("there is no memory that workers see")


class InlineByMessages(_NoMemory, InlineEngine):
    pass


class ProcessesByMessages(_NoMemory, ProcessEngine):
    pass


@pytest.fixture(scope="module")
def two() -> Iterator[Engine]:
    with ProcessesByMessages(2) as engine:
        yield engine


@pytest.mark.parametrize("compression", ["none", "topk", "half"])
@pytest.mark.parametrize("mode", ["sync", "local"])
def test_messages_give_the_bits_of_mapped_memory(
    mode: str, compression: str, run: Trainer, place: Path, two: Engine
) -> None:
    path, target = data("generated", place)
    knobs = {**KNOBS, "mode": mode, "compression": compression}
    mapped = run(path, target, **knobs)
    with InlineByMessages() as alone:
        assert same_bits(run(path, target, engine=alone, **knobs).w, mapped.w)
    assert same_bits(run(path, target, engine=two, **knobs).w, mapped.w)


@pytest.mark.parametrize("mode", ["ssp", "async"])
def test_updates_that_do_not_wait_are_counted_once_each(mode: str, run: Trainer, place: Path, two: Engine) -> None:
    path, target = data("generated", place)
    ledger = run(path, target, engine=two, **{**KNOBS, "mode": mode, "compression": "topk"}).report["ledger"]
    assert ledger["batches"] == 3 * ledger["batches_of_an_epoch"]


def test_a_run_goes_on_by_messages_from_where_memory_was_saved(run: Trainer, place: Path, two: Engine) -> None:
    """What compression has held back is the server's, however it travels."""
    path, target = data("generated", place)
    knobs = {**KNOBS, "compression": "topk"}
    whole = run(path, target, **knobs)
    saved = run(path, target, callbacks=[At(round7=lambda r: r.send("checkpoint"))], **knobs)
    again = run(path, target, engine=two, resume=saved.checkpoints.load(7), **knobs)
    assert same_bits(again.w, whole.w)


def test_a_lost_worker_changes_no_bit(run: Trainer, place: Path) -> None:
    path, target = data("generated", place)
    knobs = {**KNOBS, "compression": "topk", "restarts": 5}
    whole = run(path, target, **knobs)

    def kill(conductor: Conductor) -> None:
        conductor.server.evict(max(conductor.server.workers), "a test killed it")

    with ProcessesByMessages(2) as engine:
        found = run(path, target, engine=engine, callbacks=[At(round4=kill, round9=kill)], **knobs)
    assert found.events("lost")
    assert same_bits(found.w, whole.w)


@pytest.mark.parametrize("mode", ["sync", "async", "local"])
def test_where_messages_cost_more_there_is_more_work_between_two(mode: str) -> None:
    """20 ms a message at 1 microsecond a row: one worker has to be busy for 180 ms, or 380 ms where 5 % is the limit."""
    shards = Shards("", (10_000_000,) * 4, 10, "float32", 0, 1.0, (), 0)
    config = config_from({"file": "x", "target": "y", "solver": "gradient", "mode": mode})
    rows = []
    for share in (COORDINATION, ON_CLUSTER):
        batch, steps = batch_and_steps(config, shards, WorkCosts(1e-6, 0.02, 4, 10**9, share), shards.width)
        busy = batch * steps * 1e-6
        assert 0.02 / (0.02 + busy) <= share + 1e-3
        rows.append(batch * steps)
    assert rows[1] > 1.5 * rows[0]


def batch_of(mode: str, row: float, rows: int = 100_000, count: int = 16) -> int:
    shards = Shards("", (rows,) * count, 50, "float32", 0, 1.0, (), 0)
    config = config_from({"file": "x", "target": "y", "solver": "gradient", "mode": mode})
    return batch_and_steps(config, shards, WorkCosts(row, 4e-4, 2, 10**9), shards.width)[0]


@pytest.mark.parametrize("mode", ["ssp", "async"])
def test_where_updates_are_applied_one_by_one_a_batch_may_be_a_whole_shard(mode: str) -> None:
    """An epoch has an update of every shard all the same; of a single shard it has two."""
    assert batch_of("sync", 1e-8) == 50_000
    assert batch_of(mode, 1e-8) == 100_000
    assert batch_of(mode, 1e-8, count=1) == 50_000
    assert batch_of(mode, 1e-6) == 4096


def test_batches_of_local_steps_are_larger_where_rows_cost_less_than_a_step() -> None:
    assert batch_of("local", 1e-6) == 1024
    assert batch_of("local", 4e-8) == 100_000 // 32
    assert batch_of("local", 4e-8, rows=10_000) == 10_000 // 64


@pytest.mark.parametrize(
    ("message", "share", "knobs", "expected"),
    [
        (4e-4, COORDINATION, {}, "sync"),  # worker processes: 0.4 ms beside 9.5 ms of rows
        (4e-3, ON_CLUSTER, {}, "local"),  # a cluster: 4 ms, and an epoch has no fewer than two steps
        (4e-3, ON_CLUSTER, {"step_rule": "adam"}, "sync"),  # shards take plain steps
        (4e-3, ON_CLUSTER, {"clip": 1.0}, "sync"),
    ],
)
def test_auto_lets_shards_step_alone_where_messages_would_take_more_than_their_share(
    message: float, share: float, knobs: dict[str, Any], expected: str
) -> None:
    shards = Shards("", (125_000,) * 16, 50, "float32", 0, 1.0, (), 0)
    config = config_from({"file": "x", "target": "y", "solver": "gradient", "mode": "auto", **knobs})
    costs = WorkCosts(1.9e-8, message, 2, 10**9, share)
    assert chosen_mode(config, shards, costs, 50) == expected
    if expected == "local":
        batch, steps = batch_and_steps(replace(config, mode="local"), shards, costs, 50)
        assert batch * steps >= 125_000  # a whole epoch, which is as much as there is


@pytest.mark.parametrize(("message", "expected"), [(0.0, "sync"), (10.0, "local")])
def test_a_run_in_mode_auto_is_one_in_the_mode_that_was_chosen_after_a_resume_too(
    message: float, expected: str, run: Trainer, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, target = data("generated", place)
    monkeypatch.setattr(training_run._Training, "_seconds_of_a_message", lambda self, width: message)
    knobs = {"epochs": 3, "tolerance": 0, "shards": 7}
    plain = run(path, target, mode=expected, **knobs)
    save = At(round1=lambda r: r.send("checkpoint"))
    found = run(path, target, mode="auto", callbacks=[save], **knobs)
    assert (found.report["mode"], found.report["resolved"]) == (expected, plain.report["resolved"])
    assert same_bits(found.w, plain.w)
    monkeypatch.setattr(training_run._Training, "_seconds_of_a_message", lambda self, width: 10.0 - message)
    saved = found.checkpoints.load(found.checkpoints.steps()[1])
    again = run(path, target, mode="auto", resume=saved, **knobs)
    assert again.report["mode"] == expected
    assert same_bits(again.w, plain.w)
    config, _ = forked(saved, {"mode": "auto", "epochs": 5})
    assert config.mode == expected
