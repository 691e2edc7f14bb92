"""A home without runs, and three real ones to be copied into it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.home import runs_directory
from shoal.runs.folder import Run
from shoal.runs.launch import list_runs
from support.dashboard.runs_page import EXACT, FIRST, SECOND
from support.runs import run_home, small_table, until


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three real runs, to be copied: two by gradient steps with other settings, and an exact one."""
    folder = tmp_path_factory.mktemp("finished")
    table = small_table(folder)
    environment = {**os.environ, "SHOAL_HOME": str(folder / "home"), "SHOAL_SLOTS": "1"}
    steps = ["--solver", "gradient", "--workers", "1", "--epochs", "3", "--test-every", "5"]
    for name, flags in {
        FIRST: [*steps, "--tolerance", "0"],
        SECOND: [*steps, "--model", "ridge", "--alpha", "20", "--mode", "async", "--set", "checkpoint_seconds=0.01"],
        EXACT: ["--detach", "--test-every", "5"],
    }.items():
        command = [sys.executable, "-m", "shoal.cli.app", "train", str(table), "--target", "y", *flags]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        made = max((folder / "home" / "runs").iterdir(), key=lambda path: path.stat().st_ctime)
        until(lambda made=made: (made / "result.json").exists() and not Run(made).is_alive)
        made.rename(folder / name)
    return folder


@pytest.fixture
def three(finished: Path) -> list[Run]:
    for name in (FIRST, SECOND, EXACT):
        shutil.copytree(finished / name, runs_directory() / name)
    return list_runs()
