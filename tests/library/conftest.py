"""A home of each test, a small table, and a finished run to copy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gates.orders import Orders
from support.runs import run_home, small_table


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as found:
        found.mkdir()
        yield found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_table(tmp_path)


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    return Orders(tmp_path / "gates", monkeypatch)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real gradient run with checkpoints, to be copied."""
    folder = tmp_path_factory.mktemp("finished")
    environment = {**os.environ, "SHOAL_HOME": str(folder / "home"), "SHOAL_SLOTS": "1"}
    flags = ["--target", "y", "--solver", "gradient", "--workers", "1", "--epochs", "4", "--test-every", "5"]
    more = ["--set", "checkpoint_seconds=0.01", "--model", "ridge", "--alpha", "0.5", "--json"]
    command = [sys.executable, "-m", "shoal.cli.app", "train", str(small_table(folder)), *flags, *more]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return next((folder / "home" / "runs").iterdir())
