"""Runs to copy and files to clean up: what a home holds besides live runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from shoal.home import runs_directory
from shoal.library import accounts, cleaning
from shoal.library.cleaning import Criteria, clean, plan
from shoal.runs import made_files
from shoal.runs.launch import Run, launch
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from support.runs import ended, small_table, until


def finished_run(folder: Path) -> Path:
    """The folder of a real gradient run with checkpoints, to be copied."""
    environment = {**os.environ, "SHOAL_HOME": str(folder / "home"), "SHOAL_SLOTS": "1"}
    flags = ["--target", "y", "--solver", "gradient", "--workers", "1", "--epochs", "4", "--test-every", "5"]
    more = ["--set", "checkpoint_seconds=0.01", "--model", "ridge", "--alpha", "0.5", "--json"]
    command = [sys.executable, "-m", "shoal.cli.app", "train", str(small_table(folder)), *flags, *more]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return next((folder / "home" / "runs").iterdir())


def run_with_model(name: str = "20260101-000000-0000001", target: str = "y", file: str = "t.csv", **more: Any) -> Run:
    """The folder of a run as its process leaves it, with a model file of two numbers."""
    run = Run(runs_directory() / name)
    run.directory.mkdir(parents=True)
    config = RunConfig(file=f"/nowhere/{file}", target=target).as_dict()
    scores = {"rows": 10, "r2": 0.5, "adjusted_r2": 0.4, "rmse": 1.0, "mae": 0.8}
    contents = {
        "format": "shoal-model", "version": 1, "model": "linear", "target": target, "alpha": None, "intercept": 1.0,
        "coefficients": {"a": 2.0}, "coefficients_standardized": {"a": 2.0}, "train": scores,
        "test": {**scores, "rows": 0}, "certificate": {"kind": "kkt", "value": 0.0, "relative": 0.0, "rests_on": "data"},
        "rows_read": 10, "rows_dropped": {}, "warnings": [], "inference": None, "config": config,
        "data": {"file": file, "content": "abc", "rows": 10},
        "design": {"terms": [{"type": "number", "column": "a", "fill": 0.0}], "known_levels": {}}, **more,
    }  # fmt: skip
    run.model_path.write_text(json.dumps(contents))
    (run.directory / "config.json").write_text(json.dumps(config))
    return run


def a_copy(folder: Path, name: str | None = None) -> Run:
    place = runs_directory() / (name or folder.name)
    shutil.copytree(folder, place)
    return Run(place)


def with_another_model(run: Run) -> None:
    """Another model file by a space, as the run would have made it."""
    run.model_path.write_bytes(run.model_path.read_bytes() + b" ")
    made_files.seal(run.directory, [run.model_path.name])


def only() -> accounts.Summary:
    (found,) = accounts.summaries()
    return found


def launched(config: RunConfig) -> Run:
    from shoal.runs.launch import launch

    return launch(config)


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.exists() else set()


def upload(home: Path, hash_: str = "a" * 24, name: str = "table.csv", text: str = "a,y\n1,2\n") -> Path:
    path = home / "uploads" / hash_ / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def fitted(data: Path) -> dict[str, float]:
    """An exact fit in a process of its own, so that nobody has its data set open afterwards."""
    run = launch(config_from({"file": str(data), "target": "y"}))
    assert ended(run) == "finished", run.error
    found: dict[str, float] = (run.result or {})["coefficients"]
    return found


def freed(name: str, choice: Criteria = cleaning.ALL) -> cleaning.Cleaned:
    """Clean up once the processes of runs that have ended are gone: they let go of their files at the very end."""
    until(lambda: cleaning.IN_USE not in plan(name, choice).kept)
    return clean(name, choice)


def aged(path: Path, days: float) -> Path:
    """The same with all its times put back."""
    for each in [*path.rglob("*"), path]:
        os.utime(each, (time.time() - days * 86_400,) * 2, follow_symlinks=False)
    return path
