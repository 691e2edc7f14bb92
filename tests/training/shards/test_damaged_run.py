"""A gradient run whose cached rows were damaged ends with the bits that it would have had, and blames nothing else."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shoal.coordinator import Coordinator
from shoal.engines.inline import InlineEngine
from shoal.home import cache_directory
from shoal.passes.blocks import opened
from shoal.settings.values import config_from
from shoal.tasks.train import train_gradient_with
from support.harm.damage import cut, flip, swap, zero_page


def highest_bit(path: Path) -> None:
    """Of an exponent, so that a row becomes enormous: such a run would diverge."""
    values = np.fromfile(path, np.uint64)
    values[len(values) // 3] ^= np.uint64(1 << 62)
    values.tofile(path)


def some(folder: str) -> Path:
    return min(cache_directory().glob(folder))


DAMAGE: dict[str, Callable[[], None]] = {
    "exponent": lambda: highest_bit(some("shards-*/shard-000000.bin")),
    "flip": lambda: flip(some("shards-*/shard-000001.bin"), random.Random(1)),
    "page": lambda: zero_page(some("shards-*/shard-000001.bin"), random.Random(1)),
    "cut": lambda: cut(some("shards-*/shard-000001.bin"), random.Random(1)),
    "swap": lambda: swap(some("shards-*/shard-000000.bin"), some("shards-*/shard-000001.bin")),
    "manifest": lambda: flip(some("shards-*/manifest.json"), random.Random(3)),
    "block": lambda: flip(some("*/block-000000.bin"), random.Random(2)),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_run_on_damaged_rows_has_the_same_bits_and_says_what_was_made_again(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 4))
    y = X @ [1.0, -2.0, 0.5, 3.0] + rng.normal(size=len(X))
    path = tmp_path / "table.csv"
    rows = [",".join(f"{value:.6f}" for value in row) for row in np.column_stack((X, y))]
    path.write_text("\n".join(["a,b,c,d,y", *rows]) + "\n")
    config = config_from({
        "file": str(path), "target": "y", "solver": "gradient", "epochs": 2, "shards": 3, "batch_size": 64,
        "precision": "float64", "test_every": 5, "tolerance": 0,
    })  # fmt: skip

    def trained() -> dict[str, float]:
        with InlineEngine() as engine:
            report = train_gradient_with(Coordinator(engine, tmp_path / "home"), config).report
        return {**report.coefficients, "": report.intercept, "mae": report.test.mae}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = trained()
    DAMAGE[kind]()
    opened.cache_clear()
    with pytest.warns(UserWarning, match="was damaged and has been made again") as said:
        assert trained() == expected
    told = [str(warning.message) for warning in said]
    assert sum("was damaged and has been made again" in text for text in told) == 1, told
    assert not any(re.search("diverge|learning rate", text) for text in told)
