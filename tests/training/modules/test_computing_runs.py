"""Ways to compute gradients in whole runs: the same bits for any number of workers, and what is not there is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from support.gradient.nets import rows, stored
from support.training import Bench, Trainer

KNOBS: dict[str, Any] = {
    "model": "module", "shards": 4, "batch_size": 16, "epochs": 2, "learning_rate": 0.05, "tolerance": 0,
    "step_rule": "adamw", "test_every": 5,
}  # fmt: skip


@pytest.fixture
def file() -> Path:
    torch.manual_seed(1)
    layers = [nn.Linear(6, 24), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 3)]
    return stored(nn.Sequential(*layers), rows(660))


def weights(found: Bench) -> bytes:
    return found.trained.files["module.safetensors"]


def test_bits_are_the_same_for_any_number_of_workers_and_with_checkpointing(run: Trainer, file: Path) -> None:
    """Every worker has to import PyTorch, which takes longer than its work: those of one run do for all."""
    plain = run(file, "y", **KNOBS)
    assert weights(run(file, "y", gradient_checkpointing=True, **KNOBS)) == weights(plain)
    mixed = run(file, "y", mixed_precision=True, **KNOBS)
    assert weights(mixed) != weights(plain)
    assert mixed.rounds[-1].loss == pytest.approx(plain.rounds[-1].loss, rel=0.05)
    both = run(file, "y", mixed_precision=True, gradient_checkpointing=True, workers=2, **KNOBS)
    assert weights(both) == weights(mixed)


def test_what_there_is_not_is_told_with_the_result(run: Trainer, file: Path) -> None:
    found = run(file, "y", mixed_precision=True, gpu_memory_fraction=0.9, device="cpu", precision="float64", **KNOBS)
    told = " ".join(found.trained.report.warnings)
    assert "mixed_precision is not used: it is about float32" in told
    assert "gpu_memory_fraction is not used" in told
    none = run(stored(nn.Linear(6, 3), rows(660)), "y", gradient_checkpointing=True, **KNOBS)
    assert (
        "gradient_checkpointing is not used: the module has no torch.nn.Sequential" in none.trained.report.warnings[0]
    )
