"""examples/mnist_distributed.py: reads MNIST as it is, trains with two workers of which one is killed, and is right."""

from __future__ import annotations

import gzip
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from support.runs import run_home
from support.tables import shared

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "mnist_distributed.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mnist_distributed", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_mnists_own_files_are_read_packed_or_not(example: ModuleType, tmp_path: Path) -> None:
    arrays = []
    for number, name in enumerate(example.FILES):
        shape = (3, 28, 28) if "images" in name else (3,)
        arrays.append(np.random.default_rng(number).integers(0, 256, shape).astype(np.uint8))
        data = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">i4").tobytes() + arrays[-1].tobytes()
        packed = number % 2
        (tmp_path / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(data) if packed else data)
    for found, wanted in zip(example.read(tmp_path), arrays, strict=True):
        assert np.array_equal(found, wanted)
    (tmp_path / example.FILES[0]).write_bytes(b"<html>")
    with pytest.raises(SystemExit, match="MNIST's format"):
        example.read(tmp_path)


def test_it_learns_digits_though_a_worker_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = shared("data", "mnist", "mnist_full_uint8.npz")
    with np.load(digits) as found, run_home(tmp_path / "home", monkeypatch):
        few = {name: found[name][: 4000 if "train" in name else 500] for name in found.files}
        np.savez(tmp_path / "few.npz", **few)
        command = [sys.executable, str(SCRIPT), str(tmp_path / "few.npz"), "--mode", "sync", "--kill", "--epochs", "2"]
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    assert "kill_worker 0: done" in done.stdout
    accuracy = float(done.stdout.partition("Accuracy ")[2][:6])
    assert accuracy > 0.8, done.stdout
