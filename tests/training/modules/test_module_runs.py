"""Modules trained by the parameter server: plain PyTorch's steps, the same bits for anyone, through kills and resumes."""

from __future__ import annotations

import copy
import math
import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import safetensors.numpy
import torch

from shoal.errors import ConfigError, SourceChanged
from shoal.settings.values import config_from
from shoal.training.conductor import Conductor
from shoal.training.objectives.module_rows import ModuleObjective
from support.gradient.nets import Rows, batches, flat, plain_pytorch, rows, shards_made, small, stored
from support.training import At, Bench, Trainer

KNOBS: dict[str, Any] = {
    "model": "module", "shards": 4, "batch_size": 16, "epochs": 10, "learning_rate": 0.05, "tolerance": 0
}  # fmt: skip
Optimizer = Callable[[Any], torch.optim.Optimizer]
RULES: dict[str, tuple[dict[str, Any], Optimizer]] = {
    "sgd": ({}, lambda w: torch.optim.SGD(w, 0.05)),
    "momentum": ({}, lambda w: torch.optim.SGD(w, 0.05, momentum=0.9)),
    "adamw": ({"weight_decay": 0.1}, lambda w: torch.optim.AdamW(w, 0.05, weight_decay=0.1)),
    "adamw without decay is Adam": ({"weight_decay": 0.0}, lambda w: torch.optim.Adam(w, 0.05)),
}


def weights(found: Bench) -> npt.NDArray[np.float64]:
    arrays = found.checkpoints.newest()
    assert arrays is not None
    return np.array(arrays.arrays["weights"])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-12), ("float32", 1e-6)])
def test_a_hundred_steps_are_plain_pytorchs(rule: str, precision: str, tolerance: float, run: Trainer) -> None:
    """On the same batches, from the same start."""
    more, optimizer = RULES[rule]
    module = small()
    found = run(
        stored(module, rows()), "y", **KNOBS, step_rule=rule.split()[0], precision=precision, **more
    )  # fmt: skip
    assert found.rounds[-1].round == 100
    plain = copy.deepcopy(module).to(getattr(torch, precision))
    wanted = plain_pytorch(plain, optimizer(plain.parameters()), batches(shards_made(), 0, 10, 16))
    scale = 1 if rule == "sgd" or precision == "float64" else 4  # roots and quotients of single precision
    np.testing.assert_allclose(weights(found), wanted, atol=scale * tolerance * np.abs(wanted).max(), rtol=0)
    assert np.abs(wanted - flat(module)).max() > 0.1


def test_clipping_and_warm_up_are_plain_pytorchs(run: Trainer) -> None:
    module = small().double()
    found = run(
        stored(module, rows()), "y", **{**KNOBS, "epochs": 3}, clip=0.05, schedule="cosine", warmup=1.0
    )  # fmt: skip
    plain = copy.deepcopy(module)
    optimizer = torch.optim.SGD(plain.parameters(), 0.05)

    def rate(step: int) -> None:
        epoch = step / 10
        share = 0.1 + 0.9 * epoch if epoch < 1 else (1 + math.cos(math.pi * (epoch - 1) / 2)) / 2
        optimizer.param_groups[0]["lr"] = 0.05 * share

    step_of = optimizer.step

    def step() -> None:
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.05)
        step_of()

    optimizer.step = step  # type: ignore[method-assign]
    wanted = plain_pytorch(plain, optimizer, batches(shards_made(), 0, 3, 16), rate)
    # clip_grad_norm_ divides by the norm plus 1e-6
    np.testing.assert_allclose(weights(found), wanted, rtol=0, atol=1e-6)


# ------------------------------------------------------------------ the same bits


BITS = {"mode": "sync", "step_rule": "adamw", "epochs": 3, "test_every": 5}


def hard() -> Any:
    """Dropout, and statistics of batches."""
    return stored(small(drop=0.3, norm=True), rows(660))


def course(found: Bench) -> list[tuple[Any, ...]]:
    return [(r.round, r.loss, r.gradient_norm, r.validation) for r in found.rounds]


