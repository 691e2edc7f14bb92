"""A table that straight lines do not fit, and what pandas, NumPy and plain PyTorch make of its rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import nn

Floats = npt.NDArray[np.float64]
TEST_EVERY = 4


class Oracle(NamedTuple):
    """Design rows (n, p) as pandas makes them, the target, and which rows are kept for testing."""

    names: list[str]
    X: Floats
    y: Floats
    test: npt.NDArray[np.bool_]


def curved(path: Path, rows: int = 600, yes_no: bool = False, seed: int = 1) -> Path:
    """Waves and an effect of one level only; numbers with gaps, and a text column."""
    random = np.random.default_rng(seed)
    a, b, c = random.standard_normal(rows), random.uniform(-3, 3, rows), random.choice(["u", "v", "w"], rows)
    score = np.sin(2 * b) + a * (c == "v") + 0.2 * random.standard_normal(rows)
    frame = pd.DataFrame(
        {"a": a, "b": b, "c": c, "y": np.where(score > 0, "yes", "no") if yes_no else 400 * score + 9e3}
    )
    frame.loc[::17, "a"] = np.nan
    frame.to_csv(path, index=False)
    return path


def oracle(path: Path) -> Oracle:
    """Every fourth row is kept for testing; gaps get the median of the others, `u` is the level compared with."""
    frame = pd.read_csv(path)
    test = np.arange(len(frame)) % TEST_EVERY == 0
    frame["a"] = frame["a"].fillna(frame["a"][~test].median())
    columns = {"a": frame["a"], "b": frame["b"], "c=v": frame["c"] == "v", "c=w": frame["c"] == "w"}
    y = frame["y"] if frame["y"].dtype == float else frame["y"] == "yes"
    X = np.column_stack([np.asarray(column, np.float64) for column in columns.values()])
    return Oracle(list(columns), X, np.asarray(y, np.float64), test)


def sequential(sizes: list[int]) -> nn.Sequential:
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def of_file(layers: dict[str, Any]) -> nn.Sequential:
    """The layers of a model file as a module of plain PyTorch, in double precision."""
    sizes = [len(layers["centre"]), *map(len, layers["biases"])]
    module = sequential(sizes).double()
    linear = [part for part in module if isinstance(part, nn.Linear)]
    for part, W, b in zip(linear, layers["weights"], layers["biases"], strict=True):
        part.load_state_dict({"weight": torch.from_numpy(np.array(W)), "bias": torch.from_numpy(np.array(b))})
    return module


def outputs(layers: dict[str, Any], X: Floats) -> Floats:
    """The scores of design rows by plain PyTorch."""
    rows = torch.from_numpy((X - np.array(layers["centre"])) / np.array(layers["scale"]))
    with torch.no_grad():
        out = of_file(layers)(rows)[:, 0].numpy()
    return np.asarray(layers["target_centre"] + layers["target_scale"] * out, np.float64)
