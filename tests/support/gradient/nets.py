"""Small modules and rows for tests of networks, and plain PyTorch on the same batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from shoal.data_pipeline import Shards
from shoal.home import cache_directory
from shoal.networks.storing import stored_module
from shoal.training.objectives.shards import opened

Rows = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class Small(nn.Module):
    """Layers under names of their own, a function and a shared weight among the attributes."""

    def __init__(self, columns: int, classes: int, width: int = 12, drop: float = 0.0, norm: bool = False) -> None:
        super().__init__()
        self.sizes = (columns, width)
        self.act = torch.tanh
        self.first = nn.Linear(columns, width)
        self.again = nn.Linear(width, width)
        self.once_more = self.again
        self.norm = nn.BatchNorm1d(width) if norm else None
        self.drop = nn.Dropout(drop)
        self.last = nn.Linear(width, classes)
        self.register_buffer("shift", torch.full((width,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.act(self.first(x)) + self.shift
        hidden = self.once_more(hidden) if self.norm is None else self.norm(self.again(hidden))
        found: Tensor = self.last(self.drop(torch.relu(hidden)))
        return found


def rows(count: int = 640, columns: int = 6, classes: int = 3, seed: int = 5) -> Rows:
    random = np.random.default_rng(seed)
    X = random.standard_normal((count, columns))
    return X, (X @ random.standard_normal((columns, classes)) + np.sin(3 * X[:, :1])).argmax(1)


def small(**options: Any) -> Small:
    torch.manual_seed(3)
    return Small(6, 3, **options)


def stored(module: nn.Module, data: Rows, **more: Any) -> Path:
    return Path(stored_module(module, data, **more))


def shards_made() -> Shards:
    """Of the only run of this home so far."""
    (folder,) = cache_directory().glob("shards-*")
    return opened(folder)


def batches(shards: Shards, seed: int, epochs: int, size: int) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Those of each round of mode sync: one of every shard."""
    for epoch in range(epochs):
        for step in range(shards.steps(size)):
            found = []
            for shard in range(len(shards.rows)):
                X, y = shards.open(shard)
                place = shards.slice(seed, epoch, shard, step, size)
                assert place is not None
                found.append((torch.tensor(X[place]), torch.tensor(y[place].astype(np.int64))))
            yield found


def plain_pytorch(
    module: nn.Module, optimizer: torch.optim.Optimizer, every: Iterator[list[tuple[Tensor, Tensor]]],
    before: Callable[[int], None] = lambda step: None,
) -> npt.NDArray[np.float64]:  # fmt: skip
    """The flat vector of its parameters after a step for each round, on the mean loss of all rows of it."""
    kind = next(module.parameters()).dtype
    for step, parts in enumerate(every):
        before(step)
        optimizer.zero_grad()
        X, y = (torch.cat([part[place] for part in parts]) for place in (0, 1))
        nn.functional.cross_entropy(module(X.to(kind)), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return flat(module)


def flat(module: nn.Module) -> npt.NDArray[np.float64]:
    return np.concatenate([one.detach().double().reshape(-1).numpy() for one in module.parameters()])