def module_file(found: Bench) -> bytes:
    return found.trained.files["module.safetensors"]


def test_the_same_bits_for_any_number_of_workers_through_kills_and_after_a_resume(run: Trainer) -> None:
    path, killed = hard(), list[int]()
    knobs = {**KNOBS, **BITS}

    def kill(conductor: Conductor) -> None:
        rank, worker = next(iter(conductor.server.workers.items()))
        killed.append(rank)
        os.kill(worker.pid, signal.SIGKILL)

    alone = run(path, "y", **knobs, callbacks=[At(round7=lambda r: r.send("checkpoint"))])
    assert alone.rounds[-1].validation is not None
    harmed = run(path, "y", workers=2, callbacks=[At(round4=kill, round12=kill)], **knobs)
    assert len(killed) == len(harmed.events("lost")) == 2
    again = run(path, "y", workers=1, resume=alone.checkpoints.load(7), **knobs)
    assert course(harmed) == course(alone)
    assert course(again) == course(alone)[7:]
    assert module_file(harmed) == module_file(alone) == module_file(again)


@pytest.mark.parametrize(
    "knobs",
    [
        {"mode": "ssp", "staleness": 2}, {"mode": "async", "compression": "half"}, {"mode": "local", "local_steps": 4},
        {"mode": "sync", "compression": "topk", "step_rule": "momentum"},
    ],
    ids=lambda knobs: knobs["mode"],
)  # fmt: skip
def test_every_mode_learns(knobs: dict[str, Any], run: Trainer) -> None:
    found = run(stored(small(), rows(960)), "y", **{**KNOBS, "learning_rate": 0.1, "test_every": 4, **knobs})
    network = found.trained.report.network
    assert network is not None
    assert (network.train.rows, network.test.rows, network.parameters) == (720, 240, len(weights(found)))
    assert network.test.score is not None
    assert network.test.score > 0.75
    assert found.done.state == "finished"


def test_patience_ends_with_the_best_weights(run: Trainer) -> None:
    X, y = rows(300)
    noise = np.random.default_rng(0).permutation(y)  # nothing to learn: the score soon falls
    data: Rows = (X, noise)
    knobs = {**KNOBS, "step_rule": "adamw", "epochs": 200, "patience": 5, "test_every": 3}
    found = run(stored(small(width=64), data), "y", **knobs)
    assert "no better score" in found.done.cause
    network = found.trained.report.network
    assert network is not None
    assert network.test.score == max(r.validation for r in found.rounds if r.validation is not None)


def test_the_file_holds_what_the_module_has_learnt(run: Trainer) -> None:
    module = small(norm=True).double()
    X, y = rows(400)
    found = run(stored(module, (X, y)), "y", **KNOBS)
    tensors = {name: torch.tensor(one) for name, one in safetensors.numpy.load(module_file(found)).items()}
    module.load_state_dict(tensors)
    network = found.trained.report.network
    assert network is not None
    with torch.no_grad():
        right = (module.eval()(torch.tensor(X)).argmax(1).numpy() == y).mean()
    assert network.train.score == pytest.approx(right)
    assert {"norm.running_mean", "shift", "last.bias"} <= set(tensors)


def test_what_does_not_fit_is_refused(run: Trainer, tmp_path: Any) -> None:
    path = stored(small(), rows())
    with pytest.raises(ConfigError, match="Expected test rows"):
        run(path, "y", **KNOBS, patience=3)
    table = tmp_path / "table.csv"
    table.write_text("x,y\n1,2\n")
    with pytest.raises(ConfigError, match="train_module"):
        run(table, "y", **KNOBS)
    on_cluster = {"file": str(path), "model": "module", "solver": "gradient", "engine": "ray", "device": "cuda"}
    with pytest.raises(ConfigError, match="Expected device cpu or auto with engine ray"):
        ModuleObjective(config_from(on_cluster))
    saved = run(path, "y", **{**KNOBS, "epochs": 1}).checkpoints.newest()
    other = stored(small(), rows(seed=6))
    with pytest.raises(SourceChanged):
        run(other, "y", resume=saved, **KNOBS)
