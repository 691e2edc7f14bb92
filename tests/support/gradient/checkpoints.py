"""Snapshots whose content follows from their step, and a store that keeps its warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.training.checkpoints import Checkpoints, Snapshot

PLAIN, PACKED = "step-000000000020.ckpt", "archive/step-000000000010.ckpt"


def snapshot(step: int, size: int = 50) -> Snapshot:
    """Content that follows from the step, so that a mix of two is seen."""
    values = np.random.default_rng(step).normal(size=size)
    return Snapshot(step, {"config": {"alpha": 0.1}, "cursor": [step, 7]}, {"w": values, "steps": np.arange(step % 5)})


def same(a: Snapshot | None, b: Snapshot) -> bool:
    return (
        a is not None
        and (a.step, a.meta) == (b.step, b.meta)
        and list(a.arrays) == list(b.arrays)
        and all(identical(a.arrays[name], b.arrays[name]) for name in b.arrays)
    )


def identical(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


class Store(Checkpoints):
    """With the warnings at hand."""

    def __init__(self, directory: Path, keep: int = 5) -> None:
        self.said: list[str] = []
        super().__init__(directory, keep, self.said.append)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
