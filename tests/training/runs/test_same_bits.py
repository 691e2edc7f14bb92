"""The same bits with any number of workers, and after a resumption."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.engines.base import Engine
from shoal.errors import SourceChanged
from shoal.training.checkpoints import Snapshot
from support.tables import same_bits
from support.training import MODES, At, Bench, Trainer, data, generated, reference_of

BITS = [
    ("sync", "sgd", "none"), ("sync", "momentum", "topk"), ("sync", "adam", "half"), ("sync", "adagrad", "none"),
    ("local", "sgd", "none"), ("local", "sgd", "topk"), ("local", "sgd", "half"),
]  # fmt: skip
BITWISE: dict[str, Any] = {
    "epochs": 3, "finish_passes": 12, "batch_size": 8, "local_steps": 3, "tolerance": 1e-12, "model": "lasso",
    "alpha": 0.1, "shards": 7,
}  # fmt: skip


def course(found: Bench) -> list[tuple[int, float, float, int]]:
    """All that the rounds say and the clock does not."""
    return [(r.round, r.loss, r.gradient_norm, r.nonzeros) for r in found.rounds]


@pytest.mark.parametrize(("mode", "rule", "compression"), BITS)
def test_the_same_bits_with_any_number_of_workers(
    mode: str, rule: str, compression: str, run: Trainer, place: Path, engines: Callable[[int], Engine]
) -> None:
    path, target = data("generated", place)
    knobs = {**BITWISE, "mode": mode, "step_rule": rule, "compression": compression, "top_k": 0.34}
    alone, *others = [run(path, target, engine=engines(workers), **knobs) for workers in (0, 1, 3)]
    assert {record.phase for record in alone.rounds} == {"steps", "finish"}
    assert alone.w.any()
    for workers, other in zip((1, 3), others, strict=True):  # two of them go on with a resumed run below
        assert same_bits(alone.w, other.w), workers
        assert course(alone) == course(other), workers
        assert other.rounds[-1].workers <= workers  # one that joins late may find nothing left to do


@pytest.mark.parametrize(("mode", "rule", "compression"), BITS)
def test_a_resumed_run_ends_with_the_same_bits(
    mode: str, rule: str, compression: str, run: Trainer, place: Path, engines: Callable[[int], Engine]
) -> None:
    """From the middle of an epoch, and from the middle of the finish; the other time with other workers."""
    path, target = data("generated", place)
    knobs = {**BITWISE, "mode": mode, "step_rule": rule, "compression": compression, "top_k": 0.34}
    whole = run(path, target, **knobs)
    steps = len(whole.steps)
    middle, late = steps // 2, steps + 5
    saving = At(**{f"round{n}": lambda r: r.send("checkpoint") for n in (middle, late)})
    saved = run(path, target, callbacks=[saving], **knobs)
    for step, workers in ((middle, 2), (late, 0), (0, 3)):
        snapshot = saved.checkpoints.load(step)
        again = run(path, target, engine=engines(workers), resume=snapshot, **knobs)
        assert same_bits(again.w, whole.w)
        assert course(again) == course(whole)[step:]
        assert again.report["ledger"]["batches"] == whole.report["ledger"]["batches"]
        assert again.report["epochs"] == whole.report["epochs"]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", MODES)
def test_resumed_in_every_mode_each_batch_counts_once(
    mode: str, workers: int, run: Trainer, place: Path, engines: Callable[[int], Engine]
) -> None:
    path, target = data("generated", place)
    knobs: dict[str, Any] = {**BITWISE, "mode": mode, "tolerance": 0, "epochs": 4}
    saved = run(path, target, engine=engines(workers), callbacks=[At(round5=lambda r: r.send("checkpoint"))], **knobs)
    snapshot = saved.checkpoints.load(5)
    taken = counted(snapshot)
    bench = run.bench()
    bench.storage.add(saved.rounds)  # of the run that was cut off: what comes after the checkpoint is forgotten
    again = run(path, target, engine=engines(workers), bench=bench, resume=snapshot, **knobs)
    ledger = again.report["ledger"]
    assert 0 < taken < ledger["batches"]
    assert ledger["epochs"] == 4
    assert ledger["batches"] == 4 * ledger["batches_of_an_epoch"]
    numbers = [record.round for record in bench.rounds]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == again.report["rounds"]
    steps = again.report["rounds"] - snapshot.step
    assert steps == (ledger["batches"] - taken if mode in ("ssp", "async") else len(saved.rounds) - 5)
    reference = reference_of(path, target, again, **knobs)
    assert reference.value(again.w) < reference.value(np.zeros(len(reference.names)))


def counted(snapshot: Snapshot) -> int:
    batches: int = snapshot.meta["policy"]["batches"]
    return batches


def test_a_checkpoint_of_other_data_is_refused(run: Trainer, tmp_path: Path) -> None:
    path = generated(tmp_path, rows=100)
    saved = run(path, "y", epochs=1, tolerance=0)
    snapshot = saved.checkpoints.load(0)
    generated(tmp_path, rows=100, seed=9)
    with pytest.raises(SourceChanged, match="not what it was"):
        run(path, "y", epochs=1, tolerance=0, resume=snapshot)
