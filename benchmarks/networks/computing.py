"""Rows a second of processor time, and what a batch keeps for the way back, by how gradients are computed; printed as
the table of docs/networks.md. One process with one thread; ways take turns, the median of three counts.

    python -m benchmarks.networks.computing
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time

import numpy as np
import torch
from torch import nn

from shoal.networks.computing import Computing
from shoal.networks.live import LiveModule, live
from shoal.networks.storing import stored_module

ROWS, SECONDS, TURNS = 128, 1.0, 3
WAYS = {
    "plain": Computing(),
    "mixed_precision": Computing(mixed=True),
    "gradient_checkpointing": Computing(checkpointing=True),
    "both": Computing(mixed=True, checkpointing=True),
}


def networks() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """Each with the shape of a row: as on a table, wide and deep, and of images of 28 x 28."""
    torch.manual_seed(0)
    small = nn.Sequential(nn.Linear(50, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    wide = [part for _ in range(8) for part in (nn.Linear(512, 512), nn.ReLU())]
    deep = nn.Sequential(*wide, nn.Linear(512, 10))
    image = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 49, 10),
    )  # fmt: skip
    return {"50-64-32": (small, (50,)), "8 layers of 512": (deep, (512,)), "2 convolutions": (image, (1, 28, 28))}


def rows_a_second(found: LiveModule, X: np.ndarray, y: np.ndarray) -> float:
    found.gradient(X, y, found.start)
    done, started = 0, time.process_time()
    while time.process_time() - started < SECONDS:
        found.gradient(X, y, found.start)
        done += len(y)
    return done / (time.process_time() - started)


def kept(found: LiveModule, X: np.ndarray) -> int:
    """Bytes of different tensors that a batch leaves behind, parameters aside."""
    own = {one.data_ptr() for one in found.module.parameters()}
    seen: dict[int, int] = {}

    def pack(one: torch.Tensor) -> torch.Tensor:
        if one.data_ptr() not in own:
            seen[one.data_ptr()] = one.nbytes
        return one

    found.module.train()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
        output = found._output(found._inputs(X))
    total = sum(seen.values())
    del output  # it holds them: another tensor in the place of one that is gone would not be counted
    return total


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        os.environ["SHOAL_HOME"] = home
        print("| network | " + " | ".join(WAYS) + " |\n|---|" + "---|" * len(WAYS))
        for name, (module, shape) in networks().items():
            random = np.random.default_rng(0)
            X = random.standard_normal((ROWS, *shape)).astype(np.float32)
            y = random.integers(0, 10, ROWS)
            file = stored_module(module, (X, y), "cross_entropy")
            made = {way: live(file, "float32", computing) for way, computing in WAYS.items()}
            flat = X.reshape(ROWS, -1)
            turns = [{way: rows_a_second(one, flat, y) for way, one in made.items()} for _ in range(TURNS)]
            speed = {way: statistics.median(turn[way] for turn in turns) for way in made}
            cells = [f"{speed[way]:,.0f}; {kept(one, flat) / 1e6:.2f} MB" for way, one in made.items()]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
